"""A note of the durable head beside the log, so that a log with losses is refused.

After each commit, the holder of the lock file's lock writes the newest history record, entry and claim into
it. With `synchronous="normal"` nothing is noted.
"""

# SQLite takes a damaged or missing write-ahead log for a shorter one, and an older copy for the log itself.
# The note needs no `fsync`: it is written once the commit that it tells of has reached the disk. A power cut
# leaves an older note at worst, and a log may always be longer than its note. With "normal" a commit may
# return before it has reached the disk: a note could be ahead of the log.

from __future__ import annotations

import os
import sqlite3
import struct
from contextlib import closing, suppress
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

from stenolog.adapters.store.sqlite.errors import RAISED
from stenolog.adapters.store.sqlite.file_locks import FileLock
from stenolog.adapters.store.sqlite.statements import schema
from stenolog.domain.errors import CorruptLogError
from stenolog.domain.history import DELETED

MAGIC = b"stenolog note 1\n"
FORM = struct.Struct("<16sQQ32sQ32sQ")
SUM = struct.Struct("<I")
# 116 bytes lie within one sector of any disk, so a note is written whole or not at all.
SIZE = FORM.size + SUM.size
"""Bytes of a note."""
NEWEST = """SELECT
    (SELECT max(number) FROM history),
    (SELECT digest FROM history ORDER BY number DESC LIMIT 1),
    (SELECT max(rowid) FROM stored_events),
    (SELECT digest FROM stored_events ORDER BY rowid DESC LIMIT 1),
    (SELECT seq FROM sqlite_sequence WHERE name = 'claims')"""
# The last column: a noted entry may be gone because its conversation was deleted since.
STANDS = """SELECT
    (SELECT digest FROM history WHERE number = ?),
    (SELECT digest FROM stored_events WHERE rowid = ?),
    EXISTS (SELECT 1 FROM history WHERE what = ? AND value >= ?)"""
"""The digests of a record and of an entry; whether a conversation was deleted since."""
ADVICE = (
    "To go back to a backup, use `stenolog db restore`. To go on with what is there now, and give up the "
    "rest, delete {lock}"
)


class DurableHead(NamedTuple):
    """The newest history record, entry (by notification id), and claim.

    `file` is the database file's id (see `schema.id_of`). If only entries were committed since, record and
    claim may be older: a log with the newest entry has all earlier commits.
    """

    file: int
    record: int
    record_digest: bytes
    entry: int
    entry_digest: bytes
    claim: int


NONE_YET = DurableHead(0, 0, b"", 0, b"", 0)


def newest(connection: sqlite3.Connection, file: int) -> DurableHead:
    """Return the note of the log's current head."""
    record, record_digest, entry, entry_digest, claim = connection.execute(NEWEST).fetchone()
    return DurableHead(file, record or 0, record_digest or b"", entry or 0, entry_digest or b"", claim or 0)


def packed(note: DurableHead) -> bytes:
    """Return the note as it is written."""
    content = FORM.pack(MAGIC, *note)
    return content + SUM.pack(crc32(content))


def write(lock: FileLock | None, note: DurableHead) -> None:
    """Write the note into the lock file, whose lock the caller holds. Raises nothing."""
    # A failure leaves the older note, which is never wrong. An odd digest is for `check log`.
    try:
        if lock:
            lock.write(packed(note))
    except (OSError, struct.error):
        return


def parse(content: bytes) -> DurableHead | None:
    """Return the note; None if missing or incomplete."""
    if len(content) < SIZE:
        return None
    magic, *fields = FORM.unpack_from(content)
    whole = magic == MAGIC and SUM.unpack_from(content, FORM.size) == (crc32(content[: FORM.size]),)
    return DurableHead(*fields) if whole else None


def read(path: str) -> DurableHead | None:
    """Return the note beside the database file; None if there is none."""
    try:
        with open(f"{path}-lock", "rb") as file:
            return parse(file.read(SIZE))
    except OSError:
        return None


