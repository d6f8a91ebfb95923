"""Conversations as JSON Lines that another database imports with the same digests.

One header line per conversation, then one line per entry with its stored payload; a blob precedes the first
entry that names it, and that entry lists it. Of an erased or withheld entry there are length and hash, from
which its digest is computed. A fork's inherited entries are included, so an export is complete.
"""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from collections.abc import Callable, Collection, Iterator
from datetime import datetime
from hashlib import sha256
from typing import IO, TYPE_CHECKING, BinaryIO, NamedTuple, TypeAlias

from stenolog.adapters.importers.door.json_lines import Json, JsonLinesReader, JsonObject
from stenolog.adapters.importers.intake.report import Imported, Report
from stenolog.adapters.store.contract.values import BlobContent, Continuation, ExportPart
from stenolog.domain import entry
from stenolog.domain.codec import REGISTRY
from stenolog.domain.erasure import ERASED, SWITCH, WITHHELD
from stenolog.domain.errors import (
    ConversationExistsError,
    CorruptLogError,
    StenologError,
    UnsupportedVersionError,
)
from stenolog.projections.messages.json_fields import compact_json

if TYPE_CHECKING:
    from stenolog.adapters.conversation.log import Conversation, Log

VERSION = 1
LONGEST_LINE = 512 * 1024 * 1024
SHA256_BYTES = 32
LARGEST_SIZE = 2**63 - 1
_SHA256 = re.compile(rb'"([0-9a-f]{64})"')


class Header(NamedTuple):
    """An exported conversation's name, number of entries, and last digest (hexadecimal)."""

    conversation: str
    entries: int
    head: str


class Withheld(NamedTuple):
    """An entry of which an export has only the length and the hash."""

    record: entry.Record


Piece: TypeAlias = Header | BlobContent | entry.Record | Withheld


# Out


def export_jsonl(conversation: Conversation, stream: IO[str]) -> int:
    """Write the conversation to a text stream; return the number of entries.

    Raises `BlobNotFoundError` for a damaged blob.
    """
    head = conversation.position
    digest = conversation.digest if head else ""
    _write(stream, {"stenolog": VERSION, "conversation": conversation.name, "entries": head, "head": digest})
    written: set[str] = set()
    withheld = conversation.withheld()
    for record in conversation.records(at=head):
        line = _out(record, withheld)
        if blobs := list(_blobs_of(conversation, record, written)):
            line["blobs"] = blobs
        for sha in blobs:
            _write(stream, {"blob": sha, "base64": b64encode(conversation.log.blobs[sha]).decode()})
        _write(stream, line)
    return head


def _write(stream: IO[str], line: JsonObject) -> None:
    stream.write(compact_json(line) + "\n")


def _blobs_of(conversation: Conversation, record: entry.Record, written: set[str]) -> Iterator[str]:
    for sha in named_blobs(record.payload):
        if sha not in written and sha in conversation.log.blobs:
            written.add(sha)
            yield sha


def named_blobs(payload: bytes) -> Iterator[str]:
    """Yield each text in an event's payload that may be a blob's hash."""
    return (match[1].decode() for match in _SHA256.finditer(payload))


def _out(record: entry.Record, withheld: Collection[int]) -> JsonObject:
    return {
        "position": record.position,
        "id": record.id,
        "at": (entry.EPOCH + record.time * entry.MICROSECOND).isoformat(timespec="microseconds"),
        "topic": record.topic,
        "digest": record.digest.hex(),
        **(_wordless(record, withheld) if record.erased is not None else _content(record)),
    }


def _wordless(record: entry.Record, withheld: Collection[int]) -> JsonObject:
    assert record.erased is not None, "its words are gone"
    key = WITHHELD if record.position in withheld else ERASED
    left = {"payload": record.payload.decode()} if record.payload else {}
    return {key: record.erased.hex(), "size": record.size, **left}


def _content(record: entry.Record) -> JsonObject:
    try:
        payload = {"payload": record.payload.decode()}
    except UnicodeDecodeError:
        payload = {"payload_base64": b64encode(record.payload).decode()}
    return {"salt": record.salt.hex(), **payload}


# In


def import_stream(
    log: Log,
    stream: BinaryIO,
    report: Report,
    name: Callable[[str], str],
    moved: Callable[[int], object] = lambda _: None,
) -> None:
    """Import an export: all of it is verified, then written in one transaction.

    `name` maps a conversation's name to the one to use. An existing one gets what it lacks. `moved` is called
    with the bytes done. Raises `CorruptLogError`, and `ConversationExistsError` if another has that name.
    """
    import_pieces(log, stream, _pieces, report, name, moved)


