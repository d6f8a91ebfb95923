"""The bodies of all APIs, read alike: what the messages are, and what they say."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from stenolog.projections.requests import Request, RequestPart
from stenolog.projections.requests.body_digest import MESSAGES, turns
from stenolog.projections.requests.request import compact
from stenolog.projections.requests.tokens import OVERHEAD

SYSTEM = ("system", "instructions", "systemInstruction", "system_instruction")


def messages(body: Mapping[str, Any]) -> Sequence[Any]:
    """The messages of a body; the turns of a prompt of plain text."""
    return next((turns(body[key]) for key in MESSAGES if key in body), ())


def around(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the body's fields beside the messages: model, system text, tools, parameters."""
    return {key: value for key, value in body.items() if key not in MESSAGES}


def text_of(value: Any) -> str:
    """Return the text of a message, or of a part of one; calls as `→ name(arguments)`."""
    match value:
        case str():
            return value
        case list():
            return _joined(map(text_of, value))
        case {"function": {"name": name, "arguments": given}}:
            return f"→ {name}({given})"
        case {"type": "tool_use", "name": name, "input": given}:
            return f"→ {name}({compact(given)})"
        case {"functionCall": {"name": name, "args": given}}:
            return f"→ {name}({compact(given)})"
        case {"functionResponse": {"response": given}}:
            return compact(given)
        case {"type": "function_call", "name": name, "arguments": given}:
            return f"→ {name}({given})"
        case {"type": "thinking", "thinking": str(text)}:
            return f"(thinks: {text})"
        case {"text": str(text)} | {"refusal": str(text)}:
            return text
        case dict():
            return _joined(
                text_of(value[key]) for key in ("content", "output", "parts", "tool_calls") if value.get(key)
            )
        case _:
            return ""


def part_text(request: Request, part: RequestPart, alone: bool) -> str:
    """Return the text of the part in the body. `alone`: it is the only part of its message.

    Return "" for a part without a text of its own that shares its message: it cannot be told from the
    others.
    """
    if part.text:
        return part.text
    if part.role == "tools":
        return ", ".join(_tool_names(request.body.get("tools", ())))
    if part.message < 0:
        return text_of(next((request.body[key] for key in SYSTEM if key in request.body), ""))
    return text_of(messages(request.body)[part.message]) if alone else ""


def tokens_of(parts: Iterable[RequestPart]) -> int:
    """Return the tokens of the parts as a budget counts them, as in `Request.size`, without pictures."""
    return sum(part.tokens_out + (0 if part.continues else OVERHEAD) for part in parts)


def _tool_names(tools: Iterable[Any]) -> list[str]:
    """The names of the tools: `{"name"}`, `{"function": {"name"}}` or `{"functionDeclarations": […]}`."""
    names: list[str] = []
    for tool in tools:
        inner = tool.get("functionDeclarations")
        names += _tool_names(inner) if inner else [tool.get("function", tool).get("name", "")]
    return names


def _joined(pieces: Iterable[str]) -> str:
    return " ".join(piece for piece in pieces if piece)