def forget(path: str | os.PathLike[str]) -> None:
    """Remove a database file's note after another file replaced it on purpose."""
    with suppress(OSError):
        file = os.open(f"{os.fspath(path)}-lock", os.O_RDWR)
        try:
            os.ftruncate(file, 0)
            # On the disk before the restore is done: a power cut must not bring the old note back.
            os.fsync(file)
        finally:
            os.close(file)


def check_files(path: str) -> DurableHead | None:
    """Check the files before SQLite opens them; return the note.

    Raises `CorruptLogError` for an empty file, and for a write-ahead log of another file.
    """
    note = read(path)
    if note is None:
        return None
    written_ahead = _size(f"{path}-wal")
    if not os.path.exists(path) and not written_ahead:
        # The log was removed on purpose, since its write-ahead log is gone as well: a new one begins.
        forget(path)
        return None
    # SQLite would take an empty file for a new log.
    if not _size(path):
        raise lost(
            path, note, "an empty file" if os.path.exists(path) else "no file, only its write-ahead log"
        )
    # SQLite would replay a foreign write-ahead log into the file as soon as it opens it.
    if written_ahead:
        _check_unopened(path, note)
    return note


def _check_unopened(path: str, note: DurableHead) -> None:
    """Check a log with a write-ahead log, by connections that change neither."""
    uri = Path(path).as_uri()
    # `immutable` has SQLite read the file alone, without its write-ahead log. A file that cannot be read
    # so is left to the errors of the real opening.
    with suppress(*RAISED), closing(sqlite3.connect(f"{uri}?immutable=1", uri=True)) as connection:
        file = schema.id_of(connection)
        if file and note.file and file != note.file:
            raise CorruptLogError(
                f"{path}: expected the database file that {path}-wal belongs to, found another one, such as "
                "a backup copied over it. Nothing was changed. To put a backup in the log's place, use "
                f"`stenolog db restore`; by hand, remove {path}-wal, {path}-shm and {path}-lock first"
            )
    with suppress(*RAISED), closing(sqlite3.connect(f"{uri}?mode=ro", uri=True)) as connection:
        schema.check_schema(connection, path)
        # A connection that only reads does not checkpoint the write-ahead log when it is closed.
        check(path, connection, note)


def check(path: str, connection: sqlite3.Connection, note: DurableHead) -> None:
    """Raise `CorruptLogError` if the log is shorter than its note, or another one."""
    if found := missing(connection, note):
        raise lost(path, note, found)


def lost(path: str, note: DurableHead, found: str) -> CorruptLogError:
    """Return the error of a log with losses."""
    advice = ADVICE.format(lock=f"{path}-lock")
    return CorruptLogError(
        f"{path}: expected {in_words(note)} (noted in {path}-lock), found {found}. The file or its "
        f"write-ahead log ({path}-wal) was damaged, removed or replaced by an older copy. {advice}"
    )


def in_words(note: DurableHead) -> str:
    """Return the note in words."""
    return f"a log up to entry {note.entry} and record {note.record} of its history"


def missing(connection: sqlite3.Connection, note: DurableHead) -> str:
    """Return the entry found instead of a noted one; empty if all are there."""
    try:
        now = newest(connection, note.file)
        asked = (note.record, note.entry, DELETED, note.entry)
        record, entry, deleted = connection.execute(STANDS, asked).fetchone()
    except sqlite3.OperationalError as error:
        if "no such table" in str(error):
            return "a file without these tables"
        raise
    if now.record < note.record:
        return f"record {now.record} as the last of its history, and entry {now.entry} as the last"
    if note.record and record != note.record_digest:
        return f"another record {note.record}: the history of another log"
    # An entry may be gone because its conversation was deleted: the history says so.
    if entry is None and note.entry and not deleted:
        return f"entry {now.entry} as the last"
    if entry is not None and entry != note.entry_digest:
        return f"another entry {note.entry}"
    if now.claim < note.claim:
        return f"claim {now.claim} as the last where claim {note.claim} was noted"
    return ""


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0
