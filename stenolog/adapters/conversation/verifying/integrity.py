"""Integrity of a log: digests, links, payloads and checkpoints recomputed; also before a restore.

Finds edits, bit rot, reordering and gaps. A truncated end, or a chain recomputed as a whole, needs a head
digest kept elsewhere.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from glob import escape, glob
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from stenolog.adapters.conversation.log import Conversation, Log
from stenolog.adapters.conversation.log import open as open_log
from stenolog.adapters.store.contract.inspection import ConversationRow, DamagedRow, Inspection
from stenolog.adapters.store.contract.values import DEADLINE
from stenolog.adapters.store.repair import restoring
from stenolog.adapters.store.sqlite import copies
from stenolog.domain import errors
from stenolog.domain.entry import Record
from stenolog.domain.history import Fault, History, Listed, LogHead, differences, log_head, parse, published

from .one_conversation import Check, Forks, Watch
from .parallel import cores, run_in_processes
from .report import Code, Findings, Problem, Report, of_file

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
    """Check a conversation, or a whole log with its file and blobs.

    `head` is a digest kept elsewhere, which must be in what is checked; or, for a whole log, an earlier
    report's `head`; or a line that `check log --publish` printed. `watch` gets an iterable of entries or
    conversations, with a label and their number if known, and may show progress. `jobs` is a number of
    processes; None: one per processor, if worthwhile. Raises `InvalidEventError` for a line that is no head;
    damage is reported, never raised.
    """
    log = subject if isinstance(subject, Log) else subject.log
    only = None if isinstance(subject, Log) else subject.name
    kept = None if head is None else published(head)
    found = Findings(kept.head if kept else None, kept.ends if kept else ())
    with log.recorder.inspect() as inspection:
        found.problems += [of_file(fault) for fault in inspection.schema_errors()]
        if only is None:
            found.problems += [of_file(fault) for fault in inspection.errors()]
            _check_note(inspection, found)
        try:
            held = [one for one in inspection.conversations() if only in (None, one.name)]
            if len(held) == 1:
                forks = None if only is not None else Forks(held)
                _run(Check(log, inspection, held[0], found, watch, forks=forks))
            else:
                if jobs is None:
                    jobs = cores() if inspection.newest() > WORTH else 1
                parts: Iterable[Findings] = _each(log, inspection, held, found.head, jobs)
                for part in watch(parts, "verifying", len(held)) if watch else parts:
                    found.add(part)
            check_history(inspection, found, only)
            _check_blobs(inspection, found, everything=only is None)
        except inspection.failures as error:
            found.problems.append(of_file(str(error)))
    if only is None:
        _check_index(log, found)
    return found.report()


def _check_note(inspection: Inspection, found: Findings) -> None:
    with suppress(*inspection.failures):  # reported already, by `Inspection.errors`
        if lost := inspection.lost():
            found.problems.append(Problem("", 0, "", "noted", *lost))


def _each(
    log: Log, inspection: Inspection, held: Sequence[ConversationRow], head: str | None, jobs: int
) -> Iterator[Findings]:
    if jobs < 2 or log.recorder.is_private:
        forks = Forks(held)
        return (_in_one(log, inspection, one, head, forks) for one in held)
    tasks = (held[first : first + TOGETHER] for first in range(0, len(held), TOGETHER))
    return chain.from_iterable(run_in_processes(log, partial(_in_some, head), tasks, jobs))


def _in_some(head: str | None, log: Log, task: Sequence[ConversationRow]) -> list[Findings]:
    forks = Forks(task)
    with log.recorder.inspect() as inspection:
        return [_in_one(log, inspection, one, head, forks) for one in task]


def _in_one(
    log: Log, inspection: Inspection, held: ConversationRow, head: str | None, forks: Forks
) -> Findings:
    found = Findings(head)
    _run(Check(log, inspection, held, found, None, forks=forks))
    return found


def _run(check: Check) -> None:
    """Check one conversation. Whatever its rows hold is its problem, never an error."""
    try:
        check.run()
    # Others were in the way, or the server went away: the log is not at fault.
    except errors.StoreTimeoutError:
        raise
    except (errors.StenologError, TypeError, ValueError, OverflowError) as error:
        expected = "rows that can be checked"
        check.found.problems.append(
            Problem(check.held.name, check.position, "", "unreadable", expected, str(error))
        )


def _check_index(log: Log, found: Findings) -> None:
    from stenolog.adapters.conversation.search import indexing  # late: most logs have none

    if not indexing.check_index(log):
        found.notes.append("the search index was damaged and is deleted: the next search makes it anew")


def _check_blobs(inspection: Inspection, found: Findings, *, everything: bool) -> None:
    whole = dict(inspection.blobs() if everything or found.named_blobs or found.kept_blobs else ())
    found.blobs = len(whole)
    gone = Counter(place for sha, place in found.kept_blobs.items() if sha not in whole)
    for (name, position), number in gone.items():
        what = "1 piece of the kept file is" if number == 1 else f"{number} pieces of the kept file are"
        found.notes.append(f"{name!r} at position {position}: {what} not there, as after an erasure")
    for sha, (conversation, position, pointer) in found.named_blobs.items():
        if not whole.pop(sha, False):
            problem = Problem(conversation, position, pointer, "blob", sha, "no such blob, or a damaged one")
            found.problems.append(problem)
    for sha, sound in whole.items():
        if not sound:
            found.problems.append(Problem("", 0, f"/blobs/{sha}", "blob", sha, "other bytes"))


def check_history(inspection: Inspection, found: Findings, only: str | None = None) -> None:
    """Check conversations' names; for one conversation, its own. For a whole log, its head too."""
    with inspection.at_one_moment():
        _check(inspection, found, only)


