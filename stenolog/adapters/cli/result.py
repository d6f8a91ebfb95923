"""Result of a command, drawn for people or printed as one JSON envelope for programs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

import pydantic_core

from stenolog.domain.codec import REGISTRY
from stenolog.domain.entry import Entry
from stenolog.domain.events import Unknown

if TYPE_CHECKING:
    from .lines import Piece

ENVELOPE_VERSION = 1
Severity: TypeAlias = Literal["error", "warning", "note"]


class Diagnostic(NamedTuple):
    """Something to be said about the data: what, how grave, and where.

    `pointer` is a JSON pointer into what stands at the position.
    """

    severity: Severity
    code: str
    message: str
    conversation: str = ""
    position: int | None = None
    pointer: str = ""


def nothing() -> Iterable[Piece]:
    """The drawing of a command that has nothing to show."""
    return ()


class CommandResult(NamedTuple):
    """Result of a command.

    `data` is what `--json` shows, or a function that makes it when it is asked for. `draw` makes what a
    person sees; a string in it is printed as it is. `failed`: the check that the command is there for has
    failed. `streams`: the data comes piece by piece, each in an envelope of its own. `said`: what a
    person is told in the place of the diagnostics, where that is less. `closing` stands below them.
    """

    data: object = None
    draw: Callable[[], Iterable[Piece]] = nothing
    failed: bool = False
    diagnostics: tuple[Diagnostic, ...] = ()
    streams: bool = False
    messages: tuple[Diagnostic, ...] | None = None
    closing: tuple[Piece, ...] = ()


def envelope(status: str, data: object, diagnostics: Iterable[Diagnostic] = ()) -> dict[str, Any]:
    """The one shape of everything that `--json` prints; envelope.schema.json describes it."""
    shown = [{k: v for k, v in note._asdict().items() if v not in ("", None)} for note in diagnostics]
    return {"version": ENVELOPE_VERSION, "status": status, "data": plain(data), "diagnostics": shown}


def plain(value: object) -> Any:
    """Any value of the library as JSON would hold it: named tuples as objects, times as ISO in UTC."""
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
    """An entry as JSON: its place, its kind, and the event's fields as they are stored."""
    topic, payload = REGISTRY.dump(entry.event)
    fields: Any = payload.decode(errors="replace")
    if not isinstance(entry.event, Unknown):
        fields = pydantic_core.from_json(payload)
    return {
        "conversation": entry.conversation,
        "position": entry.position,
        "id": entry.id,
        "at": when(entry.time),
        "digest": entry.digest,
        "kind": entry.event.kind,
        "topic": topic,
        "event": fields,
    }


def when(time: datetime) -> str:
    """A time as text: ISO, UTC, to the microsecond where there are any."""
    return time.astimezone(UTC).isoformat().replace("+00:00", "Z")
