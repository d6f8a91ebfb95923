"""English of the code: names that say something, and docstrings in plain grammar."""

from __future__ import annotations

import ast
import re
import sys
import textwrap
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tests.test_house import MODULES, PACKAGE, syntax


@cache
def nodes(path: Path) -> list[ast.AST]:
    """Return every node of a module."""
    return [*ast.walk(syntax(path))]


BANNED = {
    "told", "said", "heard", "held", "kept", "made", "known", "named", "shown", "taken", "given",
    "asked", "gone", "stands", "standing", "behind", "anew", "whole", "rest", "own", "left", "mark",
    "piece", "place", "words", "talk", "ear", "floor", "room", "bell", "desk", "stage", "paper",
    "shelf",
}  # fmt: skip
"""Words that say nothing about what a function gives or does."""


def test_no_function_has_a_name_that_needs_its_docstring_to_be_understood() -> None:
    vague = [
        f"{path.relative_to(PACKAGE)}:{node.lineno} {node.name}"
        for path in MODULES
        for node in nodes(path)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.strip("_") in BANNED
    ]

    assert vague == []


VAGUE = {"told", "there", "here"}
MOST_VAGUE = {
    "adapters/agents": 3, "adapters/conversation": 6,
    "adapters/frameworks": 1, "adapters/plugins.py": 1, "adapters/store": 11,
    "adapters/tables": 8, "contrib/langgraph": 1, "domain/history.py": 1, "projections/analysis": 13,
    "projections/context_curve": 1, "projections/formats": 2, "projections/messages": 1,
    "projections/moments": 1, "projections/otel_spans.py": 7, "projections/requests": 13,
}  # fmt: skip
"""Parameters and local variables with a vague name, by folder. Lower these numbers, and add none."""


def test_parameters_and_variables_say_what_they_are() -> None:
    found = Counter(
        "/".join(path.relative_to(PACKAGE).parts[:2])
        for path in MODULES
        for node in nodes(path)
        if (isinstance(node, ast.arg) and node.arg in VAGUE)
        or (isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id in VAGUE)
    )

    assert {folder: number for folder, number in found.items() if number > MOST_VAGUE.get(folder, 0)} == {}


HEADLESS = re.compile(r"(What|Who|Whom|Where|How|When|Whether|Whoever|Whatever|The same|Of)\b")


def test_a_docstring_begins_with_a_verb_or_a_noun() -> None:
    headless = [
        f"{path.relative_to(PACKAGE)}:{node.lineno} {node.value.value}"
        for path in MODULES
        for node in nodes(path)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if isinstance(node.value.value, str) and HEADLESS.match(node.value.value)
    ]

    assert headless == []


def test_the_docstring_of_a_property_is_a_noun() -> None:
    verbs = [
        f"{path.relative_to(PACKAGE)}:{node.lineno} {text[:60]}"
        for path in MODULES
        for node in nodes(path)
        if isinstance(node, ast.FunctionDef)
        and any("property" in ast.unparse(each) for each in node.decorator_list)
        if re.match(r"(?:Return|Yield|Give)s?\b", text := ast.get_docstring(node) or "")
    ]

    assert verbs == []


OLD_GRAMMAR = {
    "if": r"\bwhere (there|it|they|that|nothing|none|a|an|the|one|others|no|not)\b",
    "is": r"\bst(ands?|ood)\b",
    "after": r"\bbehind\b",
    "show, return": r"\bt(ells?|old)\b",
    "only": r"\balone\b",
    "caller, process, user": r"\b(who|what)ever\b|\b(some|no|every)body\b",
}
"""Words of docstrings, by the plain ones to write instead."""
MOST_PER_1000_WORDS = 1.3
"""The old words allowed in 1,000 words of docstrings. Lower it with every page that is rewritten."""


@cache
def docstrings() -> list[tuple[str, str]]:
    """Return every docstring with its place, of attributes too."""
    return [
        (
            f"{path.relative_to(PACKAGE)}:{node.lineno}",
            node.value.value.replace("\n" + " " * node.col_offset, "\n"),
        )
        for path in MODULES
        for node in nodes(path)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if isinstance(node.value.value, str)
    ]


def test_docstrings_say_if_is_after_and_only_and_name_who_acts() -> None:
    texts = [text for _, text in docstrings()]
    old = Counter(
        plain
        for text in texts
        for plain, pattern in OLD_GRAMMAR.items()
        for _ in re.finditer(pattern, text, re.IGNORECASE)
    )

    assert 1000 * old.total() / sum(len(text.split()) for text in texts) <= MOST_PER_1000_WORDS, old


