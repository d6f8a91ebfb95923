"""Output lines of Claude Code as a team's agent.

Its own calls and results, and its sub-agents', are kept as its actions, not as its answer.
"""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from typing import Any

from stenolog.adapters.agents.answer_buffer import ResponseBuilder
from stenolog.adapters.agents.output_formats import JsonLines
from stenolog.domain.lanes.limits import Tokens
from stenolog.domain.values import Usage
from stenolog.projections.formats.anthropic.read import usage as anthropic_usage
from stenolog.projections.messages.json_fields import as_dict, as_list, as_str

RESUME = ("--resume", "{session}")
SPEAK = ("--output-format", "stream-json", "--verbose", "--include-partial-messages")
LISTEN = ("--input-format", "stream-json")
SYNTHETIC = "<synthetic>"
"""The model of messages that Claude Code writes itself, such as the words of an error."""
GONE = "no conversation found"
"""A part of its message if it cannot resume the session."""


def prompted(prompt: str) -> dict[str, Any]:
    """Return a request as `--input-format stream-json` has it."""
    return {"type": "user", "message": {"role": "user", "content": prompt}}


def read(line: dict[str, Any], turn: ResponseBuilder) -> None:
    """Pass a line on to the turn."""
    turn.session = as_str(line.get("session_id")) or turn.session
    message = as_dict(line.get("message"))
    if parent := as_str(line.get("parent_tool_use_id")):
        for block in _blocks(message):
            if block.get("type") in ("tool_use", "tool_result"):
                turn.add_note({**block, "parent_tool_use_id": parent})
        return
    match line.get("type"):
        case "stream_event":
            _event(as_dict(line.get("event")), turn)
        case "assistant" if message.get("model") != SYNTHETIC:
            _message(message, turn)
        case "user":
            for block in _blocks(message):
                if block.get("type") == "tool_result":
                    turn.add_note(block)
        case "result":
            _result(line, turn)
        case _:
            pass


def _event(event: dict[str, Any], turn: ResponseBuilder) -> None:
    """Pass on a piece of a message that is later sent in full."""
    match event.get("type"):
        case "message_start":
            message = as_dict(event.get("message"))
            turn.current = as_str(message.get("id"))
            turn.heard.add(turn.current)
            _count(turn, as_dict(message.get("usage")))
        case "message_delta":
            _count(turn, as_dict(event.get("usage")))
        case "content_block_start":
            turn.break_part()
        case "content_block_delta":
            _delta(as_dict(event.get("delta")), turn)
        case _:
            pass


def _delta(delta: dict[str, Any], turn: ResponseBuilder) -> None:
    match delta.get("type"):
        case "text_delta":
            turn.add_text(as_str(delta.get("text")))
        case "thinking_delta" | "signature_delta":
            turn.add_reasoning(as_str(delta.get("thinking")), as_str(delta.get("signature")))
        case _:
            pass


def _count(turn: ResponseBuilder, counted: dict[str, Any]) -> None:
    """Count an unfinished message; later counts replace the fields they have."""
    if not counted:
        return
    turn.counted[turn.current] = {**turn.counted.get(turn.current, {}), **counted}
    turn.usage = reduce(summed, (found for each in turn.counted.values() if (found := anthropic_usage(each))))


def summed(one: Usage, other: Usage) -> Usage:
    """Return two messages' counts added; missing ones are the later one's."""
    counts = Tokens().plus(one).plus(other)._asdict()
    return replace(other, **{name: count for name, count in counts.items() if name != "cost"})


def _message(message: dict[str, Any], turn: ResponseBuilder) -> None:
    turn.model = as_str(message.get("model")) or turn.model
    name = as_str(message.get("id"))
    streamed = name in turn.heard
    if not streamed:
        turn.current = name
        _count(turn, as_dict(message.get("usage")))
    for block in _blocks(message):
        match block.get("type"):
            case "text" | "thinking" if streamed:
                pass
            case "text":
                turn.break_part()
                turn.add_text(as_str(block.get("text")))
            case "thinking":
                turn.break_part()
                turn.add_reasoning(as_str(block.get("thinking")), as_str(block.get("signature")))
            case _:
                turn.add_note(block)


def _result(line: dict[str, Any], turn: ResponseBuilder) -> None:
    words = as_str(line.get("result"))
    turn.usage = anthropic_usage(line.get("usage")) or turn.usage
    turn.costs(line.get("total_cost_usd"))
    if line.get("is_error") or line.get("subtype", "success") != "success":
        subtype = as_str(line.get("subtype")).replace("_", " ")
        reasons = [reason for reason in as_list(line.get("errors")) if isinstance(reason, str)]
        if any(GONE in reason.lower() for reason in reasons):
            turn.resumes = False
            turn.fail("; ".join(reasons), "process_exited")
        turn.fail("; ".join(filter(None, [words or subtype, *reasons])))
    turn.finish_reason = as_str(line.get("stop_reason"))
    turn.finish(words)


def _blocks(message: dict[str, Any]) -> list[dict[str, Any]]:
    return [block for block in as_list(message.get("content")) if isinstance(block, dict)]


LINES = JsonLines(read, prompted, RESUME, SPEAK, LISTEN, charges="stated")
