"""Claude Code's `-p --output-format stream-json --verbose`, with `--include-partial-messages` or without.

Its own tool calls and their results are kept as what it did; what its sub-agents say is not its answer.
"""

from __future__ import annotations

from typing import Any

from stenolog.adapters.transcripts.claude.blocks import usage
from stenolog.adapters.transcripts.fields import items, obj, text

from .turn import Turn

RESUME = ("--resume", "{session}")
SPEAK = ("--output-format", "stream-json", "--verbose")
LISTEN = ("--input-format", "stream-json")


def ask(prompt: str) -> dict[str, Any]:
    """A request as `--input-format stream-json` has it."""
    return {"type": "user", "message": {"role": "user", "content": prompt}}


def read(line: dict[str, Any], turn: Turn) -> None:
    """Tell the turn what a line says."""
    turn.session = text(line.get("session_id")) or turn.session
    if line.get("parent_tool_use_id"):
        return
    match line.get("type"):
        case "stream_event":
            _event(obj(line.get("event")), turn)
        case "assistant":
            _message(obj(line.get("message")), turn)
        case "user":
            for block in _blocks(obj(line.get("message"))):
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
            turn.heard.add(text(obj(event.get("message")).get("id")))
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


def _message(message: dict[str, Any], turn: Turn) -> None:
    turn.model = text(message.get("model")) or turn.model
    streamed = text(message.get("id")) in turn.heard
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
    if line.get("is_error") or line.get("subtype", "success") != "success":
        turn.fails(words or text(line.get("subtype")).replace("_", " "))
    turn.usage = usage(line.get("usage"))
    turn.finish_reason = text(line.get("stop_reason"))
    turn.ends(words)


def _blocks(message: dict[str, Any]) -> list[dict[str, Any]]:
    return [block for block in items(message.get("content")) if isinstance(block, dict)]
