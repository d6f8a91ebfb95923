"""Claude Code's `-p --output-format stream-json --verbose`, with `--include-partial-messages` or without.

Its own tool calls and their results are kept as what it did, and those of its sub-agents; what these say is
not its answer.
"""

from __future__ import annotations

from functools import reduce
from typing import Any

from stenolog.adapters.transcripts.claude.blocks import usage
from stenolog.adapters.transcripts.fields import items, obj, text
from stenolog.domain.values import Usage

from .turn import Turn

RESUME = ("--resume", "{session}")
SPEAK = ("--output-format", "stream-json", "--verbose", "--include-partial-messages")
LISTEN = ("--input-format", "stream-json")
SYNTHETIC = "<synthetic>"
"""The model of messages that Claude Code writes itself, such as the words of an error."""
GONE = "no conversation found"
"""In what it says where it cannot resume the session."""


def ask(prompt: str) -> dict[str, Any]:
    """A request as `--input-format stream-json` has it."""
    return {"type": "user", "message": {"role": "user", "content": prompt}}


def read(line: dict[str, Any], turn: Turn) -> None:
    """Tell the turn what a line says."""
    turn.session = text(line.get("session_id")) or turn.session
    message = obj(line.get("message"))
    if parent := text(line.get("parent_tool_use_id")):
        for block in _blocks(message):
            if block.get("type") in ("tool_use", "tool_result"):
                turn.does({**block, "parent_tool_use_id": parent})
        return
    match line.get("type"):
        case "stream_event":
            _event(obj(line.get("event")), turn)
        case "assistant" if message.get("model") != SYNTHETIC:
            _message(message, turn)
        case "user":
            for block in _blocks(message):
                if block.get("type") == "tool_result":
                    turn.does(block)
        case "result":
            _result(line, turn)
        case _:
            pass


def _event(event: dict[str, Any], turn: Turn) -> None:
    """A piece of a message that will come again as a whole."""
    match event.get("type"):
        case "message_start":
            message = obj(event.get("message"))
            turn.current = text(message.get("id"))
            turn.heard.add(turn.current)
            _count(turn, obj(message.get("usage")))
        case "message_delta":
            _count(turn, obj(event.get("usage")))
        case "content_block_start":
            turn.pauses()
        case "content_block_delta":
            _delta(obj(event.get("delta")), turn)
        case _:
            pass


def _delta(delta: dict[str, Any], turn: Turn) -> None:
    match delta.get("type"):
        case "text_delta":
            turn.says(text(delta.get("text")))
        case "thinking_delta" | "signature_delta":
            turn.thinks(text(delta.get("thinking")), text(delta.get("signature")))
        case _:
            pass


def _count(turn: Turn, counted: dict[str, Any]) -> None:
    """Count a message that is still under way; its later counts replace those fields that they have."""
    if not counted:
        return
    turn.counted[turn.current] = {**turn.counted.get(turn.current, {}), **counted}
    turn.usage = reduce(_sum, (found for each in turn.counted.values() if (found := usage(each))))


def _sum(one: Usage, other: Usage) -> Usage:
    return Usage(
        input=one.input + other.input,
        output=one.output + other.output,
        cache_read=one.cache_read + other.cache_read,
        cache_write=one.cache_write + other.cache_write,
        reasoning=one.reasoning + other.reasoning,
    )


def _message(message: dict[str, Any], turn: Turn) -> None:
    turn.model = text(message.get("model")) or turn.model
    name = text(message.get("id"))
    streamed = name in turn.heard
    if not streamed:
        turn.current = name
        _count(turn, obj(message.get("usage")))
    for block in _blocks(message):
        match block.get("type"):
            case "text" | "thinking" if streamed:
                pass
            case "text":
                turn.pauses()
                turn.says(text(block.get("text")))
            case "thinking":
                turn.pauses()
                turn.thinks(text(block.get("thinking")), text(block.get("signature")))
            case _:
                turn.does(block)


def _result(line: dict[str, Any], turn: Turn) -> None:
    words = text(line.get("result"))
    turn.usage = usage(line.get("usage")) or turn.usage
    turn.costs(line.get("total_cost_usd"))
    if line.get("is_error") or line.get("subtype", "success") != "success":
        subtype = text(line.get("subtype")).replace("_", " ")
        reasons = [reason for reason in items(line.get("errors")) if isinstance(reason, str)]
        if any(GONE in reason.lower() for reason in reasons):
            turn.resumes = False
            turn.fails("; ".join(reasons), "process_exited")
        turn.fails("; ".join(filter(None, [words or subtype, *reasons])))
    turn.finish_reason = text(line.get("stop_reason"))
    turn.ends(words)


def _blocks(message: dict[str, Any]) -> list[dict[str, Any]]:
    return [block for block in items(message.get("content")) if isinstance(block, dict)]
