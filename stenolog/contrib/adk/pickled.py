"""Pickles of databases that ADK wrote before version 1 of its tables, read without running anything.

Each class or function that a pickle names is replaced by one that only keeps what it is given.
"""

from __future__ import annotations

import io
import pickle
from typing import Any

MAX_VALUES = 100_000
FIELDS = "__dict__"
"""The key of a model's fields in its state."""


class _Inert:
    """Stands for an instance of any class, and for the result of any call."""

    def __new__(cls, *arguments: object, **named: object) -> _Inert:
        return super().__new__(cls)

    def __init__(self, *arguments: object, **named: object) -> None:
        self.fields: dict[str, Any] = {}

    def __setstate__(self, state: object) -> None:
        if isinstance(state, dict):
            inner = state.get(FIELDS, state)
            self.fields = inner if isinstance(inner, dict) else {}


class _InertUnpickler(pickle.Unpickler):
    """Reads a pickle in which nothing has a meaning but containers, texts and numbers."""

    def find_class(self, module: str, name: str) -> Any:
        return _Inert


def fields_in(data: object) -> dict[str, Any]:
    """Return the fields of a pickled model as JSON; empty if it cannot be read."""
    if not isinstance(data, bytes):
        return {}
    try:
        value = _PlainValues().of(_InertUnpickler(io.BytesIO(data)).load())
    except Exception:  # a damaged pickle may raise anything
        return {}
    return value if isinstance(value, dict) else {}


class _PlainValues:
    """Makes JSON of values. A pickle may name one value many times, so their number is limited."""

    def __init__(self) -> None:
        self._left = MAX_VALUES

    def of(self, value: object) -> Any:
        """Return the value as JSON; what JSON has no form for is None. Raises `ValueError` for too many."""
        self._left -= 1
        if self._left < 0:
            raise ValueError(f"expected at most {MAX_VALUES} values")
        match value:
            case None | bool() | int() | float() | str():
                return value
            case _Inert():
                return self.of(value.fields) or None
            case dict():
                return {str(name): self.of(inner) for name, inner in value.items()}
            case list() | tuple():
                return [self.of(inner) for inner in value]
            case set() | frozenset():
                return sorted(map(self.of, value), key=repr)
            case _:
                return None
