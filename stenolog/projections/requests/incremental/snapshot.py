"""Snapshot of a session: the state that later entries need, and the written frozen prefix if there is one.

Another process continues with the entries of the window, or only of its tail if the prefix is written. Then
an explanation, or a change of the prefix, folds the log anew (`PartialWindowError`).
"""

# The written messages are split at fixed numbers, so that each is stored once, and all processes store the
# same texts.

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from hashlib import sha256
from itertools import chain, takewhile
from typing import Any, NamedTuple

from stenolog.projections.formats.writer import EarlierMessages, Writer
from stenolog.projections.messages.body_digest import compact
from stenolog.projections.messages.message import Message, Preamble, Role
from stenolog.projections.messages.sizes import Size
from stenolog.projections.requests.pipeline.budget import Cap
from stenolog.projections.requests.pipeline.omissions import runs
from stenolog.projections.requests.pipeline.prompt import AT_FIRST, Away
from stenolog.projections.requests.pipeline.tool_groups import ToolGroup
from stenolog.projections.views.context import SummaryRecord
from stenolog.projections.views.tool_pairs import CallKey, Pair

from .frozen import FrozenPrefix
from .window import Window
from .window_snapshot import WindowSnapshot

SEGMENT = 256
"""The number of messages that are stored together."""
HELD = 8
"""So many of the last messages are in no segment: an API may mark some, or continue the last one."""


class MessageSegment(NamedTuple):
    """Messages as compact JSON without brackets, and the ids of their calls."""

    digest: str
    ids: tuple[str, ...]
    text: bytes

    @property
    def head(self) -> bytes:
        """The digest and the ids as JSON. They are apart from the text, which is long to copy."""
        return json.dumps((self.digest, self.ids)).encode()


def segment_of(head: bytes, text: bytes) -> MessageSegment:
    """Return the segment of a head and a text. Raises `ValueError`."""
    digest, ids = json.loads(head)
    return MessageSegment(digest, tuple(ids), text)


class FrozenState(NamedTuple):
    """The part of a frozen prefix that the tail depends on.

    `open` are the last answer's calls without a result. `caps` and `sizes` are the window's.
    """

    last: int
    rows: int
    called: tuple[CallKey, ...]
    tools: tuple[str, ...]
    answer: tuple[CallKey, ...] | None
    open: tuple[CallKey, ...]
    joins: str
    role: Role
    rule: str
    stop: str
    positions: tuple[int, ...]
    caps: tuple[Cap, ...]
    sizes: tuple[Size, ...]


class WrittenPrefix(NamedTuple):
    """The written messages of a frozen prefix.

    `segments` are the digests of their segments, `rest` has the messages after them, `ids` the ids of their
    calls. `rests_on` is the digest of what stands around them; empty: they are not written, for the backend
    has them. `away` is the state after them.
    """

    frozen: FrozenState
    rests_on: str
    segments: tuple[str, ...]
    rest: bytes
    ids: tuple[tuple[str, int], ...]
    memo: bool
    away: Away = AT_FIRST


class SessionSnapshot(NamedTuple):
    """The state of a session at a position. With a written prefix, `window` has only the tail."""

    window: WindowSnapshot
    written: WrittenPrefix | None = None


class CapturedSession(NamedTuple):
    """A snapshot without its segments, and the messages and ids since the stored ones."""

    window: WindowSnapshot
    frozen: FrozenState
    surroundings: tuple[Preamble, tuple[Message, ...]]
    first: int
    messages: list[Any]
    ids: list[tuple[str, int]]
    memo: bool
    away: Away

    @property
    def _segmented(self) -> int:
        return max(len(self.messages) - HELD, 0) // SEGMENT * SEGMENT

    def segments(self) -> Iterator[MessageSegment]:
        for first in range(0, self._segmented, SEGMENT):
            segment = range(self.first + first, self.first + first + SEGMENT)
            ids = tuple(id for id, at in self.ids if at in segment)
            text = _text(self.messages[first : first + SEGMENT])
            yield MessageSegment(sha256(compact(ids).encode() + text).hexdigest()[:32], ids, text)

    def snapshot(self, segments: Sequence[str]) -> SessionSnapshot:
        rests_on, first = fingerprint(*self.surroundings), self.first + self._segmented
        ids = tuple((id, at) for id, at in self.ids if at >= first)
        rest = _text(self.messages[self._segmented :])
        written = WrittenPrefix(self.frozen, rests_on, tuple(segments), rest, ids, self.memo, self.away)
        return SessionSnapshot(self.window, written)


def _text(messages: Sequence[Any]) -> bytes:
    return compact(messages)[1:-1].encode()


