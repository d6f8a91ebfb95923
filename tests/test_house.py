"""The house rules that can be checked: who imports whom, what is pure, how large a room may be."""

from __future__ import annotations

import ast
import gc
import re
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path
from types import ModuleType

import pytest

import stenolog
from stenolog.requests import FORMATS

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "stenolog"
MODULES = sorted(PACKAGE.rglob("*.py"))
PURE = [path for path in MODULES if path.relative_to(PACKAGE).parts[0] in ("domain", "projections")]
FLOORS = ("domain", "projections", "adapters")

IMPURE_MODULES = {
    "asyncio", "builtins", "concurrent", "ctypes", "fcntl", "getpass", "glob", "http", "importlib", "io",
    "locale", "logging", "multiprocessing", "os", "pathlib", "platform", "random", "secrets", "select",
    "shutil", "signal", "socket", "sqlite3", "ssl", "subprocess", "sys", "tempfile", "threading", "time",
    "urllib", "uuid", "warnings", "zoneinfo",
}  # fmt: skip
IMPURE_CALLS = {
    "now", "utcnow", "today", "astimezone", "open", "print", "input", "getenv", "uuid4", "hash", "id",
}  # fmt: skip


@cache
def syntax(path: Path) -> ast.Module:
    gc.disable()  # it would go through the nodes of all files again and again
    try:
        return ast.parse(path.read_text())
    finally:
        gc.freeze()
        gc.enable()


@pytest.fixture(autouse=True, scope="module")
def no_syntax_stays() -> Iterator[None]:
    """Free the trees of all files, a gigabyte, after the last of these tests."""
    yield
    syntax.cache_clear()


def test_imports_run_from_adapters_through_projections_to_the_domain_and_never_back() -> None:
    against = [
        f"{_name(path)}:{line} imports {target}"
        for path in MODULES
        if (floor := _floor(_name(path))) is not None
        for target, line in _imports(path)
        if (below := _floor(target)) is not None and below > floor
    ]

    assert against == []


def test_nothing_on_the_three_floors_imports_the_package_itself() -> None:
    """It gathers the public names, and so stands above all that defines them."""
    found = [
        f"{_name(path)}:{line}"
        for path in MODULES
        if _floor(_name(path)) is not None
        for target, line in _imports(path)
        if target == "stenolog"
    ]

    assert found == []


