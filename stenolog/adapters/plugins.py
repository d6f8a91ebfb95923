"""Plugins: how they are found and loaded, and registries whose values are imported at their first use.

[project.entry-points."stenolog.plugins"]
my-api = "my_package.stenolog_plugin"

An entry point is a module, which registers its extensions when it is imported, or `module:function`, which
is called without arguments.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import reduce
from importlib import import_module
from pathlib import Path
from threading import RLock
from traceback import walk_tb
from typing import Any, TypeVar

from stenolog.domain.base.registry import LateRegistry, LateValue, Reference
from stenolog.domain.errors import CallerError, PluginError
from stenolog.projections.programs import PROGRAMS, Program

GROUP = "stenolog.plugins"
"""The group of entry points."""
VARIABLE = "STENOLOG_PLUGINS"
"""The environment variable that names modules, separated by commas."""
_REFUSES = re.compile(r"([\w.]+)\(\) (?:takes|missing|got) ")
"""The beginning of Python's words for arguments that a function does not take."""
_SEPARATORS = re.compile(r"[-_.]+")
_LOCK = RLock()
_named: list[str] = []
_failed: dict[str, str] = {}
_loaded: set[str] = set()
_modules: dict[str, str] = {}
"""The names of plugins, by those of their modules or packages."""


def load_plugins() -> None:
    """Load the installed plugins and the modules in `STENOLOG_PLUGINS`, once in a process.

    An installed plugin that cannot be loaded is listed by `failed_plugins`, and stops nobody who does not
    need it. Raises `PluginError` for a module that is named and cannot be loaded.
    """
    if "" in _loaded:
        return
    with _LOCK:
        if "" in _loaded:
            return
        _loaded.add("")
        try:
            for name, reference in _installed():
                try:
                    _call(name, reference)
                except Exception as error:
                    _failed[name] = f"{reference}: {type(error).__name__}: {error}"
            for module in _in_environment():
                load_plugin(module)
        except BaseException:
            _loaded.discard("")
            raise


def load_plugin(module: str) -> None:
    """Load a plugin: `module`, `module:function`, or a Python file; modules are found from here too.

    Raises `PluginError` if it is missing or raises.
    """
    with _LOCK:
        if module in _loaded:
            return
        if (here := str(Path.cwd())) not in sys.path:
            sys.path.append(here)
        try:
            if module.endswith(".py"):
                _run_file(Path(module))
            else:
                _call(module, module)
        except Exception as error:
            raise PluginError(f"plugin {module!r}: {type(error).__name__}: {error}") from error
        _loaded.add(module)
        _named.append(module)


def named_plugins() -> tuple[str, ...]:
    """Return the plugins that were loaded by name, for a process that is to load the same ones."""
    return tuple(_named)


def failed_plugins() -> dict[str, str]:
    """Return the error of each installed plugin that could not be loaded."""
    return dict(_failed)


def plugin_at_fault(error: BaseException) -> str:
    """Return the name of the plugin whose code has raised, and where; empty if it is not a plugin's."""
    for frame, line in reversed([*walk_tb(error.__traceback__)]):
        top = str(frame.f_globals.get("__name__", "")).partition(".")[0]
        if top == "stenolog":
            return _called_wrongly(error)
        if top in _modules:
            return f"{_modules[top]} ({Path(frame.f_code.co_filename).name}, line {line})"
    return ""


def _called_wrongly(error: BaseException) -> str:
    """Return the plugin whose function does not take the arguments that it is given, and its name."""
    if not isinstance(error, TypeError) or not (words := _REFUSES.match(str(error))):
        return ""
    for name, module in [*sys.modules.items()]:
        top = name.partition(".")[0]
        # A function that a plugin has only imported is not its own.
        if top in _modules and getattr(_named_in(module, words[1]), "__module__", "") == name:
            return f"{_modules[top]} ({words[1]})"
    return ""


def _named_in(module: object, name: str) -> object:
    for part in name.split("."):
        module = getattr(module, part, None)
    return module


