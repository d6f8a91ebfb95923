"""Values of the library to and from plain JSON, for the command line and other languages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields as fields_of
from datetime import UTC, datetime
from typing import Any

import pydantic_core
from pydantic_core import ValidationError

from stenolog.domain.base.model import first_error
from stenolog.domain.base.near_names import closest
from stenolog.domain.base.value_help import no_such_field
from stenolog.domain.codec import REGISTRY
from stenolog.domain.entry import Entry
from stenolog.domain.erasure import DAMAGED
from stenolog.domain.errors import InvalidEventError
from stenolog.domain.events import Damaged, Event, Known, Unknown

KINDS: Mapping[str, type[Known]] = {cls.kind: cls for cls in REGISTRY.events.values()}
"""The class of each kind of event."""


def plain(value: object) -> Any:
    """Return a value of the library as JSON: named tuples as objects, times as ISO in UTC."""
    match value:
        case Entry():
            return entry_data(value)
        case None | bool() | int() | float() | str():
            return value
        case datetime():
            return when(value)
        case Mapping():
            return {str(key): plain(item) for key, item in value.items()}
        case tuple() if hasattr(value, "_asdict"):
            return {name: plain(item) for name, item in value._asdict().items()}
        case bytes():
            return value.hex()
        case Iterable():
            return [plain(item) for item in value]
        case _:
            return pydantic_core.to_jsonable_python(value, exclude_none=True)


def entry_data(entry: Entry) -> dict[str, Any]:
    """Return an entry as JSON: place, kind, and fields as stored."""
    if isinstance(entry.event, Damaged):
        topic, payload = DAMAGED, entry.event.reason.encode()
    else:
        topic, payload = REGISTRY.dump(entry.event)
    fields: Any = payload.decode(errors="replace")
    if not isinstance(entry.event, Unknown):
        fields = pydantic_core.from_json(payload)
    return {
        "conversation": entry.conversation,
        "position": entry.position,
        "id": entry.id,
        "time": when(entry.time),
        "digest": entry.digest,
        "kind": entry.event.kind,
        "topic": topic,
        "event": fields,
    }


def when(time: datetime) -> str:
    """Return a time as text: ISO, UTC, with microseconds if any."""
    return time.astimezone(UTC).isoformat().replace("+00:00", "Z")


def event_from_json(kind: str, fields: Mapping[str, Any]) -> Event:
    """Return the event of a kind ("user_message") with stored fields.

    `text` means parts with that text. Raises `InvalidEventError` with the place of the first fault.
    """
    cls: Any = KINDS.get(kind)
    if cls is None:
        meant = closest(kind, [*KINDS])
        hint = f"; did you mean {meant!r}?" if meant else ""
        raise InvalidEventError(f"kind: expected one of {', '.join(KINDS)}, found {kind!r:.60}{hint}")
    given, known = dict(fields), [each.name for each in fields_of(cls)]
    if "parts" in known and (text := given.pop("text", None)) is not None:
        if given.get("parts"):
            raise InvalidEventError(f"{kind}: give parts, or text, not both")
        given["parts"] = [{"type": "text", "text": text}]
    if strangers := sorted(given.keys() - set(known)):
        names = ["text", *known] if "parts" in known else known
        raise InvalidEventError(f"{kind}: {no_such_field(strangers, names)}")
    try:
        event: Event = cls.__pydantic_validator__.validate_json(pydantic_core.to_json(given))
    except ValidationError as error:
        raise InvalidEventError(f"{kind}: {first_error(error, cls)}") from None
    except pydantic_core.PydanticSerializationError as error:
        raise InvalidEventError(f"{kind} cannot be written as JSON: {error}") from None
    return event
