"""Tables, their versions, and the check that a file is ours.

A migration is a script from one version to the next; the first creates a file. `history` is part of the log.
Claims, drafts and tracking are in the same file, but never truth.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Mapping

from stenolog.domain.errors import CorruptLogError, NotADatabaseError, UnsupportedVersionError

from . import conversation_rows

# Tells our files from those of other programs, which are never written to.
APPLICATION_ID = 0x53544E4F  # "STNO"
# An append rewrites some five pages, and no length of payload leaves more than half a kilobyte of one
# empty. With 4096 an entry of 2 kB would fill 4 kB where its neighbours are as long. With 512 long
# entries take twice as long to read. The price: where all payloads are of 390 to 490 bytes, an entry
# takes 1075 bytes. That is up to an eighth more than 1.3 times its payload and 450.
PAGE_SIZE = 1024
"""Bytes of a page of the database."""

MIGRATIONS = (
    """
    CREATE TABLE conversations (
        stream INTEGER PRIMARY KEY AUTOINCREMENT,
        name TEXT NOT NULL UNIQUE,
        parent INTEGER REFERENCES conversations (stream),
        fork_position INTEGER,
        archived_at INTEGER
    );
    CREATE INDEX conversations_parent ON conversations (parent) WHERE parent IS NOT NULL;
    CREATE TABLE stored_events (
        rowid INTEGER PRIMARY KEY AUTOINCREMENT,
        originator_id INTEGER NOT NULL REFERENCES conversations (stream),
        originator_version INTEGER NOT NULL,
        entry_id TEXT NOT NULL,
        at INTEGER NOT NULL,
        topic TEXT NOT NULL,
        salt BLOB NOT NULL,
        digest BLOB NOT NULL,
        size INTEGER,
        erased BLOB,
        state BLOB NOT NULL,
        UNIQUE (originator_id, originator_version),
        UNIQUE (originator_id, entry_id)
    );
    CREATE TABLE blobs (
        rowid INTEGER PRIMARY KEY,
        sha256 BLOB NOT NULL UNIQUE,
        bytes BLOB NOT NULL
    );
    """,
    """
    CREATE TABLE claims (
        fence INTEGER PRIMARY KEY AUTOINCREMENT,
        stream INTEGER NOT NULL REFERENCES conversations (stream),
        lane TEXT NOT NULL,
        effect TEXT NOT NULL,
        cause INTEGER NOT NULL,
        attempt INTEGER NOT NULL,
        key TEXT NOT NULL,
        owner TEXT NOT NULL,
        at INTEGER NOT NULL,
        receipt BLOB NOT NULL,
        UNIQUE (stream, lane, effect)
    );
    CREATE TABLE drafts (
        fence INTEGER NOT NULL REFERENCES claims (fence) ON DELETE CASCADE,
        number INTEGER NOT NULL,
        said BLOB NOT NULL,
        PRIMARY KEY (fence, number)
    ) WITHOUT ROWID
    """,
    """
    CREATE TABLE tracking (
        name TEXT NOT NULL,
        stream INTEGER NOT NULL,
        position INTEGER NOT NULL,
        piece INTEGER NOT NULL,
        PRIMARY KEY (name, stream)
    ) WITHOUT ROWID
    """,
    """
    CREATE TABLE history (
        number INTEGER PRIMARY KEY,
        stream INTEGER NOT NULL,
        what TEXT NOT NULL,
        value INTEGER NOT NULL,
        parent INTEGER NOT NULL,
        salt BLOB NOT NULL,
        name TEXT NOT NULL,
        digest BLOB NOT NULL,
        erased BLOB
    );
    CREATE INDEX history_stream ON history (stream);
    CREATE TABLE secret (
        name TEXT PRIMARY KEY,
        bytes BLOB NOT NULL
    ) WITHOUT ROWID;
    INSERT INTO secret VALUES ('sidecars', randomblob(32))
    """,
    # The payloads that are in the file stay as they are; longer ones are compressed from now on.
    "SELECT 1",
    # Ranges that were imported stand in the history from now on.
    "SELECT 1",
)
# A trigger, so that tables that follow the log know each fork at once, whichever program makes it.
INHERIT = f"""CREATE TRIGGER stenolog_inherit AFTER INSERT ON conversations BEGIN
    INSERT INTO stenolog_lineage VALUES (new.stream, new.stream, {2**62});
    INSERT INTO stenolog_lineage SELECT new.stream, stream, min(upto, new.fork_position)
        FROM stenolog_lineage WHERE conversation = new.parent;
    END"""
"""The one trigger that a log may have: it notes from whom a new fork inherits."""
MADE = tuple(each.strip() for script in MIGRATIONS for each in script.split(";") if "CREATE" in each)
"""The statements that make the tables and indexes, as SQLite keeps them."""
# A view, a virtual table or a computed column of such a name could run without end, or give other rows.
ODD = f"""SELECT type, name FROM sqlite_master WHERE (type = 'trigger' AND sql <> ?)
    OR (lower(name) IN ({", ".join(repr(each.split()[2]) for each in MADE)})
        AND rtrim(sql, char(10, 32)) NOT IN ({", ".join("?" * len(MADE))}))
    OR (lower(name) IN ('stenolog_tables', 'stenolog_lineage') AND sql NOT LIKE 'CREATE TABLE %') LIMIT 1"""
"""Finds what could change what is written, or replace a table."""
FILLED: Mapping[int, Callable[[sqlite3.Connection], None]] = {
    4: conversation_rows.fill_history,
    6: conversation_rows.record_imports,
}
"""For each new schema version, the function that computes its new data from the rows in the file."""
VERSION = len(MIGRATIONS)


# SQLite keeps one such number for its users, so it has to hold both.
VERSION_BITS = 0xFF
"""The bits of `user_version` that hold the format's version; those above them hold the file's own id."""


def id_of(connection: sqlite3.Connection) -> int:
    """Return an open file's id; 0 if it has none. A copy by `backup` has another."""
    return _pragma(connection, "user_version") >> 8


