"""Dictionaries and lists that no code can change: those within a state, which later states share."""

from __future__ import annotations

from typing import Annotated, Any, Never, TypeAlias, TypeVar

from pydantic import AfterValidator

from .model import Json

T = TypeVar("T")


def _refuse(self: object, *_: object, **__: object) -> Never:
    """Raise the error for a change in place."""
    raise TypeError(f"a {type(self).__name__} never changes: make a new state, as `evolve` does")


class FrozenDict(dict[str, T]):
    """A dictionary that refuses every change; it equals a plain one, and its `copy` is plain."""

    __setitem__ = __delitem__ = __ior__ = _refuse
    clear = pop = popitem = setdefault = update = _refuse

    # Copies and pickles are filled item by item otherwise.
    def __reduce__(self) -> tuple[type[FrozenDict[T]], tuple[dict[str, T]]]:
        return type(self), (dict(self),)


class FrozenList(list[T]):
    """A list that refuses every change; it equals a plain one, and its `copy` is plain."""

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


FrozenJson: TypeAlias = Annotated[Json, AfterValidator(frozen_json)]
"""A JSON object within a state."""
