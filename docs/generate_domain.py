"""The pages that are drawn from the domain: the lifecycle of a lane, and the events with their fields."""

from __future__ import annotations

import ast
import inspect
import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import MISSING, is_dataclass
from dataclasses import fields as dataclass_fields
from enum import Enum
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from stenolog.domain import card, parts, values
from stenolog.domain.base.model import FrozenJson, Integer, Json, Key, Utc
from stenolog.domain.base.value_help import ATTRIBUTES, default_of
from stenolog.domain.codec import REGISTRY
from stenolog.domain.events import AssistantMessage, Common, Unchanged
from stenolog.domain.lanes.lifecycle import GUARDS, STATES, TABLE, TRIGGERS, Row, Status
from stenolog.domain.lanes.state import LaneState, State, decision
from stenolog.testing import examples

MADE = "<!-- Made by `python docs/generate.py`; change the code, not this page. -->"
DOES = {
    "call_model": "calls its model",
    "run_tools": "runs the open calls",
    "ask_approval": "asks a person for approval",
    "wait": "waits for somebody to say something",
    "stop": "stops",
}

LIFECYCLE = """\
A **lane** is one line of work: an agent, or an agent at one of its tasks. Its state follows from the log. An
event that concerns a lane is a **trigger**; the table (`stenolog/domain/lanes/lifecycle.py`) says where it
leads. A trigger that is not listed leaves the lane where it is, and counts as an anomaly: any log replays.
`decide` refuses such an event before it is recorded.
"""
EVENTS = """\
Five kinds of event, stored as JSON under the topic `kind@version`. A field at its default is left out. The
default is empty, 0, false or null unless the type names another. A release keeps a topic that it does not
know, and refuses a payload with a field that it does not know (`CorruptLogError`).

A position counts from 1 within its conversation; a time is ISO 8601 in UTC; an integer has at most 64 bits.
*What is said* is a [TextPart](#textpart), [ImagePart](#imagepart), [FilePart](#filepart) or
[ProviderPart](#providerpart). *An answer's parts* are a TextPart, [ReasoningPart](#reasoningpart),
[ToolCall](#toolcall), [RefusalPart](#refusalpart) or ProviderPart. `stenolog db schema` prints JSON Schemas.
"""
GROUPS = {
    frozenset({"TextPart", "ImagePart", "FilePart", "ProviderPart"}): "what is said",
    frozenset({"TextPart", "ReasoningPart", "ToolCall", "RefusalPart", "ProviderPart"}): "an answer's parts",
}
"""Lists of parts that several fields have, by the classes in them."""


def lifecycle_page() -> str:
    """Return the states and triggers of a lane, as a diagram and as lists."""
    states = "\n".join(f"- `{status}`: {_does(status)}" for status in STATES)
    triggers = "\n".join(f"- `{name}`: {meaning}" for name, meaning in TRIGGERS.items())
    guards = "\n".join(f"- `{name}`: {meaning}" for name, meaning in GUARDS.items())
    rows = "\n".join(_table_rows())
    return f"""# The lifecycle of a lane

{MADE}

{LIFECYCLE}
![A lane that is asked calls its model, runs tools or asks for approval](../images/lifecycle.svg)

States, and what the lane does next:

{states}

Triggers:

{triggers}

Guards, and when each holds:

{guards}

## The table

What each trigger does, by the state that it finds. The first whose guards hold decides.

{rows}
"""


def _guard(name: str, wanted: bool) -> str:
    return name if wanted else f"not {name}"


def _does(status: Status) -> str:
    made = decision(State(), LaneState("coder", status=status))
    return DOES[made.do] + (f": {made.reason}" if made.reason else "")


def _table_rows() -> Iterator[str]:
    """Yield a line for each trigger and the states in which it leads to the same."""
    states = dict[tuple[str, str], list[str]]()
    for status in STATES:
        for (source, trigger), rows in TABLE.items():
            if source == status:
                leads = "; ".join(_leads(row, status) for row in rows)
                states.setdefault((trigger, leads), []).append(status)
    for trigger in TRIGGERS:
        for (each, leads), sources in states.items():
            if each == trigger:
                yield f"- `{trigger}` in {_named(sources)}: {leads}"


def _named(states: Sequence[Status]) -> str:
    rest = [f"`{status}`" for status in STATES if status not in states]
    return f"all but {rest[0]}" if len(rest) == 1 else ", ".join(f"`{status}`" for status in states)


def _leads(row: Row, source: Status) -> str:
    """Return where a row leads, and the guards that must hold."""
    when = " and ".join(f"`{_guard(*guard)}`" for guard in row.guards)
    target = "stays" if row.target in (None, source) else f"`{row.target}`"
    return f"{target} if {when}" if when else target


def events_page() -> str:
    """Return the events and their types: every field, its type, its default, and its meaning."""
    sections = [_common(), *(_kind(topic, cls) for topic, cls in REGISTRY.events.items())]
    made_of = [_value(cls) for module in (parts, values, card) for cls in _classes(module)]
    text = "\n".join([*sections, "## What they are made of\n", *made_of])
    return f"# The events\n\n{MADE}\n\n{EVENTS}\n{text}"


def _common() -> str:
    return f"## Every event\n\n{_words(Common)}\n\n{_fields(Common)}\n"


