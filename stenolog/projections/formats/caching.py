"""Prompt cache of an API: a prompt's blocks in its provider's reading order, and its rules.

A provider keeps prompts' beginnings: a request reads from the cache what it shares with an earlier one's. If
a block changes, all after it is read again. The marks of Anthropic's cache are no part of it.

A setting that changes how the provider reads later blocks is a block without tokens: Anthropic reads the
messages again when `thinking` or `tool_choice` changes, and keeps tools and system text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, Literal, NamedTuple, TypeAlias

from stenolog.projections.messages.body_digest import by_hash, compact, escape, turns
from stenolog.projections.messages.json_fields import as_list
from stenolog.projections.messages.sizes import ESTIMATE, IMAGE_TOKENS, Counter

from .readable import pictures

Section: TypeAlias = Literal["model", "tools", "system", "setting", "messages"]
Kind: TypeAlias = Literal["", "thought", "result"]
Json: TypeAlias = Mapping[str, Any]
MARK = "cache_control"
"""The key of a mark in a block: its provider keeps the beginning up to there."""
MINUTES_5, HOUR = 300, 3_600
IDLE = 600
"""Seconds without a call after which a provider that needs no marks has most beginnings no longer."""
MINIMUM = 1_024
"""The least tokens that a provider keeps, unless it names others for a model."""


class Block(NamedTuple):
    """A block: its section, JSON pointer, value, and the text by which it is compared.

    `message` is its message's index, -1 outside. `kind` is thinking or a result, `name` a tool's. A `wrapped`
    text is in the body by itself, and in `value` under this pointer. `keeps` are the seconds for which a
    cache mark after it keeps the beginning; 0 without a mark.
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
        """Return the block's tokens, estimated."""
        if self.section in ("model", "setting"):
            return 0
        if number := pictures(self.value):
            return IMAGE_TOKENS * number
        return counter.count(self.key)


def idle(body: Json) -> int:
    """Return the seconds for which a provider that documents none keeps a beginning."""
    return IDLE


class Layout(NamedTuple):
    """Layout of breakpoints that a card's `parameters` ask for, in seconds that each keeps a beginning.

    `tools`, `front` and `messages` are the breakpoints after the last tool, before the conversation, and at
    its end (0: none); with `turns` 2 that is on the user's last two turns. `idle` is for a provider without
    breakpoints. `words` say what to change.
    """

    words: str
    parameters: Json
    tools: int = 0
    front: int = 0
    messages: int = 0
    turns: int = 1
    idle: int = 0


class CacheRules(NamedTuple):
    """Prompt cache of an API, as its provider documents it.

    `blocks` splits a body, with its messages under a key, in the provider's reading order; the model comes
    before. `models` are patterns of its models' names, `minimums` the least tokens that it keeps by such
    patterns. `lookback`: it keeps only what is marked, and looks so many blocks back from a mark for a known
    beginning; 0: it needs no marks. `lifetime` are the seconds for which it keeps what a body asks for
    without marks. `verdicts` are the causes that its words for a miss mean. The provider may strip a system
    text that begins with `unread`. `layouts` are those that a card can ask for.
    """

    blocks: Callable[[Json, str], Iterator[Block]]
    models: tuple[str, ...] = ()
    minimums: Mapping[str, int] = {}
    lookback: int = 0
    lifetime: Callable[[Json], int] = idle
    verdicts: Mapping[str, tuple[str, ...]] = {}
    unread: str = ""
    layouts: tuple[Layout, ...] = ()

    def split(self, body: Json, messages_key: str) -> list[Block]:
        model = Block("model", "/model", body.get("model"), compact(body.get("model")))
        return [model, *self.blocks(body, messages_key)]

    def minimum(self, model: str) -> int:
        """Return the least tokens that the provider of a model keeps."""
        found = (tokens for pattern, tokens in self.minimums.items() if fnmatchcase(model, pattern))
        return next(found, MINIMUM)


def in_given_order(body: Json, messages_key: str) -> Iterator[Block]:
    """Yield the blocks of a body of unknown order: those beside the messages first."""
    yield from each("tools", "/tools", body.get("tools"))
    for key, value in body.items():
        if key not in (messages_key, "model", "tools"):
            yield block("system" if isinstance(value, str) else "setting", f"/{escape(key)}", value)
    given = body.get(messages_key)
    between = ", turn " if isinstance(given, str) else "/"
    for n, message in enumerate(turns(given) or ()):
        yield block("messages", f"/{messages_key}{between}{n}", message)._replace(message=n)


