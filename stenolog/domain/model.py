"""Values whose fields may be given by place as well, as the rules of a policy are: `LastN(50)`."""

from __future__ import annotations

from dataclasses import MISSING, Field, fields
from typing import Any, TypeVar, dataclass_transform

from pydantic import Field as Declared
from pydantic.fields import FieldInfo

from .errors import InvalidEventError, InvalidPolicyError
from .json_types import deep_copy_json
from .values import ValueMeta, frozen_value

T = TypeVar("T")


class PositionalMeta(ValueMeta):
    """The type of values whose fields may be given by place as well: `LastN(50)`."""

    def __call__(cls, /, *placed: Any, **given: Any) -> Any:
        """A rule of these fields. Raises `InvalidPolicyError`, which says what was expected and found."""
        names = [each.name for each in fields(cls)]  # type: ignore[arg-type]
        if len(placed) > len(names) or not given.keys().isdisjoint(names[: len(placed)]):
            raise InvalidPolicyError(
                f"{cls.__name__}: expected at most {', '.join(names) or 'nothing'}, each once"
            )
        given |= zip(names, placed, strict=False)
        for each in fields(cls):  # type: ignore[arg-type]
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
        """What was found, as it is: a policy is no secret."""
        return repr(given)


def is_needed(field: Field[Any]) -> bool:
    """Whether a field of a rule has no default."""
    declared = field.default if isinstance(field.default, FieldInfo) else None
    if declared is not None:
        return declared.is_required()
    return field.default is MISSING and field.default_factory is MISSING


@dataclass_transform(frozen_default=True, field_specifiers=(Declared,))
def rule(cls: type[T]) -> type[T]:
    """A value whose fields may be given by place."""
    return frozen_value(cls, PositionalMeta)


def non_default_fields(rule: Any) -> dict[str, Any]:
    """The fields of a rule that are not at their defaults, as JSON."""
    shown = {}
    for each in fields(rule):
        given = getattr(rule, each.name)
        default = getattr(each.default, "default", each.default)
        if given != default and given != {}:
            shown[each.name] = deep_copy_json(given)
    return shown
