"""An agent in a loop of your own: the log says what to do next, the loop does it and appends what came of it.

The model here is a script, so that this runs without a key; in its place goes your provider's client, which
takes `request.body` as it is.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import stenolog
from stenolog import (
    AssistantMessage,
    Conversation,
    Request,
    Tool,
    ToolCall,
    ToolResult,
    UserMessage,
)

CLOCK = Tool(name="clock", parameters={"type": "object", "properties": {"zone": {"type": "string"}}})
SCRIPT: Iterator[dict[str, Any]] = iter(
    [
        {"tool_calls": [{"id": "c1", "function": {"name": "clock", "arguments": '{"zone": "Europe/Kyiv"}'}}]},
        {"content": "It is 14:05 in Kyiv."},
    ]
)


def model(request: Request) -> AssistantMessage:
    """Send the body, and take down what comes back, with the receipt of what the model was shown."""
    answer = next(SCRIPT)
    return AssistantMessage(
        agent=request.agent,
        cause=request.at,
        text=answer.get("content", ""),
        tool_calls=list(_calls(answer)),
        receipt=request.receipt,
    )


def _calls(answer: dict[str, Any]) -> Iterator[ToolCall]:
    for call in answer.get("tool_calls", []):
        yield ToolCall(id=call["id"], **call["function"])


def clock(arguments: str) -> str:
    """Return the time, as the only tool of the agent."""
    return f"14:05 in {json.loads(arguments)['zone']}"


def turn(conversation: Conversation, agent: str) -> None:
    """Go on until the agent waits for a person."""
    while True:
        state = conversation.state()
        lane = state.lane(agent)
        match lane.status:
            case "awaiting_llm":
                conversation.append(model(conversation.request(agent).check()), expected=state.position)
            case "awaiting_tools":
                for call in lane.calls:
                    made = next(conversation.entries(after=call.position - 1)).event
                    assert isinstance(made, AssistantMessage)
                    conversation.append(
                        ToolResult(call_id=call.id, text=clock(made.tool_calls[call.nth].arguments))
                    )
            case _:
                return


def main() -> None:
    """Ask one question, and print the timeline."""
    with stenolog.open(":memory:") as log:
        conversation = log["clock"]
        conversation.join("guide", model="gpt-5.2", persona="You tell the time.", tools=[CLOCK])
        conversation.append(UserMessage(text="What is the time in Kyiv?"))
        turn(conversation, "guide")
        for item in conversation.timeline():
            print(item.position, item.kind, item.author, item.text or item.detail)


if __name__ == "__main__":
    main()