UNKNOWN = CacheRules(in_given_order)
"""The rules of an API that names none."""


def of_message(n: int, message: Any, pointer: str, key: str) -> Iterator[Block]:
    """Yield a message's blocks. Consecutive messages of one role are one turn."""
    content = message.get(key) if isinstance(message, Mapping) else message
    for one in each("messages", f"{pointer}/{key}", as_blocks(content), content):
        yield one._replace(key=f"{role_of(message)} {one.key}", message=n)


def each(section: Section, pointer: str, given: Any, whole: Any = None) -> Iterator[Block]:
    """Yield a list's items; `whole` is the body's value if that was a text."""
    for n, value in enumerate(as_list(given)):
        if isinstance(whole, str):
            yield block(section, pointer, value)._replace(wrapped="/text")
        else:
            yield block(section, f"{pointer}/{n}", value)


def settings(body: Json, *keys: str) -> Iterator[Block]:
    """Yield the settings under these keys, absent ones too."""
    for key in keys:
        yield block("setting", f"/{key}", body.get(key))


def inner_setting(body: Json, key: str, *names: str) -> Iterator[Block]:
    """Yield the existing ones of those settings in an object of the body."""
    given = body.get(key)
    if isinstance(given, Mapping):
        for name in names:
            if name in given:
                yield block("setting", f"/{key}/{name}", given[name])


def block(section: Section, pointer: str, value: Any) -> Block:
    """Return a value's block, compared without cache marks."""
    keeps = 0
    key = compact(by_hash(value))
    if f'"{MARK}"' in key:
        keeps, value = kept_for(value), _without_marks(value)
        key = compact(by_hash(value))
    return Block(section, pointer, value, key, name=_name(value) if section == "tools" else "", keeps=keeps)


def kept_for(value: Any) -> int:
    """Return the longest time, in seconds, of the marks in a value."""
    if isinstance(value, list):
        return max(map(kept_for, value), default=0)
    if not isinstance(value, Mapping):
        return 0
    mark = value.get(MARK)
    own = 0
    if isinstance(mark, Mapping):
        own = HOUR if mark.get("ttl") == "1h" else MINUTES_5
    return max([own, *(kept_for(inner) for key, inner in value.items() if key in ("content", "function"))])


def _without_marks(value: Any) -> Any:
    match value:
        case dict():
            return {key: _without_marks(inner) for key, inner in value.items() if key != MARK}
        case list():
            return [_without_marks(inner) for inner in value]
        case _:
            return value


def _name(tool: Any) -> str:
    inner = tool.get("function", tool) if isinstance(tool, Mapping) else {}
    inner = inner if isinstance(inner, Mapping) else {}
    return str(inner.get("name") or inner.get("type") or "")


def as_blocks(given: Any) -> list[Any]:
    """Return a content as a list; a plain text is one block."""
    return [{"type": "text", "text": given}] if isinstance(given, str) and given else as_list(given)


def role_of(message: Any) -> str:
    """Return the role of a message."""
    return str(message.get("role", "")) if isinstance(message, Mapping) else ""


def kind_of(one: Block, thoughts: Sequence[str], results: Sequence[str]) -> Block:
    """Return a block with its kind, by its value's type."""
    type = one.value.get("type") if isinstance(one.value, Mapping) else None
    return one._replace(kind="thought" if type in thoughts else "result" if type in results else "")


FORM = frozenset(
    {
        *("annotations", "cache_control", "detail", "phase", "role", "status", "type"),
        *("internal_chat_message_metadata_passthrough", "metadata"),
    }
)
"""Fields that say in which form a program sends something, and not what."""


def content_of(block: Block) -> tuple[str, ...]:
    """Return what a block says, and whether the model said it, in whatever form a program sends it."""
    # Programs trim texts, order keys, and write a text alone or in a list, each in its own way.
    said = block.value if isinstance(block.value, Mapping) else {}
    is_own = "assistant" in (said.get("role"), block.key.partition(" ")[0])
    return (str(is_own), *sorted(_leaves(by_hash(said or block.value))))


def _leaves(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        for name, each in value.items():
            if name not in FORM:
                yield from _leaves(each)
    elif isinstance(value, list):
        for each in value:
            yield from _leaves(each)
    elif value not in (None, False, ""):
        yield "".join(str(value).split())
