"""Files of Nostr events.

A JSON list, JSON Lines of events or relay messages (`["EVENT", subscription, event]`), or a conversation of
TENEX (`history`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import partial
from typing import BinaryIO, NamedTuple

from stenolog import importers
from stenolog.errors import UnknownFormatError
from stenolog.importers import Json, JsonLinesReader, Record, as_dict, as_list, as_str

from .converter import Nostr, Stored, Whole, slugs, stored
from .events import MESSAGES, METADATA, PROFILE, NostrEvent, checker, event_of, is_event, roots_of, unpacked
from .participants import people

_RELAY = ("EVENT", "EOSE", "NOTICE", "OK", "CLOSED", "AUTH")
"""The types of a relay's messages."""


class Content(NamedTuple):
    """A file's contents.

    `found`: possible events, each with its line or number. `stored`: TENEX's fields by the root's id.
    `ignored`: counts of other values. `unit`: what the numbers count.
    """

    found: list[tuple[int, Json]]
    stored: dict[str, Stored]
    ignored: Counter[str]
    unit: str = "line"


def is_nostr(document: Json) -> bool:
    """Return whether a document holds events: a list, a relay's message, or TENEX's conversation."""
    if isinstance(document, dict):
        return is_event(document) or any(is_event(_event(item)) for item in as_list(document.get("history")))
    return any(is_event(_event(item)) for item in (document, *as_list(document)))


def read(stream: BinaryIO, reading: JsonLinesReader) -> Iterator[importers.SourceConversation]:
    """Yield a file's conversations, one for each root, oldest first.

    Raises `MissingExtraError`, and `CallerError` for a name given to an invalid key.
    """
    content = _content(stream, reading)
    lines: dict[str, int] = {}
    events: dict[str, NostrEvent] = {}
    for line, event in _checked(content, reading):
        lines.setdefault(event.id, line)
        if events.setdefault(event.id, event) is not event:
            reading.repaired["events that came more than once"] += 1
    threads, around = _threads(events)
    profiles = {**_profiles_beside(reading), **reading.noted}
    if not threads:
        reading.noted.update((id, event) for id, event in events.items() if event.kind == PROFILE)
    known = {**profiles, **events}.values()
    tied = {key: slug for kept in content.stored.values() for key, slug in slugs(kept, known).items()}
    whole = Whole(events, people(known, reading.agents, tied), content.stored)
    ignored = content.ignored + around
    for root, members in threads.items():
        records = [Record(str(lines[event.id]), {"id": event.id}) for event in members]
        yield importers.SourceConversation(root, records, partial(Nostr, root=root, whole=whole), ignored)
        ignored = Counter()


def _profiles_beside(reading: JsonLinesReader) -> dict[str, NostrEvent]:
    around = [reading.path.with_name(f"profiles.{end}") for end in ("json", "jsonl")] if reading.path else []
    found: dict[str, NostrEvent] = {}
    for path in around:
        if path.is_file() and path != reading.path:
            other = JsonLinesReader()
            with importers.regular_file(path) as stream:
                found |= {e.id: e for _, e in _checked(_content(stream, other), other) if e.kind == PROFILE}
    return found


def _content(stream: BinaryIO, reading: JsonLinesReader) -> Content:
    """Return everything that should be an event, valid or not."""
    whole = JsonLinesReader()
    try:
        document = whole.document(stream)
    except UnknownFormatError:
        stream.seek(0)
        return _of_values(list(reading.values(stream)))
    reading.repaired += whole.repaired
    history = document.get("history") if isinstance(document, dict) else None
    if isinstance(history, list):
        found = [(nth, _event(item)) for nth, item in enumerate(history, 1)]
        ids = [as_str(as_dict(item).get("id")) for _, item in found]
        kept, ignored = stored(document, ids)
        return Content(found, {as_str(document.get("id")): kept}, ignored, "item")
    if isinstance(document, list) and not _is_of_relay(document):
        return _of_values([(str(nth), item) for nth, item in enumerate(document, 1)])._replace(unit="item")
    return _of_values([("1", document)])


def _of_values(values: list[tuple[str, Json]]) -> Content:
    content = Content([], {}, Counter())
    for line, value in values:
        if _is_of_relay(value) and value[0] != "EVENT":
            content.ignored[f"{value[0]} of a relay"] += 1
        else:
            content.found.append((int(line.partition(".")[0]), _event(value)))
    return content


def _event(item: Json) -> Json:
    if _is_of_relay(item):
        return item[-1]
    return unpacked(item) if isinstance(item, str) else item


def _is_of_relay(value: Json) -> bool:
    return isinstance(value, list) and len(value) > 1 and value[0] in _RELAY


def _checked(content: Content, reading: JsonLinesReader) -> Iterator[tuple[int, NostrEvent]]:
    is_signed = checker()
    for line, value in content.found:
        try:
            event = event_of(value)
            if not is_signed(event):
                raise ValueError("its signature is not its author's")
        except ValueError as error:
            reading.skipped.append(importers.Skipped(line, f"{_label(value)}: {error}", content.unit))
        else:
            yield line, event


def _label(value: Json) -> str:
    return f"event {value['id'][:8]}…" if is_event(value) and isinstance(value["id"], str) else "no event"


def _threads(events: dict[str, NostrEvent]) -> tuple[dict[str, list[NostrEvent]], Counter[str]]:
    """Return conversations' events by root, in order of time, and the number of others by kind."""
    threads: dict[str, list[NostrEvent]] = {}
    roots = roots_of(events)
    in_order = sorted(events.values(), key=lambda event: (event.created_at, event.id))
    for event in (event for event in in_order if event.kind in MESSAGES):
        threads.setdefault(roots[event.id], []).append(event)
    around: Counter[str] = Counter()
    for event in (event for event in in_order if event.kind not in MESSAGES):
        about = events.get(event.value("e")) if event.kind == METADATA else None
        if about is not None and about.kind in MESSAGES:
            threads[roots[about.id]].append(event)
        else:
            around[f"kind {event.kind}"] += 1
    return threads, around


NOSTR = importers.Importer("nostr", read=read, is_document=is_nostr, is_record=is_nostr, takes_agents=True)
