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
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin, get_type_hints

from pydantic_core import CoreSchema, SchemaSerializer, SchemaValidator
from pydantic_core import core_schema as core

STRICT = {"strict": True, "extra": "forbid", "allow_inf_nan": False}
"""The settings of values: strict, since what is stored must be read back as exactly the same value."""


class Check:
    """A condition on an annotated type: limits that the core knows, then a function that may raise."""

    def __init__(self, function: Callable[[Any], Any] | None = None, **limits: object) -> None:
        self.function, self.limits = function, limits

    def on(self, schema: Any) -> Any:
        """Return the schema with this condition."""
        limited = {**schema, **self.limits}
        return (
            limited
            if self.function is None
            else core.no_info_after_validator_function(self.function, limited)
        )

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


MADE = {"__pydantic_validator__": SchemaValidator, "__pydantic_serializer__": SchemaSerializer}
LATE = {name: Late(name, make) for name, make in MADE.items()}
"""The attributes by which pydantic and its core know a class."""


def schema_of(kind: Any) -> CoreSchema:
    """Return the schema of a type."""
    return core.definitions_schema(_schema(kind), [JSON_VALUE])


def _schema(kind: Any) -> CoreSchema:
    if (known := _MAKERS.get(get_origin(kind))) is not None:
        return known(*get_args(kind))
    if kind in PLAIN:
        return PLAIN[kind]
    if getattr(kind, "__pydantic_config__", None) is STRICT:
        return _value(kind)
    return _named_tuple(kind) if hasattr(kind, "_field_defaults") else _foreign(kind)


@cache
def _value(cls: Any) -> CoreSchema:
    hints, declared = get_type_hints(cls, include_extras=True), {each.name: each for each in fields(cls)}
    arguments = [core.dataclass_field(name, _field(each, hints[name])) for name, each in declared.items()]
    return core.dataclass_schema(
        cls,
        core.dataclass_args_schema(cls.__name__, arguments),
        [*declared],
        slots=True,
        config=core.CoreConfig(
            title=cls.__name__, strict=True, extra_fields_behavior="forbid", allow_inf_nan=False
        ),
    )


def _field(declared: Any, kind: Any) -> CoreSchema:
    # Most fields are of a plain type; this is done for each field of an event in each new process.
    schema = PLAIN[kind] if isinstance(kind, type) and kind in PLAIN else _schema(kind)
    factory = declared.default_factory
    if declared.default is not MISSING:
        return core.with_default_schema(schema, default=declared.default)
    if factory is MISSING:
        return schema
    takes: Any = takes_data(factory)
    return core.with_default_schema(schema, default_factory=factory, default_factory_takes_data=takes)


def takes_data(factory: object) -> bool:
    """Return whether a factory of defaults is called with the fields before it."""
    return hasattr(factory, "tag")


def _named_tuple(cls: Any) -> CoreSchema:
    hints, defaults, parameters = get_type_hints(cls, include_extras=True), cls._field_defaults, []
    for name in cls._fields:
        schema = _schema(hints[name])
        if name in defaults:
            schema = core.with_default_schema(schema, default=defaults[name])
        parameters.append(core.arguments_parameter(name, schema))
    return core.call_schema(core.arguments_schema(parameters), cls)


def _annotated(kind: Any, *marks: Any) -> CoreSchema:
    match marks:
        case [AnyJson()]:
            return _ANY_JSON
        case [TaggedBy(key)]:
            choices = {
                tag: _value(cls) for cls in get_args(kind) for tag in get_args(get_type_hints(cls)[key])
            }
            return core.tagged_union_schema(choices, key, strict=False)
        case _ if all(isinstance(each, Check) for each in marks):
            return reduce(lambda schema, check: check.on(schema), marks, _schema(kind))
        case _:
            return _foreign(Annotated[kind, *marks])


def _union(*kinds: Any) -> CoreSchema:
    some = [_schema(each) for each in kinds if each is not NoneType]
    schema = some[0] if len(some) == 1 else core.union_schema([*some])
    return core.nullable_schema(schema) if NoneType in kinds else schema


def _tuple(*kinds: Any) -> CoreSchema:
    items = [_schema(each) for each in kinds if each is not ...]
    return core.tuple_schema(items, variadic_item_index=0 if ... in kinds else None)


def _dict(keys: Any, values: Any) -> CoreSchema:
    return core.dict_schema(_schema(keys), _schema(values))


def _foreign(kind: Any) -> CoreSchema:
    from pydantic import TypeAdapter

    return TypeAdapter(kind).core_schema


_MAKERS: Mapping[Any, Callable[..., CoreSchema]] = {
    Annotated: _annotated,
    Literal: lambda *expected: core.literal_schema([*expected]),
    Mapping: _dict,
    Union: _union,
    UnionType: _union,
    dict: _dict,
    list: lambda items: core.list_schema(_schema(items)),
    tuple: _tuple,
}
PLAIN: Mapping[Any, CoreSchema] = {
    NoneType: core.none_schema(),
    bool: core.bool_schema(),
    bytes: core.bytes_schema(),
    datetime: core.datetime_schema(),
    float: core.float_schema(),
    int: core.int_schema(),
    str: core.str_schema(),
}
_ANY_JSON = core.definition_reference_schema("json")
_JSON_KINDS: Mapping[type, CoreSchema] = {
    **{kind: PLAIN[kind] for kind in (str, bool, int, float, NoneType)},
    dict: core.dict_schema(PLAIN[str], _ANY_JSON),
    list: core.list_schema(_ANY_JSON),
}


def _json_kind(value: object) -> str:
    return next((kind.__name__ for kind in _JSON_KINDS if isinstance(value, kind)), "")


JSON_VALUE = core.json_or_python_schema(
    core.any_schema(),
    core.tagged_union_schema(
        {kind.__name__: schema for kind, schema in _JSON_KINDS.items()},
        _json_kind,
        custom_error_type="invalid-json-value",
        custom_error_message="input was not a valid JSON value",
    ),
    ref="json",
)
"""The definition of any JSON value: what is decoded is JSON, what is given is looked through."""
