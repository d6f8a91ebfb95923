"""Named tuples read back from JSON by their annotations.

Pydantic writes and reads as fast, but takes milliseconds to learn a type: more than a program that asks one
question of a log has to spend on it.

>>> from typing import NamedTuple
>>> class Point(NamedTuple):
...     x: int
...     tags: tuple[str, ...] = ()
>>> reader(Point)([1, ["far"]])
Point(x=1, tags=('far',))
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from datetime import datetime
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeAlias, Union, get_args, get_origin, get_type_hints

from pydantic import JsonValue
from pydantic_core import to_json

from stenolog.domain.model import construct

Reader: TypeAlias = Callable[[Any], Any]
"""A function that builds a value from parsed JSON; it may change the lists passed to it."""


def same(value: Any) -> Any:
    """Return a parsed JSON value unchanged."""
    return value


@cache
def reader(kind: Any) -> Reader:
    """Return a function that reads values of a type from parsed JSON.

    Types are plain ones, times, tuples and named tuples, dicts, one of these or None, and the values that
    events are made of. Raises `TypeError` for another type.

    The reader trusts its input to be valid stored data: otherwise it raises `ValueError`, `TypeError` or
    `KeyError`.
    """
    origin, inner = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return reader(inner[0])
    if kind in (str, int, float, bool, NoneType) or origin is Literal:
        return same
    if kind is datetime:
        return datetime.fromisoformat
    if origin in (Union, UnionType):
        return _optional(*(one for one in inner if one is not NoneType))
    if origin is tuple:
        return _tuple(*inner)
    if origin is dict:
        return _dict(*inner)
    if kind is JsonValue:
        return same
    if hasattr(kind, "_fields"):
        return _reader_of_tuple(kind)
    if hasattr(kind, "__pydantic_validator__"):
        return _value(kind)
    raise TypeError(f"expected a type that can be read by its annotations, found {kind!r}")


def _optional(kind: Any, *others: Any) -> Reader:
    read = reader(kind)
    if read is same and all(reader(other) is same for other in others):
        return same
    if others:
        raise TypeError(f"expected one type or None, found {(kind, *others)}")
    return lambda value: None if value is None else read(value)


def _tuple(*inner: Any) -> Reader:
    if inner[-1] is ...:
        read = reader(inner[0])
        return tuple if read is same else lambda values: tuple(map(read, values))
    readers = [reader(one) for one in inner]
    if all(read is same for read in readers):
        return tuple
    return lambda values: tuple(read(value) for read, value in zip(readers, values, strict=True))


def _dict(key: Any, kind: Any) -> Reader:
    read = reader(kind)
    if key is int:
        return lambda values: {int(key): read(value) for key, value in values.items()}
    return same if read is same else lambda values: {key: read(value) for key, value in values.items()}


def _reader_of_tuple(kind: Any) -> Reader:
    hints = get_type_hints(kind, include_extras=True)
    readers = [
        (place, read) for place, name in enumerate(kind._fields) if (read := reader(hints[name])) is not same
    ]
    make = kind._make

    def read_row(row: Any) -> Any:
        for place, read in readers:
            row[place] = read(row[place])
        return make(row)

    return read_row if readers else make


def _value(kind: Any) -> Reader:
    """Return a reader for values inside events; pydantic validates those with a field of several types."""
    hints = get_type_hints(kind, include_extras=True)
    try:
        readers = {field.name: reader(hints[field.name]) for field in fields(kind)}
    except TypeError:
        return lambda value: kind.__pydantic_validator__.validate_json(to_json(value))
    return lambda value: construct(kind, **{name: readers[name](inner) for name, inner in value.items()})