def _installed() -> list[tuple[str, str]]:
    """Return the name and reference of each entry point; of two releases of a package, the first counts."""
    seen: set[str] = set()
    found: list[tuple[str, str]] = []
    for folder in map(Path, sys.path):
        for package, text in _packages(folder):
            name = _SEPARATORS.sub("_", package).lower()
            if GROUP in text and name not in seen:
                found += _points(text)
            seen.add(name)
    return found


# `importlib.metadata` reads the same files, and first imports a parser of e-mails: 12 ms.
def _packages(folder: Path) -> list[tuple[str, str]]:
    """Return the packages in a folder or an archive, each with the text of its entry points."""
    try:
        is_archive = folder.is_file()
        abouts = [*folder.glob("*.dist-info"), *folder.glob("*.egg-info")]
    except OSError:
        return []  # such a folder has no module either
    if is_archive:
        from importlib.metadata import distributions

        archived = distributions(path=[str(folder)])
        return [(each.name, each.read_text("entry_points.txt") or "") for each in archived]
    found = []
    for about in abouts:
        if about.name.startswith("~"):
            continue  # what pip could not remove
        text = ""
        with suppress(OSError, UnicodeDecodeError):
            text = (about / "entry_points.txt").read_text(encoding="utf-8")
        found.append((about.stem.partition("-")[0], text))
    return found


def _points(text: str) -> Iterator[tuple[str, str]]:
    section = ""
    for line in map(str.strip, text.splitlines()):
        name, _, reference = line.partition("=")
        if line.startswith("["):
            section = line
        elif section == f"[{GROUP}]" and reference and not line.startswith("#"):
            yield name.strip(), reference.partition("[")[0].strip()


def _call(name: str, reference: str) -> None:
    module, _, function = map(str.strip, reference.partition(":"))
    _modules.setdefault(module.partition(".")[0], name)
    found: Any = import_module(module)
    if function:
        reduce(getattr, function.split("."), found)()


def _run_file(path: Path) -> None:
    from importlib.util import module_from_spec, spec_from_file_location

    spec = spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None or not path.is_file():
        raise FileNotFoundError(f"expected a Python file, found none: {path}")
    _modules.setdefault(path.stem, str(path))
    sys.modules[path.stem] = module = module_from_spec(spec)
    spec.loader.exec_module(module)


def _in_environment() -> Iterator[str]:
    return filter(None, (each.strip() for each in os.environ.get(VARIABLE, "").split(",")))


T = TypeVar("T")


class LazyRegistry(LateRegistry[T]):
    """A registry to which values can be added by reference, so that no plugin is imported before its use."""

    def add_reference(self, name: str, reference: str) -> None:
        """Add `module:attribute` under a name. Raises `CallerError` as `add`, and for another form."""
        module, _, attribute = reference.partition(":")
        if not (module and attribute):
            raise CallerError(f"expected module:attribute, found {reference!r}")
        self.add_late(name, Reference(module, attribute))


class ProgramRegistry(LazyRegistry[T]):
    """A registry that also has a part of each value of `PROGRAMS`, as `_take` adds it."""

    def __init__(self, kind: str, values: Mapping[str, T] | None = None) -> None:
        self._seen = -1
        super().__init__(kind, values)

    @property
    def _values(self) -> dict[str, T]:
        """All values, with those of programs that were registered since."""
        if self._seen != PROGRAMS.changes:
            self._seen = PROGRAMS.changes
            for program in PROGRAMS.values():
                self._take(program)
        return self._all

    @_values.setter
    def _values(self, values: dict[str, T]) -> None:
        self._seen, self._all = -1, values

    def add_late(self, name: str, make: Callable[[], T]) -> None:
        if name and name not in self._all:
            # Whoever registers a value loads no program.
            self._all[name] = LateValue((make,))  # type: ignore[assignment]
            self.changes += 1
        else:
            super().add_late(name, make)

    def _take(self, program: Program) -> None:
        raise NotImplementedError

    def _take_late(self, name: str, make: Callable[[], T]) -> None:
        """Add a value that is made late, unless the name is there."""
        if name not in self._all:
            self.add_late(name, make)
