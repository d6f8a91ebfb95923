"""Statements that both databases understand, written once: `{s}.` is the log's schema, `%s` a value."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Generic, TypeAlias, TypeVar

from eventsourcing.persistence import IntegrityError, Tracking

from stenolog.domain import history
from stenolog.domain.errors import ConversationNotFoundError, CorruptLogError, InvalidEventError
from stenolog.domain.history import Newest

from .appends import check_storable
from .values import EVERYWHERE, LAST, Cursor, Segment, Stream

C = TypeVar("C")
Run: TypeAlias = Callable[[C, str, tuple[Any, ...]], Any]
"""A function that executes a statement on a connection and returns the cursor."""
FIND = "SELECT stream FROM {s}.conversations WHERE name = %s"
NAME = "SELECT name FROM {s}.conversations WHERE stream = %s"
STREAMS = "SELECT stream FROM {s}.conversations ORDER BY stream"
FORKS = "SELECT name FROM {s}.conversations WHERE parent = %s ORDER BY stream"
INHERITED = "SELECT 1 FROM {s}.conversations WHERE parent = %s AND fork_position >= %s LIMIT 1"
# With a bound on depth, since in a damaged file a conversation may be its own ancestor.
LINEAGE = """WITH RECURSIVE line (stream, parent, fork_position, depth) AS (
        SELECT stream, parent, fork_position, 0 FROM {s}.conversations WHERE stream = %s
        UNION ALL
        SELECT c.stream, c.parent, c.fork_position, line.depth + 1
        FROM line JOIN {s}.conversations AS c ON c.stream = line.parent
        WHERE line.depth < 10000
    ) SELECT stream, fork_position FROM line ORDER BY depth"""
RENAME = "UPDATE {s}.conversations SET name = %s WHERE stream = %s"
ARCHIVE = "UPDATE {s}.conversations SET archived_at = %s WHERE stream = %s"
HISTORY_COLUMNS = "number, stream, what, value, parent, salt, name, digest, erased"
NEWEST_CHANGE = "SELECT number, digest FROM {s}.history ORDER BY number DESC LIMIT 1"
INSERT_CHANGE = f"""INSERT INTO {{s}}.history ({HISTORY_COLUMNS})
    VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s)"""
NAMED = "SELECT number, salt, name FROM {s}.history WHERE stream = %s AND erased IS NULL AND name <> ''"
UNNAME = "UPDATE {s}.history SET erased = %s, salt = %s, name = '' WHERE number = %s"
LEFT = """SELECT name FROM {s}.history WHERE stream = %s AND what = 'erased' AND value = %s
    ORDER BY number DESC LIMIT 1"""
WITHHELD = "SELECT value FROM {s}.history WHERE stream = %s AND what = 'withheld'"
IMPORTED_RANGE = "SELECT min(parent), max(value) FROM {s}.history WHERE stream = %s AND what = 'imported'"
HOLDS = f"SELECT {HISTORY_COLUMNS} FROM {{s}}.history WHERE what IN ('held', 'kept', 'released')"
HOLDS_OF = f"{HOLDS} AND stream = %s ORDER BY number"
HISTORY_PAGE = f"SELECT {HISTORY_COLUMNS} FROM {{s}}.history WHERE number > %s ORDER BY number LIMIT 1000"
MARK = "SELECT position, piece FROM {s}.tracking WHERE name = %s AND stream = %s"
CURSORS = "SELECT name, stream, position, piece FROM {s}.tracking ORDER BY name, stream"
SET = """INSERT INTO {s}.tracking (name, stream, position, piece) VALUES (%s, %s, %s, %s)
    ON CONFLICT (name, stream) DO UPDATE SET position = excluded.position, piece = excluded.piece"""
FORGET = "DELETE FROM {s}.tracking WHERE name = %s"
# Keeps the library's names apart from those of our own followers in the same table.
APPLICATION = "application:"
"""Before the name of an application that a projection of the library's follows."""
TRACK = f"""INSERT INTO {{s}}.tracking AS t (name, stream, position, piece) VALUES (%s, {EVERYWHERE}, %s, 0)
    ON CONFLICT (name, stream) DO UPDATE SET position = excluded.position
    WHERE t.position < excluded.position"""
DROP_DRAFTS = "DELETE FROM {s}.drafts WHERE fence IN (SELECT fence FROM {s}.claims WHERE stream = %s)"
# Written with an erasure, they tell what is still to be removed from the files beside the log.
STREAM_MARK = "erasing"
BLOB_MARK = "erasing blob "
WITH_ENTRY = """SELECT stream, name FROM {s}.conversations
    WHERE parent = %s AND fork_position >= %s ORDER BY stream"""
MARKED = (STREAM_MARK, f"{BLOB_MARK}%")
PENDING = "SELECT name, stream, position FROM {s}.tracking WHERE name = %s OR name LIKE %s"
UNMARK = "DELETE FROM {s}.tracking WHERE (name = %s OR name LIKE %s) AND position <= %s"


