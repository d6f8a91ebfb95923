"""An evidence pack of a conversation, read from its log.

The lines are those of `projections.evidence.lines`; `docs/reference/evidence.md` has the format.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import IO, TYPE_CHECKING, NamedTuple

from stenolog._version import __version__
from stenolog.adapters.conversation.queries.requests.token_counters import COUNTERS
from stenolog.adapters.store.contract.blobs import shas_in
from stenolog.adapters.store.contract.inspection import DamagedRow, Inspection
from stenolog.adapters.store.contract.values import Segment
from stenolog.adapters.store.reading import arguments
from stenolog.domain import history
from stenolog.domain.entry import Entry, Record, left_hash, microseconds, to_entry
from stenolog.domain.errors import CallerError, CorruptLogError
from stenolog.domain.history import Change, History
from stenolog.projections.analysis.quotes import Quoted, quoting
from stenolog.projections.evidence import lines
from stenolog.projections.evidence.requests import Chosen, Wanted, choose_requests, receipt_at

from .anchoring import anchor
from .signing import Signer

if TYPE_CHECKING:
    from stenolog.adapters.conversation.log import Conversation

NAMING = (history.BEGUN, history.FORKED, history.RENAMED)


@dataclass(frozen=True)
class PackContents:
    """The contents of a pack: whose requests, what is withheld, the producer's statement, who signs.

    `anchors` are addresses of time-stamping servers, and commands (see `anchoring`). `show_guessable` shows
    answers with the digest of a request that may have withheld words; a short one can be guessed from it.
    """

    requests: Wanted = "newest"
    withheld: Collection[int] = ()
    statement: str = ""
    signer: Signer | None = None
    anchors: Sequence[str] = ()
    whole_history: bool = False
    show_guessable: bool = False


class Packed(NamedTuple):
    """The result: entries, withheld positions, requests, and what the disclosed entries say of withheld ones.

    `quoting` are those that quote them, `guessable` answers with the digest of a request that may have had
    them: they are withheld, too, unless `PackContents.show_guessable`. `also_quoting` says if the
    conversation's name or the statement quotes withheld entries.
    """

    entries: int
    withheld: tuple[int, ...]
    chosen: Chosen
    quoting: tuple[int, ...]
    guessable: tuple[int, ...]
    also_quoting: tuple[str, ...]


EVERYTHING = PackContents()
"""A pack that withholds nothing, with the newest request."""


def write_pack(conversation: Conversation, stream: IO[str], contents: PackContents = EVERYTHING) -> Packed:
    """Write the evidence pack of a conversation as text.

    Raises `CallerError` for a request that cannot be shown, `CorruptLogError` for an entry whose erasure is
    not recorded, `ConversationNotFoundError`, `PositionNotFoundError`.
    """
    facts = _Facts.of(conversation, contents.whole_history)
    records = list(conversation.records(at=facts.position))
    withheld = _withheld(conversation, records, facts, contents.withheld)
    entries = [to_entry(conversation.name, record) for record in records]
    chosen, guessable = _chosen(conversation, entries, withheld, contents)
    hidden = _hidden_receipts(entries, withheld, chosen)
    asked, withheld = withheld, withheld | (set() if contents.show_guessable else guessable)
    out = _Output(stream)
    out.put(lines.statement_line(_statement(conversation, facts, records, contents)))
    for change, previous, named in facts.changes:
        out.put(lines.record_line(change, previous, named=named))
    for line in _entry_lines(conversation, records, withheld, hidden):
        out.put(line)
    for request in chosen.requests:
        out.put(lines.request_line(request))
    if contents.whole_history:
        out.put(lines.heads_line(facts.heads))
    for line in _seals(out.sha256, contents):
        out.put(line)
    out.put(lines.end_line(out.lines, out.sha256))
    return Packed(
        len(records),
        tuple(sorted(withheld)),
        chosen,
        tuple(at for at in quoting(entries, asked, also_short=True) if at not in withheld),
        tuple(sorted(guessable)),
        tuple(_also_quoting(conversation.name, entries, asked, contents.statement)),
    )


def _also_quoting(
    name: str, entries: Iterable[Entry], withheld: Collection[int], statement: str
) -> Iterator[str]:
    quoted = Quoted((each.event for each in entries if each.position in withheld), also_short=True)
    shown = {"the name of the conversation": name, "the statement": statement}
    yield from (what for what, text in shown.items() if quoted.is_in(text))


def _chosen(
    conversation: Conversation, entries: Sequence[Entry], withheld: Collection[int], contents: PackContents
) -> tuple[Chosen, set[int]]:
    """Return the requests to show, and the answers from whose receipts a withheld text could be guessed."""
    kept, guessable = {*withheld}, set[int]()
    blobs = conversation.log.blobs
    while True:
        try:
            chosen = choose_requests(entries, contents.requests, kept, blobs=blobs, counters=COUNTERS)
        except CallerError as error:
            if not guessable:
                raise
            why = "withheld since a withheld text could be guessed from its receipt: see show_guessable"
            raise CallerError(f"{error}, {why}") from None
        more = _hidden_receipts(entries, kept, chosen) - kept
        guessable |= more
        if contents.show_guessable or not more:
            return chosen, guessable
        # Requests that were built from these answers are not shown either.
        kept |= more


def _entry_lines(
    conversation: Conversation, records: Iterable[Record], withheld: Collection[int], hidden: Collection[int]
) -> Iterator[str]:
    """Yield the entries, each blob before the first that shows its name."""
    blobs, seen = conversation.log.blobs, set[str]()
    for record in records:
        is_withheld = record.position in withheld
        for sha in () if is_withheld or record.erased is not None else _blob_names(record, hidden):
            if sha not in seen and sha in blobs:
                seen.add(sha)
                yield lines.blob_line(sha, blobs[sha])
        try:
            yield lines.entry_line(record, withheld=is_withheld)
        except UnicodeDecodeError:
            where = f"{conversation.name!r} at position {record.position}"
            raise CallerError(f"{where}: the payload is not UTF-8: withhold the entry") from None


def _seals(of: str, contents: PackContents) -> Iterator[str]:
    """Yield the signature and the anchors of a pack's hash."""
    if contents.signer is not None:
        by, key, sign = contents.signer
        yield lines.signature_line(sign(lines.signed_text(by, of)), key, by, of)
    for where in contents.anchors:
        kind, name, answer = anchor(where, of)
        yield lines.anchor_line(kind, of, name, answer)