@pytest.mark.parametrize("path", PURE, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_domain_and_projections_touch_no_clock_chance_environment_or_file(path: Path) -> None:
    tree = syntax(path)
    impure = (place for place in _imports(path) if place[0].split(".")[0] in IMPURE_MODULES)
    imported = {f"import {target}" for target, _ in impure}
    called = {f"{name}()" for node in ast.walk(tree) if (name := _impure_call(node))}
    # A value may be registered by reference to its module, which is imported at its first use.
    late = {"import importlib", "import importlib.import_module"} if path.name == "registry.py" else set()

    assert (imported | called) - late == set()


def test_a_format_has_a_room_of_its_name_that_imports_no_other_providers() -> None:
    forms = "stenolog.projections.formats"
    rooms = {_name(path) for path in PACKAGE.glob("projections/formats/*/__init__.py")}
    between = {
        (room, other)
        for path in MODULES
        if (room := ".".join(_name(path).split(".")[:4])) in rooms
        for target, _ in _imports(path)
        if (other := ".".join(target.split(".")[:4])) in rooms - {room}
    }

    assert rooms == {f"{forms}.{format.name.replace('-', '_')}" for format in FORMATS.values()}
    # OpenAI has two.
    assert between == {(f"{forms}.openai_responses", f"{forms}.openai_chat")}


def test_the_stages_of_a_request_know_nothing_of_how_a_window_is_kept_up_with_the_log() -> None:
    requests = "stenolog.projections.requests"
    against = [
        f"{_name(path)}:{line} imports {target}"
        for path in MODULES
        if _name(path).startswith(f"{requests}.pipeline")
        for target, line in _imports(path)
        if target.startswith(f"{requests}.incremental")
    ]

    assert against == []


def test_the_library_under_the_stores_is_imported_only_by_them() -> None:
    assert _importers("eventsourcing") == {"stenolog.adapters.store"}


@pytest.mark.parametrize("library", ["click", "rich"])
def test_what_draws_on_the_terminal_is_imported_by_the_command_line_alone(library: str) -> None:
    assert _importers(library) <= {"stenolog.apps.cli"}


def test_importing_the_package_imports_nothing_of_the_command_line() -> None:
    code = "import sys, stenolog; print(*sorted({'click', 'rich', 'asyncio'} & set(sys.modules)))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert found.stdout.split() == []


def test_files_have_at_most_400_lines() -> None:
    long = {
        str(path.relative_to(ROOT)): lines
        for path in _tracked("*.py")
        if (lines := len(path.read_text().splitlines())) > 400
    }

    assert long == {}


def test_functions_have_at_most_70_lines() -> None:
    long = {
        f"{path.relative_to(ROOT)}:{node.lineno} {node.name}": length
        for path in _tracked("*.py")
        for node in ast.walk(syntax(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (length := (node.end_lineno or 0) - node.lineno + 1) > 70
    }

    assert long == {}


def test_every_public_name_has_a_docstring() -> None:
    bare = [
        f"{_name(path)}.{name}".removesuffix(".")
        for path in MODULES
        if path.stat().st_size
        for name, node in _public(syntax(path))
        if ast.get_docstring(node) is None
    ]

    assert bare == []


def test_no_class_name_is_used_more_than_twice() -> None:
    classes = Counter(
        node.name for path in MODULES for node in ast.walk(syntax(path)) if isinstance(node, ast.ClassDef)
    )

    assert [name for name, uses in classes.items() if uses > 2] == []


def test_no_modules_import_each_other_in_a_circle() -> None:
    """Imports within functions and for types count too."""
    names = {_name(path) for path in MODULES}
    graph = {_name(path): set(_targets(path, names)) & names - {_name(path)} for path in MODULES}

    TopologicalSorter(graph).prepare()  # raises `CycleError`, which names the circle


def test_the_public_names_are_these() -> None:
    """A name that is added here is a promise; one that goes breaks somebody's program."""
    pinned = (ROOT / "tests" / "public_names.txt").read_text().split()

    assert sorted(stenolog.__all__) == pinned
    assert [name for name in stenolog.__all__ if not hasattr(stenolog, name)] == []


def test_every_public_object_says_what_it_is() -> None:
    mute = [
        name
        for name in stenolog.__all__
        if isinstance(value := getattr(stenolog, name), type)
        or callable(value)
        or isinstance(value, ModuleType)
        if not value.__doc__
    ]

    assert mute == []


def test_no_tracked_file_names_an_index_host_or_a_place_on_someones_machine() -> None:
    hosts = r"pypi\.(org|python)|pythonhosted|index-url|find-links|--extra-index|trusted-host|artifactory"
    places = r"/(root|tmp|work|opt|Users)/\w|/home/(?!user\b)\w|\bC:\\"
    telling = re.compile(f"{hosts}|{places}")
    mine = Path(__file__)
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()[:80]}"
        for path in _tracked()
        if path != mine and path.suffix not in (".png", ".svg", ".db", ".jsonl") and path.is_file()
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1)
        if telling.search(line)
    ]

    assert found == []


def test_every_extra_is_named_on_its_page_but_that_of_an_sdk_by_its_format() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    page = (ROOT / "docs" / "reference" / "extras.md").read_text()
    extras = {*project["optional-dependencies"]}
    named = {format.endpoint.sdk.extra for format in FORMATS.values() if format.endpoint}

    assert [extra for extra in extras - named if f"`{extra}`" not in page] == []
    assert named <= extras


def test_every_dependency_and_every_exception_from_a_rule_says_why() -> None:
    requirement, rule = r'\s+"[\w\[\]-]+[><=].*"', r'\s+"[A-Z]+\d+"'
    lines = (ROOT / "pyproject.toml").read_text().splitlines()
    mute = [
        line for line in lines if re.match(f"{requirement}|{rule}", line) and not re.search(r",\s*# \w", line)
    ]

    assert mute == []


