"""Salvage: all intact entries of a damaged log written to a new one, with a list of losses.

A mark of the topic "lost@1" replaces a lost entry, so positions stay. Up to the first mark a conversation
keeps its digests; after it entries keep their bytes, and get new digests.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from glob import escape, glob
from pathlib import Path
from typing import NamedTuple, TypeVar

from stenolog.adapters.conversation.log import Log
from stenolog.adapters.conversation.log import open as open_log
from stenolog.adapters.store.repair import raw_pages
from stenolog.adapters.store.repair.intact import Digests, FoundRows, LostEntry, Walked, walk
from stenolog.adapters.store.sqlite import copies
from stenolog.adapters.store.sqlite.statements import conversation_rows, event_rows
from stenolog.adapters.store.sqlite.statements.dialect import shared
from stenolog.adapters.store.sqlite.turn import durable_head
from stenolog.domain.codec import dump_event
from stenolog.domain.entry import GENESIS, Record, check_name, digest_of, left_hash, make_record
from stenolog.domain.erasure import LOST
from stenolog.domain.errors import (
    CallerError,
    InvalidEventError,
    NotADatabaseError,
    StoreError,
)
from stenolog.domain.events import ModeSwitch, UserMessage
from stenolog.domain.history import ERASED, EVERY_STREAM, WITHHELD, Listed
from stenolog.domain.lanes.lifecycle import BUSY
from stenolog.domain.values import Control, ConversationRef

from .integrity import verify
from .report import Problem

T = TypeVar("T")


class SalvagedConversation(NamedTuple):
    """A conversation of the new log.

    `entries` of its own were kept, `lost` were not. Digests are unchanged up to `same_until`. `unproved` are
    positions that could not be checked, since the previous digest is lost.
    """

    name: str
    entries: int
    position: int
    same_until: int
    lost: tuple[LostEntry, ...] = ()
    unproved: tuple[int, ...] = ()


class Salvaged(NamedTuple):
    """The new log, and everything that is not in it.

    `lost_blobs` are the sha256 of damaged and missing blobs. `notes` say what else is missing.
    """

    path: str
    conversations: tuple[SalvagedConversation, ...]
    blobs: int
    lost_blobs: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def is_whole(self) -> bool:
        """True if nothing was lost, as far as the file shows."""
        lost = any(one.lost or one.unproved for one in self.conversations)
        return not (lost or self.lost_blobs or self.notes)


def salvage(path: str | os.PathLike[str], output: str | os.PathLike[str]) -> Salvaged:
    """Write a log's intact entries, forks and blobs to a new log; only read the damaged one.

    Claims, drafts, tables and files beside the log are not copied. Lanes that lost entries would start are
    cancelled, so no tool runs twice.

    Raises `NotADatabaseError` for a missing file or none of a log, `CallerError` if `output` exists, and
    `StoreError`.
    """
    source, target = Path(path).absolute(), Path(output).absolute()
    if not source.is_file():
        raise NotADatabaseError(f"{path}: expected a log, found no file")
    if target.exists():
        raise CallerError(f"{output}: exists already; a salvage overwrites nothing")
    if not target.parent.is_dir():
        raise StoreError(f"{output}: the directory {target.parent} does not exist")
    try:
        found = FoundRows(raw_pages.read(source).rows())
    except OSError as error:
        raise StoreError(f"{path}: {error.strerror}") from error
    if not found.conversations and not found.orphans() and not found.blobs:
        raise NotADatabaseError(f"{path}: expected a log, found no conversation and no blob in it")
    with copies.part(target) as part:
        kept, problems = _filled(part, found)
        copies.publish(part, target)
    missing = {problem.expected for problem in problems if problem.code == "blob"}
    odd = [
        f"{one.conversation!r} at {one.position}: {one.code}: expected {one.expected}, found {one.found}"
        for one in problems
        if one.code != "blob"
    ]
    notes = (*_notes(source, found, kept), *odd)
    return Salvaged(str(target), kept, len(found.blobs), tuple(sorted(missing | found.lost_blobs)), notes)


def _filled(part: Path, found: FoundRows) -> tuple[tuple[SalvagedConversation, ...], tuple[Problem, ...]]:
    try:
        with open_log(part) as log:
            log.blobs.put_all(found.blobs.values())
            return tuple(_Writer(log, found).write()), verify(log).problems
    finally:
        for beside in glob(f"{escape(str(part))}-*"):
            os.unlink(beside)


class _Writer:
    def __init__(self, log: Log, found: FoundRows) -> None:
        self.log = log
        self.found = found
        self._keys: dict[int, int] = {}
        self._before: dict[int, dict[int, Digests]] = {}  # by stream and position: the damaged log's digests
        self._now: dict[int, dict[int, bytes]] = {}  # the same of the new log
        self._first_lost: dict[int, int] = {}

    def write(self) -> Iterator[SalvagedConversation]:
        listed = dict(self.found.conversations)
        for key in self.found.orphans():
            name = f"conversation {key} without its name"
            listed[key] = Listed(name, None, None)
        for key, one in sorted(listed.items()):
            is_fork = one.parent in self._now and isinstance(one.fork, int) and one.fork > 0
            made = self._one(key, one if is_fork else one._replace(parent=None, fork=None), listed)
            if made is not None:
                yield made
        self._hold_again()

    def _hold_again(self) -> None:
        for hold in self.found.holds.values():
            key = self._keys.get(hold.stream, EVERY_STREAM)
            if hold.stream in (EVERY_STREAM, *self._keys):
                self.log.recorder.erasure.note_hold(hold._replace(stream=key).record())

    def _one(self, old_key: int, one: Listed, listed: Mapping[int, Listed]) -> SalvagedConversation | None:
        parent, fork = one.parent, one.fork or 0
        forks = [other.fork or 0 for other in listed.values() if other.parent == old_key]
        before, start = frozenset((GENESIS,)), GENESIS
        if parent is not None:
            before = self._digest_at(self._before, listed, parent, fork) or frozenset()
            start = self._digest_at(self._now, listed, parent, fork) or GENESIS
        walked = walk(self.found.candidates.get(old_key, {}), fork, before, max([0, *forks]))
        link = None
        if parent is not None:
            link = ConversationRef(conversation=listed[parent].name, position=fork, digest=start.hex())
        records = list(_sealed(self.log, walked, start, link))
        self._before[old_key] = walked.digests
        self._now[old_key] = {record.position: record.digest for record in records}
        if not walked.kept and not forks:
            return None
        with self.log.datastore.writing() as connection:
            key = conversation_rows.create(
                connection, one.name, parent=None if parent is None else self._keys[parent], fork=one.fork
            )
            event_rows.insert_stored(connection, key, records)
            if old_key in self.found.imported:
                shared.note_import(connection, key, *self.found.imported[old_key])
            for record in records:
                if record.erased is not None:
                    left = left_hash(record.payload)
                    what = WITHHELD if (old_key, record.position) in self.found.withheld else ERASED
                    shared.add_change(connection, key, what, value=record.position, name=left)
            if one.archived_at is not None:
                shared.archive(connection, key, one.archived_at)
        self._keys[old_key] = key
        inherited = 0 if parent is None else self._first_lost[parent]
        first = inherited if 0 < inherited <= fork else min(walked.lost, default=0)
        self._first_lost[old_key] = first
        if first:
            self._bring_to_rest(one.name)
        position = records[-1].position if records else fork
        lost = tuple(walked.lost[lost] for lost in sorted(walked.lost))
        return SalvagedConversation(
            one.name, len(walked.kept), position, first - 1 if first else position, lost, walked.unproved
        )

    def _digest_at(
        self, known: Mapping[int, Mapping[int, T]], listed: Mapping[int, Listed], key: int, position: int
    ) -> T | None:
        for _ in listed:
            fork, parent = listed[key].fork or 0, listed[key].parent
            if position > fork or parent is None or parent not in known:
                break
            key = parent
        return known[key].get(position)

    def _bring_to_rest(self, name: str) -> None:
        """Cancel running lanes: their answers or results may be lost."""
        conversation = self.log[name]
        lanes = [lane for lane in conversation.state().lanes.values() if lane.status in BUSY]
        for lane in lanes:
            stop = Control(action="cancel", agent=lane.agent, task=lane.task)
            conversation.submit(UserMessage(author_kind="system", control=stop))


def _sealed(log: Log, walked: Walked, previous: bytes, link: ConversationRef | None) -> Iterator[Record]:
    """Yield entries with digests after `previous`, and a mark for each lost one.

    A fork whose first event is lost gets another, with the `link` to its parent.
    """
    at = min((record.time for record in walked.kept.values()), default=0)
    ids = {record.id for record in walked.kept.values()}
    for position in sorted({*walked.kept, *walked.lost}):
        if position in walked.kept:
            record = walked.kept[position]
            record = record._replace(digest=digest_of(previous, record))
            at = record.time
        else:
            lost = walked.lost[position]
            id = _usable(lost, ids)
            ids.add(id)
            topic, payload = _lost_mark(lost, walked.digests.get(position, frozenset()))
            if link is not None and position == link.position + 1:
                topic, payload = dump_event(ModeSwitch(fork=True, parent=link, meta={"lost": lost.reason}))
            record = make_record(previous, position, id, at, topic, log.edge.salt(), payload)
        previous = record.digest
        yield record


def _lost_mark(lost: LostEntry, before: Digests) -> tuple[str, bytes]:
    mark = {"ignorable": True, "reason": lost.reason, "digests": sorted(digest.hex() for digest in before)}
    return LOST, json.dumps(mark, separators=(",", ":")).encode()


def _usable(lost: LostEntry, ids: set[str]) -> str:
    try:
        if lost.id not in ids:
            return check_name(lost.id, what="entry id")
    except InvalidEventError:
        pass
    id = f"lost-{lost.position}"
    while id in ids:
        id += "-"
    return id


def _notes(source: Path, found: FoundRows, kept: tuple[SalvagedConversation, ...]) -> Iterator[str]:
    note = durable_head.read(str(source))
    if note is not None and note.entry > max(found.newest, found.deleted_up_to):
        yield (
            f"the log had come to entry {note.entry}, as noted in {source.name}-lock: the newest one that "
            f"was found is {found.newest}"
        )
    for hold in found.damaged_holds.values():
        is_placed = hold.stream in (EVERY_STREAM, *found.conversations)
        fate = "taken over" if is_placed else "lost, with its conversation"
        yield f"{hold}: {fate}; its record is damaged"
    if not found.history_is_whole:
        yield "the history of names and holds is damaged: holds may be lost"
    written = {one.name for one in kept}
    for listed in found.conversations.values():
        if listed.name not in written:
            yield f"{listed.name!r}: none of its entries was found"
    for key in found.orphans():
        yield f"conversation {key}: its name is lost, and what it was forked from"