def _check(inspection: Inspection, found: Findings, only: str | None) -> None:
    kept = parse(found.head) if found.head and only is None else None
    held = inspection.conversations()
    newest = inspection.newest()
    history = History()
    then = (history.digest, dict(history.listed)) if kept is not None and not kept.number else None
    erased_then: set[tuple[int, int]] = set()
    holds_then: set[int] = set()
    came_then: set[tuple[int, int]] = set()
    unreadable = False
    for record in inspection.history():
        if isinstance(record, DamagedRow):
            found.problems.append(_problem("", record.pointer, record.expected, record.found))
            unreadable = True
            break
        history.take(record)
        if kept is not None and history.number == kept.number:
            then, erased_then = (history.digest, dict(history.listed)), set(history.erased)
            holds_then, came_then = set(history.holds), set(history.came_wordless)
    history.end()
    _compare(held, history, found, only, whole=not unreadable)
    if not unreadable:
        _compare_erasures(inspection, history, found, only)
    if only is None and not unreadable:
        _check_newest(inspection, history, newest, found)
        found.ends = _ends(inspection, newest, history.listed)
        found.log_head = str(log_head(history.number, newest, history.digest, found.ends))
    if kept is not None:
        found.head_seen = True
        found.notes += [
            f"{history.listed[stream].name!r} at position {position}: erased since that head"
            for stream, position in sorted(history.erased.keys() - erased_then)
            if stream in history.listed
        ]
        found.notes += [
            f"hold {number} was released since that head"
            for number in sorted(holds_then - history.holds.keys())
        ]
        _check_came(inspection, kept, history, came_then, found)
        _check_head(inspection, kept, then, history, newest, found)


def _check_came(
    inspection: Inspection, kept: LogHead, history: History, then: set[tuple[int, int]], found: Findings
) -> None:
    """Check that no entry that the kept head covers is said to have come without its words since."""
    names = {key: listed.name for key, listed in history.listed.items()}
    for stream, position in sorted(history.came_wordless - then):
        (head,) = inspection.heads_until([stream], kept.newest)
        if stream in names and position <= head.position:
            expected = "the words that it had at that head"
            found.problems.append(_not_erased(names, (stream, position), expected, "an import without them"))


def _check_newest(inspection: Inspection, history: History, newest: int, found: Findings) -> None:
    """Check that the last entries exist, unless deleted with their conversation."""
    given = inspection.newest_given()
    if given != newest and not (isinstance(given, int) and newest < given <= history.deleted_up_to):
        found.problems.append(
            _problem("", "/stored_events", f"entry {given} as the newest", f"entry {newest}")
        )


def _compare(
    held: Sequence[ConversationRow], history: History, found: Findings, only: str | None, *, whole: bool
) -> None:
    rows = {one.key: Listed(one.name, one.parent, _fork(one), one.archived_at) for one in held}
    names = {key: listed.name for key, listed in {**history.listed, **rows}.items()}
    differing = list(differences(history.listed, rows)) if whole else []
    for fault in (*history.faults, *differing):
        name = names.get(fault.stream, "")
        if only is None or not fault.stream or name == only:
            found.problems.append(_problem(name, _pointer(fault), fault.expected, fault.found))


def _compare_erasures(inspection: Inspection, history: History, found: Findings, only: str | None) -> None:
    names = {key: listed.name for key, listed in history.listed.items()}
    for place, left in sorted(found.erased.items()):
        recorded = "" if place in history.withheld else history.erased.get(place)
        if recorded is None and not left and place in found.told_erased:
            # An import or a salvage by an earlier release made no record.
            name, position = names.get(place[0], ""), place[1]
            found.notes.append(f"{name!r} at position {position}: erased, as a later entry alone says")
        elif recorded != left:
            expected = "a record of its erasure" if recorded is None else "what its record left of it"
            found.problems.append(_not_erased(names, place, expected, left or "nothing left of it"))
    for stream, position in sorted((history.erased.keys() | history.withheld) - found.erased.keys()):
        if stream not in names or only not in (None, names[stream]):
            continue
        expected = "an erased entry" if (stream, position) in history.erased else "a withheld entry"
        # Of a record before its entry, nobody could tell that the entry was erased after a head.
        actual = "no entry"
        for record in inspection.records(stream, position - 1, position):
            actual = "words in their place" if isinstance(record, Record) and record.erased is None else ""
        if actual:
            found.problems.append(_not_erased(names, (stream, position), expected, actual))


