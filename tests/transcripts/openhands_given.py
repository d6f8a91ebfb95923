"""Events of OpenHands V1, made up by the SDK's schemas."""

from __future__ import annotations

from typing import Any

from tests.transcripts.given import Json


def event(kind: str, id: str, source: str = "agent", **fields: Any) -> Json:
    return {"kind": kind, "id": id, "timestamp": "2026-01-02T03:04:05.678901", "source": source, **fields}


def text(words: str) -> list[Json]:
    return [{"type": "text", "text": words, "cache_prompt": False}]


def asked(id: str, words: str, **fields: Any) -> Json:
    message = {"role": "user", "content": text(words), "thinking_blocks": []}
    return event("MessageEvent", id, "user", llm_message=message, **fields)


def answered(id: str, words: str, **fields: Any) -> Json:
    message = {"role": "assistant", "content": text(words), "thinking_blocks": []}
    return event("MessageEvent", id, llm_message=message, llm_response_id=f"response-{id}", **fields)


def act(id: str, call: str, response: str, thought: str = "", **fields: Any) -> Json:
    made = {"id": call, "name": "terminal", "arguments": f'{{"command": "{call}"}}', "origin": "completion"}
    return event(
        "ActionEvent",
        id,
        thought=text(thought) if thought else [],
        thinking_blocks=fields.pop("thinking_blocks", []),
        action={"command": call, "kind": "TerminalAction"},
        tool_name="terminal",
        tool_call_id=call,
        tool_call=made,
        llm_response_id=response,
        **fields,
    )


def observed(id: str, call: str, action: str, words: str, **fields: Any) -> Json:
    output = {"kind": "TerminalObservation", "content": text(words), "is_error": False, **fields}
    return event(
        "ObservationEvent",
        id,
        "environment",
        tool_name="terminal",
        tool_call_id=call,
        action_id=action,
        observation=output,
    )


def spent(id: str, tokens: int, cost: float = 0.0) -> Json:
    counted = {"prompt_tokens": tokens, "completion_tokens": tokens // 10, "cache_read_tokens": 0}
    metrics = {"model_name": "m-1", "accumulated_cost": cost, "accumulated_token_usage": counted}
    value = {"usage_to_metrics": {"default": metrics, "condenser": {**metrics, "model_name": "small"}}}
    return event("ConversationStateUpdateEvent", id, "environment", key="stats", value=value)


PROMPT = event(
    "SystemPromptEvent",
    "e0",
    system_prompt={"type": "text", "text": "You are OpenHands."},
    dynamic_context={"type": "text", "text": "The folder is /shop."},
    tools=[
        {
            "kind": "TerminalTool",
            "description": "Runs.",
            "action_type": "TerminalAction",
            "title": "terminal",
        },
        {"type": "function", "function": {"name": "think", "description": "Thinks.", "parameters": {}}},
    ],
)
THOUGHT = {"type": "thinking", "thinking": "Two at once.", "signature": "c2ln"}
ONE = [
    PROMPT,
    asked("e1", "Build it.", extended_content=text("Remember the house rules.")),
    spent("s1", 100, 0.25),
    act("e2", "c1", "r1", "I look at both.", thinking_blocks=[THOUGHT], reasoning_content="Two at once."),
    act("e3", "c2", "r1"),
    observed("e4", "c1", "e2", "a.txt", exit_code=0, metadata={"suffix": "\n[exit code 0]"}),
    observed("e5", "c2", "e3", "No such file", is_error=True),
    spent("s2", 300, 0.5),
    act("e6", "c3", "r2", "And again."),
    event("UserRejectObservation", "e7", "environment", tool_name="terminal", tool_call_id="c3",
          action_id="e6", rejection_reason="Not that."),
    act("e8", "c4", "r3"),
    event("AgentErrorEvent", "e9", tool_name="terminal", tool_call_id="c4", error="Unknown tool."),
    answered("e10", "Done."),
    asked("e11", "Thanks."),
]  # fmt: skip
