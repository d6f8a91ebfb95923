"""Texts, pictures and files that a model reads in any API's body."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any

from stenolog.projections.messages.body_digest import compact
from stenolog.projections.messages.message import BlobText, Body

# Ids and types are tokens to a provider, but no words that an agent reads.
IDS = ("id", "call_id", "tool_call_id", "tool_use_id", "model", "role", "type", "media_type", "mimeType")
# A signature is checked and not read: nothing is billed for it.
UNREAD = frozenset((*IDS, "signature", "thoughtSignature"))
"""The keys of a body whose texts are no words."""
ARGUMENTS = frozenset(("input", "args"))
"""The keys of a call, beside its name, that hold its arguments as an object: all of it is read, keys too."""


PICTURES = frozenset(("image_url", "file", "image", "document", "input_image", "input_file", "input_audio"))
"""Types of the parts of a body that hold a picture or a file."""
DATA = frozenset(("inlineData", "fileData"))
"""Keys of those that have no type."""


def texts(value: object) -> Iterator[str]:
    """Yield every text that a model reads, without ids, pictures and files. Arguments are JSON."""
    if isinstance(value, str) and not isinstance(value, BlobText):
        yield value
    elif isinstance(value, dict) and not _is_picture(value):
        for key, inner in value.items():
            if key in ARGUMENTS and isinstance(inner, dict) and isinstance(value.get("name"), str):
                yield compact(inner)
            elif key not in UNREAD:
                yield from texts(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from texts(inner)


def _is_picture(value: Mapping[str, object]) -> bool:
    kind = value.get("type")
    return (isinstance(kind, str) and kind in PICTURES) or not DATA.isdisjoint(value)


def pictures(value: object) -> int:
    """Count the pictures and files in a body."""
    if isinstance(value, dict):
        if _is_picture(value):
            return 1
        # Arguments of calls and schemas of tools may look so, and hold no picture.
        if value.get("type") == "tool_use":
            return 0
        return sum(pictures(inner) for key, inner in value.items() if key not in ("tools", "functionCall"))
    return sum(map(pictures, value)) if isinstance(value, list) else 0


def text_of(value: Any) -> str:
    """Return the text of a message or a part; calls as `→ name(arguments)`."""
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


def tool_names(tools: Iterable[Any]) -> list[str]:
    """Return the tools' names.

    A tool is `{"name"}`, `{"function": {"name"}}` or `{"functionDeclarations": […]}`.
    """
    names: list[str] = []
    for tool in tools:
        inner = tool.get("functionDeclarations")
        names += tool_names(inner) if inner else [tool.get("function", tool).get("name", "")]
    return names


OF_TOOLS = ("tool_choice", "toolConfig", "parallel_tool_calls")
"""Keys of a body that providers take only with tools."""
OF_TEXT = ("text", "content", "parts")
"""Keys of a message or a part that hold its text, or the parts of it."""


def without_tools(body: Body, names: Collection[str]) -> Body:
    """Return a body without the tools of these names."""
    if not names or "tools" not in body:
        return body
    left = _other_tools(body["tools"], names)
    if left:
        return {**body, "tools": left}
    return {key: value for key, value in body.items() if key not in ("tools", *OF_TOOLS)}


def _other_tools(tools: Iterable[Any], names: Collection[str]) -> list[Any]:
    left = []
    for tool in tools:
        if inner := tool.get("functionDeclarations"):
            declared = _other_tools(inner, names)
            left += [{**tool, "functionDeclarations": declared}] if declared else []
        elif tool_names([tool])[0] not in names:
            left.append(tool)
    return left


def mapped_texts(value: Any, change: Callable[[str], str]) -> Any:
    """Return a message or system text with changed texts; empty, or without the part, for one left empty."""
    match value:
        case str():
            return change(value)
        case list():
            return [made for each in value if (made := mapped_texts(each, change))]
        case dict():
            inner = {key: mapped_texts(value[key], change) for key in OF_TEXT if key in value}
            return {**value, **inner} if all(inner.values()) else {}
        case _:
            return value


def _joined(messages: Iterable[str]) -> str:
    return " ".join(message for message in messages if message)