def test_the_constraints_hold_versions_and_nothing_else() -> None:
    lines = (ROOT / "constraints.txt").read_text().splitlines()

    assert [line for line in lines if not re.fullmatch(r"#.*|[A-Za-z0-9._-]+==[\w.]+", line)] == []


def _name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _floor(module: str) -> int | None:
    parts = module.split(".")
    return (
        FLOORS.index(parts[1]) if parts[0] == "stenolog" and len(parts) > 1 and parts[1] in FLOORS else None
    )


@cache
def _imported(path: Path) -> tuple[tuple[str, str, int], ...]:
    """Return the module of each import of a file (relative ones resolved), its name, and the line."""
    return tuple(_imports_of(path))


def _imports_of(path: Path) -> Iterator[tuple[str, str, int]]:
    package = _name(path).split(".") if path.name == "__init__.py" else _name(path).split(".")[:-1]
    for node in ast.walk(syntax(path)):
        if isinstance(node, ast.Import):
            yield from ((alias.name, "", node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*base, *(node.module.split(".") if node.module else [])])
            yield from ((module, alias.name, node.lineno) for alias in node.names)


def _imports(path: Path) -> Iterator[tuple[str, int]]:
    """Yield the modules that a file imports, with the line, and the names that it takes out of them."""
    for module, name, line in _imported(path):
        yield module, line
        if name:
            yield f"{module}.{name}", line


def _targets(path: Path, names: set[str]) -> Iterator[str]:
    """Yield the modules of ours that a file imports, also where it takes one out of its package by name."""
    for module, name, _ in _imported(path):
        target = f"{module}.{name}"
        yield target if target in names else module


def _importers(library: str) -> set[str]:
    """Return the packages of adapters (or the modules above them) that import a library."""
    return {
        ".".join(_name(path).split(".")[:3])
        for path in MODULES
        for target, _ in _imports(path)
        if target.split(".")[0] == library
    }


def _impure_call(node: ast.AST) -> str:
    if not isinstance(node, ast.Call):
        return ""
    function = node.func
    name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    return name if name in IMPURE_CALLS else ""


def _public(tree: ast.Module) -> Iterator[tuple[str, ast.Module | ast.ClassDef | ast.FunctionDef]]:
    """Yield the module, its public classes and functions, and public methods of classes without a base.

    A method that overrides its base's is explained there.
    """
    yield "", tree
    for node in tree.body:
        if not isinstance(node, ast.ClassDef | ast.FunctionDef) or _needs_no_words(node):
            continue
        yield node.name, node
        if isinstance(node, ast.ClassDef) and not node.bases:
            methods = (part for part in node.body if isinstance(part, ast.FunctionDef))
            yield from ((f"{node.name}.{part.name}", part) for part in methods if not _needs_no_words(part))


def _needs_no_words(node: ast.ClassDef | ast.FunctionDef) -> bool:
    """Return whether a node needs no docstring.

    It is private, or a property, explained where its class is, or a check whose decorator has the sentence.
    """
    calls = [mark for mark in node.decorator_list if isinstance(mark, ast.Call)]
    said = any(isinstance(argument, ast.Constant) for call in calls for argument in call.args)
    names = {getattr(mark, "id", getattr(mark, "attr", "")) for mark in node.decorator_list}
    return (
        node.name.startswith("_")
        or said
        or bool(names & {"property", "cached_property", "setter", "overload"})
    )


def _tracked(pattern: str = "*") -> list[Path]:
    """Return the files of the project that are under version control, or all where there is no git."""
    listed = subprocess.run(
        ["git", "ls-files", "--", pattern], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if listed.returncode or not listed.stdout:
        return [
            path for path in ROOT.rglob(pattern) if path.is_file() and "/." not in str(path.relative_to(ROOT))
        ]
    return [path for line in listed.stdout.splitlines() if (path := ROOT / line).exists()]


def test_importing_stenolog_builds_no_validator() -> None:
    late = "getattr(c, '__dict__', {}).get('__pydantic_validator__')"
    built = f"[n for n, c in vars(stenolog).items() if type({late}).__name__ == 'SchemaValidator']"

    found = subprocess.run(
        [sys.executable, "-c", f"import stenolog; print({built})"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )

    assert found.stdout.strip() == "[]"
