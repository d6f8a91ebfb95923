"""Checked reading: each entry against its digest; damage affects only its entry.

A digest includes the previous one. After a damaged entry, its stored and its computed digest are tried. After
a missing entry the next cannot be checked, and is read as it is. `check log` names all of them.

An entry is checked when a process first reads it. The recorder remembers sound positions, which `check log`
ignores. `entry_by_id`, `records` and the log's `tail` do not check.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from hashlib import sha256
from typing import Any, TypeAlias

from stenolog.adapters.store.contract.recorder import LogRecorder
from stenolog.adapters.store.contract.values import LAST, Row, Stream
from stenolog.domain.entry import EPOCH, MICROSECOND, Entry, chain, left_hash
from stenolog.domain.erasure import ERASED, SWITCH, WITHHELD
from stenolog.domain.errors import CorruptLogError, StoredDataError
from stenolog.domain.events import Damaged, Event

Decoders: TypeAlias = Mapping[str, Callable[[bytes], Event]]
FAULTS = (StoredDataError, TypeError, ValueError, OverflowError, AttributeError, LookupError)
"""The errors that decoding a damaged row may raise."""
# A wider gap is a damaged position, and an entry for each of them would have no end.
WIDEST_GAP = 100_000
"""Positions that may be missing in a row."""
GONE = "its row is gone"
# Bounds the memory of a process that reads many conversations.
CHECKED_STREAMS = 10_000
"""The number of streams of which a recorder remembers what was checked."""
CHAINS = 16
"""Possible digests behind a run of damaged entries, each of which may add one."""
PAGE_ROWS = 512
"""Entries that are read one by one before a page is tried again."""


def entries(
    recorder: LogRecorder,
    stream: Stream,
    after: int,
    upto: int,
    before: Collection[bytes],
    decoders: Decoders,
    *,
    strict: bool,
) -> Iterator[Entry]:
    """Yield the entries with `after` < position <= `upto`, checked.

    `before` are possible digests before the first; empty if lost. Raises `CorruptLogError` if not even places
    can be read, and with `strict` at the first damaged entry.
    """
    reading = _Reading(recorder, stream.name, before, decoders)
    for segment in recorder.lineage(stream, upto):
        if segment.upto <= after:
            continue
        part = Stream(stream.name, segment.key)
        # The ancestors' segments are read by turns of their own.
        part.alone = True
        # What the digest may be is kept across segments: a fork's first entry follows its parent's.
        reading.key, reading.position = segment.key, max(after, segment.after)
        for entry in reading.segment(part, segment.upto):
            if strict and isinstance(entry.event, Damaged):
                raise CorruptLogError(f"{stream.name!r} at position {entry.position}: {entry.event.reason}")
            yield entry


def following(
    recorder: LogRecorder,
    stream: Stream,
    position: int,
    digest: bytes,
    rows: Sequence[Row],
    decoders: Decoders,
) -> list[Entry] | None:
    """Return the rows' entries after a position with this digest; None if any is damaged."""
    reading = _Reading(recorder, stream.name, (digest,), decoders)
    reading.key, reading.position = stream.key or 0, position
    found = reading.sound(rows)
    return found if len(found) == len(rows) else None


def check_row(recorder: LogRecorder, stream: Stream, row: Row, before: bytes | None) -> None:
    """Raise `CorruptLogError` for a row that does not follow the previous digest, if known."""
    position, id, time, digest, topic, state, salt, size, erased = row
    try:
        length = len(state) if size is None else size
        content = sha256(salt + state).digest()
        if erased is not None:
            # Beside the mark of an erasure nothing else counts, but the effects that it left.
            (key,) = [one.key for one in recorder.lineage(stream) if one.after < position <= one.upto]
            is_left = not (salt or state) or recorder.erasure.left_hash(key, position) == left_hash(state)
            content = erased if is_left else b""
        if before is None or chain(before, position, id, time, topic, length, content) == digest:
            return
        reason = "its digest is not that of its bytes"
    except FAULTS as error:
        reason = _reason(error)
    raise CorruptLogError(f"{stream.name!r} at position {position}: {reason}")


def is_checked(recorder: LogRecorder, stream: Stream, position: int) -> bool:
    """Return whether this process has checked the entry; False for forks."""
    if not stream.alone or stream.key is None:
        return False
    first, last = recorder.checked.get(stream.key, (0, 0))
    return first <= position <= last