class _Facts(NamedTuple):
    """The conversation at one moment, except its entries."""

    position: int
    digest: bytes
    streams: Sequence[tuple[int, int]]
    changes: Sequence[tuple[Change, bytes, bool]]
    history: History
    heads: Sequence[tuple[int, int, bytes]]
    log_head: str

    @classmethod
    def of(cls, conversation: Conversation, whole: bool) -> _Facts:
        key = conversation.key
        if key is None:
            raise arguments.missing(conversation.name, conversation.log.path)
        with conversation.log.recorder.inspect() as inspection, inspection.at_one_moment():
            segments = inspection.lineage(key)
            changes, facts = _changes(inspection)
            newest = inspection.newest()
            keys = sorted(facts.listed) if whole else [key]
            heads = list(zip(keys, inspection.heads_until(keys, newest), strict=True))
        position, digest = next(head for each, head in heads if each == key)
        last = {segment.key: segment.upto for segment in segments}
        concerned = [
            (change, previous, _is_named(change, key))
            for change, previous in changes
            if whole or _concerns(change, key, last)
        ]
        number, end = (changes[-1][0].number, changes[-1][0].digest) if changes else (0, b"")
        flat = [(each, *head) for each, head in heads]
        log_head = str(history.log_head(number, newest, end, flat)) if whole else ""
        return cls(position, digest, _streams(segments), concerned, facts, flat, log_head)

    def origin(self, position: int) -> tuple[int, int]:
        """Return the stream that a position is of, and the position."""
        return [key for key, first in self.streams if first <= position][-1], position


def _changes(inspection: Inspection) -> tuple[list[tuple[Change, bytes]], History]:
    """Return the records, each with the digest before it, and what they add up to."""
    facts, found, previous = History(), list[tuple[Change, bytes]](), b""
    for change in inspection.history():
        if isinstance(change, DamagedRow):
            raise CorruptLogError(
                f"history: {change.pointer}: expected {change.expected}, found {change.found}"
            )
        facts.take(change)
        found.append((change, previous))
        previous = change.digest
    return found, facts


def _concerns(change: Change, key: int, last: dict[int, int]) -> bool:
    if change.stream == key:
        return True
    if change.stream not in last:
        return False
    if change.what in (history.BEGUN, history.FORKED):
        return True
    first = change.parent if change.what == history.IMPORTED else change.value
    return change.what in history.OF_ENTRIES and first <= last[change.stream]


def _withheld(
    conversation: Conversation, records: Iterable[Record], facts: _Facts, asked: Collection[int]
) -> set[int]:
    """Return the positions to withhold, with those that came withheld.

    Raises `CorruptLogError` for another one without words and without a record of its erasure.
    """
    withheld = {conversation.checked(position, least=1) for position in asked}
    for record in records:
        if record.erased is None or record.position in withheld:
            continue
        origin = facts.origin(record.position)
        if origin in facts.history.withheld:
            withheld.add(record.position)
        elif facts.history.erased.get(origin) != left_hash(record.payload):
            raise CorruptLogError(
                f"{conversation.name!r} at position {record.position}: erased without a record in the "
                "history, as an earlier release imported it; withhold the entry"
            )
    return withheld


def _hidden_receipts(entries: Iterable[Entry], withheld: Collection[int], chosen: Chosen) -> set[int]:
    """Return the answers whose receipts may name blobs with withheld words: whole requests are among them."""
    first, shown = min(withheld, default=0), {request.position for request in chosen.requests}
    return {
        entry.position
        for entry in entries
        if first and (receipt := receipt_at(entry)) and receipt.view >= first and entry.position not in shown
    }


def _blob_names(record: Record, hidden: Collection[int]) -> list[str]:
    """Return what may be blobs that an entry names; of a hidden receipt nothing."""
    payload = record.payload
    if record.position in hidden:
        event = json.loads(payload)
        event.pop("receipt", None)
        payload = json.dumps(event).encode()
    return sorted(shas_in(payload))


def _statement(
    conversation: Conversation, facts: _Facts, records: Sequence[Record], contents: PackContents
) -> lines.Statement:
    return lines.Statement(
        conversation.name,
        facts.position,
        facts.digest.hex(),
        facts.streams,
        records[0].time,
        records[-1].time,
        microseconds(conversation.log.edge.clock()),
        f"stenolog {__version__}",
        contents.statement,
        facts.log_head,
    )


class _Output:
    """The lines on their way out, counted and hashed."""

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream
        self.lines = 0
        self._hash = sha256()

    @property
    def sha256(self) -> str:
        """The hash of all lines so far."""
        return self._hash.hexdigest()

    def put(self, line: str) -> None:
        self._stream.write(line)
        self.lines += 1
        self._hash.update(line.encode())


def _is_named(change: Change, key: int) -> bool:
    """Return whether a record's name is shown; one of a hold, say, names people."""
    return change.what == history.ERASED or (change.stream == key and change.what in NAMING)


def _streams(segments: Iterable[Segment]) -> list[tuple[int, int]]:
    return [(segment.key, segment.after + 1) for segment in segments]
