"""Help on value classes: their signature, a short `repr`, and errors that name the fields."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import wraps
from inspect import Parameter, Signature
from inspect import signature as signature_of
from types import UnionType
from typing import (
    Annotated,
    Any,
    Literal,
    ParamSpec,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from stenolog.domain.errors import CallerError

from .near_names import closest
from .schema import takes_data

P = ParamSpec("P")
R = TypeVar("R")

BYTES = frozenset(("base64", "bytes", "data"))
"""Names that other libraries give to the content of a picture or a file."""
MAX_SHOWN = 60
"""The number of characters of a value that an error or a `repr` shows."""
ATTRIBUTES = "Attributes:"
"""The line of a docstring before its list of fields."""
SYNONYMS = {
    "arguments": "parameters",
    "content": "text",
    "error": "is_error",
    "input": "arguments",
    "instructions": "persona",
    "message": "text",
    "output": "text",
    "params": "parameters",
    "prompt": "persona",
    "result": "text",
    "sender": "author",
    "system": "persona",
    "tool_call_id": "call_id",
    "type": "category",
}
"""Names that other libraries give to a field, by what it may be called here."""


def quoted(value: object) -> str:
    """Return a rejected value, shortened."""
    text = repr(value)
    return text if len(text) <= MAX_SHOWN else f"{text[: MAX_SHOWN - 1]}…"


def no_such_field(strangers: Sequence[str], names: Sequence[str]) -> str:
    """Return the complaint about unknown fields, with the closest name and the list."""
    hints = [hint for each in strangers if (hint := _closest(each, names))]
    question = f"; did you mean {' and '.join(hints)}?" if hints else ""
    if "blob" in names and BYTES.intersection(strangers):
        question = '; give bytes to the log first: blob=log.blobs.put(data), or to a team: ["look", data].'
    return f"no such field: {', '.join(strangers)}{question or '.'} There are {', '.join(names) or 'none'}"


def _closest(name: str, names: Sequence[str]) -> str:
    meant = SYNONYMS.get(name, "")
    return meant if meant in names else closest(name, names)


def named_arguments(hint: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Make a wrong argument name raise a `CallerError` with the right names, and `hint`."""

    def wrap(function: Callable[P, R]) -> Callable[P, R]:
        names = [name for name in signature_of(function).parameters if name != "self"]

        @wraps(function)
        def checked(*args: P.args, **kwargs: P.kwargs) -> R:
            if strangers := [name for name in kwargs if name not in names]:
                what = no_such_field(strangers, names).replace("field", "argument", 1)
                raise CallerError(f"{function.__name__}: {what}; {hint}")
            return function(*args, **kwargs)

        return checked

    return wrap


def slips(given: Collection[str], known: Sequence[str]) -> str:
    """Return a complaint about the first key that looks like a missing known one; else "".

    Other keys are the provider's own.
    """
    missing = [name for name in known if name not in given]
    for key in given:
        if key not in known and (meant := _alike(key, missing)):
            return f"no such key: {key}; did you mean {meant}?"
    return ""


def _alike(key: str, names: Sequence[str]) -> str:
    found = closest(key, names, 0.8, begins=False)
    return found or (SYNONYMS[key] if SYNONYMS.get(key) in names else "")


def field_names(cls: Any) -> list[str]:
    """Return the names that the constructor of a value class takes."""
    return list(signature(cls).parameters)


def signature(cls: Any) -> Signature:
    """Return the constructor's signature: what may be given by place first, discriminating fields last."""
    hints = get_type_hints(cls, include_extras=False) | dict(cls.shorthands)
    by_name = {each.name: each for each in dataclasses.fields(cls)}
    own_first = [name for each in cls.__mro__ for name in vars(each).get("__annotations__", ())]
    names = dict.fromkeys((*cls.positional, *cls.shorthands, *filter(by_name.__contains__, own_first)))
    parameters = []
    for name in sorted(names, key=lambda name: name == "type"):
        kind = Parameter.POSITIONAL_OR_KEYWORD if name in cls.positional else Parameter.KEYWORD_ONLY
        default = default_of(by_name[name]) if name in by_name else _short_default(hints[name])
        default = Parameter.empty if default is dataclasses.MISSING else default
        parameters.append(Parameter(name, kind, default=default, annotation=_Type(type_name(hints[name]))))
    return Signature(_needed_first(parameters))


def with_inherited_attributes(doc: str, bases: Sequence[type]) -> str:
    """Return a docstring, with the `Attributes:` sections of the bases after its own."""
    if ATTRIBUTES not in doc:
        return doc
    inherited = [each.__doc__.partition(ATTRIBUTES)[2].rstrip() for each in bases if each.__doc__]
    return "\n".join([doc.rstrip(), *(part.lstrip("\n") for part in inherited if part.strip()), ""])


def _needed_first(parameters: Sequence[Parameter]) -> list[Parameter]:
    return sorted(parameters, key=lambda each: (each.kind, each.default is not Parameter.empty))


def _short_default(kind: object) -> object:
    return "" if kind is str else ()


def default_of(field: dataclasses.Field[Any]) -> Any:
    """Return the default of a field; `MISSING` if it must be given."""
    factory: Any = field.default_factory
    if factory is dataclasses.MISSING:
        return field.default
    return factory({}) if takes_data(factory) else factory()


class _Type(str):
    """A type's name, which a signature shows without quotes."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def type_name(kind: object) -> str:
    """Return a type without modules and constraints; a tuple of many as a sequence."""
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return type_name(arguments[0])
    if origin is tuple and arguments[1:] == (Ellipsis,):
        return f"Sequence[{type_name(arguments[0])}]"
    if origin in (Union, UnionType):
        return " | ".join(type_name(each) for each in arguments)
    if origin is Literal:
        return f"Literal[{', '.join(map(_literal, arguments))}]"
    if arguments and isinstance(origin, type):
        return f"{origin.__name__}[{', '.join(map(type_name, arguments))}]"
    if kind is type(None):
        return "None"
    return getattr(kind, "__name__", str(kind))


def _literal(value: object) -> str:
    return value.name if hasattr(value, "name") else repr(value)


def short_repr(self: Any) -> str:
    """Return the constructor's call without defaults; long values are cut."""
    return f"{type(self).__name__}({', '.join(_arguments(self))})"


def _arguments(value: Any) -> Iterator[str]:
    short = _as_shorthand(value)
    for each in dataclasses.fields(value):
        given = getattr(value, each.name)
        if each.name == "parts" and short:
            yield from (f"{name}={quoted(said)}" for name, said in short.items() if said)
        elif each.name != "type" and given != default_of(each):
            yield f"{each.name}={quoted(given)}"


def _as_shorthand(value: Any) -> dict[str, object]:
    cls = type(value)
    short = {name: getattr(value, name) for name in cls.shorthands}
    if not short or cls.from_shorthand(short).get("parts", ()) != value.parts:
        return {}
    return short
