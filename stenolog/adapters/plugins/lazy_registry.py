"""A registry whose values may be references, imported when they are first looked up."""

from __future__ import annotations

from importlib import import_module
from typing import NamedTuple, TypeVar

from stenolog.domain.errors import CallerError
from stenolog.domain.registry import Registry

T = TypeVar("T")


class _Reference(NamedTuple):
    module: str
    attribute: str


class LazyRegistry(Registry[T]):
    """A registry to which values can be added by reference, so that no plugin is imported before its use."""

    def add_reference(self, name: str, reference: str) -> None:
        """Add `module:attribute` under a name. Raises `CallerError` as `add`, and for another form."""
        module, _, attribute = reference.partition(":")
        if not (module and attribute):
            raise CallerError(f"expected module:attribute, found {reference!r}")
        if name in self._values and self._values[name] == _Reference(module, attribute):
            return
        self.add(name, _Reference(module, attribute))  # type: ignore[arg-type]

    def __getitem__(self, name: str) -> T:
        """Return the value of a name. Raises `NotRegisteredError`, and what importing it raises."""
        value = super().__getitem__(name)
        if isinstance(value, _Reference):
            value = self._values[name] = getattr(import_module(value.module), value.attribute)
        return value
