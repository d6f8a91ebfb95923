"""Lines of an evidence pack in canonical form: values in, text out.

`docs/reference/evidence.md` has the fields. A line is JSON without blanks, and parsing and writing it again
gives its bytes.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from stenolog.domain.entry import Record, content_hash
from stenolog.domain.errors import CallerError
from stenolog.domain.history import Change, hashed
from stenolog.projections.messages.json_fields import compact_json

VERSION = 1
MOST = 9_000_000_000_000_000
"""Numbers are smaller, so that every language reads them exactly; as microseconds, up to the year 2255."""
SIGNED = "stenolog evidence 1"
"""The first line of the text that a signature signs."""


class Statement(NamedTuple):
    """The first line: the conversation, its end, and the words of the producer.

    `streams` are the conversation's streams with their first positions, the oldest ancestor first. `began`
    and `ended` are the times of the first and the last entry, `time` when the pack was made, in microseconds.
    """

    conversation: str
    entries: int
    head: str
    streams: Sequence[tuple[int, int]]
    began: int
    ended: int
    time: int
    program: str
    statement: str = ""
    log_head: str = ""


class SentRequest(NamedTuple):
    """A request, as the receipt of the answer at `position` names it.

    `sources` are the positions that it was built from. `sent` are the bytes as they were sent, "" if they are
    not known.
    """

    position: int
    sources: Sequence[int]
    body: str
    sent: str = ""


def canonical(line: dict[str, Any]) -> str:
    """Return a line with its end. Raises `CallerError` for a number that not every language reads."""
    for key, value in line.items():
        if isinstance(value, int) and not 0 <= value < MOST:
            raise CallerError(f"evidence: {key}: expected a number from 0 to {MOST - 1}, found {value}")
    return compact_json(line) + "\n"


def statement_line(stated: Statement) -> str:
    """Return the first line."""
    names = {"began": "from", "ended": "to"}
    fields = {names.get(name, name): value for name, value in stated._asdict().items()}
    return canonical({"evidence": VERSION, **fields})


def record_line(change: Change, previous: bytes, *, named: bool) -> str:
    """Return a record of the history; without `named`, only the hash of its name."""
    place = {"record": change.number, **{key: getattr(change, key) for key in _PLACE}}
    if change.erased is not None:
        name = {"content": change.erased.hex()}
    elif named or not change.name:
        name = {"salt": change.salt.hex(), "name": change.name}
    else:
        name = {"content": hashed(change.salt, change.name).hex()}
    return canonical({**place, **name, "previous": previous.hex(), "digest": change.digest.hex()})


_PLACE = ("stream", "what", "value", "parent")


def blob_line(sha: str, content: bytes) -> str:
    """Return a blob."""
    return canonical({"blob": sha, "base64": b64encode(content).decode()})


def entry_line(record: Record, *, withheld: bool) -> str:
    """Return an entry, what an erasure left of it, or only its hash if it is withheld.

    Raises `UnicodeDecodeError` for a payload that is not text.
    """
    header: dict[str, Any] = {
        "position": record.position,
        "id": record.id,
        "at": record.time,
        "topic": record.topic,
    }
    if withheld:
        content = record.erased or content_hash(record.salt, record.payload)
        said: dict[str, Any] = {"size": record.size, "withheld": content.hex()}
    elif record.erased is not None:
        said = {"size": record.size, "erased": record.erased.hex(), "payload": record.payload.decode()}
    else:
        said = {"salt": record.salt.hex(), "payload": record.payload.decode()}
    return canonical({**header, **said, "digest": record.digest.hex()})


def request_line(request: SentRequest) -> str:
    """Return a request with its bytes."""
    return canonical(
        {
            "request": request.position,
            "sources": [*request.sources],
            "body": request.body,
            "sent": request.sent,
        }
    )


def heads_line(heads: Iterable[tuple[int, int, bytes]]) -> str:
    """Return the heads of all conversations, by stream."""
    return canonical({"heads": [[stream, position, digest.hex()] for stream, position, digest in heads]})


def signed_text(by: str, of: str) -> bytes:
    """Return the bytes that a signature of a pack signs."""
    return f"{SIGNED}\n{by}\n{of}".encode()


def signature_line(signature: bytes, key: bytes, by: str, of: str) -> str:
    """Return an Ed25519 signature of the pack up to the first signature."""
    return canonical({"signature": signature.hex(), "key": key.hex(), "by": by, "of": of})


def anchor_line(kind: str, of: str, name: str, answer: bytes) -> str:
    """Return what an outside server or program answered to the pack's hash."""
    return canonical({"anchor": kind, "of": of, "name": name, "answer": b64encode(answer).decode()})


def end_line(lines: int, sha: str) -> str:
    """Return the last line: the number of lines before it, and the sha256 of their bytes."""
    return canonical({"end": lines, "sha256": sha})
