"""Import of a stenolog log in an SQLite file: conversations unchanged, with their digests.

All is verified, then written in one transaction. Forks stay forks, archived conversations archived; existing
ones get the entries that they lack.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import BinaryIO, NamedTuple

from stenolog.adapters.conversation.log import Log
from stenolog.adapters.conversation.log import open as open_log
from stenolog.adapters.conversation.verifying.integrity import verify
from stenolog.adapters.importers.door.files import copy_database
from stenolog.adapters.importers.intake import known_sessions
from stenolog.adapters.importers.intake.report import Imported, LeftOut, Report
from stenolog.adapters.store.contract import values
from stenolog.adapters.store.contract.inspection import ConversationRow, Inspection
from stenolog.adapters.store.reading import reader
from stenolog.domain.errors import ConversationExistsError, CorruptLogError, VersionConflictError

ATTEMPTS = 3
"""Others may append to the same conversations between the look at them and the transaction."""


def import_log(log: Log, stream: BinaryIO, report: Report, *, again: bool = False) -> None:
    """Import every conversation and blob of a stream's log: all or nothing.

    A renamed conversation is continued, a deleted one left out, unless `again`. Raises `CorruptLogError` for
    a damaged log, `ConversationExistsError` if one of that name has other entries, `UnsupportedVersionError`,
    `StoreError`, `StoreTimeoutError`.
    """
    with TemporaryDirectory(prefix="stenolog-") as folder:
        # A copy: as the log is at one moment, and the log itself stays as it is, of an earlier format too.
        copy = Path(folder, "log.db")
        copy_database(stream, copy)
        with open_log(copy) as given:
            _verify(given, report.file)
            for attempt in range(1, ATTEMPTS + 1):
                plan = _Plan(log, given, again=again)
                try:
                    plan.write()
                    break
                except VersionConflictError:
                    if attempt == ATTEMPTS:
                        raise
            report.conversations = [one.found for one in plan.conversations]
            report.left_out = plan.left_out


def _verify(given: Log, file: str) -> None:
    checked = verify(given, jobs=None)
    if not checked.ok:
        first = checked.problems[0]
        where = f"{first.conversation!r} at position {first.position}: " if first.conversation else ""
        raise CorruptLogError(
            f"{file}: damaged: {where}{first.code}: expected {first.expected}, found {first.found}; "
            "`stenolog db salvage` writes what is intact"
        )


class _Planned(NamedTuple):
    found: Imported
    held: ConversationRow
    asked: values.Continuation


class _Plan:
    def __init__(self, log: Log, given: Log, *, again: bool) -> None:
        self.conversations: list[_Planned] = []
        self.left_out: list[LeftOut] = []
        self._log = log
        self._given = given
        self._again = again
        self._names: dict[int, str] = {}
        with given.recorder.inspect() as inspection:
            cursors = list(inspection.cursors())
            # The oldest first: parents before their forks.
            for held in inspection.conversations():
                self._take(inspection, held, cursors)

    def write(self) -> None:
        blobs = {*self._log.recorder.blobs.shas()}
        shas = self._given.recorder.blobs.shas()
        is_new = any(one.asked.last > one.asked.already for one in self.conversations)
        if is_new or not blobs.issuperset(shas):
            # A blob that is there may be collected at any moment, unless an entry names it.
            wanted = shas if is_new else [sha for sha in shas if sha not in blobs]
            self._log.recorder.insert_export(self._parts(wanted))

    def _parts(self, shas: list[str]) -> Iterator[values.ExportPart]:
        for sha in shas:
            yield values.BlobContent(sha, self._given.recorder.blobs.get(sha) or b"")
        for found, held, asked in self.conversations:
            if found.appended:
                yield asked
                source = values.Stream(held.name, held.key)
                yield from reader.records(self._given.recorder, source, asked.already, asked.last)

    def _take(
        self, inspection: Inspection, held: ConversationRow, cursors: list[tuple[str, int, values.Cursor]]
    ) -> None:
        (head,) = inspection.heads_until([held.key], values.LAST)
        first = inspection.digest_at(held.key, held.fork + 1) or b""
        mark = known_sessions.mark_of(first.hex())
        name = known_sessions.name_now(self._log, mark)
        if name is None and not self._may_come(held, mark):
            self.left_out.append(LeftOut(held.name, mark))
            return
        name = self._names[held.key] = name or held.name
        already = self._already(held, head.position, name)
        marks = [of for of, key, at in cursors if key == values.EVERYWHERE and at.position == held.key]
        asked = values.Continuation(
            name,
            already,
            max(already, head.position),
            parent=self._names[held.parent] if held.parent is not None else "",
            fork=held.fork,
            digest=head.digest,
            imported=self._given.recorder.imported(held.key),
            archived_at=held.archived_at,
            marks=(mark, *filter(self._is_unknown, marks)),
            withheld=self._given.recorder.erasure.withheld(held.key),
        )
        appended = max(0, head.position - already)
        found = Imported(name, appended, max(0, head.position - held.fork - appended))
        self.conversations.append(_Planned(found, held, asked))

    def _may_come(self, held: ConversationRow, mark: str) -> bool:
        """Return whether neither it nor its fork's origin was deleted here since."""
        if held.parent is not None and held.parent not in self._names:
            return False
        is_back = self._log.recorder.conversations.find(held.name) is not None
        return self._again or is_back or not known_sessions.is_deleted(self._log, mark)

    def _already(self, held: ConversationRow, last: int, name: str) -> int:
        """Return the position that the conversation is at, or else its fork's."""
        stream = values.Stream(name)
        if self._log.recorder.resolve(stream) is None:
            return held.fork
        at = self._log.recorder.head(stream).position
        common = min(at, last)
        source = values.Stream(held.name, held.key)
        # The digest tells of all entries up to it.
        if self._log.recorder.digest_at(stream, common) != self._given.recorder.digest_at(source, common):
            raise ConversationExistsError(
                f"{name!r}: another conversation of this name exists, with other entries up to {common}; "
                "rename one of the two"
            )
        return at

    def _is_unknown(self, mark: str) -> bool:
        return mark.startswith(known_sessions.PREFIX) and known_sessions.name_now(self._log, mark) is None
