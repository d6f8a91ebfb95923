"""Named tuples with some fields replaced, in less than half the time of `_replace`: for what each entry does.

moved = replacing(Lane, "status")
moved(lane, "idle") == lane._replace(status="idle")
"""

from __future__ import annotations

from collections.abc import Callable
from operator import itemgetter
from typing import Any, TypeVar

T = TypeVar("T", bound="tuple[Any, ...]")


def field_replacer(cls: type[T], *names: str) -> Callable[..., T]:
    """Return a function that copies a `cls` with new values for the named fields, in this order."""
    fields: tuple[str, ...] = cls._fields  # type: ignore[attr-defined]
    places = {name: len(fields) + nth for nth, name in enumerate(names)}
    chosen = itemgetter(*(places.pop(name, nth) for nth, name in enumerate(fields)))
    if places:
        raise TypeError(f"{cls.__name__}: no such field: {', '.join(places)}")
    new = tuple.__new__

    def replaced(old: T, *given: object) -> T:
        return new(cls, chosen(old + given))

    return replaced
