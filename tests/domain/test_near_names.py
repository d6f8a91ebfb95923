"""Near names: the known name that a misspelt one was meant to be."""

from __future__ import annotations

import pytest

from stenolog.domain.base.near_names import closest

AGENTS = ["coder", "Reviewer", "planner", "tool_choice", "to"]


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("codr", "coder"),
        ("CODER", "coder"),
        ("reviewer", "Reviewer"),
        ("rev", "Reviewer"),
        ("planner-2", "planner"),
        ("toolchoice", "tool_choice"),
        ("writer", ""),
        ("torch", ""),
        ("", ""),
    ],
)
def test_case_underscores_and_a_missing_end_do_not_count(written: str, meant: str) -> None:
    assert closest(written, AGENTS) == meant


def test_a_beginning_counts_only_where_it_is_asked_for() -> None:
    assert closest("rev", AGENTS, begins=False) == ""


def test_of_names_that_differ_in_case_alone_the_first_is_meant() -> None:
    assert closest("Coder", ["CODER", "coder"]) == "CODER"
