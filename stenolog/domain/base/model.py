"""Machinery of the domain's values: JSON types, frozen strict dataclasses and containers.

`frozen_value` makes a dataclass, `rule` one whose fields may also be positional: `LastN(50)`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from itertools import takewhile
from operator import attrgetter
from types import MappingProxyType
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    NamedTuple,
    Never,
    TypeAlias,
    TypeVar,
    cast,
    dataclass_transform,
)

from pydantic_core import ArgsKwargs, ValidationError

from stenolog.domain.errors import InvalidEventError, InvalidPolicyError

from .schema import LATE, STRICT, AnyJson, Check
from .value_help import (
    default_of,
    field_names,
    no_such_field,
    quoted,
    short_repr,
    signature,
    with_inherited_attributes,
)

if TYPE_CHECKING:
    from inspect import Signature

    from pydantic import JsonValue

    Many: TypeAlias = Sequence
else:
    JsonValue = Annotated[Any, AnyJson()]

    class Many:
        """A field of several: given as a list or a tuple, held as a tuple."""

        def __class_getitem__(cls, item: Any) -> Any:
            return tuple[item, ...]


T = TypeVar("T")
_new: Any = object.__new__


class ValueMeta(type):
    """The type of values: what their constructors take, before it is validated."""

    # Decoding calls the validator itself and passes this by.

    from_shorthand: Callable[[dict[str, Any]], dict[str, Any]] | None = None
    positional: tuple[str, ...] = ()
    """The fields that may be given by place, in this order."""
    shorthands: Mapping[str, object] = MappingProxyType({})
    """Names that `from_shorthand` takes beside the fields, with their types."""
    if TYPE_CHECKING:
        __pydantic_validator__: Any

    def __call__(cls, /, *placed: Any, **fields: Any) -> Any:
        """Return a value of these fields; a list becomes a tuple. Raises `InvalidEventError`."""
        prepared = cls.prepare(cls.by_name(placed, fields))
        for name, given in prepared.items():
            # Values are frozen all the way down.
            if type(given) is list:
                prepared[name] = tuple(given)
        try:
            return cls.__pydantic_validator__.validate_python(
                ArgsKwargs((), prepared), self_instance=_new(cls)
            )
        except ValidationError as error:
            strangers = sorted(prepared.keys() - vars(cls)["__dataclass_fields__"].keys())
            what = no_such_field(strangers, field_names(cls)) if strangers else first_error(error, cls)
            raise InvalidEventError(f"{cls.__name__}: {what}") from None

    def by_name(cls, placed: tuple[Any, ...], fields: dict[str, Any]) -> dict[str, Any]:
        """Return all fields by name; `placed` are values of `positional`, in order.

        Raises `InvalidEventError` for one too many, or one given twice.
        """
        if not placed:
            return fields
        names = cls.positional[: len(placed)]
        if len(placed) > len(names):
            most = f"at most {', '.join(cls.positional)} by place, each once"
            expected = most if cls.positional else "fields by name"
            names_of_all = ", ".join(field_names(cls))
            raise InvalidEventError(f"{cls.__name__}: expected {expected}; its fields are {names_of_all}")
        if twice := [name for name in names if name in fields]:
            raise InvalidEventError(f"{cls.__name__}: expected {twice[0]} once, found it twice")
        return {**dict(zip(names, placed, strict=True)), **fields}

    def prepare(cls, fields: dict[str, Any]) -> dict[str, Any]:
        """Return the fields as they are stored, from the fields as they are given."""
        return fields if cls.from_shorthand is None else cls.from_shorthand(fields)

    @property
    def __signature__(cls) -> Signature:
        """The fields, as `help`, IPython and `inspect.signature` show them."""
        return signature(cls)


def first_error(error: ValidationError, cls: Any, found: Callable[[object], str] = quoted) -> str:
    """Return the first complaint, with its place and what was found there."""
    first = error.errors(include_url=False, include_context=False)[0]
    # Behind the fields, pydantic names its own alternatives, which mean nothing to a reader.
    ours = takewhile(lambda step: isinstance(step, int) or step in cls.__dataclass_fields__, first["loc"])
    place = "/".join(map(str, ours))
    if first["type"] == "union_tag_invalid":
        return f"/{place}: no such type"
    if first["type"] == "missing":
        return f"/{place}: expected a value, found none"
    if (
        first["type"] == "tuple_type"
        and isinstance(first["input"], str)
        and place in cls.__dataclass_fields__
    ):
        return f"/{place}: expected a list, found a text; write {place}=[{found(first['input'])}]"
    expected = first["msg"].replace("Input should be", "expected", 1)
    return f"/{place}: {expected}, found {found(first['input'])}"


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(dataclasses.field,))
def frozen_value(cls: type[T], made_by: type[ValueMeta] = ValueMeta) -> type[T]:
    """Return a frozen, slotted, strictly validated dataclass of keyword-only fields; lists become tuples."""
    # `slots=True` makes a class anew, which must not bring these two along.
    own = {name: thing for name, thing in vars(cls).items() if name not in ("__dict__", "__weakref__")}
    body = {**_METHODS, **own, **LATE}
    body["__doc__"] = with_inherited_attributes(cls.__doc__ or "", cls.__bases__)
    # Nothing is generated: what a dataclass would compile for each class makes up half of an import.
    made: Any = dataclasses.dataclass(init=False, repr=False, eq=False, slots=True, kw_only=True)(
        made_by(cls.__name__, cls.__bases__, body)
    )
    names = [each.name for each in dataclasses.fields(made)]
    made._content = attrgetter(*names or ["__class__"])
    result: type[T] = made
    return result


def _eq(self: Any, other: Any) -> Any:
    if other.__class__ is not self.__class__:
        return NotImplemented
    return self._content(self) == self._content(other)


def _hash(self: Any) -> int:
    return (self._content(self),).__hash__()


def _getstate(self: Any) -> list[Any]:
    return [getattr(self, each.name) for each in dataclasses.fields(self)]


def _setstate(self: Any, state: list[Any]) -> None:
    for each, value in zip(dataclasses.fields(self), state, strict=True):
        object.__setattr__(self, each.name, value)


def _refuse_assignment(self: object, name: str, value: object) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_deletion(self: object, name: str) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")


_METHODS: Mapping[str, Any] = {
    "__repr__": short_repr,
    "__eq__": _eq,
    "__hash__": _hash,
    "__getstate__": _getstate,
    "__setstate__": _setstate,
    "__setattr__": _refuse_assignment,
    "__delattr__": _refuse_deletion,
    "__pydantic_config__": STRICT,
}


def construct(cls: type[T], **fields: Any) -> T:
    """Return a value from stored fields that are known to be valid, with defaults for the others."""
    # Nothing is validated: a program that asks one question need not wait until a validator is built.
    made, kind = _new(cls), cast(Any, cls)
    for declared in dataclasses.fields(kind):
        name = declared.name
        object.__setattr__(made, name, fields[name] if name in fields else default_of(declared))
    result: T = made
    return result


class _Tag(NamedTuple):
    # A factory that takes the validated data is never compared by `exclude_defaults`.
    tag: str

    def __call__(self, data: object) -> str:
        return self.tag


def tag(name: str) -> Any:
    """Return the default of a discriminating field: given by itself, and yet always written."""
    return dataclasses.field(default_factory=_Tag(name))  # type: ignore[arg-type]


class PositionalMeta(ValueMeta):
    """The type of values whose fields may all be given by place: `LastN(50)`."""

    def __call__(cls, /, *placed: Any, **given: Any) -> Any:
        """Return a rule of these fields. Raises `InvalidPolicyError`: what was expected and found."""
        try:
            fields = cls.by_name(placed, given)
            for each in dataclasses.fields(cls):  # type: ignore[arg-type]
                if each.name not in fields and default_of(each) is dataclasses.MISSING:
                    raise InvalidPolicyError(f"{cls.__name__}: expected {each.name}, found nothing")
            made = super().__call__(**fields)
        except InvalidEventError as error:
            raise InvalidPolicyError(str(error)) from None
        if fault := made.fault():
            raise InvalidPolicyError(f"{cls.__name__}: {fault}")
        return made


@dataclass_transform(frozen_default=True, field_specifiers=(dataclasses.field,))
def rule(cls: type[T]) -> type[T]:
    """Return a value whose fields may be given by place.

    Raises `TypeError` if the default of a field is pydantic's `Field`, which is taken in `Annotated` only.
    """
    made: Any = frozen_value(cls, PositionalMeta)
    for each in dataclasses.fields(made):
        if type(each.default).__module__.partition(".")[0] == "pydantic":
            raise TypeError(
                f"{cls.__name__}.{each.name}: expected a default or dataclasses.field(), found pydantic's "
                "Field: put it in Annotated[..., Field(...)]"
            )
    made.positional = tuple(each.name for each in dataclasses.fields(made))
    result: type[T] = made
    return result


def non_default_fields(rule: Any) -> dict[str, Any]:
    """Return the fields of a rule that are not at their defaults, as JSON."""
    shown = {}
    for each in dataclasses.fields(rule):
        given = getattr(rule, each.name)
        default = each.default
        if given != default and given != {}:
            shown[each.name] = deep_copy_json(given)
    return shown


# Not made of `Integer`, which would keep the wider bound.
Positive: TypeAlias = Annotated[int, Check(ge=1, lt=2**63)]
"""An integer from 1."""
Natural: TypeAlias = Annotated[int, Check(ge=0, lt=2**63)]
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# Half of what the decoder can read, since an event adds levels of its own.
DEEPEST = 100
"""Maximum nesting depth of JSON."""
# JSON Schemas have integers of more than 64 bits, and the decoder reads 4300 digits.
LARGEST = 10**1000
"""Exclusive bound of integers in JSON."""


def in_utc(time: datetime) -> datetime:
    """Convert a time to UTC. Raises `ValueError` without an offset, or outside the years 1 to 9999."""
    try:
        # Arithmetic with an aware time gives UTC, and refuses a naive one; `astimezone` would guess its zone.
        return EPOCH + (time - EPOCH)
    except (OverflowError, TypeError):
        raise ValueError("expected an aware datetime of the years 1 to 9999 in UTC") from None


def check_json(value: Any, depth: int = 0) -> Any:
    """Return the JSON value, if it can be written and read again; else raise `ValueError`.

    No NaN, infinity, half surrogate pair, integer from `LARGEST` on, or more than `DEEPEST` levels.
    """
    if depth > DEEPEST:
        raise ValueError(f"expected JSON of at most {DEEPEST} levels")
    match value:
        case str():
            check_utf8(value)
        case float():
            if not -float("inf") < value < float("inf"):
                raise ValueError("expected a finite number")
        case int():
            if not -LARGEST < value < LARGEST:
                raise ValueError("expected an integer of at most 1000 digits")
        case list():
            for inner in value:
                check_json(inner, depth + 1)
        case dict():
            for key, inner in value.items():
                check_utf8(key)
                check_json(inner, depth + 1)
        case _:
            pass
    return value


def deep_copy_json(value: Any) -> Any:
    """Return the JSON value with objects and lists of its own."""
    if isinstance(value, dict):
        return {key: deep_copy_json(inner) for key, inner in value.items()}
    return [deep_copy_json(inner) for inner in value] if isinstance(value, list | tuple) else value


def check_utf8(text: str) -> str:
    """Return the text, if it can be written as UTF-8; else a `ValueError`."""
    text.encode()
    return text


def clean(text: str) -> str:
    """Return the text as valid UTF-8: a surrogate pair becomes its character, a half U+FFFD."""
    try:
        text.encode()
    except UnicodeEncodeError:
        # By way of UTF-16, in which two halves that belong together make their character.
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


# Without a slash, since `agent/task` is the address of a lane.
Name: TypeAlias = Annotated[str, Check(min_length=1, pattern=r"^[^/]*$")]
"""An agent's name."""
Integer: TypeAlias = Annotated[int, Check(ge=-(2**63), lt=2**63)]
Key: TypeAlias = Annotated[str, Check(check_utf8)]
Json: TypeAlias = Annotated[dict[str, JsonValue], Check(check_json)]
Utc: TypeAlias = Annotated[datetime, Check(in_utc, tz_constraint="aware")]


