"""Is the log what was written? Every digest, link, payload, blob and checkpoint, worked out anew.

Finds edits, bit rot, reordering and holes. A cut tail, or a chain that was recomputed as a whole, it
cannot find by itself: give it a head digest that was kept elsewhere.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import chain

from stenolog.adapters.log import Conversation, Log
from stenolog.adapters.store import durable_head, integrity, reader
from stenolog.adapters.store.errors import RAISED
from stenolog.adapters.store.integrity import ConversationRow
from stenolog.domain.errors import StenologError

from . import bookmarks, history
from .one_conversation import Check, Forks, Watch
from .parallel import cores, run_in_processes
from .report import Findings, Problem, Report, of_file

TOGETHER = 16
"""So many conversations are a task."""
WORTH = 100_000
"""More entries are worth another process: that takes as long to start as to check some of them."""


def verify(
    subject: Log | Conversation,
    *,
    head: str | None = None,
    watch: Watch | None = None,
    jobs: int | None = 1,
) -> Report:
    """Check a conversation, or a whole log with its file and its blobs.

    `head` is a digest kept elsewhere, which must stand somewhere in what is checked; or, for a whole log, the
    `head` of an earlier report, which must be that of the log at that time. `watch` is given the
    entries of one conversation, or the conversations of a log, to pass on, with a label and their number
    where it is known: it may show progress. `jobs` is a number of processes that check conversations side by
    side; None takes one for each processor, where that pays. What is damaged is reported, never raised.
    """
    log = subject if isinstance(subject, Log) else subject.log
    only = None if isinstance(subject, Log) else subject.name
    found = Findings(head.lower() if head else None)
    with integrity.inspecting(log.datastore) as connection:
        if only is None:
            found.problems += [of_file(fault) for fault in integrity.integrity_errors(connection)]
            _check_note(log, connection, found)
        try:
            held = [one for one in integrity.conversations(connection) if only in (None, one.name)]
            if len(held) == 1:
                forks = None if only is not None else Forks(held)
                _run(Check(log, connection, held[0], found, watch, forks=forks))
            else:
                if jobs is None:
                    jobs = cores() if reader.newest(connection) > WORTH else 1
                parts: Iterable[Findings] = _each(log, connection, held, found.head, jobs)
                for part in watch(parts, "verifying", len(held)) if watch else parts:
                    found.add(part)
            history.check(connection, found, only)
            _check_blobs(connection, found, everything=only is None)
        except RAISED as error:
            found.problems.append(of_file(str(error)))
    if only is None:
        _check_index(log, found)
    return found.report()


def _check_note(log: Log, connection: sqlite3.Connection, found: Findings) -> None:
    """Compare the log with the note beside it of what is durable."""
    note = None if log.datastore.in_memory else durable_head.read(log.datastore.file)
    with suppress(*RAISED):  # reported already, by `inspecting.integrity_errors`
        if note is not None and (there := durable_head.missing(connection, note)):
            found.problems.append(Problem("", 0, "", "noted", durable_head.in_words(note), there))


def _each(
    log: Log, connection: sqlite3.Connection, held: Sequence[ConversationRow], head: str | None, jobs: int
) -> Iterator[Findings]:
    """Yield the findings on each of the conversations."""
    if jobs < 2 or log.datastore.in_memory:
        forks = Forks(held)
        return (_in_one(log, connection, one, head, forks) for one in held)
    tasks = (held[first : first + TOGETHER] for first in range(0, len(held), TOGETHER))
    return chain.from_iterable(run_in_processes(log, partial(_in_some, head), tasks, jobs))


def _in_some(head: str | None, log: Log, task: Sequence[ConversationRow]) -> list[Findings]:
    forks = Forks(task)
    with integrity.inspecting(log.datastore) as connection:
        return [_in_one(log, connection, one, head, forks) for one in task]


def _in_one(
    log: Log, connection: sqlite3.Connection, held: ConversationRow, head: str | None, forks: Forks
) -> Findings:
    found = Findings(head)
    _run(Check(log, connection, held, found, None, forks=forks))
    return found


def _run(check: Check) -> None:
    """Check one conversation. Whatever its rows hold is a problem of the conversation, never an error."""
    try:
        check.run()
        bookmarks.check(check.log, check.connection, check.held, check.found)
    except (StenologError, TypeError, ValueError, OverflowError) as error:
        expected = "rows that can be checked"
        check.found.problems.append(
            Problem(check.held.name, check.position, "", "unreadable", expected, str(error))
        )


def _check_index(log: Log, found: Findings) -> None:
    """An index that has other words than the log is no problem of the log, and it is made anew."""
    from stenolog.adapters.search import checking  # late: most logs have none

    if not checking.check(log):
        found.notes.append("the search index was damaged and is deleted: the next search makes it anew")


def _check_blobs(connection: sqlite3.Connection, found: Findings, *, everything: bool) -> None:
    """Every blob that is named must be there and whole; with `everything`, every blob that is there too."""
    whole = dict(integrity.blobs(connection) if everything or found.named_blobs else ())
    found.blobs = len(whole)
    for sha, (conversation, position, pointer) in found.named_blobs.items():
        if not whole.pop(sha, False):
            problem = Problem(conversation, position, pointer, "blob", sha, "no such blob, or a damaged one")
            found.problems.append(problem)
    for sha, sound in whole.items():
        if not sound:
            found.problems.append(Problem("", 0, f"/blobs/{sha}", "blob", sha, "other bytes"))
