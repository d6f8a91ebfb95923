"""Blocks of a request in the order in which its provider reads them, which is the order of its prompt cache.

A provider keeps the beginning of a prompt: a request reads from the cache what it begins with as an earlier
one did. If a block changes, all after it is read anew. The marks of Anthropic's cache are no part of it.

A setting that changes what the provider makes of the blocks after it is a block without tokens: Anthropic
reads the messages anew when `thinking` or `tool_choice` changes, and keeps tools and system text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias

from stenolog.projections.formats.readable import pictures
from stenolog.projections.messages.body_digest import by_hash, compact, turns
from stenolog.projections.messages.sizes import ESTIMATE, IMAGE_TOKENS, Counter
from stenolog.projections.requests.as_sent import CACHE
from stenolog.projections.requests.recipe import escape

Section: TypeAlias = Literal["model", "tools", "system", "setting", "messages"]
Kind: TypeAlias = Literal["", "thought", "result"]
MINUTES_5, HOUR = 300, 3_600
ONE_HOUR = "1h"
THOUGHTS = frozenset(("thinking", "redacted_thinking", "reasoning"))
RESULTS = frozenset(("tool_result", "function_call_output", "custom_tool_call_output"))
REASONING = ("reasoning", "reasoning_content", "reasoning_details")
"""The keys of a message of Chat Completions that its thinking stands under."""


class Block(NamedTuple):
    """A block: its section, its JSON pointer, its value, and the text that it is compared by.

    `message` is the index of its message, -1 beside them. `kind` says whether it is thinking or a result,
    `name` is that of a tool. A `wrapped` text stands in the body by itself, and in `value` under this
    pointer. `keeps` are the seconds for which a mark of the cache after it keeps the beginning up to here;
    0 without a mark.
    """

    section: Section
    pointer: str
    value: Any
    key: str
    message: int = -1
    kind: Kind = ""
    name: str = ""
    wrapped: str = ""
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
    output = body.get("output_config")
    if isinstance(output, Mapping):
        yield _block("setting", "/output_config/format", output.get("format"))
    yield from _each("system", "/system", _as_blocks(body.get("system")), body.get("system"))
    yield from _settings(body, ("tool_choice", "thinking"))
    found = [
        block
        for n, message in enumerate(_list(body.get(messages_key)))
        for block in _message(n, message, f"/{messages_key}/{n}", "content")
    ]
    if found and CACHE in body:
        found[-1] = found[-1]._replace(keeps=max(found[-1].keeps, _keeps(body)))
    yield from found


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
        yield from _item("system", f"/{messages_key}/{first}", messages[first], first)
        first += 1
    yield from _each("tools", "/tools", body.get("tools"))
    for n, message in enumerate(messages[first:], first):
        if message is not None:
            pointer = (
                f"/{messages_key}/{n}" if isinstance(body.get(messages_key), list) else f"/{messages_key}"
            )
            yield from _item("messages", pointer, message, n)


def _item(section: Section, pointer: str, message: Any, n: int) -> Iterator[Block]:
    if not isinstance(message, dict):
        yield _block(section, pointer, message)._replace(message=n)
        return
    for key in REASONING:
        if key in message:
            thought = _block(section, f"{pointer}/{key}", message[key])
            yield thought._replace(message=n, kind="thought")
    # The ids of items are for the API: no model reads them.
    read = {key: value for key, value in message.items() if key != "id" and key not in REASONING}
    yield _block(section, pointer, read)._replace(message=n)


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
    config = body.get("generationConfig")
    for key in ("responseSchema", "responseJsonSchema"):
        if isinstance(config, Mapping) and key in config:
            yield _block("setting", f"/generationConfig/{key}", config[key])
    for n, message in enumerate(_list(body.get(messages_key))):
        yield from _message(n, message, f"/{messages_key}/{n}", "parts")


def _other(body: Mapping[str, Any], messages_key: str) -> Iterator[Block]:
    for key, value in body.items():
        if key not in (messages_key, "model"):
            yield _block("system" if isinstance(value, str) else "setting", f"/{escape(key)}", value)
    given = body.get(messages_key)
    between = ", turn " if isinstance(given, str) else "/"
    for n, message in enumerate(turns(given) or ()):
        yield _block("messages", f"/{messages_key}{between}{n}", message)._replace(message=n)


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
    """Yield the items of a list; `whole` is what the body has, if the list was made of a text."""
    for n, value in enumerate(_list(given)):
        if isinstance(whole, str):
            yield _block(section, pointer, value)._replace(wrapped="/text")
        else:
            yield _block(section, f"{pointer}/{n}", value)


def _settings(body: Mapping[str, Any], keys: Sequence[str]) -> Iterator[Block]:
    for key in keys:
        yield _block("setting", f"/{key}", body.get(key))


def _block(section: Section, pointer: str, value: Any) -> Block:
    keeps = 0
    key = compact(by_hash(value))
    if f'"{CACHE}"' in key:
        keeps, value = _keeps(value), _without_marks(value)
        key = compact(by_hash(value))
    name = _name(value) if section == "tools" else ""
    return Block(section, pointer, value, key, kind=_kind(value), name=name, keeps=keeps)


def _kind(value: Any) -> Kind:
    if not isinstance(value, Mapping):
        return ""
    if value.get("type") in THOUGHTS or value.get("thought") is True:
        return "thought"
    is_result = value.get("type") in RESULTS or value.get("role") == "tool" or "functionResponse" in value
    return "result" if is_result else ""


def _name(tool: Any) -> str:
    inner = tool.get("function", tool) if isinstance(tool, Mapping) else {}
    inner = inner if isinstance(inner, Mapping) else {}
    return str(inner.get("name") or inner.get("type") or "")


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
