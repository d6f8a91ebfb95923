"""The history of a log: a chain of records about what is not an entry.

Conversations that were begun, forked, renamed, archived and deleted; entries that were imported, erased, or
withheld by those who exported them; holds, which forbid erasing and deleting, and their releases.

    digest = sha256(previous digest ‖ header ‖ sha256(salt ‖ name))
    header = number, stream, what, value, parent: each as UTF-8 text and ended by a line feed

The previous digest is empty before record 1. When a conversation is deleted, its names and their salts are
erased here; `erased` then holds the sha256 of both.

The head of a log is one digest over its history and the heads of all its conversations:

    head   = sha256(number ‖ newest ‖ digest of the history ‖ heads)
    heads  = stream, position, digest of each conversation, by stream
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from hashlib import sha256
from math import inf
from typing import Final, NamedTuple

from .entry import GENESIS
from .errors import InvalidEventError

ARCHIVED: Final = "archived"
BEGUN: Final = "begun"
DELETED: Final = "deleted"
ERASED: Final = "erased"
FORKED: Final = "forked"
HELD: Final = "held"
IMPORTED: Final = "imported"
KEPT: Final = "kept"
RELEASED: Final = "released"
RENAMED: Final = "renamed"
UNARCHIVED: Final = "unarchived"
WITHHELD: Final = "withheld"
OF_ENTRIES: Final = (ERASED, IMPORTED, WITHHELD)
"""The records of entries, and not of a conversation as a whole."""
EVERY_STREAM: Final = 0
"""The stream of a hold over the whole log."""
HOLDS: Final = (HELD, KEPT, RELEASED)
SALT_BYTES = 16
_HEAD = re.compile(r"([0-9]{1,18})-([0-9]{1,18})-([0-9a-fA-F]{64})")


class Change(NamedTuple):
    """One record of the history.

    `value` is the fork's position, the time of archiving (microseconds since 1970, UTC), the position that
    was erased or came withheld, the last one that was imported, or the log's newest notification id at a
    deletion; else 0. `parent` is the stream forked from, or the first imported position; else 0. `name` of an
    erasure is the sha256 of what it left of the entry (see `erasure.effects_of`), as hexadecimal digits.
    For holds see `Hold`.
    """

    number: int
    stream: int
    what: str
    value: int
    parent: int
    salt: bytes
    name: str
    digest: bytes
    erased: bytes | None = None


class Newest(NamedTuple):
    """The last record's number and digest."""

    number: int
    digest: bytes


START: Final = Newest(0, GENESIS)


class Listed(NamedTuple):
    """A conversation as its row in the table must be."""

    name: str
    parent: int | None
    fork: int | None
    archived_at: int | None = None


class Said(NamedTuple):
    """Author, time (microseconds since 1970, UTC) and reason of a hold or release, on lines of its `name`.

    All are empty once the conversation was deleted.
    """

    by: str
    at: int
    reason: str

    def __str__(self) -> str:
        return f"{self.by}\n{self.at}\n{self.reason}"


class Hold(NamedTuple):
    """A hold on a conversation, or on every one (`EVERY_STREAM`); its number is that of its record.

    It covers entries from `since` to `until` (microseconds since 1970, UTC; 0: no limit), or those younger
    than `age` microseconds.
    """

    number: int
    stream: int
    since: int
    until: int
    age: int
    said: Said
    released: Said | None = None

    @property
    def is_whole(self) -> bool:
        """True if it covers entries of any time."""
        return not (self.since or self.until or self.age)

    def covers(self, at: int, now: int) -> bool:
        """Return whether it covers an entry of that time."""
        if self.age:
            return at > now - self.age
        return (not self.since or self.since <= at) and (not self.until or at <= self.until)

    def __str__(self) -> str:
        return f"hold {self.number} by {self.said.by}: {self.said.reason}"

    def record(self) -> Change:
        """Return its record, without number, salt and digest: see `following`.

        `held` has the first time in `parent` and the last in `value`, `kept` the age in `value`.
        """
        what, value, parent = (KEPT, self.age, 0) if self.age else (HELD, self.until, self.since)
        return Change(0, self.stream, what, value, parent, b"", str(self.said), b"")


def release_of(hold: Hold, said: Said) -> Change:
    """Return the record that releases a hold, as `Hold.record`."""
    return Change(0, hold.stream, RELEASED, hold.number, 0, b"", str(said), b"")


def hold_of(change: Change) -> Hold:
    """Return the hold that a record begins."""
    said = _signed(change.name)
    if change.what == KEPT:
        return Hold(change.number, change.stream, 0, 0, change.value, said)
    return Hold(change.number, change.stream, change.parent, change.value, 0, said)


def holds_of(changes: Iterable[Change]) -> list[Hold]:
    """Return the holds that these records begin, and with them their releases."""
    found: dict[int, Hold] = {}
    for change in changes:
        if change.what == RELEASED and change.value in found:
            found[change.value] = found[change.value]._replace(released=_signed(change.name))
        elif change.what in (HELD, KEPT):
            found[change.number] = hold_of(change)
    return list(found.values())