def _refuse(self: object, *_: object, **__: object) -> Never:
    raise TypeError(f"a {type(self).__name__} never changes: make a new state, as `evolve` does")


class FrozenDict(dict[str, T]):
    """A dictionary that refuses every change. It equals a plain one; its `copy` is plain."""

    __setitem__ = __delitem__ = __ior__ = _refuse
    clear = pop = popitem = setdefault = update = _refuse

    # Copies and pickles are filled item by item otherwise.
    def __reduce__(self) -> tuple[type[FrozenDict[T]], tuple[dict[str, T]]]:
        return type(self), (dict(self),)


class FrozenList(list[T]):
    """A list that refuses every change. It equals a plain one; its `copy` is plain."""

    __setitem__ = __delitem__ = __iadd__ = __imul__ = _refuse
    append = extend = insert = remove = pop = clear = sort = reverse = _refuse

    def __reduce__(self) -> tuple[type[FrozenList[T]], tuple[list[T]]]:
        return type(self), (list(self),)


def frozen_json(value: Any) -> Any:
    """Return the JSON value with objects and lists that never change."""
    match value:
        case FrozenDict() | FrozenList():
            return value
        case dict():
            return FrozenDict({key: frozen_json(inner) for key, inner in value.items()})
        case list():
            return FrozenList(map(frozen_json, value))
        case _:
            return value


FrozenJson: TypeAlias = Annotated[Json, Check(frozen_json)]
"""A JSON object within a state."""