def import_pieces(
    log: Log,
    stream: BinaryIO,
    read: Callable[[BinaryIO], Iterator[Piece]],
    report: Report,
    name: Callable[[str], str],
    moved: Callable[[int], object],
) -> None:
    """Import the pieces that `read` yields of a stream, called twice; otherwise as `import_stream`."""
    proved = _proved(log, _watched(stream, read, moved, 0), name)
    log.recorder.insert_export(_parts(proved, _watched(stream, read, moved, stream.tell())))
    report.conversations = [proof.found for proof in proved]


def _watched(
    stream: BinaryIO,
    read: Callable[[BinaryIO], Iterator[Piece]],
    moved: Callable[[int], object],
    before: int,
) -> Iterator[Piece]:
    """Yield the pieces of one of two passes; `before` counts the first."""
    for piece in read(stream):
        moved((before + stream.tell()) // 2)
        yield piece


def _parts(proved: list[Proof], pieces: Iterator[Piece]) -> Iterator[ExportPart]:
    conversations = iter(proved)
    for piece in pieces:
        match piece:
            case Header():
                yield next(conversations).continuation
            case Withheld(record):
                yield record
            case _:
                yield piece


def _proved(log: Log, pieces: Iterator[Piece], name: Callable[[str], str]) -> list[Proof]:
    """Return the conversations to write, once all entries match their digests."""
    proofs: list[Proof] = []
    for piece in pieces:
        match piece:
            case Header():
                if proofs:
                    proofs[-1].end()
                proofs.append(Proof(piece, log[name(piece.conversation)]))
            case entry.Record() if proofs:
                proofs[-1].take(piece)
            case Withheld(record) if proofs:
                proofs[-1].take(record, withheld=True)
            case entry.Record() | Withheld():
                raise CorruptLogError("expected a header line before the first entry")
            case BlobContent():
                pass
    if proofs:
        proofs[-1].end()
    return proofs


class Proof:
    """An exported conversation, verified entry by entry against itself and the log."""

    def __init__(self, header: Header, conversation: Conversation) -> None:
        self.found = Imported(conversation.name)
        self._header = header
        self._standing = conversation.records()
        self._standing_withheld = conversation.withheld()
        self._withheld: set[int] = set()
        self._digest = entry.GENESIS
        self._position = 0
        self._ids: set[str] = set()

    @property
    def continuation(self) -> Continuation:
        """The beginning of what is to be written."""
        last = self.found.already + self.found.appended
        return Continuation(self.found.name, self.found.already, last, withheld=frozenset(self._withheld))

    def take(self, record: entry.Record, *, withheld: bool = False) -> None:
        """Verify the next record. Raises `CorruptLogError` if it does not follow."""
        self._position += 1
        if record.position != self._position:
            raise self._corrupt(f"expected position {self._position}, found {record.position}")
        if entry.digest_of(self._digest, record) != record.digest:
            raise self._corrupt("the entry is not what its digest says")
        if record.id in self._ids:
            raise self._corrupt(f"the id {record.id!r} stands there twice")
        self._ids.add(entry.check_name(record.id, what="entry id"))
        if withheld:
            self._withheld.add(record.position)
        else:
            self._check_payload(record)
        self._digest = record.digest
        standing = next(self._standing, None)
        if standing is None:
            self.found.appended += 1
        elif standing.digest == record.digest:
            self.found.already += 1
            if record.position in self._standing_withheld and record.erased is None:
                raise ConversationExistsError(
                    f"{self.found.name!r} at position {record.position}: withheld here, but not in the file; "
                    "import it with another name"
                )
        else:
            raise ConversationExistsError(
                f"{self.found.name!r}: another conversation of this name exists, which differs at position "
                f"{record.position}; import with another name"
            )

    def end(self) -> None:
        """End the export. Raises `CorruptLogError` if incomplete."""
        found, expected = (self._position, self._digest.hex()), (self._header.entries, self._header.head)
        if found != expected:
            raise CorruptLogError(
                f"{self._header.conversation!r}: expected {expected[0]} entries up to the digest "
                f"{expected[1][:12]}, found {found[0]} up to {found[1][:12]}; is the export cut off?"
            )

    def _check_payload(self, record: entry.Record) -> None:
        """Check that this release writes a known topic's payload with the same bytes."""
        if record.erased is not None:
            if not (record.topic in REGISTRY.events or record.topic in REGISTRY.upcasts):
                raise self._corrupt(f"a {record.topic:.60} cannot be erased")
            # What it left has no words, and its form is that of this release.
            if record.payload and entry.effects_left(record.topic, record.payload) != record.payload:
                raise self._corrupt("beside the mark of an erasure stands what it did not leave")
            return
        try:
            event = REGISTRY.load(record.topic, record.payload)
            same = record.topic not in REGISTRY.events or REGISTRY.dump(event) == (
                record.topic,
                record.payload,
            )
        except StenologError as error:
            raise self._corrupt(str(error)) from None
        if not same:
            raise self._corrupt(f"the payload is not as {record.topic} is written")

    def _corrupt(self, what: str) -> CorruptLogError:
        return CorruptLogError(f"{self._header.conversation!r} at position {self._position}: {what}")


def _pieces(stream: BinaryIO) -> Iterator[Piece]:
    stream.seek(0)
    reading = JsonLinesReader(LONGEST_LINE)
    blobs: set[str] = set()
    for record in reading.records(stream):
        _refuse_damage(reading)
        try:
            piece = _parse_piece(record.value)
            if isinstance(piece, BlobContent):
                blobs.add(piece.sha)
            if lacking := set(record.value.get("blobs", ())) - blobs:
                raise CorruptLogError(f"line {record.line}: the blob {min(lacking)} does not stand before it")
            yield piece
        except (KeyError, ValueError, AttributeError, TypeError) as error:
            raise CorruptLogError(f"line {record.line}: not a line of a stenolog export ({error})") from None
    _refuse_damage(reading)


def _refuse_damage(reading: JsonLinesReader) -> None:
    if reading.skipped:
        line, reason, _ = reading.skipped[0]
        raise CorruptLogError(f"line {line}: {reason}")
    if reading.incomplete or reading.repaired:
        raise CorruptLogError(
            f"the export is damaged: {', '.join(reading.repaired) or 'its last line is cut off'}"
        )


def _parse_piece(line: JsonObject) -> Piece:
    if "stenolog" in line:
        if line["stenolog"] != VERSION:
            raise UnsupportedVersionError(
                f"an export of version {line['stenolog']}; this release reads {VERSION}"
            )
        return Header(_text(line["conversation"]), line["entries"], _text(line["head"]))
    if "blob" in line:
        content = b64decode(line["base64"], validate=True)
        if sha256(content).hexdigest() != line["blob"]:
            raise CorruptLogError(f"the blob {line['blob']} is not what its hash says")
        return BlobContent(line["blob"], content)
    return Withheld(_record(line, WITHHELD)) if WITHHELD in line else _record(line, ERASED)


def _record(line: JsonObject, gone: str) -> entry.Record:
    if gone in line:
        which = "an erased" if gone == ERASED else "a withheld"
        erased, size, salt = bytes.fromhex(line[gone]), line["size"], b""
        payload = _text(line.get("payload", "")).encode()
        if len(erased) != SHA256_BYTES or type(size) is not int or not 0 <= size <= LARGEST_SIZE:
            raise ValueError(f"{which} entry needs the length and the sha256 of what was {gone}")
        has_left = payload and (gone, line["topic"]) != (ERASED, SWITCH)
        if has_left or not line.keys().isdisjoint(("salt", "payload_base64")):
            raise ValueError(f"{which} entry has no payload")
    else:
        erased, salt, payload = None, bytes.fromhex(line["salt"]), _payload(line)
        size = len(payload)
    return entry.Record(
        position=line["position"],
        id=_text(line["id"]),
        time=entry.microseconds(datetime.fromisoformat(line["at"])),
        topic=_text(line["topic"]),
        salt=salt,
        payload=payload,
        digest=bytes.fromhex(line["digest"]),
        size=size,
        erased=erased,
    )


def _payload(line: JsonObject) -> bytes:
    if "payload" in line:
        return _text(line["payload"]).encode()
    return b64decode(line["payload_base64"], validate=True)


def _text(value: Json) -> str:
    """Return the value if it is a text; a number would be hashed as digits."""
    if not isinstance(value, str):
        raise TypeError(f"expected text, found {value!r:.60}")
    return value