def _signed(name: str) -> Said:
    by, at, reason = (*name.split("\n", 2), "", "")[:3]
    return Said(by, int(at) if at.isdecimal() else 0, reason)


class LogHead(NamedTuple):
    """The head of a log: the length of its history, its newest notification id, the digest.

    As text `NUMBER-NEWEST-DIGEST`.
    """

    number: int
    newest: int
    digest: str

    def __str__(self) -> str:
        return f"{self.number}-{self.newest}-{self.digest}"


class Published(NamedTuple):
    """A head as it was published: with the end of each stream (position and digest) that it covers.

    With these it stays provable after one of the conversations was deleted.
    """

    head: str
    ends: tuple[tuple[int, int, bytes], ...] = ()


def published(text: str) -> Published:
    """Return a head from its text, or from a line of JSON. Raises `InvalidEventError`."""
    if not text.lstrip().startswith("{"):
        return Published(_checked(text))
    import json  # late: an append needs no JSON of Python's own

    try:
        line = json.loads(text)
        ends = tuple((int(key), int(at), bytes.fromhex(digest)) for key, at, digest in line.get("ends", ()))
        return Published(_checked(str(line["head"])), ends)
    except (KeyError, TypeError, ValueError) as error:
        raise InvalidEventError(f"expected a published head, found {text!r:.60}") from error


def _checked(text: str) -> str:
    if not re.fullmatch(f"{_HEAD.pattern}|[0-9a-f]{{64}}", head := text.strip().lower()):
        raise InvalidEventError(f"expected a head or 64 hexadecimal digits, found {text!r:.60}")
    return head


def parse(text: str) -> LogHead | None:
    """Return the head in a text; None for another digest."""
    found = _HEAD.fullmatch(text.strip())
    return LogHead(int(found[1]), int(found[2]), found[3].lower()) if found else None


def hashed(salt: bytes, name: str) -> bytes:
    """Return the sha256 of a name in the chain, 32 bytes."""
    return sha256(salt + name.encode(errors="surrogatepass")).digest()


def digest_of(previous: bytes, change: Change) -> bytes:
    """Return the digest that a record must have, after `previous`."""
    header = f"{change.number}\n{change.stream}\n{change.what}\n{change.value}\n{change.parent}\n"
    content = hashed(change.salt, change.name) if change.erased is None else change.erased
    if change.erased is not None and (change.salt or change.name):
        # No hash at all: beside a name, the hash of another one would vouch for it.
        content = b""
    if change.erased is None and len(change.salt) != (SALT_BYTES if change.name else 0):
        # With another length of salt, its end could be read as the beginning of another name.
        content = b""
    return sha256(previous + header.encode(errors="surrogatepass") + content).digest()


def following(
    newest: Newest, key: int, what: str, *, value: int = 0, parent: int = 0, salt: bytes = b"", name: str = ""
) -> Change:
    """Return the record after the newest one. A name needs a salt of `SALT_BYTES`."""
    change = Change(newest.number + 1, key, what, value, parent, salt, name, b"")
    return change._replace(digest=digest_of(newest.digest, change))


def log_head(number: int, newest: int, history: bytes, heads: Iterable[tuple[int, int, bytes]]) -> LogHead:
    """Return the head of a log; `heads` are stream, position and digest of each conversation, by stream."""
    total = sha256(f"{number}\n{newest}\n".encode() + history)
    for stream, position, digest in heads:
        total.update(f"{stream}\n{position}\n".encode() + digest)
    return LogHead(number, newest, total.hexdigest())


class Fault(NamedTuple):
    """A record that does not follow from those before it. `stream` 0: the chain itself is broken."""

    number: int
    stream: int
    expected: str
    found: str