def texts(rows: Iterable[tuple[object]]) -> list[str]:
    """Return stored names. Raises `CorruptLogError` for one that is no text."""
    names = []
    for (name,) in rows:
        if not isinstance(name, str):
            raise CorruptLogError(f"conversations: expected names as text, found {type(name).__name__}")
        names.append(name)
    return names


class SharedRows(Generic[C]):
    """The shared statements; the caller makes the transaction. See the roles for most methods."""

    def __init__(self, run: Run[C], clean: Callable[[str], str | None]) -> None:
        self._run = run
        # A text as the database takes it; None for one that no name in it can be.
        self._clean = clean

    # Conversations

    def find(self, connection: C, name: str) -> int | None:
        text = self._clean(name)
        row = None if text is None else self._run(connection, FIND, (text,)).fetchone()
        return int(row[0]) if row else None

    def name_of(self, connection: C, key: int) -> str | None:
        row = self._run(connection, NAME, (key,)).fetchone()
        return str(row[0]) if row else None

    def streams(self, connection: C) -> list[int]:
        """Return the keys of all conversations."""
        return [int(key) for (key,) in self._run(connection, STREAMS, ()).fetchall()]

    def forks(self, connection: C, key: int) -> list[str]:
        """Return the names of the conversations forked from this one."""
        return texts(self._run(connection, FORKS, (key,)).fetchall())

    def lineage(self, connection: C, key: int, last: int = LAST) -> tuple[Segment, ...]:
        segments: list[Segment] = []
        for ancestor, fork in self._run(connection, LINEAGE, (key,)).fetchall():
            if not isinstance(fork, int | None):
                found = type(fork).__name__
                raise CorruptLogError(f"stream {ancestor}: expected a fork position, found {found}")
            after = min(fork or 0, last)
            segments.append(Segment(ancestor, after, last))
            last = after
        return tuple(reversed(segments))

    def lineage_of(self, connection: C, stream: Stream, last: int) -> tuple[Segment, ...]:
        """Return `lineage` of a stream; one without ancestors is looked up once."""
        if stream.key is None:
            stream.key = self.find(connection, stream.name)
        if stream.key is None:
            return ()
        if stream.alone:
            return (Segment(stream.key, 0, last),)
        found = self.lineage(connection, stream.key, last)
        # A conversation never becomes a fork later.
        stream.alone = len(found) == 1
        return found

    def segments(self, connection: C, stream: Stream, after: int, upto: int) -> list[Segment]:
        """Return the segments with positions after `after`, cut to these."""
        found = self.lineage_of(connection, stream, upto)
        return [Segment(key, max(first, after), last) for key, first, last in found if last > after]

    def is_inherited(self, connection: C, key: int | None, position: int) -> bool:
        return self._run(connection, INHERITED, (key, position)).fetchone() is not None

    def check_exists(self, connection: C, key: int) -> None:
        """Raise `ConversationNotFoundError` if a stream's conversation was deleted."""
        # The history would record a change to a conversation that is not there, as of a damaged log.
        if self.name_of(connection, key) is None:
            raise ConversationNotFoundError(f"stream {key}: the conversation was deleted")

    def rename(self, connection: C, key: int, name: str) -> None:
        check_storable("name", name)
        self.check_exists(connection, key)
        self._run(connection, RENAME, (name, key))
        self.add_change(connection, key, history.RENAMED, name=name)

    def archive(self, connection: C, key: int, at: int | None) -> None:
        self.check_exists(connection, key)
        self._run(connection, ARCHIVE, (at, key))
        self.add_change(connection, key, history.UNARCHIVED if at is None else history.ARCHIVED, value=at)

    # The chain of records over what becomes of conversations

    def newest_change(self, connection: C) -> Newest:
        """Return the end of the history."""
        row = self._run(connection, NEWEST_CHANGE, ()).fetchone()
        return Newest._make(row) if row else history.START

    def add_change(
        self,
        connection: C,
        key: int,
        what: str,
        *,
        value: int | None = 0,
        parent: int | None = 0,
        name: str = "",
    ) -> None:
        """Append a record; the caller's transaction makes the change itself."""
        # Without a salt, the hash of an erased name could be guessed.
        salt = os.urandom(history.SALT_BYTES) if name else b""
        newest = self.newest_change(connection)
        change = history.following(
            newest, key, what, value=value or 0, parent=parent or 0, salt=salt, name=name
        )
        self._run(connection, INSERT_CHANGE, change)

    def note_import(self, connection: C, key: int, first: int, last: int) -> None:
        self.add_change(connection, key, history.IMPORTED, value=last, parent=first)

    def imported(self, connection: C, key: int) -> tuple[int, int]:
        first, last = self._run(connection, IMPORTED_RANGE, (key,)).fetchone() or (0, 0)
        return first or 0, last or 0

    def left_hash(self, connection: C, key: int, position: int) -> str:
        row = self._run(connection, LEFT, (key, position)).fetchone()
        return str(row[0]) if row else ""

    def holds(self, connection: C, stream: int | None = None) -> list[history.Change]:
        """Return the records of holds and releases, or only those on a stream."""
        asked = (f"{HOLDS} ORDER BY number", ()) if stream is None else (HOLDS_OF, (stream,))
        return [*map(history.Change._make, self._run(connection, *asked).fetchall())]

    def note_hold(self, connection: C, asked: history.Change, *, again: bool = False) -> int:
        """Append a hold or a release; return its record's number. `again` as in `track`.

        Raises `InvalidEventError` for a release of no hold, `ConversationNotFoundError`.
        """
        check_storable("hold", asked.name)
        if again:
            for change in reversed(self.holds(connection, asked.stream)):
                if change[1:5] == asked[1:5] and change.name == asked.name:
                    return change.number
        if asked.what == history.RELEASED:
            made = history.holds_of(self.holds(connection, asked.stream))
            if asked.value not in (held.number for held in made if held.released is None):
                raise InvalidEventError(f"expected the number of a hold in force, found {asked.value}")
        elif asked.stream != history.EVERY_STREAM:
            self.check_exists(connection, asked.stream)
        self.add_change(
            connection, asked.stream, asked.what, value=asked.value, parent=asked.parent, name=asked.name
        )
        return self.newest_change(connection).number

    def withheld(self, connection: C, key: int) -> frozenset[int]:
        return frozenset(value for (value,) in self._run(connection, WITHHELD, (key,)).fetchall())

    def erase_name(self, connection: C, key: int) -> None:
        """Erase the names of a conversation that is deleted."""
        for number, salt, name in self._run(connection, NAMED, (key,)).fetchall():
            self._run(connection, UNNAME, (history.hashed(salt, name), b"", number))

    def history_rows(self, connection: C) -> Iterator[tuple[Any, ...]]:
        """Yield the stored records in order, unchecked."""
        last = -1
        while page := self._run(connection, HISTORY_PAGE, (last,)).fetchall():
            yield from page
            last = page[-1][0]
            if not isinstance(last, int):
                raise CorruptLogError("history: expected numbers")

    # Cursors of followers, the library's projections too

    def load_cursor(self, connection: C, name: str, key: int = EVERYWHERE) -> Cursor:
        row = self._run(connection, MARK, (name, key)).fetchone()
        return Cursor(*row) if row else Cursor()

    def save_cursor(self, connection: C, name: str, to: Cursor, key: int = EVERYWHERE) -> None:
        self._run(connection, SET, (name, key, *to))

    def forget(self, connection: C, name: str) -> None:
        """Have a follower begin at the beginning again, everywhere."""
        self._run(connection, FORGET, (name,))

    def cursors(self, connection: C) -> list[tuple[str, int, Cursor]]:
        found = self._run(connection, CURSORS, ()).fetchall()
        return [(name, key, Cursor(*cursor)) for name, key, *cursor in found]

    def track(self, connection: C, tracking: Tracking, *, again: bool = False) -> None:
        """Note a projection's processed notification. Raises `IntegrityError` for an earlier one.

        `again`: an earlier attempt may have noted it.
        """
        name, to = tracking.application_name, tracking.notification_id
        if again and self.tracked(connection, name) == to:
            return
        if self._run(connection, TRACK, (f"{APPLICATION}{name}", to)).rowcount != 1:
            raise IntegrityError(f"{name}: notification {to} was processed before")

    def tracked(self, connection: C, application: str) -> int | None:
        """Return the last notification that an application's projection has processed."""
        row = self._run(connection, MARK, (f"{APPLICATION}{application}", EVERYWHERE)).fetchone()
        return int(row[0]) if row else None

    # Erasures

    def conversations_with(
        self, connection: C, key: int, name: str, position: int
    ) -> Iterator[tuple[int, str]]:
        yield key, name
        for fork, fork_name in self._run(connection, WITH_ENTRY, (key, position)).fetchall():
            yield from self.conversations_with(connection, fork, fork_name, position)

    def drop_drafts(self, connection: C, key: int) -> None:
        self._run(connection, DROP_DRAFTS, (key,))

    def mark_erased(self, connection: C, keys: Iterable[int], shas: Iterable[str]) -> None:
        """Note the streams and blobs whose erased words may be beside the log."""
        # A greater number for each erasure, so that `end_erasures` takes the marks of earlier ones only.
        number = Cursor(self.newest_change(connection).number)
        for key in keys:
            self.save_cursor(connection, STREAM_MARK, number, key)
        for sha in shas:
            self.save_cursor(connection, f"{BLOB_MARK}{sha}", number)

    def unfinished_erasures(self, connection: C) -> tuple[set[int], set[str], int]:
        pending = self._run(connection, PENDING, MARKED).fetchall()
        streams = {stream for name, stream, _ in pending if name == STREAM_MARK}
        named = {name.removeprefix(BLOB_MARK) for name, *_ in pending if name != STREAM_MARK}
        return streams, named, max((number for *_, number in pending), default=0)

    def end_erasures(self, connection: C, upto: int) -> None:
        self._run(connection, UNMARK, (*MARKED, upto))
