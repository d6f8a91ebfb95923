"""A checkout has no judges beside it, but its tests end without a failure."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.requests import judging
from tests.requests.judging import refused

TESTS = Path(__file__).resolve().parents[1]
ASKS = {"complaints", "faults", "judge"}
GUARDS = {"HERE", "needs_judges"}


def imported(file: Path) -> set[str]:
    """Return the names that a file imports from the judges' module."""
    return {
        alias.name
        for node in ast.walk(ast.parse(file.read_text("utf-8")))
        if isinstance(node, ast.ImportFrom) and node.module == judging.__name__
        for alias in node.names
    }


def test_a_file_that_asks_the_judges_says_what_it_does_where_there_are_none() -> None:
    unguarded = [
        file.relative_to(TESTS).as_posix()
        for file in TESTS.rglob("test_*.py")
        if (names := imported(file)) & ASKS and not names & GUARDS
    ]

    assert unguarded == []


def test_without_the_judges_the_laws_decide_whether_a_body_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(judging, "HERE", False)
    sound = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
    torn = {"model": "m", "messages": [{"role": "tool", "tool_call_id": "c1", "content": "12"}]}

    assert refused("openai-chat", sound) == []
    assert len(refused("openai-chat", torn)) == 1