def _kind(topic: str, cls: type[Any]) -> str:
    section = f"## {cls.__name__}\n\n`{topic}`: {_words(cls)}\n\n{_fields(cls, beside=Common)}\n"
    return section + (_example(cls) if cls is AssistantMessage else "")


def _example(cls: type[Any]) -> str:
    """Return the event with the most kinds of fields as JSON."""
    example = json.loads(REGISTRY.dump(examples()[cls.kind])[1])
    own = {name: example[name] for name in example if name not in _names(Common)}
    return f"\nWith every field of its own:\n\n```json\n{_pretty(own)}\n```\n"


def _pretty(value: Any, indent: str = "") -> str:
    """Return JSON, on one line if it fits."""
    short = json.dumps(value, ensure_ascii=False)
    if len(indent + short) <= 100 or not isinstance(value, dict | list):
        return short
    deeper = indent + "  "
    if isinstance(value, dict):
        inner = [f"{json.dumps(key)}: {_pretty(each, deeper)}" for key, each in value.items()]
    else:
        inner = [_pretty(each, deeper) for each in value]
    opens, closes = ("{", "}") if isinstance(value, dict) else ("[", "]")
    return f"{opens}\n{deeper}" + f",\n{deeper}".join(inner) + f"\n{indent}{closes}"


def _value(cls: type[Any]) -> str:
    return f"### {cls.__name__}\n\n{_words(cls)}\n\n{_fields(cls)}\n"


def _classes(module: Any) -> list[type[Any]]:
    found = (cls for cls in vars(module).values() if isinstance(cls, type) and is_dataclass(cls))
    return [cls for cls in found if cls.__module__ == module.__name__]


def _names(cls: type[Any]) -> list[str]:
    return [field.name for field in dataclass_fields(cls)]


def _words(cls: type[Any]) -> str:
    """Return a docstring without its list of fields, which stands in the table."""
    return (inspect.getdoc(cls) or "").partition(ATTRIBUTES)[0].strip()


def _fields(cls: type[Any], beside: type[Any] | None = None) -> str:
    hints = get_type_hints(cls, include_extras=True)
    own = [name for name in _names(cls) if beside is None or name not in _names(beside)]
    meanings = _meanings(cls) | _notes(cls)
    shown = {name: f"`{name}` ({_written(cls, name, hints[name])})" for name in own}
    if not any(name in meanings for name in own):
        return f"Fields: {', '.join(shown.values())}."
    return "\n".join(f"- {field}{_says(meanings.get(name))}" for name, field in shown.items())


def _says(meaning: str | None) -> str:
    return f": {meaning}" if meaning else ""


def _written(cls: type[Any], name: str, hint: Any) -> str:
    """Return the type of a field, and its default unless that is an empty value."""
    default = _default(cls, name)
    return _type(hint) + (f", {default}" if default else "")


def _meanings(cls: type[Any]) -> dict[str, str]:
    """Return what the docstring's list of fields says of each."""
    lines = (inspect.getdoc(cls) or "").partition(ATTRIBUTES)[2]
    items = re.findall(r"^    (\w+): (.*(?:\n {8}.*)*)", lines, re.MULTILINE)
    return {name: " ".join(text.split()) for name, text in items}


def _notes(cls: type[Any]) -> dict[str, str]:
    """Return the strings that stand below single fields."""
    [node] = ast.parse(inspect.getsource(cls)).body
    assert isinstance(node, ast.ClassDef)
    return {
        field.target.id: " ".join(note.value.value.split())
        for field, note in zip(node.body, node.body[1:], strict=False)
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
        if isinstance(note, ast.Expr) and isinstance(note.value, ast.Constant)
        if isinstance(note.value.value, str)
    }


def _default(cls: type[Any], name: str) -> str:
    default = default_of(cls.__dataclass_fields__[name])
    if default is MISSING:
        return "**required**"
    if name == "type":
        return "always written"
    if isinstance(default, Unchanged):
        return "else unchanged"
    return f"else `{json.dumps(default)}`" if default else ""


def _type(hint: Any) -> str:
    plain = {str: "text", Key: "text", bool: "true or false", int: "integer", NoneType: "null"}
    for known, words in [
        *plain.items(),
        (Integer, "integer"),
        (Utc, "time"),
        (Json, "JSON object"),
        (FrozenJson, "JSON object"),
    ]:
        if hint is known or hint == known:
            return words
    return _composed(hint)


def _composed(hint: Any) -> str:
    origin, inner = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return _type(inner[0])
    if origin is Literal:
        return ", ".join(f"`{value}`" for value in inner if not isinstance(value, Enum))
    if origin in (Union, UnionType):
        named = frozenset(each.__name__ for each in inner if isinstance(each, type))
        # Null is the default of each field that may be null, and an unchanged one is said to be so.
        rest = [each for each in inner if each is not NoneType] if len(inner) > 1 else inner
        return GROUPS.get(named) or " or ".join(filter(None, map(_type, rest)))
    if origin is tuple:
        return f"list of {_type(inner[0])}"
    if origin is dict:
        return f"object of {_type(inner[1])}"
    return f"[{hint.__name__}](#{hint.__name__.lower()})"


PAGES: dict[str, Callable[[], str]] = {
    "reference/events.md": events_page,
    "reference/lifecycle.md": lifecycle_page,
}
