"""Registries: values of one kind by name, from stenolog and from plugins.

MODELS: Registry[type[Model]] = Registry("a model")
MODELS.add("telegraph", Telegraph)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import Any, TypeVar

from stenolog.domain.errors import CallerError, NotRegisteredError

from .near_names import closest

T = TypeVar("T")
HINT = "a plugin may add it: install it, or name its module with --plugin or in STENOLOG_PLUGINS"


class Registry(Mapping[str, T]):
    """A mapping of names to values of one `kind` ("an API"), in the order of their addition.

    A log may need a plugin that is not loaded, so each error lists the known names and how to load one. Add
    names at the start of a program: a registry has no lock.
    """

    def __init__(self, kind: str, values: Mapping[str, T] | None = None) -> None:
        self.kind = kind
        self.changes = 0
        """The number of changes so far, by which a cache of what is made of the values is kept."""
        self._values: dict[str, T] = dict(values or {})

    def __repr__(self) -> str:
        return f"<Registry of {self.kind}: {', '.join(self) or 'empty'}>"

    def __getitem__(self, name: str) -> T:
        return self._values[self._name(name)]

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name in self._values

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def add(self, name: str, value: T) -> T:
        """Add a value under a name and return it; a class or function may be redefined, as in a notebook.

        Raises `CallerError` for an empty name, or one that another value has.
        """
        if not isinstance(name, str) or not name:
            raise CallerError(f"expected a name for {self.kind}, found {name!r}")
        known = self._values.get(name)
        if known is not None and known is not value and not _is_redefined(known, value):
            raise CallerError(f"{self.kind} {name!r} is registered already: {known!r:.120}")
        self._values[name] = value
        self.changes += 1
        return value

    def remove(self, name: str) -> None:
        """Remove a name, for instance after a test. Raises `NotRegisteredError`."""
        del self._values[self._name(name)]
        self.changes += 1

    @contextmanager
    def restored(self) -> Iterator[None]:
        """Undo all additions and removals of the `with` block: for tests of a plugin."""
        before = dict(self._values)
        try:
            yield
        finally:
            self._values = before
            self.changes += 1

    def additions(self) -> tuple[str, ...]:
        """Return `name@version` of each value that was defined outside stenolog, sorted."""
        outside = (
            (name, value)
            for name, value in self._values.items()
            if getattr(value, "__module__", "").partition(".")[0] != "stenolog"
        )
        return tuple(sorted(f"{name}@{getattr(value, 'version', '')}" for name, value in outside))

    def missing(self, name: object) -> str:
        """Return the message of an error for a name that is not registered."""
        known = f"expected {self.kind}: {', '.join(self) or 'none is known'}; found {name!r:.80}"
        meant = closest(name, list(self), 0.75) if isinstance(name, str) else ""
        return f"{known}; did you mean {meant!r}?" if meant else f"{known}: {HINT}"

    def _name(self, name: str) -> str:
        if name not in self:
            raise NotRegisteredError(self.missing(name))
        return name


@dataclass(frozen=True)
class Reference:
    """A value of a module, which is imported when this is called."""

    module: str
    attribute: str

    def __call__(self) -> Any:
        return getattr(import_module(self.module), self.attribute)

    def new_value(self) -> Any:
        """Return what the value, a class or a function, makes."""
        return self()()


class LateValue(tuple[Callable[[], Any]]):
    """The function that makes a value, as a tuple of one: there are many, and that is quick to create."""


class LateRegistry(Registry[T]):
    """A registry whose values may be made at their first use."""

    def add_late(self, name: str, make: Callable[[], T]) -> None:
        """Add a function that returns the value of a name. Raises `CallerError` as `add`."""
        known, late = self._values.get(name), LateValue((make,))
        if known != late:
            self.add(name, late)  # type: ignore[arg-type]

    def __getitem__(self, name: str) -> T:
        value = super().__getitem__(name)
        if isinstance(value, LateValue):
            value = self._values[name] = value[0]()
        return value


def _is_redefined(known: object, value: object) -> bool:
    """Return whether two values come from classes or functions of the same names in the same module."""
    before, after = _made_of(known), _made_of(value)
    named = before and not any("<" in name for _, name in before)
    return bool(named) and before == after and type(known) is type(value)


def _made_of(value: object) -> list[tuple[str, str]]:
    parts = value if isinstance(value, tuple) else (value,)
    return [(each.__module__, each.__qualname__) for each in parts if hasattr(each, "__qualname__")]
