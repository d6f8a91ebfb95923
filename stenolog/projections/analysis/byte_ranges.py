"""Byte ranges of a request as it was sent: parts of the conversation, and the frame around them.

The ranges tile all bytes without gaps.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from stenolog.domain.entry import Entry
from stenolog.domain.errors import InvalidEventError, PositionNotFoundError
from stenolog.domain.events import AssistantMessage, LlmError
from stenolog.projections.messages.body_digest import PROMPT, SYSTEM, TURN
from stenolog.projections.messages.message import EMPTY_BLOBS
from stenolog.projections.messages.sizes import COUNTERS, Counter
from stenolog.projections.requests import Request, RequestPart, build
from stenolog.projections.requests.as_sent import Patches, as_sent
from stenolog.projections.requests.request import sent_under
from stenolog.projections.requests.transport import Transport, as_go

TOOLS = "tools"
ITEMS = ("content", "parts")
"""The keys of a message that may hold its pieces, by API."""
FRAME = "frame"
PARAMETER = "parameter"


class ByteRange(NamedTuple):
    """The bytes from `first` to before `end`: a JSON pointer, and where they come from.

    `source` names the rules and positions of the parts in it, else `tools`, `parameter` or `frame`, which is
    the JSON between the values. `parts` are indexes of the request's parts.
    """

    first: int
    end: int
    pointer: str
    source: str
    parts: tuple[int, ...] = ()


class _Piece(NamedTuple):
    content: bytes
    pointer: str
    source: str
    parts: tuple[int, ...] = ()


def sent_request(
    entries: Iterable[Entry],
    position: int,
    *,
    blobs: Mapping[str, bytes] = EMPTY_BLOBS,
    counters: Mapping[str, Counter] = COUNTERS,
) -> tuple[Request, Transport]:
    """Return the request that the answer at a position answers, and its transport.

    Another program's has the sent form. Raises `PositionNotFoundError`; `InvalidEventError` for an entry
    without a receipt; `StoredDataError` for a receipt that does not fit.
    """
    log = list(entries)
    if not 1 <= position <= len(log):
        raise PositionNotFoundError(f"expected a position from 1 to {len(log)}, found {position}")
    event = log[position - 1].event
    if not isinstance(event, AssistantMessage | LlmError) or event.receipt is None:
        raise InvalidEventError(f"expected an answer with a receipt at {position}, found none")
    receipt = event.receipt
    request = build(
        log[: receipt.view],
        event.agent,
        task=event.task,
        api=receipt.api.partition("@")[0],
        policy=sent_under(receipt),
        blobs=blobs,
        counters=counters,
    )
    return as_sent(request, receipt, Patches.of(log), blobs), Transport.of(receipt.transport)


UNSENT = Transport()


def byte_ranges(
    request: Request, transport: Transport = UNSENT, blobs: Mapping[str, bytes] = EMPTY_BLOBS
) -> tuple[ByteRange, ...]:
    """Return the ranges of the bytes sent, in order; without a transport those of `request.bytes`.

    `blobs` have the bytes of a transport that kept them as they were.
    """
    if transport.style == "raw":
        return tuple(_raw_ranges(_Writer(request, transport), transport.render({}, blobs)))
    frame = [_Piece(transport.before.encode(), "", FRAME)], [_Piece(transport.after.encode(), "", FRAME)]
    found: list[ByteRange] = []
    for piece in (*frame[0], *_Writer(request, transport).pieces(), *frame[1]):
        first = found[-1].end if found else 0
        if piece.content:
            found.append(ByteRange(first, first + len(piece.content), *piece[1:]))
    return tuple(found)


def _raw_ranges(writer: _Writer, content: bytes) -> Iterator[ByteRange]:
    """Yield the ranges of bytes that no style writes: each field, and each message."""
    done = 0
    for place in places(content, writer.messages_key):
        if place.first > done:
            yield ByteRange(done, place.first, "", FRAME)
        owners, source = writer.owned(place.pointer)
        yield ByteRange(place.first, place.end, place.pointer, source, tuple(owners))
        done = place.end
    if done < len(content):
        yield ByteRange(done, len(content), "", FRAME)


class _Writer:
    def __init__(self, request: Request, transport: Transport) -> None:
        self.body, self.messages_key = request.body, request.messages_key
        self.parts = request.parts
        self.transport = transport
        self.is_compact = transport.style != "spaced"
        self.comma, self.colon = (",", ":") if self.is_compact else (", ", ": ")
        self.owners: dict[int, list[int]] = {}
        for index, part in enumerate(request.parts):
            self.owners.setdefault(part.message, []).append(index)

    def pieces(self) -> Iterator[_Piece]:
        if self.transport.style in ("text", "string", "lines"):
            yield from self._prompt()
            return
        opening = "{"
        for key, value in self.transport.patched(self.body).items():
            yield self._frame(opening + self._json(key) + self.colon, f"/{key}")
            yield from self._field(key, value)
            opening = self.comma
        yield self._frame("}" if opening != "{" else "{}", "")

    def owned(self, pointer: str) -> tuple[list[int], str]:
        """Return the parts of a field or message, and its source."""
        key, _, message = pointer[1:].partition("/")
        if message:
            owners = self.owners.get(int(message), [])
            return owners, self._source(owners)
        if key in SYSTEM:
            owners = [at for at in self._front() if self.parts[at].role == "system"]
            return owners, self._source(owners)
        if key == TOOLS:
            return [at for at in self._front() if self.parts[at].role != "system"], TOOLS
        return [], PARAMETER

    def _field(self, key: str, value: Any) -> Iterator[_Piece]:
        if key == self.messages_key and isinstance(value, list):
            yield from self._several(value, f"/{key}", [self.owners.get(at, []) for at in range(len(value))])
        elif key in SYSTEM:
            yield self._value(
                value, f"/{key}", [at for at in self._front() if self.parts[at].role == "system"]
            )
        elif key == TOOLS:
            others = [at for at in self._front() if self.parts[at].role != "system"]
            yield self._value(value, f"/{key}", others)._replace(source=TOOLS)
        elif key == self.messages_key:
            yield self._value(value, f"/{key}", [*range(len(self.parts))])
        else:
            yield self._value(value, f"/{key}", [])._replace(source=PARAMETER)

    def _several(self, values: Sequence[Any], pointer: str, owners: Sequence[list[int]]) -> Iterator[_Piece]:
        for at, value in enumerate(values):
            yield self._frame(self.comma if at else "[", pointer)
            yield from self._message(value, f"{pointer}/{at}", owners[at])
        yield self._frame("]" if values else "[]", pointer)

    def _message(self, message: Any, pointer: str, owners: list[int]) -> Iterator[_Piece]:
        key = next((key for key in ITEMS if isinstance(message, dict) and key in message), "")
        items = message[key] if key else None
        if len(owners) < 2 or not isinstance(items, list) or len(items) != len(owners):
            yield self._value(message, pointer, owners)
            return
        opening = "{"
        for name, value in message.items():
            yield self._frame(opening + self._json(name) + self.colon, f"{pointer}/{name}")
            if name == key:
                yield from self._items(items, f"{pointer}/{name}", owners)
            else:
                yield self._frame(self._json(value), f"{pointer}/{name}")
            opening = self.comma
        yield self._frame("}", pointer)

    def _items(self, items: Sequence[Any], pointer: str, owners: Sequence[int]) -> Iterator[_Piece]:
        for at, item in enumerate(items):
            yield self._frame(self.comma if at else "[", pointer)
            yield self._value(item, f"{pointer}/{at}", [owners[at]])
        yield self._frame("]", pointer)

    def _prompt(self) -> Iterator[_Piece]:
        """Yield the prompt of a program, turn by turn, if its turns are the messages one by one."""
        before, after = (len(text.encode()) for text in (self.transport.before, self.transport.after))
        whole = self.transport.render(self.body)
        whole = whole[before : len(whole) - after]
        turns = TURN.split(self.body[PROMPT])
        last = max(self.owners, default=-1)
        if self.transport.style != "text" or len(turns) != last + 1:
            owners = [*range(len(self.parts))]
            yield _Piece(whole, f"/{PROMPT}", self._source(owners), tuple(owners))
            return
        for at, turn in enumerate(turns):
            yield self._frame("\n\n" if at else "", f"/{PROMPT}")
            owners = self.owners.get(at, [])
            content = turn.encode("utf-8", "replace")
            yield _Piece(content, f"/{PROMPT}, turn {at}", self._source(owners), tuple(owners))

    def _front(self) -> list[int]:
        return self.owners.get(-1, [])

    def _json(self, value: Any) -> str:
        separators = (self.comma, self.colon)
        text = json.dumps(value, ensure_ascii=not self.is_compact, separators=separators)
        return as_go(text) if self.transport.style == "html" else text

    def _value(self, value: Any, pointer: str, owners: Sequence[int]) -> _Piece:
        return _Piece(self._json(value).encode(), pointer, self._source(owners), tuple(owners))

    def _frame(self, text: str, pointer: str) -> _Piece:
        return _Piece(text.encode(), pointer, FRAME)

    def _source(self, owners: Sequence[int]) -> str:
        return "; ".join(dict.fromkeys(_source_name(self.parts[at]) for at in owners)) or PARAMETER


def _source_name(part: RequestPart) -> str:
    return " ".join([part.rule, ", ".join(map(str, part.positions))]).rstrip()


BLANKS = " \t\n\r"


class JsonPlace(NamedTuple):
    """The bytes from `first` to before `end`, which are the value at a JSON pointer."""

    first: int
    end: int
    pointer: str


def places(content: bytes, messages_key: str) -> Iterator[JsonPlace]:
    """Yield the value of each field in order, and each message; nothing if it is no object."""
    try:
        text = content.decode()
        found = [*_fields(text, messages_key)]
    except (ValueError, IndexError):
        return
    at = done = 0
    for first, end, pointer in found:
        at += len(text[done:first].encode())
        size = len(text[first:end].encode())
        yield JsonPlace(at, at + size, pointer)
        at, done = at + size, end


def _fields(text: str, messages_key: str) -> Iterator[JsonPlace]:
    for key, first in _items(text, _skipped(text, 0, "{"), "}"):
        pointer = f"/{key.replace('~', '~0').replace('/', '~1')}"
        if key == messages_key and text[first] == "[":
            for number, (_, begin) in enumerate(_items(text, first + 1, "]")):
                yield JsonPlace(begin, _end(text, begin), f"{pointer}/{number}")
        else:
            yield JsonPlace(first, _end(text, first), pointer)


def _items(text: str, at: int, closing: str) -> Iterator[tuple[str, int]]:
    """Yield the key and the beginning of each value in an object, or in a list, without keys."""
    at = _blank(text, at)
    while text[at] != closing:
        key = ""
        if closing == "}":
            key, at = _DECODER.raw_decode(text, at)
            at = _skipped(text, at, ":")
        yield key, (at := _blank(text, at))
        at = _blank(text, _end(text, at))
        if text[at] == ",":
            at = _blank(text, at + 1)


_DECODER = json.JSONDecoder()


def _end(text: str, at: int) -> int:
    return _DECODER.raw_decode(text, at)[1]


def _skipped(text: str, at: int, sign: str) -> int:
    at = _blank(text, at)
    if text[at] != sign:
        raise ValueError(f"expected {sign!r} at {at}")
    return at + 1


def _blank(text: str, at: int) -> int:
    while text[at] in BLANKS:
        at += 1
    return at
