"""Import of files: records through converters, steps into the log, and a report."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import replace
from functools import partial
from hashlib import file_digest
from itertools import chain, islice
from pathlib import Path
from shutil import copyfileobj
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple, TypeAlias, cast

from stenolog.adapters.plugins import plugin_at_fault
from stenolog.domain.errors import CallerError, OperationalError, StenologError, UnknownFormatError

from .conversion.converter import SourceConversation
from .detection.detect import recognise, recognise_stream
from .detection.folders import folder_of, size_of
from .door.files import decompressed, regular_file
from .door.json_lines import NOBODY, JsonLinesReader, Record, is_list
from .door.times import times_in
from .formats import IMPORTERS, Importer
from .intake import known_files
from .intake.known_sessions import Naming, begins_with, is_held
from .intake.report import Imported, LeftOut, Refused, Report
from .intake.sessions import Batch, ConversationImport, Sessions
from .intake.whole_file import WholeFile

if TYPE_CHECKING:
    from io import BufferedReader

    from stenolog.adapters.conversation.log import Log

Progress: TypeAlias = Callable[[int], object]

BUFFER = 1024 * 1024
"""The bytes of a file that are read at a time."""
STDIN = "stdin"
"""The name of a stream that is no file."""


def import_file(
    log: Log,
    path: str | os.PathLike[str],
    *,
    name: str | None = None,
    keep_raw: bool = False,
    progress: Progress | None = None,
    agents: Mapping[str, str] = NOBODY,
    again: bool = False,
    mapping: str | os.PathLike[str] | None = None,
    zone: str = "",
) -> Report:
    """Import a transcript, or a format's folder of them; return a report.

    What the log has is not appended again, so a file that has grown can be imported again. A renamed
    conversation is continued; a deleted one is left out, unless `again`. `name` is for the file's first
    conversation; others are `name/` and their own name. `keep_raw` keeps the file as blobs. `progress` is
    called with the bytes read so far. `agents` are agents' names by id, such as public keys, if the file
    lacks them. `mapping` is the path of a file that says where a file of any format has its messages. `zone`
    is for times without one: `Europe/Vienna`, `local`, or UTC.

    Raises `UnknownFormatError` if no importer knows the file, `CorruptLogError` for a changed stenolog
    export, `MissingExtraError`, `CallerError` for `agents` of another file or a bad mapping, and OSError.
    Errors within one conversation are reported, and do not stop the others.
    """
    importing = _Importing(log, name, keep_raw, agents, progress, again=again, mapping=mapping, zone=zone)
    (report,) = importing.all([Path(path)], refuse=False)
    assert isinstance(report, Report)
    return report


def import_files(
    log: Log,
    paths: Iterable[str | os.PathLike[str]],
    *,
    keep_raw: bool = False,
    progress: Progress | None = None,
    agents: Mapping[str, str] = NOBODY,
    again: bool = False,
    mapping: str | os.PathLike[str] | None = None,
    zone: str = "",
) -> Iterator[Report | Refused]:
    """Import many transcripts, several short ones in one transaction.

    Outcomes come in order, each once durable. A file that cannot be imported does not stop the others.
    `progress` is called with the bytes read of all files; otherwise as `import_file`. A `KeyboardInterrupt`
    is raised once what was read is written and reported.

    Raises `StoreTimeoutError` and `StoreError`.
    """
    importing = _Importing(log, None, keep_raw, agents, progress, again=again, mapping=mapping, zone=zone)
    return importing.all(map(Path, paths), refuse=True)


def import_stream(
    log: Log,
    stream: BinaryIO,
    *,
    file: Path | None = None,
    name: str | None = None,
    keep_raw: bool = False,
    agents: Mapping[str, str] = NOBODY,
    again: bool = False,
    mapping: str | os.PathLike[str] | None = None,
    zone: str = "",
) -> Report:
    """Import a transcript from a stream, such as stdin, or from a copy in `file`; otherwise as `import_file`.

    Conversations without ids are known by the whole stream's bytes, so the same stream adds nothing; a grown
    one is continued under the same `name`, or that of its `file`.
    """
    importing = _Importing(log, name, keep_raw, agents, again=again, mapping=mapping, zone=zone)
    with TemporaryFile() as whole:
        copyfileobj(stream, whole, BUFFER)
        whole.seek(0)
        return importing.from_stream(whole, file)


def import_conversations(
    log: Log,
    conversations: Iterator[SourceConversation],
    reading: JsonLinesReader,
    *,
    source: str,
    format: str,
    name: str | None = None,
    unique: bool = False,
) -> Report:
    """Import conversations read from elsewhere, such as a database.

    `source` is their origin in the report; `reading` notes what it skips. `name` as in `import_file`.
    `unique`: names are unique everywhere, so renamed conversations are continued, deleted ones left out.
    """
    report, importing = Report(source, format), _Importing(log, name)
    importing.convert(conversations, report, Naming(log, source, name, is_session=unique))
    importing.batch.flush()
    report.skipped, report.repaired = reading.skipped, reading.repaired
    return report


class _Done(NamedTuple):
    """A path's outcome, durable after the batch's `writes` writes; `file` is to be remembered."""

    what: Report | Refused
    writes: int
    file: known_files.KnownFile | None


class _Importing:
    def __init__(
        self,
        log: Log,
        name: str | None = None,
        keep_raw: bool = False,
        agents: Mapping[str, str] = NOBODY,
        progress: Progress | None = None,
        *,
        again: bool = False,
        mapping: str | os.PathLike[str] | None = None,
        zone: str = "",
    ) -> None:
        self.log = log
        self.batch = Batch(log)
        self._mapped = None if mapping is None else mapped_importer(Path(mapping))
        self._name = name
        self._keep_raw = keep_raw
        self._agents = agents
        self._progress = progress
        self._again = again
        self._zone = zone
        self._done = 0
        self._noted: dict[str, Any] = {}
        self._may_be_known = not (keep_raw or agents or zone or self._mapped or log.recorder.is_private)
        self._waiting: deque[_Done] = deque()

    def all(self, paths: Iterable[Path], *, refuse: bool) -> Iterator[Report | Refused]:
        try:
            for path in paths:
                what, file = self._one(path, refuse)
                if self.batch.lost:
                    raise self.batch.lost
                self._waiting.append(_Done(what, self.batch.writes + (not self.batch.is_empty), file))
                self._done += size_of(path)
                self._moved(0)
                yield from self._durable()
            self.batch.flush()
        except KeyboardInterrupt:
            with suppress(Exception):
                self.batch.flush()
            yield from self._durable()
            raise
        yield from self._durable()

    def from_stream(self, stream: BinaryIO, file: Path | None) -> Report:
        sha = file_digest(cast("BufferedReader", stream), "sha256").hexdigest()
        stream.seek(0)
        with times_in(self._zone), self._as_refusals():
            report = self._read(file or Path(f"{STDIN}-{sha[:8]}"), stream, f"{STDIN} {sha}")
        report.file = file.name if file else STDIN
        self.batch.flush()
        return report

    def _durable(self) -> Iterator[Report | Refused]:
        while self._waiting and self._waiting[0].writes <= self.batch.writes:
            what, _, file = self._waiting[0]
            if file is not None and isinstance(what, Report):
                known_files.remember(self.log, file, what)
            self._waiting.popleft()
            yield what

    def _one(self, path: Path, refuse: bool) -> tuple[Report | Refused, known_files.KnownFile | None]:
        try:
            with times_in(self._zone) if self._zone else nullcontext(), self._as_refusals():
                folder = None if self._mapped else self._folder(path)
                return (folder, None) if folder else self._file(path)
        except (StenologError, OSError) as error:
            if not refuse or self.batch.lost or isinstance(error, OperationalError):
                raise
            return Refused(str(path), error, self._was_refused(path, error)), None

    @contextmanager
    def _as_refusals(self) -> Iterator[None]:
        """Raise `UnknownFormatError` for any other error of a file's reader."""
        try:
            yield
        except (StenologError, OSError):
            raise
        except Exception as error:
            if self.batch.lost or plugin_at_fault(error):
                raise
            found = f"{type(error).__name__}: {error}"
            raise UnknownFormatError(f"expected a file that its importer can read, found {found}") from error

    def _was_refused(self, path: Path, error: Exception) -> bool:
        """Return whether the file was refused before, unchanged, for the same reason."""
        if self._may_be_known and not isinstance(error, OSError):
            with suppress(OSError, UnknownFormatError), regular_file(path, BUFFER) as stream:
                file = known_files.file(path, self._name, stream)
                return known_files.note_refusal(self.log, file, str(error))
        return False

    def _file(self, path: Path) -> tuple[Report, known_files.KnownFile | None]:
        with regular_file(path, BUFFER) as stream:
            if not self._may_be_known:
                return self._read(path, stream), None
            file = known_files.file(path, self._name, stream)
            report = known_files.recall(self.log, file)
            if report is not None and not (self._again and report.left_out):
                return report, None
            noted = len(self._noted)
            report = self._read(path, stream)
            return report, file if len(self._noted) == noted and not report.team else None

    def _read(self, path: Path, stream: BinaryIO, place: str = "") -> Report:
        with decompressed(stream) as content:
            report = self._read_plain(path, content, place)
        for found in report.conversations:
            self._keep(stream, path, found)
        return report

    def _read_plain(self, path: Path, stream: BinaryIO, place: str) -> Report:
        importer = self._mapped or IMPORTERS[recognise_stream(stream)]
        report = Report(str(path), importer.name)
        self._check_takes_agents(importer)
        if importer.team is not None and (team := importer.team(stream)):
            report.team = team
            return report
        reading = JsonLinesReader(agents=self._agents, path=path, noted=self._noted)
        is_session = importer.lines is not None or importer.write is not None
        # The folder of a stream's file says nothing about it.
        stem = importer.name_of(Path(path.name) if place else path) or path.stem
        naming = self._naming(
            place or str(path.absolute()), stem, is_session=is_session, is_stream=bool(place)
        )
        if importer.lines and not (importer.read and is_list(stream)):
            sessions = Sessions(self.batch, importer.lines, naming)
            for nth, value in enumerate(importer.lines.beside(path), 1):
                sessions.send(Record(f"0.{nth}", value))
            self._lines(stream, reading, report, sessions)
            report.left_out = sessions.left_out
        elif importer.read:
            self.convert(importer.read(stream, reading), report, naming, stream.tell)
        elif importer.write:
            self.batch.flush()
            keeps = self._keep_raw
            importer.write(WholeFile(self.log, stream, reading, report, naming, self._moved, keeps_raw=keeps))
        report.skipped, report.repaired = reading.skipped, reading.repaired
        report.incomplete = reading.incomplete
        return report

    def _folder(self, path: Path) -> Report | None:
        folder, importer = folder_of(path)
        if importer is None or importer.folder is None or _is_known(path):
            return None
        self._check_takes_agents(importer)
        report, reading = Report(str(folder), importer.name), JsonLinesReader()
        naming = self._naming(str(folder.absolute()), folder.name, is_session=False)
        self.convert(importer.folder.read(folder, reading), report, naming)
        report.skipped, report.repaired = reading.skipped, reading.repaired
        return report

    def _lines(self, stream: BinaryIO, reading: JsonLinesReader, report: Report, sessions: Sessions) -> None:
        for record in reading.records(stream):
            sessions.send(record)
            self._moved(stream.tell())
        report.conversations = sessions.end()

    def convert(
        self,
        conversations: Iterator[SourceConversation],
        report: Report,
        naming: Naming,
        progress: Callable[[], int] = lambda: 0,
    ) -> None:
        ahead = list(islice(conversations, 2))
        naming.is_alone = len(ahead) < 2
        for source in chain(ahead, conversations):
            held = begins_with(source) if naming.is_grown else partial(is_held, source)
            place = naming.find_place(source.name, held)
            if place.is_deleted:
                report.left_out.append(LeftOut(place.name, place.marks[0]))
                continue
            intake = ConversationImport(self.batch, place, source.make, source.unit)
            intake.found.failed = source.failed
            for record in source.records:
                intake.take(record)
                self._moved(progress())
            found = intake.end()
            found.ignored += source.ignored
            report.conversations.append(found)
            if source.file is not None:
                with regular_file(source.file) as stream:
                    self._keep(stream, source.file, found)

    def _naming(self, place: str, stem: str, **given: bool) -> Naming:
        return Naming(self.log, stem, self._name, file=place, again=self._again, **given)

    def _keep(self, stream: BinaryIO, file: Path, found: Imported) -> None:
        if self._keep_raw and not found.failed:
            self.batch.flush()
            if found.name in self.log:
                known_files.keep_original(self.log[found.name], stream, file.name)

    def _check_takes_agents(self, importer: Importer) -> None:
        if self._agents and not importer.takes_agents:
            wanted = ", ".join(IMPORTERS.title(name) for name in IMPORTERS if IMPORTERS[name].takes_agents)
            raise CallerError(
                f"agents: expected {wanted or 'a format whose importer takes them'}, found {importer.title}"
            )

    def _moved(self, at: int) -> None:
        if self._progress is not None:
            self._progress(self._done + at)


def mapped_importer(mapping: Path) -> Importer:
    """Return an importer for a mapping. Raises `CallerError` for a bad one."""
    for name, _, signatures in IMPORTERS.in_order("start"):
        may_be = signatures is None or any(each.beside for each in signatures)
        if may_be and (make := IMPORTERS[name].with_mapping) is not None:
            return replace(make(mapping), title=IMPORTERS.title(name))
    raise CallerError("mapping: expected an importer that takes mappings, found none registered")


def _is_known(path: Path) -> bool:
    with suppress(UnknownFormatError):
        return path.is_file() and bool(recognise(path))
    return False
