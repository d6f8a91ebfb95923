"""Recent calls of a lane, by which it is noticed that it repeats itself."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import sha256
from typing import NamedTuple

from stenolog.domain.events import ToolResult
from stenolog.domain.parts import FilePart, ProviderPart, TextPart, ToolCall, UserPart

MAX_QUOTED = 60
"""The number of characters of a call that a reason quotes."""


class RecentCall(NamedTuple):
    """A call of the lane's last answer: its entry, index and id, and how it is quoted.

    `call` is a hash of its name and arguments, `result` of its result ("": none yet).
    """

    entry: str
    nth: int
    id: str
    words: str
    call: str
    result: str = ""
    failed: bool = False


class CallRound(NamedTuple):
    """The calls of one step: a hash of calls and results, and a text that quotes them."""

    hash: str = ""
    words: str = ""


def tried(entry: str, nth: int, call: ToolCall) -> RecentCall:
    """Return a call of an answer that has no result yet."""
    words = f"{call.name}({call.arguments})"
    short = words if len(words) <= MAX_QUOTED else f"{words[: MAX_QUOTED - 2]}…)"
    return RecentCall(entry, nth, call.id, short, hash_of((call.name, call.arguments)))


def belongs(result: ToolResult, call: RecentCall) -> bool:
    """Return whether the result is the call's: by its reference, else by its id."""
    if result.call is not None:
        return (result.call.entry, result.call.index) == (call.entry, call.nth)
    return result.call_id == call.id


def content_of(part: UserPart) -> str:
    """Return what tells a part of a result from another one."""
    match part:
        case TextPart(text=text):
            return text
        case ProviderPart(raw=raw):
            return raw
        case FilePart(id=id) if id:
            return id
        case _:
            return part.blob or part.url


def quoted(calls: Sequence[RecentCall]) -> str:
    """Return the first call as it is quoted, and the number of the others."""
    rest = f" and {len(calls) - 1} more" if len(calls) > 1 else ""
    return f"{calls[0].words}{rest}" if calls else ""


def hash_of(parts: Iterable[str]) -> str:
    """Return a short hash of texts in this order."""
    whole = sha256()
    for part in parts:
        text = part.encode("utf-8", "surrogatepass")
        whole.update(b"%d:" % len(text) + text)
    return whole.hexdigest()[:16]
