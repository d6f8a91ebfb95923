"""The requirements of the five systems: every line names tests that are there and are run."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "systems" / "requirements.md"
TABLES = ROOT.parent / "shared" / "SYSTEMS.md"
REQUIREMENTS: dict[str, dict[str, Any]] = tomllib.loads(
    (ROOT / "tests" / "systems" / "requirements.toml").read_text("utf-8")
)
OFF = ("skip", "xfail")


class Row(NamedTuple):
    """A line: its system and its number in that."""

    system: int
    number: int

    @property
    def tests(self) -> list[str]:
        """The tests that show it, each as its file and its name."""
        return list(REQUIREMENTS[name(self)]["tests"])


def name(row: Row) -> str:
    return f"{row.system}.{row.number}"


ALL = [Row(*map(int, number.split("."))) for number in REQUIREMENTS]


def test_every_line_says_what_must_be_true_and_names_tests() -> None:
    assert [name(row) for row in ALL if not REQUIREMENTS[name(row)]["must"] or not row.tests] == []


@pytest.mark.parametrize("row", ALL, ids=name)
def test_every_test_that_is_named_exists_and_is_not_switched_off(row: Row) -> None:
    for each in row.tests:
        path, _, test = each.partition("::")
        assert (ROOT / path).is_file(), path
        if path.endswith(".txt"):  # A case of tests/transcripts/test_golden.py.
            assert f"\n# {test}" in f"\n{(ROOT / path).read_text('utf-8')}", f"no case {test!r} in {path}"
            continue
        tree = ast.parse((ROOT / path).read_text("utf-8"))
        assert [*found(tree, test.split("::"))], f"no {test} in {path}"
        assert [*switched_off(tree, test.split("::"))] == [], each


def test_lines_are_numbered_without_gaps() -> None:
    systems = sorted({row.system for row in ALL})

    assert systems == [1, 2, 3, 4, 5]
    for system in systems:
        numbers = [row.number for row in ALL if row.system == system]
        assert numbers == [*range(1, len(numbers) + 1)]


@pytest.mark.skipif(
    not TABLES.is_file(),
    reason="as expected: the tables of the five systems come with no checkout, they lie beside its author's",
)
def test_there_is_a_line_for_each_line_of_the_tables() -> None:
    tables = re.split(r"^## (?=\d)", TABLES.read_text("utf-8"), flags=re.MULTILINE)[1:]
    sections = {int(text[0]): text.partition("\n## ")[0] for text in tables}
    wanted = {n: len(re.findall(r"^\| (?!must \|)", text, re.MULTILINE)) for n, text in sections.items()}

    # What their designers' documents ask for beyond the tables has lines, too.
    assert [n for n in wanted if sum(row.system == n for row in ALL) < wanted[n]] == []


def test_each_system_has_an_example_with_one_command_and_an_outcome() -> None:
    named = re.findall(
        r"^\| (\d)\. .* \| `python -m examples\.(\w+)` \|", PAGE.read_text("utf-8"), re.MULTILINE
    )

    assert [int(system) for system, _ in named] == [1, 2, 3, 4, 5]
    for _, example in named:
        for file in ("__main__.py", "outcome.py", "README.md"):
            assert (ROOT / "examples" / example / file).is_file(), f"{example}/{file}"


def found(tree: ast.Module, path: list[str]) -> Iterator[ast.stmt]:
    """Yield the classes and the function that a test's name leads to; none if one of them is missing."""
    body, chain = tree.body, list[ast.stmt]()
    for part in path:
        named = [node for node in body if isinstance(node, NAMED) and node.name == part]
        if not named:
            return
        chain.append(named[-1])
        body = named[-1].body
    if isinstance(chain[-1], FUNCTION) and path[-1].startswith("test_"):
        yield from chain


FUNCTION = (ast.FunctionDef, ast.AsyncFunctionDef)
NAMED = (*FUNCTION, ast.ClassDef)


def switched_off(tree: ast.Module, path: list[str]) -> Iterator[str]:
    """Yield the marks that always switch a test off: its module's, its class's, or its own."""
    for node in tree.body:
        if isinstance(node, ast.Assign) and any(getattr(t, "id", "") == "pytestmark" for t in node.targets):
            yield from filter(is_off, marks(node.value))
        elif isinstance(node, ast.Expr) and is_off(ast.unparse(node.value)):
            yield ast.unparse(node.value)
    for named in found(tree, path):
        assert isinstance(named, NAMED)
        yield from filter(is_off, map(ast.unparse, named.decorator_list))
        if isinstance(named, FUNCTION):
            calls = (node for node in named.body if isinstance(node, ast.Expr))
            yield from filter(is_off, (ast.unparse(call.value) for call in calls))


def marks(value: ast.expr) -> Iterator[str]:
    """Yield the marks of a module: one, or a list of them."""
    for each in value.elts if isinstance(value, ast.List | ast.Tuple) else [value]:
        yield ast.unparse(each)


def is_off(written: str) -> bool:
    """Return whether a mark, or a call in the open, skips or expects to fail without a condition."""
    called = re.fullmatch(r"pytest\.(?:mark\.)?(\w+)(?:\((.*)\))?", written, re.DOTALL)
    if called is None:
        return False
    what, given = called[1], called[2] or ""
    if what == "skipif":
        return bool(re.match(r"(True|1)\b", given))
    return what in OFF and (what == "skip" or not given or bool(re.match(r"\w+=", given)))


@pytest.mark.parametrize(
    ("written", "off"),
    [
        ("pytest.mark.skip", True),
        ("pytest.mark.skip(reason='later')", True),
        ("pytest.mark.xfail", True),
        ("pytest.mark.xfail(reason='later')", True),
        ("pytest.mark.xfail(HERE, reason='later')", False),
        ("pytest.mark.skipif(True, reason='later')", True),
        ("pytest.mark.skipif(not HERE, reason='no judges')", False),
        ("pytest.skip('later')", True),
        ("pytest.mark.slow", False),
        ("pytest.mark.parametrize('skip', [1])", False),
    ],
)
def test_what_switches_a_test_off_is_recognised(written: str, off: bool) -> None:
    assert is_off(written) is off


def test_a_test_that_is_not_there_is_not_found() -> None:
    tree = ast.parse("class TestA:\n    def test_b(self): ...\n\ndef test_c(): ...\ntest_d = 1\n")

    assert [bool([*found(tree, name.split("::"))]) for name in ("TestA::test_b", "test_c")] == [True, True]
    assert [[*found(tree, name.split("::"))] for name in ("TestA", "test_b", "test_d", "TestA::test_c")] == [
        []
    ] * 4
