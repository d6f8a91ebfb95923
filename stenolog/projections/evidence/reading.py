"""Evidence packs read line by line, with every check of `docs/reference/evidence.md`.

The verifiers in `clients/verify` share no code with this, and agree with it.
"""

from __future__ import annotations

import json
import re
from base64 import b64decode, b64encode
from collections.abc import Callable, Sequence
from hashlib import sha256
from typing import Any, NamedTuple

from stenolog.domain import history
from stenolog.domain.entry import GENESIS, Record, chain, content_hash, left_hash
from stenolog.domain.erasure import ERASED
from stenolog.domain.errors import CorruptLogError, StenologError
from stenolog.domain.history import Change

from .lines import MOST, canonical, signed_text

NAMING = (history.BEGUN, history.FORKED, history.RENAMED)
BEGINNING = b'{"evidence":1,'
"""The first bytes of a pack."""
STATEMENT, RECORDS, ENTRIES, REQUESTS, HEADS, SIGNATURES, ANCHORS, END = range(8)
KINDS: dict[tuple[str, ...], int] = {
    tuple(names.split()): part
    for part, names in (
        (STATEMENT, "evidence conversation entries head streams from to time program statement log_head"),
        (RECORDS, "record stream what value parent salt name previous digest"),
        (RECORDS, "record stream what value parent content previous digest"),
        (ENTRIES, "blob base64"),
        (ENTRIES, "position id at topic salt payload digest"),
        (ENTRIES, "position id at topic size withheld digest"),
        (ENTRIES, "position id at topic size erased payload digest"),
        (REQUESTS, "request sources body sent"),
        (HEADS, "heads"),
        (SIGNATURES, "signature key by of"),
        (ANCHORS, "anchor of name answer"),
        (END, "end sha256"),
    )
}
"""The part of a line by its fields."""
NUMBERS = frozenset(
    (
        *("evidence", "entries", "from", "to", "time", "record", "stream", "value", "parent", "position"),
        *("at", "size", "request", "end"),
    )
)
LINES = frozenset(("id", "topic", "what", "by"))
"""Texts without a line feed."""
BASE64 = frozenset(("base64", "answer"))
SHA = re.compile("[0-9a-f]{64}")
NEWEST = re.compile("0|[1-9][0-9]{0,14}|[1-8][0-9]{15}")
HEXADECIMAL = {
    **dict.fromkeys(["head", "digest", "content", "blob", "withheld", "erased", "key", "of", "sha256"], SHA),
    "previous": re.compile("([0-9a-f]{64})?"),
    "salt": re.compile("([0-9a-f]{32})?"),
    "signature": re.compile("[0-9a-f]{128}"),
}
MEANS = {
    "form": "it is not in the one form that it may have",
    "order": "it is out of order, or something is missing before it",
    "lineage": "the history does not say so of the conversation",
    "record": "the record of the history does not match its digest, or the one before",
    "blob": "the blob is not what its hash says, or the entry after it does not name it",
    "entry": "the entry is not the next one, or not what its digest says",
    "erasure": "no record says that the entry was erased so",
    "head": "the end is not the one that the first line states",
    "request": "the request is not the one that the receipt of its answer names",
    "log_head": "the history and the heads are not those of the stated head of the log",
    "content": "another pack was signed or stamped",
    "signature": "the signature is wrong",
    "anchor": "the answer is not about this pack",
    "end": "the pack is cut off, or was changed",
}
"""The meaning of each check that failed."""


class Stated(NamedTuple):
    """The first line's conversation, its number of entries and its last digest."""

    conversation: str
    entries: int
    head: str


class Blob(NamedTuple):
    """A blob by its sha256."""

    sha: str
    content: bytes


class Shown(NamedTuple):
    """An entry; of a withheld one the record has no words, as of an erased one."""

    record: Record
    is_withheld: bool


class _CheckError(Exception):
    """A check failed; the argument is its name."""


