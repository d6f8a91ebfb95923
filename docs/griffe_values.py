"""Show the constructors of events and values on the site: griffe reads code, and does not run it.

`frozen_value` and `rule` make dataclasses, which griffe cannot know, and it does not unfold named tuples.
This extension takes parameters and documented attributes from the class itself, as `help` shows them.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import suppress
from importlib import import_module
from typing import Any

import griffe

from stenolog.errors import MissingExtraError

MAKERS = {"frozen_value", "rule", "NamedTuple"}
"""Decorators and bases of the classes whose fields are the parameters of their constructors."""


class Values(griffe.Extension):
    """Gives a constructor to each class that a name in `MAKERS` decorates or is a base of."""

    def on_package(self, *, pkg: griffe.Module, **kwargs: Any) -> None:
        """Visit every class of a package once it was read."""
        for module in _modules(pkg):
            for cls in module.classes.values():
                if not cls.is_alias and MAKERS & set(_makers(cls)):
                    with suppress(ImportError, MissingExtraError):  # of an extra that is not installed
                        _construct(cls, getattr(import_module(module.path), cls.name))
                if not cls.is_alias and cls.name.startswith("Async"):
                    _await(cls, pkg)
                    for method in _mute(cls):
                        awaited = f"{cls.name.removeprefix('Async')}.{method.name}"
                        method.docstring = griffe.Docstring(f"As `{awaited}`, awaited.", parent=method)


def _modules(module: griffe.Module) -> Iterator[griffe.Module]:
    yield module
    for child in module.modules.values():
        if not child.is_alias:
            yield from _modules(child)


def _await(cls: griffe.Class, pkg: griffe.Module) -> None:
    """Show what `awaited` makes as the method of `Conversation` that it is made of."""
    original = pkg["adapters.conversation.log.Conversation"]
    for name, found in [*cls.attributes.items()]:
        if str(found.value).startswith("awaited("):
            method = original.all_members[name]
            made = griffe.Function(name, parameters=method.parameters, returns=method.returns, parent=cls)
            made.labels.add("async")
            cls.set_member(name, made)


def _mute(cls: griffe.Class) -> list[griffe.Function]:
    """Return the public methods without words of their own: those of `AsyncLog` and `AsyncConversation`."""
    own = (each for each in cls.members.values() if isinstance(each, griffe.Function))
    return [each for each in own if each.docstring is None and not each.name.startswith("_")]


def _makers(cls: griffe.Class) -> Iterator[str]:
    for found in (*(each.value for each in cls.decorators), *cls.bases):
        yield str(found).partition("(")[0]


def _construct(cls: griffe.Class, running: Any) -> None:
    taken = [_parameter(each, cls) for each in inspect.signature(running).parameters.values()]
    this = griffe.Parameter("self", kind=griffe.ParameterKind.positional_or_keyword)
    made = griffe.Function("__init__", parameters=griffe.Parameters(this, *taken), parent=cls)
    cls.set_member("__init__", made)
    if cls.docstring is not None and running.__doc__:
        cls.docstring.value = inspect.cleandoc(running.__doc__)


def _parameter(taken: inspect.Parameter, cls: griffe.Class) -> griffe.Parameter:
    """Return a parameter as griffe has it, with the annotation of the code, in which names are links."""
    owners = (owner for owner in (cls, *cls.mro()) if taken.name in owner.attributes)
    annotation = next((owner.attributes[taken.name].annotation for owner in owners), None)
    return griffe.Parameter(
        taken.name,
        annotation=annotation,
        kind=griffe.ParameterKind[taken.kind.name.lower()],
        default=None if taken.default is taken.empty else repr(taken.default),
    )
