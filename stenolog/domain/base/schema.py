"""Schemas of values for pydantic's core, made from their annotations.

pydantic makes the same ones. Importing it and waiting for it takes longer than all that a small command does,
so it is asked only for a type that is not known here, such as one of an application.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields
from datetime import datetime
from functools import cache, reduce
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    Literal,
    NamedTuple,
    TypeAlias,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

from pydantic_core import SchemaSerializer, SchemaValidator

Schema: TypeAlias = dict[str, Any]
JSON = "json"
"""The name of the definition of any JSON value."""
STRICT = {"strict": True, "extra": "forbid", "allow_inf_nan": False}
"""The settings of values: strict, since what is stored must be read back as exactly the same value."""
CONFIG = {"strict": True, "extra_fields_behavior": "forbid", "allow_inf_nan": False}
"""Settings of values, as the core takes them."""


class Check:
    """A condition on an annotated type: limits that the core knows, then a function that may raise."""

    def __init__(self, function: Callable[[Any], Any] | None = None, **limits: object) -> None:
        self.function, self.limits = function, limits

    def on(self, schema: Any) -> Any:
        """Return the schema with this condition."""
        checked = {**schema, **self.limits}
        if self.function is None:
            return checked
        return {
            "type": "function-after",
            "function": {"type": "no-info", "function": self.function},
            "schema": checked,
        }

    def __get_pydantic_core_schema__(self, source: Any, handler: Callable[[Any], Any]) -> Any:
        return self.on(handler(source))


class TaggedBy(NamedTuple):
    """The field whose constant tells the classes of an annotated union apart."""

    key: str

    def __get_pydantic_core_schema__(self, source: Any, handler: Callable[[Any], Any]) -> Any:
        from pydantic import Field

        return handler(Annotated[source, Field(discriminator=self.key)])


class AnyJson:
    """The mark of any JSON value."""

    def __get_pydantic_core_schema__(self, source: Any, handler: Callable[[Any], Any]) -> Any:
        from pydantic import JsonValue

        return handler(JsonValue)


class Late:
    """An attribute of each value class, made of its schema when it is first asked for."""

    def __init__(self, name: str, make: Callable[[Any], Any]) -> None:
        self.name, self.make = name, make

    def __get__(self, value: object, cls: type) -> Any:
        made = self.make(schema_of(cls))
        setattr(cls, self.name, made)
        return made


def schema_of(kind: Any) -> Any:
    """Return the schema of a type."""
    return {"type": "definitions", "schema": _schema(kind), "definitions": [JSON_VALUE]}


LATE = {
    name: Late(name, make)
    for name, make in (
        ("__pydantic_validator__", SchemaValidator),
        ("__pydantic_serializer__", SchemaSerializer),
    )
}
"""The attributes by which pydantic and its core know a class."""


PLAIN: Mapping[Any, str] = {
    Any: "any",
    NoneType: "none",
    bool: "bool",
    bytes: "bytes",
    datetime: "datetime",
    float: "float",
    int: "int",
    str: "str",
}


def _schema(kind: Any) -> Schema:
    if (known := _MAKERS.get(get_origin(kind))) is not None:
        return known(*get_args(kind))
    if kind in PLAIN:
        return {"type": PLAIN[kind]}
    if getattr(kind, "__pydantic_config__", None) is STRICT:
        return _value(kind)
    return _named_tuple(kind) if hasattr(kind, "_field_defaults") else _foreign(kind)


@cache
def _value(cls: Any) -> Schema:
    hints = get_type_hints(cls, include_extras=True)
    declared = fields(cls)
    arguments = [
        {"type": "dataclass-field", "name": each.name, "schema": _with_default(each, hints[each.name])}
        for each in declared
    ]
    return {
        "type": "dataclass",
        "cls": cls,
        "schema": {"type": "dataclass-args", "dataclass_name": cls.__name__, "fields": arguments},
        "fields": [each.name for each in declared],
        "slots": True,
        "config": {"title": cls.__name__, **CONFIG},
    }


def _named_tuple(cls: Any) -> Schema:
    hints, defaults = get_type_hints(cls, include_extras=True), cls._field_defaults
    arguments = []
    for name in cls._fields:
        schema = _schema(hints[name])
        if name in defaults:
            schema = {"type": "default", "schema": schema, "default": defaults[name]}
        arguments.append({"name": name, "schema": schema, "mode": "positional_or_keyword"})
    return {
        "type": "call",
        "arguments_schema": {"type": "arguments", "arguments_schema": arguments},
        "function": cls,
    }


def takes_data(factory: object) -> bool:
    """Return whether a factory of defaults is called with the fields before it."""
    return hasattr(factory, "tag")


def _with_default(declared: Any, kind: Any) -> Schema:
    schema = _schema(kind)
    factory = declared.default_factory
    if declared.default is not MISSING:
        return {"type": "default", "schema": schema, "default": declared.default}
    if factory is MISSING:
        return schema
    made = {"default_factory": factory, "default_factory_takes_data": takes_data(factory)}
    return {"type": "default", "schema": schema, **made}


def _annotated(kind: Any, *marks: Any) -> Schema:
    match marks:
        case [AnyJson()]:
            return _ANY_JSON
        case [TaggedBy(key)]:
            return _tagged_union(kind, key)
        case _ if all(isinstance(each, Check) for each in marks):
            return reduce(lambda schema, check: check.on(schema), marks, _schema(kind))
        case _:
            return _foreign(Annotated[kind, *marks])


def _tagged_union(kind: Any, key: str) -> Schema:
    choices = {tag: _value(cls) for cls in get_args(kind) for tag in get_args(get_type_hints(cls)[key])}
    return {"type": "tagged-union", "choices": choices, "discriminator": key, "strict": False}


def _union(*kinds: Any) -> Schema:
    some = [_schema(each) for each in kinds if each is not NoneType]
    schema = some[0] if len(some) == 1 else {"type": "union", "choices": some}
    return {"type": "nullable", "schema": schema} if NoneType in kinds else schema


def _literal(*expected: Any) -> Schema:
    return {"type": "literal", "expected": list(expected)}


def _tuple(*kinds: Any) -> Schema:
    items = [_schema(each) for each in kinds if each is not ...]
    many = {"variadic_item_index": 0} if ... in kinds else {}
    return {"type": "tuple", "items_schema": items, **many}


def _dict(keys: Any, values: Any) -> Schema:
    return {"type": "dict", "keys_schema": _schema(keys), "values_schema": _schema(values)}


def _list(items: Any) -> Schema:
    return {"type": "list", "items_schema": _schema(items)}


_MAKERS: Mapping[Any, Callable[..., Schema]] = {
    Annotated: _annotated,
    Literal: _literal,
    Union: _union,
    UnionType: _union,
    Mapping: _dict,
    dict: _dict,
    list: _list,
    tuple: _tuple,
}


def _foreign(kind: Any) -> Schema:
    """Return the schema of a type that only pydantic knows."""
    from pydantic import TypeAdapter

    return cast(Schema, TypeAdapter(kind).core_schema)


def _json_kind(value: object) -> str:
    return next((kind.__name__ for kind in JSON_KINDS if isinstance(value, kind)), "")


JSON_KINDS = (str, bool, int, float, NoneType, dict, list)
_ANY_JSON = {"type": "definition-ref", "schema_ref": JSON}
JSON_VALUE = {
    "type": "json-or-python",
    "ref": JSON,
    "json_schema": {"type": "any"},
    "python_schema": {
        "type": "tagged-union",
        "choices": {
            **{kind.__name__: {"type": PLAIN[kind]} for kind in JSON_KINDS if kind in PLAIN},
            "dict": {"type": "dict", "keys_schema": {"type": "str"}, "values_schema": _ANY_JSON},
            "list": {"type": "list", "items_schema": _ANY_JSON},
        },
        "discriminator": _json_kind,
        "custom_error_type": "invalid-json-value",
        "custom_error_message": "input was not a valid JSON value",
    },
}
"""The definition of any JSON value: what is decoded is JSON, what is given is looked through."""