def renew(connection: sqlite3.Connection) -> None:
    """Give a file an id and a key of its own."""
    version = _pragma(connection, "user_version") & VERSION_BITS
    # By the id, a write-ahead log of another file can be told from its own.
    connection.execute(f"PRAGMA user_version = {_new_id() | version}")
    # With the key of the original, an owner of the copy could seal files beside the original.
    connection.execute("UPDATE secret SET bytes = randomblob(32)")
    connection.commit()


def _new_id() -> int:
    return (1 + int.from_bytes(os.urandom(4), "big") % (1 << 23 - 1)) << 8


def version_of(connection: sqlite3.Connection, where: str) -> int:
    """Return an open file's schema version, 0 if empty.

    Raises `NotADatabaseError` for another program's database, `UnsupportedVersionError` for a later version.
    """
    application = _pragma(connection, "application_id")
    version = _pragma(connection, "user_version")
    if application == APPLICATION_ID:
        version &= VERSION_BITS
        if version > VERSION:
            raise UnsupportedVersionError(
                f"{where}: written by a later release (file format {version}; this release reads up to "
                f"{VERSION}): upgrade stenolog"
            )
        return version
    # A file without any mark is new only while it has no table.
    if application or version or connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone():
        raise NotADatabaseError(
            f"{where}: expected a stenolog database (application id {APPLICATION_ID:#x}), "
            f"found another program's (application id {application:#x}); of some "
            f"programs the conversations can be imported: stenolog import {where}"
        )
    return 0


def check_schema(connection: sqlite3.Connection, where: str) -> None:
    """Raise `CorruptLogError` for foreign triggers, and for other tables or views in place of ours."""
    if found := connection.execute(ODD, (INHERIT, *MADE)).fetchone():
        what, name = found
        raise CorruptLogError(
            f"{where}: expected the tables of stenolog, and no other trigger, found the {what} {name!r}, "
            "which may change what is written or read. If it is yours, drop it; else do not trust this file"
        )


def migrate(connection: sqlite3.Connection, where: str) -> None:
    """Migrate the file to this version in one transaction; the caller excludes others."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        # Looked up again under the lock: another process may have migrated the file meanwhile.
        found = version_of(connection, where)
        for version, script in enumerate(MIGRATIONS, 1):
            if version <= found:
                continue
            for statement in script.split(";"):
                connection.execute(statement)
            if version in FILLED:
                FILLED[version](connection)
        # Within the transaction: a killed migration leaves neither tables nor marks.
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        id = id_of(connection) << 8 or _new_id()
        connection.execute(f"PRAGMA user_version = {id | VERSION}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _pragma(connection: sqlite3.Connection, name: str) -> int:
    (value,) = connection.execute(f"PRAGMA {name}").fetchone()
    return int(value)