def captured(
    window: Window, writer: Writer, first: Sequence[Message], away: Away, stored: int
) -> CapturedSession | None:
    """Return a session's capture without the first `stored` segments; None if impossible now."""
    if not writer.may_resume:
        return None
    begin = stored * SEGMENT
    held = begin - writer.call_ids.earlier
    frozen = _frozen_state(window)
    # The places of the ids that were stored by another process are not known.
    if held < 0 or begin < writer.call_ids.known_from or frozen is None:
        return None
    return CapturedSession(
        _tail(window),
        frozen,
        (writer.preamble, tuple(first)),
        begin,
        writer.builder.messages[held:],
        writer.call_ids.since(begin),
        writer.memo,
        away,
    )


def quotes_pins(window: Window) -> bool:
    """Return whether a reminder quotes pinned entries, however old."""
    reminder = window.policy.reminder
    return reminder is not None and reminder.pins and window.policy.pins is not None


def without_text(window: Window) -> SessionSnapshot | None:
    """Return a window's snapshot, of its tail alone if the backend has the rest; None if impossible now."""
    may_go = window.continues_session and not (window.is_capped or quotes_pins(window))
    frozen = _frozen_state(window) if may_go else None
    if frozen is not None:
        return SessionSnapshot(_tail(window), WrittenPrefix(frozen, "", (), b"", (), memo=False))
    return None if window.is_unfit else SessionSnapshot(window.snapshot)


def _tail(window: Window) -> WindowSnapshot:
    tail = window.rows[window.frozen.rows :]
    return WindowSnapshot(
        window.position,
        window.state,
        window.settings,
        tuple(runs(row.entry.position for row in tail)),
        tuple(window.pairing.waiting),
        _pairs(window),
        # Which are in force was decided from calls that are not in the tail.
        tuple(SummaryRecord(summary, ()) for summary in window.in_force),
        tuple(window.left_out) if window.cuts else (),
        tuple(window.private),
        window.memory,
        window.cuts,
        tuple(window.scopes),
        window.bills,
        window.apis,
        window.known_api,
    )


def _pairs(window: Window) -> tuple[Pair, ...]:
    newest = reversed(window.pairing.pairs.values())
    return tuple(takewhile(lambda pair: pair.result > window.frozen.last, newest))[::-1]


def _frozen_state(window: Window) -> FrozenState | None:
    frozen, end = window.frozen, window.frozen.end
    # The next entry may undo a cut, or let go what stayed beside it, and both ask for the entries.
    if end is None or window.measure.missing or window.holes or window.uncut is not None:
        return None
    # Only a call without a result, or with one in the tail, can get one there.
    later = (*window.pairing.waiting, *(pair.call for pair in _pairs(window) if pair.call))
    called = tuple(call.key for call in later if call.key in frozen.called)
    answer = frozen.answer
    return FrozenState(
        frozen.last,
        window.earlier + frozen.rows,
        called,
        tuple(frozen.tools),
        None if answer is None else tuple(answer.results),
        () if answer is None else tuple(key for key, result in answer.results.items() if result is None),
        "" if answer is None else answer.said.joins,
        end.role,
        end.rule,
        end.stop,
        end.positions,
        *window.measured,
    )


def fingerprint(preamble: Preamble, first: Sequence[Message]) -> str:
    """Return the digest of what stands around the conversation."""
    settled = preamble._replace(counter=preamble.counter.id, stubs=sorted(preamble.stubs))  # type: ignore[arg-type]
    return sha256(repr((settled, tuple(first))).encode(errors="surrogatepass")).hexdigest()


class ResumableSession(NamedTuple):
    """A written prefix with its segments, to go on from."""

    written: WrittenPrefix
    segments: tuple[MessageSegment, ...]

    @property
    def is_sound(self) -> bool:
        """True if these are its segments."""
        return self.written.segments == tuple(each.digest for each in self.segments)

    def window(self, made: Window, whole: Callable[[int], Window]) -> Window:
        """Have a window made of the tail continue from the frozen prefix."""
        stored, frozen = self.written.frozen, FrozenPrefix()
        frozen.last, frozen.called = stored.last, set(stored.called)
        frozen.tools.update(dict.fromkeys(stored.tools))
        frozen.end = Message(stored.role, (), stored.positions, stored.rule, stop=stored.stop)
        if stored.answer is not None:
            said = frozen.end._replace(role="assistant", calls=stored.answer, joins=stored.joins)
            frozen.answer = ToolGroup(said)
            frozen.answer.results.update({key: said for key in stored.answer if key not in stored.open})
        made.frozen, made.whole, made.earlier = frozen, whole, stored.rows
        made.measured = stored.caps, stored.sizes
        return made

    def resume(self, writer: Writer) -> None:
        written = self.written
        writer.resume(
            EarlierMessages([each.text for each in self.segments]) if self.segments else None,
            json.loads(b"[%b]" % written.rest),
            written.memo,
        )
        earlier = chain.from_iterable(each.ids for each in self.segments)
        writer.call_ids.resume(earlier, len(self.segments) * SEGMENT, written.ids)