class PackReader:
    """The state of a pack that is read line by line.

    `is_signed(key, signature, text)` returns whether an Ed25519 signature is right.
    """

    def __init__(self, is_signed: Callable[[bytes, bytes, bytes], bool]) -> None:
        self._is_signed = is_signed
        self._lines = 0
        self._part = -1
        self._hash = sha256()
        self._of = ""
        self._stated: dict[str, Any] = {}
        self._records: list[Change] = []
        self._shown_names: dict[int, str | None] = {}
        self._begun: dict[int, tuple[str, int, int]] = {}
        self._left: dict[tuple[int, int], str | None] = {}
        self._position = 0
        self._digest = GENESIS
        self._times: list[int] = []
        self._blobs: set[str] = set()
        self._unnamed: list[str] = []
        self._withheld: set[int] = set()
        self._answers: dict[int, str] = {}
        self._request = 0

    def take(self, raw: bytes) -> Stated | Blob | Shown | None:
        """Return what a line adds to a log. Raises `CorruptLogError` if a check fails."""
        self._lines += 1
        try:
            found = self._take(raw)
        except _CheckError as failed:
            raise self._error(str(failed)) from None
        self._hash.update(raw)
        return found

    def end(self) -> None:
        """Raise `CorruptLogError` unless the last line was read."""
        if self._part != END:
            self._lines += 1
            raise self._error("end")

    def _error(self, check: str) -> CorruptLogError:
        return CorruptLogError(f"the pack is refused: line {self._lines}: {check}: {MEANS[check]}")

    def _take(self, raw: bytes) -> Stated | Blob | Shown | None:
        _need(self._part != END, "end")
        line = _parsed(raw)
        part, before = KINDS[tuple(line)], self._part
        _need(part > before or (part == before and part not in (STATEMENT, HEADS)), "order")
        self._part = part
        if part == STATEMENT:
            self._stated = line
        _need((self._position == self._stated["entries"]) == (part > ENTRIES), "order")
        if part == STATEMENT:
            return Stated(line["conversation"], line["entries"], line["head"])
        if before < ENTRIES <= part:
            self._check_lineage()
        if before < REQUESTS <= part:
            times = [self._stated["from"], self._stated["to"]]
            _need(times == [self._times[0], self._times[-1]], "head")
            _need(self._digest.hex() == self._stated["head"], "head")
        if before < SIGNATURES <= part:
            self._of = self._hash.hexdigest()
        _need(part not in (SIGNATURES, ANCHORS) or line["of"] == self._of, "content")
        return self._checked(part, line)

    def _checked(self, part: int, line: dict[str, Any]) -> Blob | Shown | None:
        match part:
            case 1:
                self._check_record(line)
            case 2 if "blob" in line:
                return self._blob(line["blob"], b64decode(line["base64"]))
            case 2:
                return self._entry(line)
            case 3:
                self._check_request(**line)
            case 4:
                self._check_heads(line["heads"])
            case 5:
                key, signature = bytes.fromhex(line["key"]), bytes.fromhex(line["signature"])
                _need(self._is_signed(key, signature, signed_text(line["by"], line["of"])), "signature")
            case 6:
                is_stamp = line["anchor"] == "rfc3161"
                _need(not is_stamp or bytes.fromhex(line["of"]) in b64decode(line["answer"]), "anchor")
            case _:
                found = (line["end"], line["sha256"])
                _need(found == (self._lines - 1, self._hash.hexdigest()), "end")
        return None

    def _check_record(self, line: dict[str, Any]) -> None:
        name, salt = line.get("name"), bytes.fromhex(line.get("salt", ""))
        _need(bool(name) == bool(salt), "record")
        place = (line["record"], line["stream"], line["what"], line["value"], line["parent"])
        digest, previous = bytes.fromhex(line["digest"]), bytes.fromhex(line["previous"])
        content = history.hashed(salt, name) if name is not None else bytes.fromhex(line["content"])
        # As a name that was erased: of any form of salt, the hash is what counts.
        change = Change(*place, b"", "", digest, content)
        _need(history.digest_of(previous, change) == digest, "record")
        last = self._records[-1] if self._records else Change(0, 0, "", 0, 0, b"", "", GENESIS)
        _need(change.number > last.number, "record")
        _need(previous == last.digest if change.number == last.number + 1 else previous != GENESIS, "record")
        self._records.append(change)
        if change.what in NAMING:
            self._shown_names[change.stream] = name
        if change.what in (history.BEGUN, history.FORKED):
            self._begun[change.stream] = (change.what, change.parent, change.value)
        elif change.what == ERASED:
            self._left[change.stream, change.value] = name

    def _check_lineage(self) -> None:
        streams: Sequence[Sequence[int]] = self._stated["streams"]
        what, parent = history.BEGUN, 0
        for nth, (stream, first) in enumerate(streams):
            *origin, value = self._begun.get(stream, ("", 0, 0))
            start = min(value + 1, *(following for _, following in streams[nth : nth + 2][1:]), MOST)
            _need((*origin, first) == (what, parent, start), "lineage")
            _need(value == 0 or what != history.BEGUN, "lineage")
            what, parent = history.FORKED, stream
        _need(streams[0][1] == 1, "lineage")
        _need(self._shown_names.get(parent) == self._stated["conversation"], "lineage")

    def _blob(self, sha: str, content: bytes) -> Blob:
        _need(sha256(content).hexdigest() == sha and sha not in self._blobs, "blob")
        self._blobs.add(sha)
        self._unnamed.append(sha)
        return Blob(sha, content)

    def _entry(self, line: dict[str, Any]) -> Shown:
        payload = line.get("payload", "").encode()
        wordless = line.get("withheld") or line.get("erased")
        salt = bytes.fromhex(line.get("salt", ""))
        record = Record(
            line["position"],
            line["id"],
            line["at"],
            line["topic"],
            salt,
            payload,
            bytes.fromhex(line["digest"]),
            line.get("size", len(payload)),
            bytes.fromhex(wordless) if wordless else None,
        )
        content = record.erased or content_hash(salt, payload)
        digest = chain(self._digest, *record[:4], record.size, content)
        _need((record.position, record.digest) == (self._position + 1, digest), "entry")
        self._position, self._digest = record.position, digest
        self._times.append(record.time)
        if "erased" in line:
            left = self._left.get((self._stream, record.position))
            _need(left is not None and left == left_hash(payload), "erasure")
        _need(not self._unnamed or not wordless, "blob")
        _need(all(sha in line["payload"] for sha in self._unnamed), "blob")
        self._unnamed = []
        if "withheld" in line:
            self._withheld.add(record.position)
        elif not wordless and '"receipt"' in line["payload"]:
            self._answers[record.position] = line["payload"]
        return Shown(record, "withheld" in line)

    @property
    def _stream(self) -> int:
        """The stream of the last entry."""
        return int([stream for stream, first in self._stated["streams"] if first <= self._position][-1])

    def _check_request(self, request: int, sources: list[int], body: str, sent: str) -> None:
        _need(request > self._request and request in self._answers, "request")
        self._request = request
        receipt = _receipt(self._answers[request])
        _need(receipt.get("sha256") == sha256(body.encode()).hexdigest(), "request")
        _need(not sent or receipt.get("sent") == sha256(sent.encode()).hexdigest(), "request")
        positions = [0, *sources, request]
        _need(positions == sorted(set(positions)) and self._withheld.isdisjoint(sources), "request")

    def _check_heads(self, heads: list[list[Any]]) -> None:
        number = str(len(self._records))
        _need(bool(self._records) and number == str(self._records[-1].number), "log_head")
        streams = [stream for stream, *_ in heads]
        _need(streams == sorted(set(streams)), "log_head")
        _need([self._stream, self._position, self._digest.hex()] in heads, "log_head")
        first, _, rest = self._stated["log_head"].partition("-")
        newest, _, total = rest.partition("-")
        _need(first == number and NEWEST.fullmatch(newest), "log_head")
        rows = b"".join(f"{stream}\n{at}\n".encode() + bytes.fromhex(digest) for stream, at, digest in heads)
        found = sha256(f"{first}\n{newest}\n".encode() + self._records[-1].digest + rows).hexdigest()
        _need(found == total, "log_head")


