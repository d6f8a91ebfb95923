"""Blocks of a request in the order in which its provider reads them, which is the order of its prompt cache.

A provider keeps the beginning of a prompt: a request reads from the cache what it begins with as an earlier
one did. Where a block changes, all behind it is read anew. The marks of Anthropic's cache are no part of it.

A setting that changes what the provider makes of the blocks behind it is a block without tokens: Anthropic
reads the messages anew when `thinking` or `tool_choice` changes, and keeps tools and system text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias

from stenolog.projections.requests.as_sent import CACHE
from stenolog.projections.requests.body_digest import by_hash, compact
from stenolog.projections.requests.recipe import escape
from stenolog.projections.requests.request import pictures
from stenolog.projections.requests.tokens import ESTIMATE, IMAGE_TOKENS, Counter

Section: TypeAlias = Literal["model", "tools", "system", "setting", "messages"]
MINUTES_5, HOUR = 300, 3_600
ONE_HOUR = "1h"


class Block(NamedTuple):
    """A block: its section, the JSON pointer of it, its value, and the text that it is compared by.

    `message` is the index of its message, -1 beside them. `keeps` are the seconds for which a mark of the
    cache behind it keeps the beginning up to here; 0 without a mark.
    """

    section: Section
    pointer: str
    value: Any
    key: str
    message: int = -1
    keeps: int = 0

    def tokens(self, counter: Counter = ESTIMATE) -> int:
        """Return the tokens of the block, by an estimate."""
        if self.section in ("model", "setting"):
            return 0
        if number := pictures(self.value):
            return IMAGE_TOKENS * number
        return counter.count(self.key)


def blocks(api: str, body: Mapping[str, Any], messages_key: str) -> list[Block]:
    """Return the blocks of a body, by the name of its API."""
    made = _ORDERS.get(api, _other)(body, messages_key)
    return [Block("model", "/model", body.get("model"), compact(body.get("model"))), *made]


def _anthropic(body: Mapping[str, Any], messages_key: str) -> Iterator[Block]:
    yield from _each("tools", "/tools", body.get("tools"))
    yield from _settings(body, ("speed",))
    yield from _each("system", "/system", _as_blocks(body.get("system")), body.get("system"))
    yield from _settings(body, ("tool_choice", "thinking"))
    for n, message in enumerate(_list(body.get(messages_key))):
        yield from _message(n, message, f"/{messages_key}/{n}", "content")


def _openai(body: Mapping[str, Any], messages_key: str) -> Iterator[Block]:
    given = _list(body.get(messages_key))
    # A text alone is one message.
    messages = given if isinstance(body.get(messages_key), list) else [body.get(messages_key)]
    yield from _settings(body, ("prompt_cache_key", "response_format"))
    text = body.get("text")
    if isinstance(text, Mapping):
        yield _block("setting", "/text/format", text.get("format"))
    if "instructions" in body:
        yield _block("system", "/instructions", body["instructions"])
    first = 0
    while first < len(messages) and _role(messages[first]) in ("system", "developer"):
        yield _item("system", f"/{messages_key}/{first}", messages[first], first)
        first += 1
    yield from _each("tools", "/tools", body.get("tools"))
    for n, message in enumerate(messages[first:], first):
        if message is not None:
            pointer = (
                f"/{messages_key}/{n}" if isinstance(body.get(messages_key), list) else f"/{messages_key}"
            )
            yield _item("messages", pointer, message, n)


def _item(section: Section, pointer: str, message: Any, n: int) -> Block:
    # The ids of items are for the API: no model reads them.
    read = (
        {key: value for key, value in message.items() if key != "id"}
        if isinstance(message, dict)
        else message
    )
    return _block(section, pointer, read)._replace(message=n)


def _gemini(body: Mapping[str, Any], messages_key: str) -> Iterator[Block]:
    yield from _settings(body, ("cachedContent",))
    for key in ("systemInstruction", "system_instruction"):
        if key in body:
            given = body[key]
            parts = given.get("parts") if isinstance(given, Mapping) else None
            yield from _each("system", f"/{key}/parts", parts, given)
    for n, tool in enumerate(_list(body.get("tools"))):
        for key in ("functionDeclarations", "function_declarations"):
            if isinstance(tool, Mapping) and key in tool:
                yield from _each("tools", f"/tools/{n}/{key}", tool[key])
                break
        else:
            yield _block("tools", f"/tools/{n}", tool)
    yield from _settings(body, ("toolConfig", "tool_config"))
    for n, message in enumerate(_list(body.get(messages_key))):
        yield from _message(n, message, f"/{messages_key}/{n}", "parts")


def _other(body: Mapping[str, Any], messages_key: str) -> Iterator[Block]:
    given = body.get(messages_key)
    for key, value in body.items():
        if key != messages_key and key != "model":
            yield _block("system" if isinstance(value, str) else "setting", f"/{escape(key)}", value)
    for n, message in enumerate(given if isinstance(given, list) else [given]):
        yield _block(
            "messages", f"/{messages_key}/{n}" if isinstance(given, list) else f"/{messages_key}", message
        )


_ORDERS: Mapping[str, Callable[[Mapping[str, Any], str], Iterator[Block]]] = {
    "anthropic": _anthropic,
    "openai-chat": _openai,
    "openai-responses": _openai,
    "gemini": _gemini,
}


def _message(n: int, message: Any, pointer: str, key: str) -> Iterator[Block]:
    """Yield the blocks of a message. Messages of one role that follow each other are one turn."""
    role = _role(message)
    content = message.get(key) if isinstance(message, Mapping) else message
    for block in _each("messages", f"{pointer}/{key}", _as_blocks(content), content):
        yield block._replace(key=f"{role} {block.key}", message=n)


def _each(section: Section, pointer: str, given: Any, whole: Any = None) -> Iterator[Block]:
    """Yield the items of a list; `whole` is what stands there, where the list was made of a text."""
    for n, value in enumerate(_list(given)):
        yield _block(section, pointer if isinstance(whole, str) else f"{pointer}/{n}", value)


def _settings(body: Mapping[str, Any], keys: Sequence[str]) -> Iterator[Block]:
    for key in keys:
        yield _block("setting", f"/{key}", body.get(key))


def _block(section: Section, pointer: str, value: Any) -> Block:
    key, keeps = compact(by_hash(value)), 0
    if f'"{CACHE}"' in key:
        keeps = _keeps(value)
        key = compact(by_hash(_without_marks(value)))
    return Block(section, pointer, value, key, keeps=keeps)


def _keeps(value: Any) -> int:
    """Return the seconds that the mark in a block keeps it; the longest, where there are several."""
    if isinstance(value, list):
        return max(map(_keeps, value), default=0)
    if not isinstance(value, Mapping):
        return 0
    mark = value.get(CACHE)
    own = 0
    if isinstance(mark, Mapping):
        own = HOUR if mark.get("ttl") == ONE_HOUR else MINUTES_5
    return max([own, *(_keeps(inner) for key, inner in value.items() if key in ("content", "function"))])


def _without_marks(value: Any) -> Any:
    match value:
        case dict():
            return {key: _without_marks(inner) for key, inner in value.items() if key != CACHE}
        case list():
            return [_without_marks(inner) for inner in value]
        case _:
            return value


def _as_blocks(given: Any) -> list[Any]:
    """Return a content as a list: a text alone is read as one block of text."""
    return [{"type": "text", "text": given}] if isinstance(given, str) and given else _list(given)


def _list(given: Any) -> list[Any]:
    return given if isinstance(given, list) else []


def _role(message: Any) -> str:
    return str(message.get("role", "")) if isinstance(message, Mapping) else ""