class _Reading:
    """Reader from a position, with the possible digests there."""

    def __init__(
        self, recorder: LogRecorder, name: str, before: Collection[bytes], decoders: Decoders
    ) -> None:
        self.recorder = recorder
        self.name = name
        self.before = before
        self.decoders = decoders
        self._withheld: dict[int, frozenset[int]] = {}
        self.key = 0
        self.position = 0

    def segment(self, part: Stream, last: int) -> Iterator[Entry]:
        while self.position < last:
            try:
                rows = self.recorder.select_events(part, gt=self.position, lte=last, page=True).rows
            except CorruptLogError as error:
                yield from self._one_by_one(part, last, error)
                continue
            if not rows:
                break
            yield from self._page(rows)
        # A missing end of a stream leaves no trace; but what a fork inherits must have been there.
        if last != LAST and self.position < last and self.recorder.is_inherited(part, last):
            yield from self._gap(last + 1)

    def _page(self, rows: Sequence[Row]) -> Iterator[Entry]:
        while rows:
            # Two hashes take as long as decoding an entry, so each is checked once in a process.
            sound = self._known_sound(rows) or self.sound(rows)
            yield from sound
            rows = rows[len(sound) :]
            if rows:
                yield from self._damaged(rows[0])
                # Else the row stands behind a gap: the gap was told, and the row itself comes next.
                if self.position >= rows[0][0]:
                    rows = rows[1:]

    def _known_sound(self, rows: Sequence[Row]) -> list[Entry]:
        """Return the entries of rows checked before; none otherwise."""
        checked_first, checked_last = self.recorder.checked.get(self.key, (0, 0))
        first, last = self.position + 1, self.position + len(rows)
        if (rows[0][0], rows[-1][0]) != (first, last) or first < checked_first or last > checked_last:
            return []
        name, new, decoders = self.name, tuple.__new__, self.decoders
        try:
            found = [
                new(
                    Entry,
                    (
                        name,
                        position,
                        id,
                        EPOCH + time * MICROSECOND,
                        digest.hex(),
                        decoders[topic](state)
                        if erased is None or state
                        else decoders[self._wordless(position)](b""),
                    ),
                )
                for position, id, time, digest, topic, state, _, _, erased in rows
            ]
        except FAULTS:
            return []
        self.position, self.before = found[-1].position, (bytes.fromhex(found[-1].digest),)
        return found

    def _note_checked(self, first: int, last: int) -> None:
        """Remember sound positions of the stream as one run."""
        checked = self.recorder.checked
        # Forgetting costs another check and nothing else.
        if len(checked) >= CHECKED_STREAMS:
            checked.clear()
        begin, end = checked.get(self.key, (first, last))
        # One run a stream: two that do not touch would leave unchecked positions between them.
        touches = first <= end + 1 and begin <= last + 1
        checked[self.key] = (min(begin, first), max(end, last)) if touches else (first, last)

    def sound(self, rows: Sequence[Row]) -> list[Entry]:
        """Return the entries up to the first damaged row."""
        # This loop is what reading costs: nothing in it calls a function of ours.
        name, new, decoders, before = self.name, tuple.__new__, self.decoders, self.before
        previous = next(iter(before), None)
        found: list[Entry] = []
        at = self.position
        try:
            for position, id, time, digest, topic, state, salt, size, erased in rows:
                # A gap, or rows in the wrong order: `_damaged` tells which.
                if position != at + 1:
                    break
                content = sha256(salt + state).digest()
                if erased is not None:
                    # An erased entry has neither: a payload beside the mark was put there afterwards.
                    if salt or (state and not self._is_left(position, topic, state)):
                        break
                    content, topic_, state_ = erased, topic if state else self._wordless(position), state
                else:
                    topic_, state_ = topic, state
                header = f"{position}\n{id}\n{time}\n{topic}\n{len(state) if size is None else size}\n"
                if (
                    # Behind a lost row there is no digest to check against.
                    # `previous` is only one of `before`, so the others are tried for the first row.
                    previous is not None
                    and sha256(previous + header.encode() + content).digest() != digest
                    and (found or all(_chained(other, header, content) != digest for other in before))
                ):
                    break
                event = decoders[topic_](state_)
                found.append(
                    new(Entry, (name, position, id, EPOCH + time * MICROSECOND, digest.hex(), event))
                )
                previous, at = digest, position
        # The rows before it are sound, and the row itself is told as damaged by `_damaged`.
        except FAULTS:
            pass
        if found:
            # Without a digest before them, the entries were read as they stand and not checked.
            if before:
                self._note_checked(self.position + 1, at)
            self.position, self.before = at, (bytes.fromhex(found[-1].digest),)
        return found

    def _wordless(self, position: int) -> str:
        """Return the topic that an entry without words is read with."""
        if self.key not in self._withheld:
            self._withheld[self.key] = self.recorder.erasure.withheld(self.key)
        return WITHHELD if position in self._withheld[self.key] else ERASED

    def _is_left(self, position: int, topic: str, state: bytes) -> bool:
        return topic == SWITCH and self.recorder.erasure.left_hash(self.key, position) == left_hash(state)

    def _damaged(self, row: Row) -> Iterator[Entry]:
        position, id, time, digest, topic, state, salt, size, erased = row
        if not isinstance(position, int) or position <= self.position:
            raise CorruptLogError(
                f"{self.name!r}: expected position {self.position + 1}, found {position!r:.60}"
            )
        if position > self.position + 1:
            yield from self._gap(position)
            return
        self.position = position
        computed: list[bytes] = []
        reason = "its digest is not that of its bytes"
        try:
            content = erased if erased is not None and not (salt or state) else sha256(salt + state).digest()
            length = len(state) if size is None else size
            computed = [chain(one, position, id, time, topic, length, content) for one in self.before]
            if not computed or digest in computed:
                self.decoders[ERASED if erased is not None else topic](b"" if erased is not None else state)
        except FAULTS as error:
            reason = _reason(error)
        # The next entry was chained to this one as it was written. Its stored digest or its bytes may still
        # be those.
        found = [*computed, digest] if isinstance(digest, bytes) and digest not in computed else computed
        # The first is chained from before the damage, the last is stated. Of many, those between go.
        self.before = found if len(found) <= CHAINS else [*found[: CHAINS // 2], *found[-CHAINS // 2 :]]
        yield self._entry(position, reason, id, time, digest)

    def _gap(self, upto: int) -> Iterator[Entry]:
        if upto - self.position > WIDEST_GAP:
            raise CorruptLogError(f"{self.name!r}: expected position {self.position + 1}, found {upto}")
        for position in range(self.position + 1, upto):
            yield self._entry(position, GONE)
        # The digest of the last missing row is lost, so the next row cannot be checked.
        self.position, self.before = upto - 1, ()

    def _one_by_one(self, part: Stream, last: int, error: CorruptLogError) -> Iterator[Entry]:
        """Yield a page's entries read singly, if SQLite cannot read them together."""
        # The index still says where the stream ends, though its rows cannot be read.
        end = min(last, self.recorder.last_position(part))
        if end <= self.position:
            raise error
        # A page at a time: behind the damage, whole pages can be read again.
        for position in range(self.position + 1, min(end, self.position + PAGE_ROWS) + 1):
            try:
                rows = self.recorder.select_events(part, gt=position - 1, lte=position, page=True).rows
            except CorruptLogError as unreadable:
                yield self._unreadable(part, position, unreadable)
                continue
            yield from self._page(rows) if rows else self._gap(position + 1)

    def _unreadable(self, part: Stream, position: int, error: CorruptLogError) -> Entry:
        id, time, digest = "", 0, b""
        with suppress(CorruptLogError):
            id, time, digest = self.recorder.header(part, position) or (id, time, digest)
        self.position, self.before = position, (digest,) if digest else ()
        return self._entry(position, f"it cannot be read: {error}", id, time, digest)

    def _entry(self, position: int, reason: str, id: Any = "", time: Any = 0, digest: Any = b"") -> Entry:
        """Return a damaged entry, with its readable fields."""
        try:
            at = EPOCH + time * MICROSECOND
        except (OverflowError, TypeError):
            at = EPOCH
        return Entry(
            self.name,
            position,
            id if isinstance(id, str) else "",
            at,
            digest.hex() if isinstance(digest, bytes) else "",
            Damaged(reason=reason),
        )


def _chained(previous: bytes, header: str, content: bytes) -> bytes:
    return sha256(previous + header.encode() + content).digest()


def _reason(error: Exception) -> str:
    """Return why a row does not decode, without quoting it."""
    if isinstance(error, StoredDataError):
        return str(error)
    return f"it does not decode ({type(error).__name__})"
