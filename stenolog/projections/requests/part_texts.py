"""Texts of the parts of a request, as they stand in its body, on any API."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from stenolog.projections.messages.body_digest import SYSTEM, compact, conversation, turns
from stenolog.projections.messages.explanation import Omission, RequestPart


class Explained(Protocol):
    """A request as far as its parts are shown: its body, the source of each part, the omissions."""

    @property
    def body(self) -> Mapping[str, Any]:
        """Return the provider's JSON body."""
        ...

    @property
    def messages_key(self) -> str:
        """Return the key of the messages in the body."""
        ...

    @property
    def parts(self) -> tuple[RequestPart, ...]:
        """Return the source of each part."""
        ...

    @property
    def omissions(self) -> tuple[Omission, ...]:
        """Return what was left out."""
        ...


def messages(request: Explained) -> Sequence[Any]:
    """Return the messages of a request's body; the turns of a prompt of plain text."""
    return turns(conversation(request.body, request.messages_key))


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


def part_text(request: Explained, part: RequestPart, alone: bool) -> str:
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
    return text_of(messages(request)[part.message]) if alone else ""


def _tool_names(tools: Iterable[Any]) -> list[str]:
    """Return the names of the tools.

    A tool is `{"name"}`, `{"function": {"name"}}` or `{"functionDeclarations": […]}`.
    """
    names: list[str] = []
    for tool in tools:
        inner = tool.get("functionDeclarations")
        names += _tool_names(inner) if inner else [tool.get("function", tool).get("name", "")]
    return names


def _joined(messages: Iterable[str]) -> str:
    return " ".join(message for message in messages if message)
