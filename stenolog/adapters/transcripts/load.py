"""Importing a file: its records through a converter, the steps into the log, and a report of it all."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from itertools import chain, count, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stenolog.domain.entry import Draft
from stenolog.domain.errors import CallerError, ConversationInUse, NotATranscript

from . import originals, portable
from .claude.records import ClaudeCode
from .codex.records import Codex
from .crewagent import folder as crewagent
from .fields import name_of, obj, text
from .lines import NOBODY, Reading, Record, Skipped
from .neurocrew import files as neurocrew
from .nostr import files as nostr
from .openai import files
from .recognise import recognise, recognise_stream
from .report import Format, Imported, Report
from .steps import Append, Held, Step, held
from .told import Converter, Reader, Told
from .workflow import files as workflow

if TYPE_CHECKING:
    from stenolog.adapters.conversation import Conversation
    from stenolog.adapters.log import Log

BATCH = 500
"""How many entries are appended in one transaction."""


READERS: Mapping[Format, Reader] = {
    "openai-chat": files.read,
    "neurocrew": neurocrew.read,
    "crewagent": crewagent.read,
    "nostr": nostr.read,
    "conversation-messages": workflow.read,
}
"""The formats whose files hold whole conversations; those of the others are told line by line."""


def import_file(
    log: Log,
    path: str | os.PathLike[str],
    *,
    name: str | None = None,
    keep_raw: bool = False,
    progress: Callable[[int], object] | None = None,
    agents: Mapping[str, str] = NOBODY,
) -> Report:
    """Import a transcript, or a folder of them, into the log, and tell what became of it.

    What the log holds already is not appended again, so a file that has grown can be imported again.
    `name` is for the first conversation of the file; more of them are called `name/` and their own name.
    `keep_raw` keeps the file itself as blobs. `progress` is called with the number of records read so far.
    `agents` are names of agents by their public keys, for Nostr events, where these do not tell them.

    Raises `NotATranscript` where no importer knows the file, `CorruptLog` for a stenolog export that was
    changed, `MissingExtra`, `CallerError` for `agents` of another file, and OSError where the file cannot be
    read. What goes wrong inside one conversation is told in the report, and does not stop the others.
    """
    path = Path(path)
    folder = crewagent.folder_of(path)
    if folder is not None and not _is_known(path):
        _check_takes(agents, "crewagent")
        return _import_folder(log, folder, Naming(log, folder.name, name), keep_raw, progress)
    with path.open("rb") as stream:
        report = Report(str(path), recognise_stream(stream))
        _check_takes(agents, report.format)
        reading = Reading(agents=agents)
        own = crewagent.own_name(path) if report.format == "crewagent" else path.stem
        naming = Naming(log, own, name)
        if report.format == "stenolog":
            portable.import_stream(log, stream, report, naming.name)
        elif report.format in READERS:
            _import_told(log, READERS[report.format](stream, reading), report, naming, progress)
        else:
            _import_lines(log, _counted(reading.records(stream), progress), report, naming)
        report.skipped, report.repaired = reading.skipped, reading.repaired
        report.incomplete = reading.incomplete
        if keep_raw:
            for found in report.conversations:
                if not found.failed and found.name in log:
                    originals.keep(log[found.name], stream, path.name)
    return report


def import_rows(log: Log, rows: Iterable[Any], *, name: str | None = None) -> Report:
    """Import rows of a table of messages: mappings, or the cursor of a database that has selected them.

    Each workflow (`workflowId`) becomes a conversation of that name; `name` as in `import_file`. What the log
    holds already is not appended again. Columns that are not known are kept in `meta`.
    """
    reading, report = Reading(), Report("rows", "conversation-messages")
    described = getattr(rows, "description", None)
    names = [column[0] for column in described] if described else []
    given = (dict(zip(names, row, strict=True)) if isinstance(row, tuple) else row for row in rows)
    _import_told(log, workflow.told(given, reading), report, Naming(log, "rows", name))
    report.skipped = reading.skipped
    return report


class Naming:
    """What the conversations of a file are called: by the name asked for, else by their own.

    One that the log has by the name asked for keeps it, wherever it stands in the file by now. `is_alone`:
    there is no other in the file, so that what the log has by that name is to be this one.
    """

    def __init__(self, log: Log, stem: str, asked: str | None) -> None:
        self._log = log
        self._stem = stem
        self._asked = [] if asked is None else [asked]
        self._used: set[str] = set()
        self.is_alone = True

    def name(self, own: str, is_held: Callable[[Conversation], bool] = lambda _: False) -> str:
        """A name for one more conversation, whose own name may be empty, and which the log may hold."""
        inner = "/".join([*self._asked, name_of(own or self._stem)])
        kept = (name for name in (*self._asked, inner) if self._asked and name in self._log)
        free = self._asked if self.is_alone or not any(name in self._log for name in self._asked) else []
        names = chain(free, [inner], (f"{inner}-{number}" for number in count(2)))
        found = next((name for name in kept if name not in self._used and is_held(self._log[name])), None)
        name = found or next(name for name in names if name not in self._used)
        self._used.add(name)
        return name


class Intake:
    """One conversation on its way from a converter into the log."""

    def __init__(self, log: Log, name: str, make: Callable[[Held], Converter], unit: str = "line") -> None:
        self.found = Imported(name)
        self._unit = unit
        self._log = log
        self._talk = log[name]
        known = held(self._talk.entries())
        self._position = known.head
        self._converter = make(known)
        self._drafts: list[Draft] = []

    def take(self, record: Record) -> None:
        """Take one record in; one that cannot be taken down is skipped, and told in the report."""
        if self.found.failed:
            return
        try:
            self._apply(self._converter.take(record))
        except CallerError as error:
            self.found.failed = str(error)
        except (ValueError, ArithmeticError, RecursionError) as error:
            reason = f"cannot be taken down: {_first_line(error)}"
            self.found.skipped.append(Skipped(record.number, reason, self._unit))

    def end(self) -> Imported:
        """The file has ended; what became of the conversation."""
        if not self.found.failed:
            try:
                self._apply(self._converter.end())
                self._flush()
            except CallerError as error:
                self.found.failed = str(error)
        self.found.beyond = self._converter.beyond
        self.found.decided = self._converter.decided
        self.found.already = self._converter.scribe.already
        return self.found

    def _apply(self, steps: list[Step]) -> None:
        for step in steps:
            if isinstance(step, Append):
                for content in step.blobs.values():
                    self._log.blobs.put(content)
                self._drafts.append(step.draft)
                if len(self._drafts) >= BATCH:
                    self._flush()
            else:
                self._flush()
                self._fork(step.after)

    def _flush(self) -> None:
        if self._drafts:
            self._talk.extend(self._drafts, expected=self._position)
            self._position += len(self._drafts)
            self.found.appended += len(self._drafts)
            self._drafts = []

    def _fork(self, after: int) -> None:
        """Keep the branch, unless an import that was broken off has kept it already."""
        name = f"{self._talk.name}~{after}"
        with suppress(ConversationInUse):
            self._talk.fork(after=after, name=name, pending="keep")
            self.found.forks.append(name)


class Sessions:
    """The sessions of a JSON Lines file. A record that names none belongs to the one before it, and what
    stands before the first one belongs to the first.
    """

    def __init__(self, log: Log, format: Format, naming: Naming) -> None:
        self._log = log
        self._make: type[ClaudeCode] | type[Codex] = ClaudeCode if format == "claude-code" else Codex
        self._naming = naming
        self._intakes: dict[str, Intake] = {}
        self._now: Intake | None = None
        self._early: list[Record] = []

    def send(self, record: Record) -> None:
        """Give a record to the session that it belongs to."""
        own = self._session_of(record)
        if own:
            self._go_to(own)
        if self._now is None:
            self._early.append(record)
        else:
            self._now.take(record)

    def end(self) -> list[Imported]:
        """The file has ended; what became of its sessions."""
        if self._early:
            self._go_to("")
        return [intake.end() for intake in self._intakes.values()]

    def _session_of(self, record: Record) -> str:
        """The session that a record names. A rollout is one session, whoever its history was copied from."""
        if self._make is ClaudeCode:
            return text(record.value.get("sessionId"))
        payload = obj(record.value.get("payload")) if record.value.get("type") == "session_meta" else {}
        return "" if self._now is not None else text(payload.get("id")) or text(payload.get("session_id"))

    def _go_to(self, own: str) -> None:
        if own not in self._intakes:
            self._intakes[own] = Intake(self._log, self._naming.name(own), self._make)
        self._now = self._intakes[own]
        early, self._early = self._early, []
        for record in early:
            self._now.take(record)


def _import_lines(log: Log, records: Iterator[Record], report: Report, naming: Naming) -> None:
    sessions = Sessions(log, report.format, naming)
    for record in records:
        sessions.send(record)
    report.conversations = sessions.end()


def _check_takes(agents: Mapping[str, str], format: Format) -> None:
    if agents and format != "nostr":
        raise CallerError(f"agents: expected Nostr events, whose authors are keys, found {format}")


def _import_folder(
    log: Log, folder: Path, naming: Naming, keep_raw: bool, progress: Callable[[int], object] | None
) -> Report:
    report, reading = Report(str(folder), "crewagent"), Reading()
    _import_told(log, crewagent.conversations(folder, reading), report, naming, progress, keep_raw)
    report.skipped, report.repaired = reading.skipped, reading.repaired
    return report


def _import_told(
    log: Log,
    conversations: Iterator[Told],
    report: Report,
    naming: Naming,
    progress: Callable[[int], object] | None = None,
    keep_raw: bool = False,
) -> None:
    counted = count(1)
    ahead = list(islice(conversations, 2))
    naming.is_alone = len(ahead) < 2
    for told in chain(ahead, conversations):
        intake = Intake(log, naming.name(told.name, partial(_is_held, told)), told.make, told.unit)
        intake.found.failed = told.failed
        for record in told.records:
            if progress is not None:
                progress(next(counted))
            intake.take(record)
        found = intake.end()
        found.beyond += told.beyond
        report.conversations.append(found)
        if keep_raw and told.file and not found.failed and found.name in log:
            with told.file.open("rb") as stream:
                originals.keep(log[found.name], stream, told.file.name)


def _is_held(told: Told, talk: Conversation) -> bool:
    """Whether a conversation of the log is the one that is told: it has more of it than its settings."""
    converter = told.make(held(talk.entries()))
    try:
        for record in told.records:
            with suppress(ValueError, ArithmeticError, RecursionError):
                converter.take(record)
        converter.end()
    except CallerError:
        return False
    return converter.scribe.already > 1


def _is_known(path: Path) -> bool:
    """Whether a path is a file that an importer knows by itself, whatever it is called."""
    with suppress(NotATranscript):
        return path.is_file() and bool(recognise(path))
    return False


def _counted(records: Iterator[Record], progress: Callable[[int], object] | None) -> Iterator[Record]:
    for number, record in enumerate(records, 1):
        if progress is not None:
            progress(number)
        yield record


def _first_line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)