class Names:
    """The names of the package: members by class, names by module, and every identifier."""

    def __init__(self) -> None:
        self.members, self.bases = defaultdict[str, set[str]](set), defaultdict[str, set[str]](set)
        self.modules = defaultdict[str, set[str]](set)
        self.known = set[str](sys.stdlib_module_names)
        for path in MODULES:
            stem = path.parent.name if path.stem == "__init__" else path.stem
            self.modules[stem] |= self._identifiers(syntax(path))
            self.modules[path.parent.name].add(stem)
        self.known |= set[str]().union(*self.modules.values())

    def _identifiers(self, node: ast.AST) -> set[str]:
        """Return the names in a node, and note those of the classes in it."""
        names = set[str]().union(*map(self._identifiers, ast.iter_child_nodes(node)))
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.Name(id=name):
                names.add(name)
            case ast.Attribute(attr=name) | ast.arg(arg=name):
                names.add(name)
            case ast.ClassDef(name=name):
                self.members[name] |= names
                self.bases[name] |= {*re.findall(r"\w+", " ".join(map(ast.unparse, node.bases)))}
                names.add(name)
            case ast.alias(name=name, asname=asname):
                names.update((asname or name).split("."))
            case _:
                pass
        return names

    def of(self, name: str) -> set[str] | None:
        """Return the members of a class of the package, inherited ones too; None if a base is of others."""
        found = set(self.members[name])
        for base in self.bases[name]:
            if base not in self.members:
                return None
            inherited = self.of(base)
            if inherited is None:
                return None
            found |= inherited
        return found

    def has(self, dotted: str) -> bool:
        """Return whether a dotted name leads to something."""
        *_, owner, name = ["", *dotted.split(".")]
        if owner in self.members:
            members = self.of(owner)
            return members is None or name in members
        if owner in self.modules and name[:1].isupper():
            return name in self.modules[owner]
        return name in self.known or name in self.modules


FILE_NAMES = re.compile(r"\.(py|md|json|jsonl|toml|db|html|yaml|ts|zstd|traj)$")
OTHERS = {"fs.read", "metadata.user_id", "session.sql.ts"}
"""Names in other programs."""


def test_a_name_with_a_dot_in_a_docstring_leads_to_something_and_so_does_what_it_refers_to() -> None:
    names = Names()
    dotted = r"`([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+)(?:\(\))?`|\b[Ss]ee `([A-Za-z_][\w.]*)(?:\(\))?`"
    lost = [
        f"{place} {name}"
        for place, text in docstrings()
        for one, other in re.findall(dotted, text)
        if not FILE_NAMES.search(name := one or other)
        if name not in OTHERS
        if not names.has(name)
    ]

    assert lost == []


BLOCK = re.compile(r"(?:^|\n)\n((?:    .*\n?|\n(?=    ))+)")
CODE = re.compile(r"(?:from|import|with|for|async|await|class|def)\b|@|[A-Za-z_][\w.\[\]\"]* ?[=(]")
FORMULA = "‖"
NOT_INDENTED = re.compile(
    r"^(?:>>> .*|from \w[\w.]* import .*|import \w[\w.]*|@\w+\(.*\)|\w+(?:: .*)? = \S+.*|[\w.]+\(.*\))$",
    re.MULTILINE,
)
FLAGS = ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT


def code_in(text: str) -> Iterator[str]:
    """Yield the code of a docstring: indented, or all after its first paragraph, as ruff formats that."""
    rest = text.partition("\n\n")[2]
    for block in [rest] if NOT_INDENTED.match(rest) else map(textwrap.dedent, BLOCK.findall(text)):
        if CODE.match(block) and FORMULA not in block:
            yield block.replace("…", "...")


def test_code_in_a_docstring_is_apart_from_its_text_and_can_be_parsed() -> None:
    wrong = list[str]()
    for place, text in docstrings():
        if not NOT_INDENTED.match(text.partition("\n\n")[2]):
            wrong += (f"{place} {line}" for line in NOT_INDENTED.findall(text))
        for code in code_in(text):
            try:
                compile(code, place, "exec", FLAGS)
            except SyntaxError:
                wrong.append(f"{place} {code!r:.60}")

    assert wrong == []
