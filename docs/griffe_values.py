"""Show the constructors of events and values on the site: griffe reads code, and does not run it.

`frozen_value` and `rule` make dataclasses, which griffe cannot know, and it does not unfold named tuples.
This extension adds the parameters that such a constructor takes: the fields of the class and of its bases.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import griffe

MAKERS = {
    "frozen_value": "keyword_only",
    "rule": "positional_or_keyword",
    "NamedTuple": "positional_or_keyword",
}
"""What makes a class whose fields are the parameters of its constructor, and how these are given."""
SHORT = {"text": "''", "tool_calls": "()"}
"""The defaults of fields that the code declares for type checkers alone."""


class Values(griffe.Extension):
    """Gives a constructor to the classes that a name in `MAKERS` decorates, or is a base of."""

    def on_package(self, *, pkg: griffe.Module, **kwargs: Any) -> None:
        """Visit every class of a package once it was read."""
        for module in _modules(pkg):
            for cls in module.classes.values():
                if not cls.is_alias and (kind := _kind(cls)):
                    _construct(cls, griffe.ParameterKind[kind])


def _modules(module: griffe.Module) -> Iterator[griffe.Module]:
    yield module
    for child in module.modules.values():
        if not child.is_alias:
            yield from _modules(child)


def _kind(cls: griffe.Class) -> str:
    """Return how the class takes its fields; "" if it is no value."""
    names = [str(found).partition("(")[0] for found in [*(each.value for each in cls.decorators), *cls.bases]]
    return next((MAKERS[name] for name in names if name in MAKERS), "")


def _construct(cls: griffe.Class, kind: griffe.ParameterKind) -> None:
    fields: dict[str, griffe.Attribute] = {}
    for owner in (cls, *cls.mro()):  # its own fields first: they are what a reader looks for
        fields = fields | {
            name: each for name, each in owner.attributes.items() if _is_field(each) and name not in fields
        }
    fields = {name: fields[name] for name in sorted(fields, key=lambda name: name not in SHORT)}
    taken = [
        griffe.Parameter(name, annotation=field.annotation, kind=kind, default=_default(field))
        for name, field in fields.items()
    ]
    this = griffe.Parameter("self", kind=griffe.ParameterKind.positional_or_keyword)
    made = griffe.Function("__init__", parameters=griffe.Parameters(this, *taken), parent=cls)
    cls.set_member("__init__", made)


def _is_field(attribute: griffe.Attribute) -> bool:
    is_instance = "instance-attribute" in attribute.labels and attribute.annotation is not None
    return is_instance or attribute.name in SHORT


def _default(field: griffe.Attribute) -> str | None:
    if field.name in SHORT:
        return SHORT[field.name]
    return "{}" if "default_factory" in str(field.value) else field.value and str(field.value)
