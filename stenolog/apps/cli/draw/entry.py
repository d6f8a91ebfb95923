"""One entry in full, for `show`."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from stenolog.apps.cli.arguments.editor import file_links
from stenolog.apps.cli.arguments.time import in_zone
from stenolog.apps.cli.lines import Piece, entry_data, field, line, paragraph
from stenolog.apps.views.calls import CallLine, calls_of, result_of
from stenolog.domain.entry import Entry
from stenolog.domain.erasure import is_erased
from stenolog.domain.events import AssistantMessage
from stenolog.domain.parts import Part
from stenolog.projections.terminal_text import one_line, safe_json
from stenolog.projections.views.acts import Act, acts, is_act, is_of_program, is_result_of
from stenolog.projections.views.blocks import PATHS
from stenolog.projections.views.timeline import cut_words

from .entry_lines import erasure_words, styled_kind
from .layout import heading, wrapped

if TYPE_CHECKING:
    from stenolog.adapters.conversation.log import Conversation

RECORD = ("call_id", "call", "source", "session", "receipt", "meta")
"""The fields for programs, shown below the words."""
PROOFS = {"signature": "signed", "encrypted": "encrypted"}
SHORT, DEEPEST = 80, 2
"""Fields of so many characters are on one line; of values within values so many cells deep."""


def raw_entry(entry: Entry) -> Iterator[Piece]:
    """Yield an entry's text and its tool calls' raw arguments; without either, all fields."""
    event = entry.event
    text = getattr(event, "text", "")
    calls = event.tool_calls if isinstance(event, AssistantMessage) else ()
    if text:
        yield paragraph(text)
    for call in calls:
        yield paragraph(call.arguments)
    if not text and not calls:
        yield paragraph(_json(entry_data(entry)["event"]))


def full_entry(entry: Entry, conversation: Conversation) -> Iterator[Piece]:
    """Yield an entry: fields, parts with their calls' outcomes, and the record that proves it."""
    data = entry_data(entry)
    is_gone = is_erased(entry.event)
    topic = erasure_words(entry, conversation) if is_gone else data["topic"]
    yield wrapped(
        (f"{entry.conversation}@{entry.position}", "bold"), "  ", (topic, styled_kind(entry.event)[1]),
        (f"  {in_zone(entry.time):%Y-%m-%d %H:%M}", "dim"), hang=2,
    )  # fmt: skip
    if isinstance(entry.event, AssistantMessage) and (cut := cut_words(entry.event)):
        yield wrapped((cut, "yellow"))
    if found := result_of(conversation, entry):
        which = f"/{found.key.nth + 1}" if found.key and found.key.nth else ""
        where = f"call at {found.key.position}{which}" if found.key else ""
        yield line((": ".join(filter(None, (where, found.outcome.note))), "dim"))
    fields = data["event"] if isinstance(data["event"], dict) else {"payload": data["event"]}
    parts = fields.pop("parts", ())
    record = {name: data[name] for name in ("id", "time", "digest")}
    record |= {name: fields.pop(name) for name in RECORD if name in fields}
    yield from _fields({name: value for name, value in fields.items() if not (is_gone and value == "")})
    link = file_links(conversation)
    yield from _parts(getattr(entry.event, "parts", ()), parts, calls_of(conversation, entry), link)
    yield heading("record")
    yield from _fields(record)


def _parts(
    values: Sequence[Part],
    parts: Iterable[dict[str, Any]],
    outcomes: Sequence[CallLine],
    link: Callable[[str], str],
) -> Iterator[Piece]:
    """Yield each part; a program's act as a call with its result. `parts` are the JSON of `values`."""
    ran, calls = acts(values), iter(outcomes)
    next_act = iter(ran)
    for value, part in zip(values, parts, strict=True):
        if is_act(value):
            yield from _act(next(next_act), link)
            continue
        if is_result_of(value, ran):
            continue
        kind = part.pop("type", "part")
        yield heading(kind)
        if kind == "tool_call":
            _, outcome, result = next(calls)
            where = f"result at {result}" if result else ""
            yield line((": ".join(filter(None, (where, outcome.note))), "dim"))
        text, signed = part.pop("text", None), [*_signatures(part)]
        written = part.pop("arguments") if _named_arguments(part.get("arguments")) else ""
        if kind == "opaque" and is_of_program(part.get("provider")):
            part |= _named_arguments(part.pop("raw"))
        yield from _fields(part)
        yield from _arguments(written, link)
        if text is not None:
            yield paragraph(text)
        yield from signed


def _act(act: Act, link: Callable[[str], str]) -> Iterator[Piece]:
    yield heading("act")
    yield from _fields({name: value for name, value in (("id", act.id), ("name", act.name)) if value})
    yield from _arguments(act.arguments, link)
    yield line((act.status if act.status == "no result" else f"result: {act.status}", "dim"))
    if act.output:
        yield paragraph(act.output)


def _arguments(written: str, link: Callable[[str], str]) -> Iterator[Piece]:
    if arguments := _named_arguments(written):
        yield line(("arguments", "dim"))
        yield from _fields(arguments, margin=2, is_written=True, link=link(written))


def _signatures(part: dict[str, Any]) -> Iterator[Piece]:
    proofs = {how: part.pop(name) for name, how in PROOFS.items() if part.get(name)}
    whose = f" by {part.pop('provider')}" if proofs and part.get("provider") else ""
    for how, proof in proofs.items():
        yield line((f"{how}{whose} ({len(proof):,} characters; --json has them)", "dim"))


def _named_arguments(written: object) -> dict[str, object]:
    """Return a call's arguments by name; empty for no JSON object."""
    if not isinstance(written, str):
        return {}
    try:
        found = json.loads(written, object_pairs_hook=_without_repetition)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _without_repetition(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """Return an object's pairs. Raises ValueError for a repeated name: one would be lost."""
    if len(dict(pairs)) < len(pairs):
        raise ValueError
    return dict(pairs)


def _fields(
    fields: Mapping[str, object], margin: int = 0, *, is_written: bool = False, link: str = ""
) -> Iterator[Piece]:
    """Yield a paragraph for each field. `is_written`: values stay the JSON that a model wrote.

    `link` is the end of the style of a file's path.
    """
    indent = max((len(one_line(name)) for name in fields), default=0) + margin + 2
    for name, value in fields.items():
        words = value if isinstance(value, str) else _json(value) if is_written else _in_words(value)
        if words is None and isinstance(value, Mapping) and margin <= DEEPEST:
            yield line((" " * margin + name, "dim"))
            yield from _fields(value, margin + 2)
            continue
        shown = field(name, _json(value) if words is None else words, indent)
        yield shown._replace(lead=" " * margin + shown.lead, style=link if name in PATHS else "")


def _in_words(value: object) -> str | None:
    """Return a value that fits on one line; None for a larger one."""
    match value:
        case list() if value and all(isinstance(item, str) for item in value):
            return ", ".join(value)
        case dict() if value and not any(isinstance(item, dict | list) for item in value.values()):
            words = ", ".join(
                f"{name} {f'{item:,}' if type(item) is int else item}" for name, item in value.items()
            )
            return words if len(words) <= SHORT else None
        case dict() if value:
            return None
        case _:
            return _json(value)


def _json(value: object) -> str:
    return safe_json(value, spaced=True)
