"""Check the history of a log: its chain, the table of conversations against it, and the head of the log."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence

from stenolog.adapters.store import event_rows, integrity, reader
from stenolog.adapters.store.integrity import ConversationRow, DamagedRow
from stenolog.domain.history import Fault, History, Listed, LogHead, differences, log_head, parse

from .report import Code, Findings, Problem

SEQUENCE = "SELECT seq FROM sqlite_sequence WHERE name = 'stored_events'"
"""The newest notification id that was ever given."""


def check(connection: sqlite3.Connection, found: Findings, only: str | None = None) -> None:
    """Check the names of conversations; of one conversation, its own. Of a whole log, its head too."""
    connection.execute("BEGIN")  # one look at all of it: others may be appending
    try:
        _check(connection, found, only)
    finally:
        connection.execute("COMMIT")


def _check(connection: sqlite3.Connection, found: Findings, only: str | None) -> None:
    kept = parse(found.head) if found.head and only is None else None
    held = integrity.conversations(connection)
    newest = reader.newest(connection)
    history = History()
    then = (history.digest, dict(history.listed)) if kept is not None and not kept.number else None
    unreadable = False
    for record in integrity.history(connection):
        if isinstance(record, DamagedRow):
            found.problems.append(_problem("", record.pointer, record.expected, record.found))
            unreadable = True
            break
        history.take(record)
        if kept is not None and history.number == kept.number:
            then = history.digest, dict(history.listed)
    history.end()
    _compare(held, history, found, only, whole=not unreadable)
    if only is None and not unreadable:
        _check_newest(connection, history, newest, found)
        head = _head(connection, history.number, newest, history.digest, history.listed)
        found.log_head = str(head)
    if kept is not None:
        found.head_seen = True
        _check_head(connection, kept, then, history, newest, found)


def _check_newest(connection: sqlite3.Connection, history: History, newest: int, found: Findings) -> None:
    """Check that the last entries are there, unless they were deleted with their conversation."""
    row = connection.execute(SEQUENCE).fetchone()
    given = row[0] if row else 0
    if given != newest and not (isinstance(given, int) and newest < given <= history.deleted_up_to):
        found.problems.append(
            _problem("", "/stored_events", f"entry {given} as the newest", f"entry {newest}")
        )


def _compare(
    held: Sequence[ConversationRow], history: History, found: Findings, only: str | None, *, whole: bool
) -> None:
    """Compare the table of conversations with what the history tells."""
    rows = {one.stream: Listed(one.name, one.parent, _fork(one), one.archived_at) for one in held}
    names = {stream: listed.name for stream, listed in {**history.listed, **rows}.items()}
    differing = list(differences(history.listed, rows)) if whole else []
    for fault in (*history.faults, *differing):
        name = names.get(fault.stream, "")
        if only is None or not fault.stream or name == only:
            found.problems.append(_problem(name, _pointer(fault), fault.expected, fault.found))


def _fork(held: ConversationRow) -> int | None:
    return None if held.parent is None and not held.fork else held.fork


def _pointer(fault: Fault) -> str:
    return f"/history/{fault.number}" if fault.number else f"/conversations/{fault.stream}"


def _check_head(
    connection: sqlite3.Connection,
    kept: LogHead,
    then: tuple[bytes, dict[int, Listed]] | None,
    history: History,
    newest: int,
    found: Findings,
) -> None:
    """Work out the head of the log as it stood when it was kept, and compare."""
    if then is None:
        there = f"a history of {history.number} records, and no record {kept.number}"
        found.problems.append(_problem("", "/head", str(kept), there, "head"))
        return
    digest, listed = then
    gone = sorted(listed.keys() - history.listed.keys())
    if gone:
        there = f"not provable: conversation {gone[0]} was deleted since; keep the head of today"
        found.problems.append(_problem("", "/head", str(kept), there, "head"))
        return
    head = _head(connection, kept.number, kept.newest, digest, listed)
    if newest < kept.newest or head != kept:
        found.problems.append(_problem("", "/head", str(kept), str(head), "head"))


def _head(
    connection: sqlite3.Connection, number: int, newest: int, digest: bytes, streams: Iterable[int]
) -> LogHead:
    """Return the head of the log when its newest entry had this notification id."""
    heads = ((stream, *(event_rows.head_until(connection, stream, newest))) for stream in sorted(streams))
    return log_head(number, newest, digest, heads)


def _problem(name: str, pointer: str, expected: str, found: str, code: Code = "history") -> Problem:
    return Problem(name, 0, pointer, code, expected, found)
