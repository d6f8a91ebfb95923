"""The JSON of OTLP traces, both ways, and a span as it is read."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from stenolog.events import EPOCH
from stenolog.importers import Json, JsonObject, as_dict, as_list, as_str

CLIENT, INTERNAL = 3, 1
ERROR = 2
MICROSECOND = timedelta(microseconds=1)


class ReadSpan(NamedTuple):
    """A span of a file; `error` is its kind of failure, empty if it did not fail."""

    id: str
    parent: str
    trace: str
    name: str
    start: datetime
    end: datetime
    attributes: JsonObject
    error: str
    message: str

    @property
    def operation(self) -> str:
        return as_str(self.attributes.get("gen_ai.operation.name")) or self.name.partition(" ")[0]


def value_of(value: Json) -> Json:
    """Return an OTLP value as JSON."""
    for kind, inner in as_dict(value).items():
        match kind:
            case "stringValue" | "boolValue" | "doubleValue" | "bytesValue":
                return inner
            case "intValue":
                return _integer(inner)
            case "arrayValue":
                return [value_of(each) for each in as_list(as_dict(inner).get("values"))]
            case "kvlistValue":
                return attributes_of(as_dict(inner).get("values"))
            case _:
                pass
    return None


def attributes_of(pairs: Json) -> JsonObject:
    """Return a list of keys and values as an object."""
    return {as_str(pair.get("key")): value_of(pair.get("value")) for pair in map(as_dict, as_list(pairs))}


def wrapped(value: object) -> JsonObject:
    """Return a value as OTLP writes it."""
    match value:
        case bool():
            return {"boolValue": value}
        case int():
            return {"intValue": str(value)}
        case float():
            return {"doubleValue": value}
        case list():
            return {"arrayValue": {"values": [wrapped(each) for each in value]}}
        case _:
            return {"stringValue": str(value)}


def pairs_of(attributes: JsonObject) -> list[JsonObject]:
    """Return attributes as keys and values."""
    return [{"key": name, "value": wrapped(value)} for name, value in attributes.items()]


def nanoseconds(time: datetime) -> str:
    """Return a time in nanoseconds since 1970; one before is 0."""
    return str(max((time - EPOCH) // MICROSECOND, 0) * 1000)


def spans_in(document: JsonObject) -> Iterator[ReadSpan]:
    """Yield the spans of an export request."""
    for resource in map(as_dict, as_list(document.get("resourceSpans"))):
        for scope in map(as_dict, as_list(resource.get("scopeSpans"))):
            yield from map(_span, map(as_dict, as_list(scope.get("spans"))))


def content(value: Json) -> Json:
    """Return a value that may be written as a text of JSON."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return None


def objects(value: Json) -> Iterable[JsonObject]:
    """Return the objects of a list, which may be written as a text."""
    return [each for each in as_list(content(value)) if isinstance(each, dict)]


def _span(span: JsonObject) -> ReadSpan:
    attributes, status = attributes_of(span.get("attributes")), as_dict(span.get("status"))
    failed = status.get("code") in (ERROR, "STATUS_CODE_ERROR")
    start = _time(span.get("startTimeUnixNano"))
    return ReadSpan(
        as_str(span.get("spanId")),
        as_str(span.get("parentSpanId")),
        as_str(span.get("traceId")),
        as_str(span.get("name")),
        start,
        max(_time(span.get("endTimeUnixNano")), start),
        attributes,
        as_str(attributes.get("error.type")) or ("other" if failed else ""),
        as_str(status.get("message")),
    )


def _integer(value: Any) -> int | None:
    try:
        return int(value)
    except (ValueError, TypeError, OverflowError):
        return None


def _time(value: Json) -> datetime:
    try:
        return (EPOCH + timedelta(microseconds=(_integer(value) or 0) // 1000)).astimezone(UTC)
    except OverflowError:
        return EPOCH
