"""The remainder: the part of a conversation that a foreign format cannot say, kept beside it.

The format's own importer reads the export. The remainder has, for each entry, the event that this makes and
the changes to it, or the whole entry if it makes none. It counts only for the document that it was made for:
one that was changed is read as any other of its format.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections import defaultdict, deque
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from hashlib import sha256
from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple

from stenolog.adapters.importers.conversion.converter import RecordConverter, SourceConversation
from stenolog.adapters.importers.conversion.event_writer import EventWriter
from stenolog.adapters.importers.conversion.steps import Append, ExistingLog, Step
from stenolog.adapters.importers.door.json_lines import Json, JsonObject, Record
from stenolog.domain.codec import REGISTRY
from stenolog.domain.entry import Entry, NewEntry
from stenolog.domain.erasure import is_erased
from stenolog.domain.errors import CorruptLogError, DuplicateIdError, StenologError
from stenolog.domain.events import Damaged, Event, Unknown, UserMessage
from stenolog.projections.messages.json_fields import as_dict, as_list, as_str, compact_json

from .jsonl import named_blobs

if TYPE_CHECKING:
    from stenolog.adapters.conversation.log import Conversation

OURS = "stenolog"
"""The name under which a document has its remainder."""
CHANGED = "changed since its export by stenolog: what the format cannot say"


def with_remainder(
    document: JsonObject, place: JsonObject, conversation: Conversation, source: SourceConversation
) -> None:
    """Put the remainder into `place`, an object of the document, which `source` reads.

    Raises `BlobNotFoundError` for a damaged blob.
    """
    made = _appends(source)
    drafts = [_Draft.of(append.draft) for append in made]
    waiting: dict[object, deque[int]] = defaultdict(deque)
    for nth, draft in enumerate(drafts):
        waiting[draft.key].append(nth)
    brought = {sha for append in made for sha in append.blobs}
    blobs: dict[str, str] = {}
    kept: list[JsonObject] = []
    for entry in conversation.entries():
        wanted = _Draft.of(entry._replace(event=_storable(entry)))
        found = waiting[wanted.key].popleft() if waiting[wanted.key] else None
        kept.append(_entry(wanted, found, drafts))
        for sha in named_blobs(wanted.payload):
            if sha not in brought and sha in conversation.log.blobs:
                brought.add(sha)
                blobs[sha] = b64encode(conversation.log.blobs[sha]).decode()
    remainder: JsonObject = {"version": 1, "conversation": conversation.name, "entries": kept}
    if blobs:
        remainder["blobs"] = blobs
    place[OURS] = {**remainder, "of": _seal(document)}


def restored(document: JsonObject, place: JsonObject, source: SourceConversation) -> SourceConversation:
    """Return the conversation that was exported, or `source` if there is no remainder, or another's.

    `source` must read the document without its remainder, which is taken out of `place`.
    """
    remainder = as_dict(place.pop(OURS, None))
    if not isinstance(remainder.get("entries"), list):
        return source
    source.ignored[CHANGED] += 1
    if remainder.get("of") != _seal(document):
        return source
    try:
        entries = [*_entries(source, as_list(remainder["entries"]))]
        blobs = _blobs(as_dict(remainder.get("blobs")))
    except (LookupError, TypeError, ValueError, OverflowError, StenologError):
        return source
    brought = {sha: content for append in _appends(source) for sha, content in append.blobs.items()}
    records = [Record(str(nth), {"id": entry.id}) for nth, entry in enumerate(entries, 1)]
    name = as_str(remainder.get("conversation")) or source.name
    make = partial(_Restored, entries=entries, blobs=brought | blobs)
    return SourceConversation(name, records, make, unit="entry")


class _Restored(RecordConverter):
    """The entries of an export, as they were, at the positions that they had."""

    def __init__(self, log: ExistingLog, entries: list[NewEntry], blobs: Mapping[str, bytes]) -> None:
        super().__init__(EventWriter("", "", log))
        self._log = log
        self._next = log.head + 1
        self._entries = entries
        self._blobs = blobs

    def take(self, record: Record) -> list[Step]:
        """Return the step for an entry. Raises `DuplicateIdError` for another conversation of its name."""
        entry = self._entries[record.number - 1]
        known = self._log.positions.get(entry.id or "")
        if (known or self._next) != record.number:
            raise DuplicateIdError(
                f"expected the conversation that was exported, found another at position {record.number}: "
                "give it another name"
            )
        if known is not None:
            self.writer.already += 1
            return []
        self._next += 1
        needed = named_blobs(REGISTRY.dump(entry.event)[1])
        return [Append(entry, {sha: self._blobs[sha] for sha in needed if sha in self._blobs})]


class _Draft(NamedTuple):
    """An entry, or what an importer makes of one, to be compared."""

    topic: str
    payload: bytes
    id: str
    time: str
    key: object

    @classmethod
    def of(cls, entry: Entry | NewEntry) -> _Draft:
        topic, payload = REGISTRY.dump(entry.event)
        event: Any = entry.event
        said = tuple(getattr(part, "text", "") or getattr(part, "name", "") for part in _parts(event))
        time = entry.time.isoformat() if entry.time else ""
        return cls(topic, payload, entry.id or "", time, (topic, said, getattr(event, "call_id", "")))


def _parts(event: Event) -> tuple[Any, ...]:
    return getattr(event, "parts", ())


def _appends(source: SourceConversation) -> list[Append]:
    """Return what the importer makes of the document in an empty log."""
    converter = source.make(ExistingLog())
    steps: list[Step] = []
    for record in source.records:
        with suppress(ValueError, ArithmeticError, RecursionError):
            steps += converter.take(record)
    steps += converter.end() + converter.writer.finish()
    return [step for step in steps if isinstance(step, Append)]


def _storable(entry: Entry) -> Event:
    """Return the event, or a note in the place of one whose content is gone: later positions stay."""
    if is_erased(entry.event) or isinstance(entry.event, Damaged):
        return UserMessage(author_kind="system", in_context=False, tags=("not-exported",))
    return entry.event


def _entry(wanted: _Draft, found: int | None, drafts: list[_Draft]) -> JsonObject:
    """Return an entry of the remainder."""
    base = drafts[found] if found is not None else None
    about = {"id": wanted.id, "at": wanted.time}
    if base is not None:
        about = {} if base.id == wanted.id else {"id": wanted.id}
        about |= {} if base.time == wanted.time else {"at": wanted.time}
    if base is not None and wanted.topic in REGISTRY.events:
        changes = [*_changes(json.loads(base.payload), json.loads(wanted.payload))]
        if _load(wanted.topic, _changed(base.payload, changes)) == wanted.payload:
            return {"draft": found, **about, **({"changes": changes} if changes else {})}
    try:
        return {"id": wanted.id, "at": wanted.time, "topic": wanted.topic, "payload": wanted.payload.decode()}
    except UnicodeDecodeError:
        raw = b64encode(wanted.payload).decode()
        return {"id": wanted.id, "at": wanted.time, "topic": wanted.topic, "payload_base64": raw}


def _load(topic: str, fields: JsonObject) -> bytes:
    """Return the payload that is stored for these fields; "" if they are no event."""
    with suppress(StenologError, ValueError):
        return REGISTRY.dump(REGISTRY.load(topic, compact_json(fields).encode()))[1]
    return b""


def _entries(source: SourceConversation, kept: list[Json]) -> Iterator[NewEntry]:
    """Yield the entries of a remainder. Raises what `restored` falls back for."""
    drafts = [append.draft for append in _appends(source)]
    for value in map(as_dict, kept):
        base = drafts[_index(value["draft"])] if "draft" in value else None
        if base is not None:
            topic, payload = REGISTRY.dump(base.event)
            if changes := as_list(value.get("changes")):
                payload = compact_json(_changed(payload, changes)).encode()
        else:
            topic = _text(value["topic"])
            given = value.get("payload")
            payload = (
                _text(given).encode() if given is not None else b64decode(_text(value["payload_base64"]))
            )
        event = REGISTRY.load(topic, payload)
        if isinstance(event, Unknown) and base is not None:
            raise CorruptLogError(f"expected an event, found {topic}")
        time = _time(_text(value.get("at", ""))) or (base.time if base else None)
        yield NewEntry(event, _text(value.get("id", "")) or (base.id if base else None), time)


def _time(value: str) -> datetime | None:
    if not value:
        return None
    time = datetime.fromisoformat(value)
    if time.tzinfo is None:
        raise ValueError("expected a time with its zone")
    time.astimezone(UTC)  # raises for one that no store holds
    return time


def _text(value: Json) -> str:
    if not isinstance(value, str):
        raise TypeError("expected a text")
    return value


def _index(value: Json) -> int:
    if type(value) is not int or value < 0:  # true is not 1
        raise TypeError("expected an index")
    return value


def _blobs(given: Mapping[str, Json]) -> dict[str, bytes]:
    found = {sha: b64decode(as_str(content), validate=True) for sha, content in given.items()}
    if any(sha256(content).hexdigest() != sha for sha, content in found.items()):
        raise CorruptLogError("a blob is not what its hash says")
    return found


def _changes(base: Json, wanted: Json, at: tuple[str | int, ...] = ()) -> Iterator[list[Json]]:
    """Yield a path with the value to set there, or alone if it is to be removed."""
    match base, wanted:
        case dict(), dict():
            yield from ([[*at, name]] for name in base if name not in wanted)
            for name, value in wanted.items():
                if name in base:
                    yield from _changes(base[name], value, (*at, name))
                else:
                    yield [[*at, name], value]
        case list(), list() if len(base) == len(wanted):
            for nth, one, other in zip(count(), base, wanted, strict=False):
                yield from _changes(one, other, (*at, nth))
        case _:
            if type(base) is not type(wanted) or base != wanted:  # true is not 1, nor is 1.0
                yield [[*at], wanted]


def _changed(payload: bytes, changes: list[Any]) -> JsonObject:
    fields: JsonObject = json.loads(payload)
    for path, *value in changes:
        place: Any = fields
        for step in path[:-1]:
            place = place[step]
        if value:
            place[path[-1]] = value[0]
        else:
            del place[path[-1]]
    return fields


def _seal(document: JsonObject) -> str:
    """Return the digest of a document, whoever wrote its JSON anew."""
    return sha256(json.dumps(document, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