def _not_erased(names: Mapping[int, str], place: tuple[int, int], expected: str, actual: str) -> Problem:
    stream, position = place
    return Problem(names.get(stream, ""), position, "/event", "erased", expected, actual)


def _fork(held: ConversationRow) -> int | None:
    return None if held.parent is None and not held.fork else held.fork


def _pointer(fault: Fault) -> str:
    return f"/history/{fault.number}" if fault.number else f"/conversations/{fault.stream}"


def _check_head(
    inspection: Inspection,
    kept: LogHead,
    then: tuple[bytes, dict[int, Listed]] | None,
    history: History,
    newest: int,
    found: Findings,
) -> None:
    """Compute the log's head at the noted moment, and compare."""
    if then is None:
        actual = f"a history of {history.number} records, and no record {kept.number}"
        found.problems.append(_problem("", "/head", str(kept), actual, "head"))
        return
    digest, listed = then
    gone = sorted(listed.keys() - history.listed.keys())
    if gone and found.published:
        found.notes += [f"conversation {stream} was deleted since that head" for stream in gone]
    elif gone:
        actual = f"not provable: conversation {gone[0]} was deleted since; keep the head of today"
        found.problems.append(_problem("", "/head", str(kept), actual, "head"))
        return
    ends = _ends(inspection, kept.newest, listed.keys() & history.listed.keys())
    ends += [end for end in found.published if end[0] in gone]
    head = log_head(kept.number, kept.newest, digest, sorted(ends))
    if newest < kept.newest or head != kept:
        found.problems.append(_problem("", "/head", str(kept), str(head), "head"))


def _ends(inspection: Inspection, newest: int, keys: Iterable[int]) -> list[tuple[int, int, bytes]]:
    """Return the ends of streams when the log's newest entry had this notification id."""
    streams = sorted(keys)
    heads = zip(streams, inspection.heads_until(streams, newest), strict=True)
    return [(key, *head) for key, head in heads]


def _problem(name: str, pointer: str, expected: str, found: str, code: Code = "history") -> Problem:
    return Problem(name, 0, pointer, code, expected, found)


class Restored(NamedTuple):
    """A restored log: conversations, entries, and where the previous files went."""

    path: str
    conversations: int
    entries: int
    moved: tuple[str, ...]


def restore(
    backup: str | os.PathLike[str],
    path: str | os.PathLike[str],
    *,
    deadline: float = DEADLINE,
    lift_holds: bool = False,
) -> Restored:
    """Replace the log at `path` by a verified backup, which stays unchanged.

    Existing files are renamed `<path>.before-<time>`, which can be opened as a log. Only derived files are
    deleted: checkpoints and the search index.

    Raises `HeldError` if the log has a hold in force that the backup lacks, unless `lift_holds`;
    `StoreTimeoutError` while any process has the log open, `CorruptLogError` and `NotADatabaseError`
    for a damaged or invalid backup, `UnsupportedVersionError`, `StoreError`. Then the log is unchanged.
    """
    source, target = Path(backup).absolute(), Path(path).absolute()
    if not source.is_file():
        raise errors.NotADatabaseError(
            f"{backup}: expected a backup, found {'something else' if source.exists() else 'no file'}"
        )
    if target.is_symlink() or (target.exists() and not target.is_file()):
        raise errors.NotADatabaseError(f"{path}: expected a log to replace, found a link or something else")
    if target.exists() and os.path.samefile(source, target):
        raise errors.CallerError(f"{path}: the backup itself cannot be replaced by the backup")
    if not target.parent.is_dir():
        raise errors.StoreError(f"{path}: the directory {target.parent} does not exist")
    with copies.part(target) as part:
        copies.copy_database(source, part)
        conversations, entries = _verified(part, source)
        moved = restoring.replace_database(part, target, deadline, lift_holds=lift_holds)
    return Restored(str(target), conversations, entries, tuple(map(str, moved)))


def _verified(part: Path, source: Path) -> tuple[int, int]:
    """Return how many conversations and entries the copy has. Raises `CorruptLogError`."""
    try:
        with open_log(part) as log:
            report = verify(log, jobs=None)
    finally:
        for beside in glob(f"{escape(str(part))}-*"):
            os.unlink(beside)
    if not report.ok:
        first = report.problems[0]
        where = f"{first.conversation!r} at position {first.position}: " if first.conversation else ""
        raise errors.CorruptLogError(
            f"{source}: not restored, because it is damaged: {where}{first.code}: expected {first.expected}, "
            f"found {first.found}"
        )
    return len(report.conversations), sum(checked.entries for checked in report.conversations)
