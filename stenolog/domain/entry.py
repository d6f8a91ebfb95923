"""An event in the log, and the chain of digests that holds the log together.

    digest = sha256(previous digest ‖ header ‖ sha256(salt ‖ payload))
    header = position, id, at, topic, size: each as UTF-8 text and ended by a line feed

`previous digest` is empty before position 1; before a fork's first position it is the parent's digest at the
fork. An erased payload loses its salt too, and the chain still verifies.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from hashlib import sha256
from typing import NamedTuple

from stenolog.domain.erasure import ERASED, SWITCH, effects_of

from .base.model import EPOCH as EPOCH
from .base.model import in_utc
from .base.value_help import quoted
from .codec import REGISTRY, TopicRegistry
from .errors import CorruptLogError, InvalidEventError
from .events import Event, ModeSwitch

GENESIS = b""
MICROSECOND = timedelta(microseconds=1)
LONGEST_NAME = 200
OPENING_ID = "opening"
"""The id of the mode switch that opens a conversation if the caller wrote none."""


class Entry(NamedTuple):
    """An event with its place in the log. `time` is aware UTC, `digest` 64 hexadecimal digits."""

    conversation: str
    position: int
    id: str
    time: datetime
    digest: str
    event: Event

    def __repr__(self) -> str:
        words = quoted(getattr(self.event, "text", "") or self.event)
        return f"<Entry {self.position} of {self.conversation!r}: {self.event.kind} {words}>"


class NewEntry(NamedTuple):
    """An event before its append. Id and time may be omitted."""

    event: Event
    id: str | None = None
    time: datetime | None = None


class Record(NamedTuple):
    """An entry as it is stored: `time` in microseconds since 1970 (UTC), the event as its bytes.

    After an erasure `erased` holds the sha256 of salt and payload, which are empty, and `size` the old
    length. Beside a salt or a payload no digest is right. The payload of an erased mode switch is its
    effects, whose hash is in the history.
    """

    position: int
    id: str
    time: int
    topic: str
    salt: bytes
    payload: bytes
    digest: bytes
    size: int
    erased: bytes | None = None


def content_hash(salt: bytes, payload: bytes) -> bytes:
    """Return the sha256 of a payload in the chain, 32 bytes."""
    # Hashed by itself, so that the chain still verifies when the payload is gone. The salt keeps the hash of
    # a short payload from being guessed.
    return sha256(salt + payload).digest()


def effects_left(topic: str, payload: bytes) -> bytes:
    """Return the payload that an erasure leaves: the effects of a mode switch, else nothing."""
    event = REGISTRY.load(topic, payload) if topic == SWITCH else None
    return REGISTRY.dump(effects_of(event))[1] if isinstance(event, ModeSwitch) else b""


def left_hash(left: bytes) -> str:
    """Return the hash of what an erasure left, as the history has it; "" for nothing."""
    return sha256(left).hexdigest() if left else ""


def chain(previous: bytes, position: int, id: str, at: int, topic: str, size: int, content: bytes) -> bytes:
    """Return the digest of one entry, 32 bytes; `content` is its `content_hash`."""
    # Without the conversation's name, so that a rename changes no digest. Each field ends in a line feed,
    # which no name and no topic holds.
    header = f"{position}\n{id}\n{at}\n{topic}\n{size}\n"
    return sha256(previous + header.encode() + content).digest()


def make_record(
    previous: bytes, position: int, id: str, at: int, topic: str, salt: bytes, payload: bytes
) -> Record:
    """Return the record of a new entry, chained to the digest before it."""
    size = len(payload)
    digest = chain(previous, position, id, at, topic, size, content_hash(salt, payload))
    return Record(position, id, at, topic, salt, payload, digest, size)


def digest_of(previous: bytes, record: Record) -> bytes:
    """Return the digest that a record must have, after `previous`."""
    content = record.erased
    if content is None:
        content = content_hash(record.salt, record.payload)
    elif record.salt or (record.payload and record.topic != SWITCH):
        # No hash at all: beside a payload, the hash of another one would vouch for it.
        content = b""
    return chain(previous, record.position, record.id, record.time, record.topic, record.size, content)


def to_entry(
    conversation: str, record: Record, registry: TopicRegistry = REGISTRY, wordless: str = ERASED
) -> Entry:
    """Return the record with its event decoded; without words as an `Unknown` of the topic `wordless`.

    Raises `CorruptLogError`, naming conversation and position.
    """
    try:
        # The topic of an erased entry stays in its row, but there is nothing to decode by it.
        is_readable = record.erased is None or (record.payload and record.topic == SWITCH)
        stored = (record.topic, record.payload) if is_readable else (wordless, b"")
        event = registry.load(*stored)
        at = EPOCH + record.time * MICROSECOND
    except (CorruptLogError, OverflowError) as error:
        raise CorruptLogError(f"{conversation!r} at position {record.position}: {error}") from None
    return Entry(conversation, record.position, record.id, at, record.digest.hex(), event)


def microseconds(time: datetime) -> int:
    """Return microseconds since 1970 (UTC) of an aware time. Raises `InvalidEventError` for a naive one."""
    try:
        return (in_utc(time) - EPOCH) // MICROSECOND
    except ValueError as error:
        found = time.isoformat() if isinstance(time, datetime) else f"{time!r:.60}"
        raise InvalidEventError(f"time: {error}, found {found}") from None


def check_name(text: str, *, what: str) -> str:
    """Return the text if it can name a conversation or an entry: 1 to 200 printable characters.

    Raises `InvalidEventError` if it cannot.
    """
    try:
        if not 0 < len(text) <= LONGEST_NAME:
            raise InvalidEventError(f"{what}: expected 1 to {LONGEST_NAME} characters, found {text!r:.60}")
        if not text.isprintable() or text != text.strip():
            raise InvalidEventError(
                f"{what}: expected printable text without blanks at its ends, found {text!r:.60}"
            )
    except (TypeError, AttributeError):
        raise InvalidEventError(f"{what}: expected text, found {text!r:.60}") from None
    return text
