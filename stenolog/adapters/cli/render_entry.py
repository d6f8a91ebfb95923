"""One entry in full, for `show`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

from stenolog.domain.entry import Entry
from stenolog.domain.events import AssistantMessage
from stenolog.projections.terminal_text import one_line, safe_json
from stenolog.projections.timeline import cut_words

from .layout import heading
from .lines import STYLES, Piece, entry_data, field, line, paragraph


def raw_entry(entry: Entry) -> Iterator[Piece]:
    """Yield the text of an entry and the raw arguments of each tool call; without either, all fields."""
    event = entry.event
    text = getattr(event, "text", "")
    calls = event.tool_calls if isinstance(event, AssistantMessage) else ()
    if text:
        yield paragraph(text)
    for call in calls:
        yield paragraph(call.arguments)
    if not text and not calls:
        yield paragraph(_json(entry_data(entry)["event"]))


def full_entry(entry: Entry) -> Iterator[Piece]:
    """Yield everything that is stored of an entry: its fields, then its parts one by one."""
    data = entry_data(entry)
    yield line(
        (f"{entry.conversation}@{entry.position}", "bold"), "  ", (data["topic"], STYLES[data["kind"]])
    )
    if isinstance(entry.event, AssistantMessage) and (cut := cut_words(entry.event)):
        yield line((cut, "yellow"))
    fields = data["event"] if isinstance(data["event"], dict) else {"payload": data["event"]}
    parts = fields.get("parts", ())
    given = {name: value for name, value in fields.items() if name != "parts"}
    yield from _fields({name: data[name] for name in ("id", "at", "digest")} | given)
    for part in parts:
        yield heading(part.pop("type", "part"))
        text = part.pop("text", None)
        arguments = _named_arguments(part.get("arguments"))
        if arguments:
            del part["arguments"]
        yield from _fields(part)
        if arguments:
            yield line(("arguments", "dim"))
            yield from _fields(arguments, margin=2)
        if text is not None:
            yield paragraph(text)


def _named_arguments(written: object) -> dict[str, object]:
    """Return the arguments of a call by their names; empty for text that is no JSON object.

    A line break within a value is a line break then, and not the letters `\\n`.
    """
    if not isinstance(written, str):
        return {}
    try:
        found = json.loads(written, object_pairs_hook=_without_repetition)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _without_repetition(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """Return the pairs of an object. Raises ValueError for a name that comes twice: one would be lost."""
    if len(dict(pairs)) < len(pairs):
        raise ValueError
    return dict(pairs)


def _fields(fields: Mapping[str, object], margin: int = 0) -> Iterator[Piece]:
    """Yield a paragraph for each field: its name, and its whole value beside it."""
    indent = max((len(one_line(name)) for name in fields), default=0) + margin + 2
    for name, value in fields.items():
        shown = field(name, value if isinstance(value, str) else _json(value), indent)
        yield shown._replace(lead=" " * margin + shown.lead)


def _json(value: object) -> str:
    return safe_json(value, spaced=True)