class History:
    """The conversations of a log, replayed record by record."""

    def __init__(self) -> None:
        self.number = 0
        self.digest = GENESIS
        self.listed: dict[int, Listed] = {}
        self.gone: set[int] = set()
        self.unnamed: set[int] = set()
        self.erased: dict[tuple[int, int], str] = {}
        self.withheld: set[tuple[int, int]] = set()
        self.came_wordless: set[tuple[int, int]] = set()
        """Those that only an import can explain: withheld ones, and erased ones under a hold."""
        self._importing: list[Change] = []
        self.imported: dict[int, tuple[int, int]] = {}
        self.deleted_up_to = 0
        self.holds: dict[int, Hold] = {}
        self.faults: list[Fault] = []

    def take(self, change: Change) -> None:
        """Replay one record."""
        if change.number != self.number + 1:
            self._fault(change, 0, f"record {self.number + 1}", f"record {change.number}")
        elif (digest := digest_of(self.digest, change)) != change.digest:
            self._fault(change, 0, digest.hex(), change.digest.hex())
        # Goes on from the stored digest, so that one fault is told once.
        self.number, self.digest = change.number, change.digest
        if change.erased is not None:
            self.unnamed.add(change.stream)
        if change.what not in OF_ENTRIES or any(one.stream != change.stream for one in self._importing):
            self._importing = []
        if change.what in (BEGUN, FORKED):
            self._begin(change)
        elif change.what in HOLDS and change.stream == EVERY_STREAM:
            self._take_hold(change)
        elif change.stream not in self.listed:
            self._fault(change, change.stream, "a conversation", f"{change.what}, though there was none")
        else:
            self._change(change, self.listed[change.stream])

    def end(self) -> None:
        """Check the whole history: names are erased only with their conversation."""
        for stream in sorted(self.unnamed & self.listed.keys()):
            self.faults.append(Fault(self.number, stream, "its name", "an erased name"))

    def _begin(self, change: Change) -> None:
        # Numbers of deleted conversations are never used again.
        if change.stream in self.listed or change.stream in self.gone:
            self._fault(change, change.stream, "a new number", "one that was used before")
        fork = (change.parent, change.value) if change.what == FORKED else (None, None)
        self.listed[change.stream] = Listed(change.name, *fork)

    def _change(self, change: Change, before: Listed) -> None:
        match change.what:
            case "renamed":
                self.listed[change.stream] = before._replace(name=change.name)
            case "archived":
                self.listed[change.stream] = before._replace(archived_at=change.value)
            case "unarchived":
                self.listed[change.stream] = before._replace(archived_at=None)
            case "deleted":
                if held := self._forbids(change.stream):
                    self._fault(change, change.stream, f"hold {held.number} to forbid it", "a deletion")
                del self.listed[change.stream]
                self.gone.add(change.stream)
                self.deleted_up_to = max(self.deleted_up_to, change.value)
            case "erased":
                if held := self._forbids(change.stream, change.value):
                    self._come(change, f"hold {held.number} to forbid it")
                # Of another record, what is left of the entry would be what somebody put there later.
                if (
                    left := self.erased.setdefault((change.stream, change.value), change.name)
                ) != change.name:
                    self._fault(change, change.stream, left or "nothing left of it", change.name or "nothing")
            case "withheld":
                if self._come(change, "an import with this entry just before"):
                    self.withheld.add((change.stream, change.value))
            case "imported":
                self._importing.append(change)
                first, last = self.imported.get(change.stream, (change.parent, change.value))
                # One range a stream: entries between two imports count as imported.
                self.imported[change.stream] = min(first, change.parent), max(last, change.value)
            case what if what in HOLDS:
                self._take_hold(change)
            case _:
                self._fault(change, change.stream, "a change that this release knows", change.what)

    def _take_hold(self, change: Change) -> None:
        if change.what != RELEASED:
            self.holds[change.number] = hold_of(change)
        elif (held := self.holds.pop(change.value, None)) is None or held.stream != change.stream:
            self._fault(change, change.stream, "a hold to release", f"none of number {change.value}")

    def _come(self, change: Change, expected: str) -> bool:
        """Take an entry that came without its words. Return whether the import just before has it."""
        if has_come := any(one.parent <= change.value <= one.value for one in self._importing):
            self.came_wordless.add((change.stream, change.value))
        else:
            self._fault(change, change.stream, expected, f"entry {change.value} {change.what}")
        return has_come

    def _forbids(self, stream: int, position: float = inf) -> Hold | None:
        """Return a hold that forbids to erase an entry, or to delete, whatever the times of the entries."""
        on = {EVERY_STREAM, *self._lineage(stream)}
        for held in self.holds.values():
            if held.is_whole and (held.stream in on or position <= self._lineage(held.stream).get(stream, 0)):
                return held
        return None

    def _lineage(self, stream: int | None) -> dict[int, float]:
        """Return a stream and what it was forked from, each with the last position that it has of it."""
        found, upto = dict[int, float](), inf
        while stream is not None and stream not in found:
            found[stream] = upto
            listed = self.listed.get(stream)
            stream, upto = (listed.parent, min(upto, listed.fork or 0)) if listed else (None, upto)
        return found

    def _fault(self, change: Change, stream: int, expected: str, found: str) -> None:
        self.faults.append(Fault(change.number, stream, expected, found))


def differences(told: Mapping[int, Listed], rows: Mapping[int, Listed]) -> Iterable[Fault]:
    """Yield the differences between the table of conversations and the history."""
    for stream in sorted({*told, *rows}):
        expected, found = told.get(stream), rows.get(stream)
        if expected != found:
            yield Fault(0, stream, _listing(expected), _listing(found))


def _listing(listed: Listed | None) -> str:
    if listed is None:
        return "no conversation"
    fork = f", forked from stream {listed.parent} at {listed.fork}" if listed.parent is not None else ""
    archived = f", archived at {listed.archived_at}" if listed.archived_at is not None else ""
    return f"{listed.name!r}{fork}{archived}"
