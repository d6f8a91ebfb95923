"""Events that somebody writes as JSON, for `stenolog append`: to entries that can be appended.

{"kind": "user_message", "text": "hi", "to": ["coder"]}            the event's fields, `text` for `parts`
{"kind": "user_message", "id": "m1", "event": {"parts": [...]}}    an entry, as `--json` shows it
{"topic": "user_message@1", "id": "m1", "payload": "{...}"}        an entry of an export, and its blobs

The position, the digest and the salt of an entry are passed over: the log it comes into makes its own.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Callable, Collection, Container, Iterable, Iterator
from datetime import datetime
from hashlib import sha256
from typing import Any, NamedTuple, TypeAlias

from pydantic_core import from_json, to_json

from stenolog.adapters.conversation.queries.plain_json import event_from_json
from stenolog.adapters.importers.door.json_lines import Json, JsonObject
from stenolog.domain.base.near_names import closest
from stenolog.domain.base.value_help import no_such_field
from stenolog.domain.codec import REGISTRY
from stenolog.domain.entry import NewEntry
from stenolog.domain.erasure import WORDLESS
from stenolog.domain.errors import InvalidEventError
from stenolog.domain.events import Event

CONTENT = ("event", "payload", "payload_base64")
PLACE = ("kind", "topic", "id", "time", "at")
MADE_ANEW = ("conversation", "position", "digest", "salt", "blobs")
Placed: TypeAlias = "tuple[str, Json]"
"""A JSON value and its place, for an error."""


class Given(NamedTuple):
    """Entries to be appended, and the blobs that they bring along."""

    entries: list[NewEntry]
    blobs: list[bytes]


def read_given(values: Iterable[Placed], held: Container[str] = ()) -> Given:
    """Return the entries of JSON values, each with its place.

    `held` has blobs that need not be given. Raises `InvalidEventError` with place, expected and found.
    """
    given = Given([], [])
    brought = set[str]()
    for place, value in values:
        try:
            match _read(value):
                case bytes(content):
                    given.blobs.append(content)
                    brought.add(sha256(content).hexdigest())
                case NewEntry() as entry:
                    _check_blobs(entry, lambda sha: sha in brought or sha in held)
                    given.entries.append(entry)
                case None:
                    pass
        except InvalidEventError as error:
            raise InvalidEventError(f"{place}: {error}") from None
    return given


def on_lines(content: bytes) -> Iterator[Placed]:
    """Yield values of JSON Lines, of one JSON list, or one value over several lines."""
    lines = [(nth, line) for nth, line in enumerate(content.removeprefix(b"\xef\xbb\xbf").split(b"\n"), 1)]
    written = [(nth, line) for nth, line in lines if line.strip()]
    if written and _is_begun(written[0][1]):
        whole = parsed("line 1", content)[1]
        values = whole if isinstance(whole, list) else [whole]
        yield from ((f"entry {nth}", value) for nth, value in enumerate(values, 1))
        return
    for nth, line in written:
        yield parsed(f"line {nth}", line)


def parsed(place: str, text: bytes | str) -> Placed:
    """Return a JSON value with its place. Raises `InvalidEventError`."""
    try:
        return place, from_json(text, allow_inf_nan=False)
    except ValueError as error:
        shown = text.decode(errors="replace") if isinstance(text, bytes) else text
        raise InvalidEventError(
            f"{place}: expected a JSON object, found {shown.strip()[:40]!r} ({error})"
        ) from None


def _is_begun(line: bytes) -> bool:
    if line.lstrip().startswith(b"["):
        return True
    try:
        from_json(line)
    except ValueError:
        return line.strip() == b"{" or line.rstrip().endswith((b"{", b",", b"["))
    return False


def _read(value: Json) -> NewEntry | bytes | None:
    if not isinstance(value, dict):
        raise InvalidEventError(f"expected a JSON object, found {_found(value)}")
    if "stenolog" in value:
        return None
    return _blob(value) if "base64" in value else _entry(value)


def _blob(value: JsonObject) -> bytes:
    try:
        content = b64decode(value["base64"], validate=True)
    except (ValueError, TypeError):
        raise InvalidEventError("/base64: expected the bytes of a blob as Base64, found other text") from None
    if (found := sha256(content).hexdigest()) != value.get("blob"):
        raise InvalidEventError(f"/blob: expected {found}, the sha256 of the bytes, found another")
    return content


def _check_blobs(entry: NewEntry, is_held: Callable[[str], bool]) -> None:
    event: Any = entry.event
    for each in (*getattr(event, "parts", ()), event):
        sha = getattr(each, "blob", None)
        if sha and not is_held(sha):
            raise InvalidEventError(
                f"expected the blob {sha} in this log or on a line before, as an export has it; found none"
            )


def _entry(value: JsonObject) -> NewEntry:
    if gone := [each for each in WORDLESS if each in value]:
        raise InvalidEventError(f"expected an event, found an entry whose words were {gone[0]}")
    topic = _topic(value)
    content = [name for name in CONTENT if name in value]
    if len(content) > 1:
        raise InvalidEventError(f"expected one of {', '.join(CONTENT)}, found {' and '.join(content)}")
    if content:
        known = (*PLACE, *MADE_ANEW, *content)
        if strangers := [name for name in value if name not in known]:
            raise InvalidEventError(no_such_field(strangers, (*PLACE, *content)))
        fields = _content(content[0], value[content[0]])
    else:
        fields = {name: inner for name, inner in value.items() if name not in (*PLACE, *MADE_ANEW)}
    return NewEntry(_event(topic, fields), _id(value), _time(value))


def _topic(value: JsonObject) -> str:
    newest = {cls.kind: topic for topic, cls in REGISTRY.events.items()}
    if "topic" in value:
        return _one_of("topic", value["topic"], [*REGISTRY.events, *REGISTRY.upcasts])
    if "kind" in value:
        return newest[_one_of("kind", value["kind"], [*newest])]
    raise InvalidEventError(f"expected a kind, one of {', '.join(newest)}, found none")


def _one_of(what: str, word: Json, names: Collection[str]) -> str:
    if word in names:
        return str(word)
    near = closest(word, names) if isinstance(word, str) else ""
    hint = f"; did you mean {near!r}?" if near else ""
    raise InvalidEventError(f"/{what}: expected one of {', '.join(names)}, found {_found(word)}{hint}")


def _content(name: str, content: Json) -> JsonObject:
    """Return an event's fields; an export has them as text."""
    if name == "payload_base64":
        try:
            content = b64decode(content, validate=True)
        except (ValueError, TypeError):
            raise InvalidEventError(f"/{name}: expected Base64, found {_found(content)}") from None
    if name != "event" and isinstance(content, str | bytes):
        content = parsed(f"/{name}", content)[1]
    if not isinstance(content, dict):
        raise InvalidEventError(f"/{name}: expected a JSON object, found {_found(content)}")
    return content


def _event(topic: str, fields: JsonObject) -> Event:
    while upcast := REGISTRY.upcasts.get(topic):
        topic, fields = upcast.to, upcast.change(fields)
    return event_from_json(REGISTRY.events[topic].kind, fields)


def _id(value: JsonObject) -> str | None:
    id = value.get("id")
    if id is not None and not isinstance(id, str):
        raise InvalidEventError(f"/id: expected text, found {_found(id)}")
    return id


def _time(value: JsonObject) -> datetime | None:
    name = "at" if "time" not in value else "time"
    if (written := value.get(name)) is None:
        return None
    try:
        time = datetime.fromisoformat(written)
    except (ValueError, TypeError):
        time = None
    if time is None or time.tzinfo is None:
        raise InvalidEventError(f"/{name}: expected a time as 2026-11-20T09:30:00Z, found {_found(written)}")
    return time


def _found(value: Json) -> str:
    shown = to_json(value).decode(errors="replace")
    return shown if len(shown) <= 60 else f"{shown[:57]}…"
