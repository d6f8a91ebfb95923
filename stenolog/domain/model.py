"""Decorators for the values of the domain: frozen, strictly validated dataclasses with keyword-only fields.

`frozen_value` makes one. `rule` makes one whose fields may be given by place as well, as those of a policy
are: `LastN(50)`.
"""

import dataclasses
from collections.abc import Callable, Sequence
from itertools import takewhile
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, cast, dataclass_transform

from pydantic import ConfigDict, Field, ValidationError
from pydantic.dataclasses import dataclass
from pydantic.fields import FieldInfo

from .errors import InvalidEventError, InvalidPolicyError
from .json_types import deep_copy_json

STRICT = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False, defer_build=True)
"""Validators are built when a class is first used: a program that merely imports stenolog pays for none."""
T = TypeVar("T")

if TYPE_CHECKING:
    Many: TypeAlias = Sequence
else:

    class Many:
        """A field of several: given as a list or a tuple, held as a tuple."""

        def __class_getitem__(cls, item: Any) -> Any:
            return tuple[item, ...]


class ValueMeta(type):
    """The type of values: what their constructors take, before it is validated. Decoding passes it by."""

    from_short: Callable[[dict[str, Any]], dict[str, Any]] | None = None

    def __call__(cls, /, **fields: Any) -> Any:
        """A value of these fields; a list stands for a tuple. Raises `InvalidEventError`."""
        prepared = cls.prepare(fields)
        for name, given in prepared.items():
            if type(given) is list:
                prepared[name] = tuple(given)
        try:
            return super().__call__(**prepared)
        except ValidationError as error:
            strangers = ", ".join(sorted(prepared.keys() - vars(cls)["__dataclass_fields__"].keys()))
            what = f"no such field: {strangers}" if strangers else first_error(error, cls)
            raise InvalidEventError(f"{cls.__name__}: {what}") from None

    def prepare(cls, fields: dict[str, Any]) -> dict[str, Any]:
        """The fields as they are stored, from the fields as they are given."""
        return fields if cls.from_short is None else cls.from_short(fields)

    def found(cls, given: object) -> str:
        """Return a description of a rejected value: its type only, because the value may be secret."""
        return type(given).__name__


def first_error(error: ValidationError, cls: Any) -> str:
    """The first complaint, with its place and what was found."""
    first = error.errors(include_url=False, include_context=False)[0]
    ours = takewhile(lambda step: isinstance(step, int) or step in cls.__dataclass_fields__, first["loc"])
    place = "/".join(map(str, ours))
    if first["type"] == "union_tag_invalid":
        return f"/{place}: no such type"
    if first["type"] == "missing":
        return f"/{place}: expected a value, found none"
    return f"/{place}: {first['msg']}, found {cls.found(first['input'])}"


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(Field,))
def frozen_value(cls: type[T], made_by: type[ValueMeta] = ValueMeta) -> type[T]:
    """A frozen, slotted, strictly validated dataclass with keyword-only fields; lists become tuples."""
    body = {name: thing for name, thing in vars(cls).items() if name not in ("__dict__", "__weakref__")}
    made: Any = dataclass(frozen=True, slots=True, kw_only=True, config=STRICT)(
        made_by(cls.__name__, cls.__bases__, body)  # type: ignore[arg-type]
    )
    result: type[T] = made
    return result


def construct(cls: type[T], **fields: Any) -> T:
    """A value of fields that are known to be right, as they are stored, and the defaults of the others.

    Nothing is validated: a program that asks one question need not wait until a validator is built.
    """
    made, kind = object.__new__(cls), cast(Any, cls)
    for declared in dataclasses.fields(kind):
        name = declared.name
        object.__setattr__(made, name, fields[name] if name in fields else _default(declared))
    return made


def _default(declared: Any) -> Any:
    default = declared.default
    if isinstance(default, FieldInfo):
        return default.get_default(call_default_factory=True, validated_data={})
    if default is dataclasses.MISSING:
        raise TypeError(f"{declared.name}: expected a value, for there is no default")
    return default


def tag(name: str) -> Any:
    """The default of a discriminating field: given by itself, and yet always written.

    A factory that takes the validated data is never compared by `exclude_defaults`.
    """
    return Field(default_factory=lambda _data: name)


class PositionalMeta(ValueMeta):
    """The type of values whose fields may be given by place as well: `LastN(50)`."""

    def __call__(cls, /, *placed: Any, **given: Any) -> Any:
        """A rule of these fields. Raises `InvalidPolicyError`, which says what was expected and found."""
        names = [each.name for each in dataclasses.fields(cls)]  # type: ignore[arg-type]
        if len(placed) > len(names) or not given.keys().isdisjoint(names[: len(placed)]):
            raise InvalidPolicyError(
                f"{cls.__name__}: expected at most {', '.join(names) or 'nothing'}, each once"
            )
        given |= zip(names, placed, strict=False)
        for each in dataclasses.fields(cls):  # type: ignore[arg-type]
            if is_needed(each) and each.name not in given:
                raise InvalidPolicyError(f"{cls.__name__}: expected {each.name}, found nothing")
        try:
            made = super().__call__(**given)
        except InvalidEventError as error:
            raise InvalidPolicyError(str(error)) from None
        if fault := made.fault():
            raise InvalidPolicyError(f"{cls.__name__}: {fault}")
        return made

    def found(cls, given: object) -> str:
        """Return a description of a rejected value: its `repr`, because a policy is no secret."""
        return repr(given)


def is_needed(field: dataclasses.Field[Any]) -> bool:
    """Return whether a field of a rule has no default."""
    declared = field.default if isinstance(field.default, FieldInfo) else None
    if declared is not None:
        return declared.is_required()
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING


@dataclass_transform(frozen_default=True, field_specifiers=(Field,))
def rule(cls: type[T]) -> type[T]:
    """A value whose fields may be given by place."""
    return frozen_value(cls, PositionalMeta)


def non_default_fields(rule: Any) -> dict[str, Any]:
    """The fields of a rule that are not at their defaults, as JSON."""
    shown = {}
    for each in dataclasses.fields(rule):
        given = getattr(rule, each.name)
        default = getattr(each.default, "default", each.default)
        if given != default and given != {}:
            shown[each.name] = deep_copy_json(given)
    return shown
