"""Checks of JSON values: the first difference between two, and whether one fits a tool's JSON Schema.

>>> first_difference({"a": [1, 2]}, {"a": [1, 3]})
JsonDifference(pointer='/a/1', expected='2', found='3')
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from operator import ge, gt, le, lt
from types import MappingProxyType
from typing import Any, NamedTuple

from stenolog.projections.messages.json_fields import same_from_start

NOTHING = object()
LONGEST = 80
BEFORE = 24
"""So many characters of a long text are shown before the one that differs."""
NO_FIELDS: Mapping[str, str] = MappingProxyType({})


class JsonDifference(NamedTuple):
    """A JSON pointer (RFC 6901), and what stands there on either side, as shortened JSON."""

    pointer: str
    expected: str
    found: str


def first_difference(
    expected: Any, found: Any, pointer: str = "", fields: Mapping[str, str] = NO_FIELDS
) -> JsonDifference | None:
    """Return the first place, in document order, where two decoded JSON values differ; else None.

    `fields` are JSON pointers of what is compared otherwise: "live" by its type alone, "ignore" not at all.
    """
    if (how := fields.get(pointer)) and (how == "ignore" or type(expected) is type(found)):
        return None
    if isinstance(expected, dict) and isinstance(found, dict):
        keys = [*expected, *(key for key in found if key not in expected)]
        pairs = [(key, expected.get(key, NOTHING), found.get(key, NOTHING)) for key in keys]
    elif isinstance(expected, list) and isinstance(found, list):
        longest = max(len(expected), len(found))
        pairs = [(str(at), _item(expected, at), _item(found, at)) for at in range(longest)]
    elif type(expected) is type(found) and expected == found:
        return None
    else:
        return JsonDifference(pointer, *_previews(expected, found))
    for step, one, other in pairs:
        if different := first_difference(one, other, f"{pointer}/{_escaped(step)}", fields):
            return different
    return None


def _previews(expected: Any, found: Any) -> tuple[str, str]:
    """Return both values as they are shown; two long texts from shortly before where they differ."""
    if not isinstance(expected, str) or not isinstance(found, str):
        return preview(expected), preview(found)
    first = (
        max(0, same_from_start(expected, found) - BEFORE) if max(len(expected), len(found)) > LONGEST else 0
    )
    return _from(expected, first), _from(found, first)


def _from(text: str, first: int) -> str:
    return preview(f"…{text[first:]}" if first else text)


def preview(value: Any) -> str:
    """Return a value as JSON, shortened where it is long."""
    if value is NOTHING:
        return "nothing"
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"


def _item(items: list[Any], at: int) -> Any:
    return items[at] if at < len(items) else NOTHING


def _escaped(step: str) -> str:
    return step.replace("~", "~0").replace("/", "~1")


TYPES: Mapping[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "boolean": (bool,),
    "null": (type(None),),
    "integer": (int,),
    "number": (int, float),
}
DEEPEST = 50
"""References are followed so far: a schema may name itself."""


def misfit(value: Any, schema: Any, place: str = "") -> str:
    """Return the first place where the value does not fit the schema, in words; empty if it fits.

    Known are `type`, `enum`, `const`, `required`, `properties`, `additionalProperties`, `items`, `anyOf`,
    `oneOf`, `allOf`, bounds of numbers and lengths, and `$ref` within the schema. Other keywords are the
    tool's own to check.
    """
    return next(_misfits(value, schema, schema, place, 0), "")


def _misfits(value: Any, schema: Any, root: Any, place: str, depth: int) -> Iterator[str]:
    if schema is False:
        yield f"{place or 'the arguments'}: no value fits"
    if not isinstance(schema, dict) or depth > DEEPEST:
        return
    if isinstance(name := schema.get("$ref"), str):
        yield from _misfits(value, _resolve_reference(name, root), root, place, depth + 1)
    kinds = schema.get("type", [])
    kinds = [kinds] if isinstance(kinds, str) else kinds
    if kinds and not any(_is(value, kind) for kind in kinds):
        yield f"{place or 'the arguments'}: expected {' or '.join(map(str, kinds))}, found {value!r:.100}"
    allowed = [schema["const"]] if "const" in schema else schema.get("enum")
    if isinstance(allowed, list) and not any(value == one and type(value) is type(one) for one in allowed):
        yield f"{place or 'the arguments'}: expected one of {allowed!r:.200}, found {value!r:.100}"
    yield from _beyond(value, schema, place or "the arguments")
    for choice in ("anyOf", "oneOf"):
        ways = schema.get(choice)
        if ways and all(any(_misfits(value, way, root, place, depth + 1)) for way in ways):
            yield f"{place or 'the arguments'}: {value!r:.100} fits none of {len(ways)} schemas"
    for part in schema.get("allOf", ()):
        yield from _misfits(value, part, root, place, depth + 1)
    if isinstance(value, dict):
        yield from _in_object(value, schema, root, place, depth)
    if isinstance(value, list) and "items" in schema:
        for nth, item in enumerate(value):
            yield from _misfits(item, schema["items"], root, f"{place}/{nth}", depth + 1)


def _in_object(
    value: dict[str, Any], schema: dict[str, Any], root: Any, place: str, depth: int
) -> Iterator[str]:
    for name in schema.get("required", ()):
        if name not in value:
            yield f"{place}/{name}: expected a value, found none"
    known, others = schema.get("properties", {}), schema.get("additionalProperties", True)
    for name, inner in value.items():
        if name in known:
            yield from _misfits(inner, known[name], root, f"{place}/{name}", depth + 1)
        elif others is False:
            yield f"{place}/{name}: no such argument; there are {', '.join(known) or 'none'}"
        else:
            yield from _misfits(inner, others, root, f"{place}/{name}", depth + 1)


BOUNDS: Mapping[str, tuple[tuple[type, ...], Callable[[Any, Any], bool]]] = MappingProxyType(
    {
        "minimum": ((int, float), ge),
        "maximum": ((int, float), le),
        "exclusiveMinimum": ((int, float), gt),
        "exclusiveMaximum": ((int, float), lt),
        "minLength": ((str,), lambda value, bound: len(value) >= bound),
        "maxLength": ((str,), lambda value, bound: len(value) <= bound),
        "minItems": ((list,), lambda value, bound: len(value) >= bound),
        "maxItems": ((list,), lambda value, bound: len(value) <= bound),
    }
)
"""The keywords that bound a value, each with the types that it is about, and its test."""


def _beyond(value: Any, schema: dict[str, Any], place: str) -> Iterator[str]:
    for name, (types, fits) in BOUNDS.items():
        bound = schema.get(name)
        if type(bound) in (int, float) and type(value) in types and not fits(value, bound):
            yield f"{place}: expected {name} {bound}, found {value!r:.100}"


def _is(value: Any, kind: object) -> bool:
    if isinstance(value, bool):
        return kind == "boolean"
    if kind == "integer" and isinstance(value, float):
        return value.is_integer()
    return isinstance(value, TYPES.get(str(kind), (object,)))


def _resolve_reference(name: str, root: Any) -> Any:
    """Return the schema that a reference such as `#/$defs/Person` names; True, which all fits, for none."""
    found = root
    for step in name.removeprefix("#").strip("/").split("/") if name.startswith("#") else ("",):
        found = (
            found.get(step.replace("~1", "/").replace("~0", "~"), True)
            if step and isinstance(found, dict)
            else found
        )
    return True if found is root else found
