"""What comes with stenolog as a plugin has what anybody's plugin has: the public modules alone."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from importlib.util import resolve_name
from pathlib import Path

import stenolog
from stenolog.contrib import agents, plugins, programs
from stenolog.plugins import PROGRAMS, Program

PACKAGE = Path(stenolog.__file__).parent
CONTRIB = sorted((PACKAGE / "contrib").rglob("*.py"))
CORE = sorted({*PACKAGE.rglob("*.py")} - {*CONTRIB})
COMMON = {"__init__", "agents", "plugins", "programs"}
SYSTEMS = {path.relative_to(PACKAGE / "contrib").parts[0].removesuffix(".py") for path in CONTRIB} - COMMON
FACES = {f"stenolog.{path.stem}" for path in PACKAGE.glob("*.py") if not path.stem.startswith("_")}
PUBLIC = {"stenolog", "stenolog.testing", *FACES}
"""The modules from which programs and plugins import."""
INTERNAL = {"application", "checkpoints", "datastore", "edge", "index", "stream", "streams", "windows"}
"""Attributes of logs and conversations that are the store's own."""


def test_contrib_imports_public_modules_alone() -> None:
    against = [
        f"{path.relative_to(PACKAGE)}: {module}"
        for path in CONTRIB
        for module in _imported(path)
        if module.split(".")[0] == "stenolog" and module not in PUBLIC and not _is_own(path, module)
    ]

    assert against == []


def test_contrib_takes_public_names_alone() -> None:
    against = [
        f"{path.relative_to(PACKAGE)}: {module}.{name}"
        for path in CONTRIB
        for module, name in _names(path)
        if module in PUBLIC and name not in (*import_module(module).__all__, "__all__")
    ]

    assert against == []


def test_contrib_reaches_through_no_log_or_conversation_into_the_store() -> None:
    against = [
        f"{path.relative_to(PACKAGE)}:{node.lineno} {ast.unparse(node)}"
        for path in CONTRIB
        for node in _nodes(path)
        if isinstance(node, ast.Attribute) and node.attr in INTERNAL
        if ast.unparse(node.value).split(".")[-1] in ("conversation", "log")
    ]

    assert against == []


def test_nothing_else_names_what_is_in_contrib() -> None:
    """Neither in an import nor in a reference of a string: the entry points of the distribution do."""
    references = re.compile(rf"stenolog\.contrib|^({'|'.join(SYSTEMS)})(\.\w+)*:\w+$")
    signs = re.compile(rf"contrib|\b({'|'.join(SYSTEMS)})[.\w]*:\w")
    against = [
        f"{path.relative_to(PACKAGE)}: {found}"
        for path in CORE
        if signs.search(path.read_text())
        for found in (*_imported(path), *filter(references.search, _strings(path)))
        if found.startswith("stenolog.contrib") or references.search(found)
    ]

    assert against == []


def test_each_package_is_registered_by_an_entry_point_of_its_name_and_so_is_each_program() -> None:
    project = tomllib.loads((PACKAGE.parent / "pyproject.toml").read_text())["project"]
    shipped = {
        name: value
        for name, value in {**vars(programs), **vars(agents)}.items()
        if isinstance(value, Program)
    }

    assert project["entry-points"]["stenolog.plugins"] == {
        name: f"stenolog.contrib.plugins:{name}" for name in SYSTEMS
    }
    assert [name for name in SYSTEMS if not callable(vars(plugins).get(name))] == []
    assert [name for name, value in shipped.items() if PROGRAMS.get(value.name) is not value] == []


def test_a_public_module_has_all_that_it_lists_and_defines_nothing_itself() -> None:
    lacking = [
        f"{module}.{name}"
        for module in sorted(PUBLIC)
        for name in import_module(module).__all__
        if not hasattr(import_module(module), name)
    ]
    defined = [
        f"{module}.{node.name}"
        for module in sorted(FACES)
        for node in ast.parse((PACKAGE / f"{module.partition('.')[2]}.py").read_text()).body
        if isinstance(node, ast.ClassDef | ast.FunctionDef) and not node.name.startswith("__")
    ]

    assert (lacking, defined) == ([], [])


def test_opening_a_log_imports_no_plugin_that_is_not_used() -> None:
    """`stenolog.open` loads the installed plugins, which register themselves by references."""
    code = "import sys, stenolog; stenolog.open(':memory:').close(); print(*sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(found.stdout.split())

    assert {name for name in loaded if name.startswith("stenolog.contrib.")} == {"stenolog.contrib.plugins"}
    assert {name for name in loaded & FACES if name != "stenolog.plugins"} == set()


def _is_own(path: Path, module: str) -> bool:
    """Return whether a module is in the same package of `contrib` as a file, or has their values."""
    return module in (programs.__name__, agents.__name__) or module.split(".")[1:3] == [
        "contrib",
        path.relative_to(PACKAGE).parts[1].removesuffix(".py"),
    ]


def _names(path: Path) -> Iterator[tuple[str, str]]:
    """Yield the names that a file takes from modules, each with its module."""
    package = ".".join(path.relative_to(PACKAGE.parent).parent.parts)
    public = set[str]()
    for node in _nodes(path):
        if isinstance(node, ast.ImportFrom):
            module = resolve_name("." * node.level + (node.module or ""), package)
            names = {alias.name for alias in node.names}
            modules = {name for name in names if f"{module}.{name}" in PUBLIC}
            public |= modules
            yield from ((f"{module}.{name}", "__all__") for name in modules)
            yield from ((module, name) for name in names - modules)
    for node in _nodes(path):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in public:
            yield f"stenolog.{node.value.id}", node.attr


def _imported(path: Path) -> Iterator[str]:
    """Yield the modules that a file imports, and those that it imports from."""
    yield from (module for module, _ in _names(path))
    for node in _nodes(path):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


@cache
def _nodes(path: Path) -> list[ast.AST]:
    return list(ast.walk(ast.parse(path.read_text())))


def _strings(path: Path) -> Iterator[str]:
    for node in _nodes(path):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def test_no_two_public_things_share_a_name() -> None:
    things: dict[str, set[int]] = {}
    for module in sorted(PUBLIC):
        for name in import_module(module).__all__:
            things.setdefault(name, set()).add(id(getattr(import_module(module), name)))

    assert [name for name, found in things.items() if len(found) > 1] == []
