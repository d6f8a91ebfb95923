"""English of the code: names that say something, and docstrings in plain grammar."""

from __future__ import annotations

import ast
import re
from collections import Counter

from tests.test_house import MODULES, PACKAGE, syntax

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
        for node in ast.walk(syntax(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.strip("_") in BANNED
    ]

    assert vague == []


HEADLESS = re.compile(r"(What|Who|Whom|Where|How|When|Whether|Whoever|Whatever|The same|Of)\b")


def test_a_docstring_begins_with_a_verb_or_a_noun() -> None:
    headless = [
        f"{path.relative_to(PACKAGE)}:{node.lineno} {node.value.value}"
        for path in MODULES
        for node in ast.walk(syntax(path))
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if isinstance(node.value.value, str) and HEADLESS.match(node.value.value)
    ]

    assert headless == []


OLD_GRAMMAR = {
    "if": r"\bwhere (there|it|they|that|nothing|none|a|an|the|one|others|no|not)\b",
    "is": r"\bst(ands?|ood)\b",
    "after": r"\bbehind\b",
    "show, return": r"\bt(ells?|old)\b",
    "only": r"\balone\b",
    "caller, process, user": r"\b(who|what)ever\b|\b(some|no|every)body\b",
}
"""Words of docstrings, by the plain ones to write instead."""
MOST_PER_1000_WORDS = 2.0
"""The old words allowed in 1,000 words of docstrings. Lower it with every page that is rewritten."""


def test_docstrings_say_if_is_after_and_only_and_name_who_acts() -> None:
    texts = [
        text
        for path in MODULES
        for node in ast.walk(syntax(path))
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        if (text := ast.get_docstring(node))
    ]
    old = Counter(
        plain
        for text in texts
        for plain, pattern in OLD_GRAMMAR.items()
        for _ in re.finditer(pattern, text, re.IGNORECASE)
    )

    assert 1000 * old.total() / sum(len(text.split()) for text in texts) <= MOST_PER_1000_WORDS, old