def _need(holds: object, check: str) -> None:
    if not holds:
        raise _CheckError(check)


def _parsed(raw: bytes) -> dict[str, Any]:
    try:
        text = raw.decode()
        line = json.loads(text)
        _need(isinstance(line, dict) and tuple(line) in KINDS, "form")
        _need(all(_is_valid(name, value) for name, value in line.items()), "form")
        _need(canonical(line) == text, "form")
    except (ValueError, TypeError, RecursionError, StenologError):
        raise _CheckError("form") from None
    return dict(line)


def _is_valid(name: str, value: Any) -> bool:
    if name in NUMBERS:
        return _is_number(value)
    match name:
        case "streams":
            return _are_rows(value, 2)
        case "heads":
            return _are_rows(value, 3)
        case "sources":
            return isinstance(value, list) and all(map(_is_number, value))
        case _ if not isinstance(value, str):
            return False
        case _ if name in HEXADECIMAL:
            return HEXADECIMAL[name].fullmatch(value) is not None
        case _ if name in BASE64:
            return b64encode(b64decode(value, validate=True)).decode() == value
        case _:
            return name not in LINES or "\n" not in value


def _is_number(value: Any) -> bool:
    return type(value) is int and 0 <= value < MOST


def _are_rows(rows: Any, length: int) -> bool:
    return (
        isinstance(rows, list)
        and bool(rows)
        and all(
            isinstance(row, list)
            and len(row) == length
            and all(map(_is_number, row[:2]))
            and (length == 2 or (isinstance(row[2], str) and SHA.fullmatch(row[2]) is not None))
            for row in rows
        )
    )


def _receipt(payload: str) -> dict[str, Any]:
    try:
        event = json.loads(payload, parse_int=float, parse_constant=int)
        receipt = event["receipt"]
    except (ValueError, TypeError, LookupError, RecursionError):
        raise _CheckError("request") from None
    _need(isinstance(receipt, dict), "request")
    return dict(receipt)
