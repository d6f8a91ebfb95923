"""`stenolog search`: what was said, on one screen."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from stenolog import UserMessage
from stenolog import open as open_log

Cli = Callable[..., Any]


def test_hits_stand_below_their_conversation_with_when_what_who_and_the_words(demo: Cli) -> None:
    assert demo("search", "failed", "dates").out.splitlines() == [
        "demo  the flaky parser",
        "  4  2026-11-20 09:01  tool  shell",
        "     FAILED test_dates: 23:00 != 00:00 1 failed",
    ]


def test_each_conversation_is_named_once_however_many_hits_it_has(demo: Cli) -> None:
    with open_log("talks.db") as log:
        log["other"].extend([UserMessage(text="dates"), UserMessage(text="dates again")])
    rows = demo("search", "dates").out.splitlines()

    assert [row.split()[0] for row in rows if not row.startswith(" ")] == ["other", "demo"]


def test_in_a_pipe_each_hit_names_its_conversation_and_its_words_are_on_one_line(
    demo: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COLUMNS")

    assert demo("search", "failed", "dates").out.splitlines() == [
        "demo@4  2026-11-20 09:01  tool  shell",
        "    FAILED test_dates: 23:00 != 00:00 1 failed",
    ]


def test_hits_stand_out_where_there_are_colours(demo: Cli) -> None:
    assert "\x1b[1;33mFAILED\x1b[0m" in demo("search", "failed", "--color", "always").out


def test_words_obey_nobody(cli: Cli) -> None:
    with open_log("talks.db") as log:
        log["talk"].append(UserMessage(text="a \x1b[31mred\u202e needle"))

    assert cli("search", "needle").out.splitlines()[2] == r"     a \x1b[31mred\u202e needle"


def test_a_long_snippet_goes_on_on_the_next_line(cli: Cli) -> None:
    with open_log("talks.db") as log:
        log["talk"].append(UserMessage(text=f"needle {'substantial ' * 50}"))

    lines = cli("search", "needle").out.splitlines()

    assert len(lines) == 5
    assert all(len(line) <= 100 and line.startswith("     ") for line in lines[2:])


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (("--kind", "error"), [5]),
        (("--kind", "llm_error"), [5]),
        (("-failed",), [5]),
        (('-"1 failed"', "-n", "5"), [5]),
        (("-1",), [5]),
        (("-n1", "--newest"), [5]),
        (("--agent", "reviewer"), []),
        (("--conversation", "demo", "--kind", "tool"), [4]),
        (("--newest",), [5, 4]),
        (("--since", "2026-11-20T09:01:20"), [5]),
        (("--until", "2026-11-20T09:01:10Z"), [4]),
        (("--since", "2026-11-20", "--until", "2026-11-20", "--newest"), [5, 4]),
        (("--until", "2026-11-19"), []),
        (("--agent", "\udcff"), []),
    ],
)
def test_options_narrow_what_is_found(demo: Cli, options: tuple[str, ...], expected: list[int]) -> None:
    hits = demo("search", "dates", *options, "--json").data["hits"]

    assert [hit["position"] for hit in hits] == expected


def test_more_than_is_shown_is_said(demo: Cli) -> None:
    assert "there are more: -n 5" in demo("search", "dates", "-n", "1").err
    assert demo("search", "dates", "-n", "2").err == ""


def test_nothing_found_is_told_on_stderr_with_exit_1_as_grep_does(demo: Cli) -> None:
    ran = demo("search", "nowhere")

    assert (ran.status, ran.out, ran.err) == (1, "", "· nothing found\n")


@pytest.mark.parametrize(
    ("words", "fault"), [('"dates', "the quote is not closed"), ("dates OR", "OR stands between two words")]
)
def test_a_slip_in_the_syntax_of_the_words_is_told(demo: Cli, words: str, fault: str) -> None:
    assert fault in demo("search", words).err


def test_behind_two_dashes_all_are_words(demo: Cli) -> None:
    assert demo("search", "--", "dates", "-failed").out == demo("search", "dates", "-failed").out


@pytest.mark.parametrize("within", [(), ("--conversation", "demo")])
def test_an_agent_that_never_spoke_is_named_with_those_that_did(demo: Cli, within: tuple[str, ...]) -> None:
    unknown = demo("search", "dates", "--agent", "nobody", *within)
    known = demo("search", "nowhere", "--agent", "coder", *within)

    assert (unknown.status, unknown.out) == (1, "")
    where = "demo" if within else "talks.db"
    assert unknown.err == f"· nothing found\n· {where}: no agent 'nobody' (known: coder, reviewer)\n"
    assert known.err == "· nothing found\n"
    slip = demo("search", "dates", "--agent", "reviewr", *within)
    assert "did you mean 'reviewer'?" in slip.err


@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [
        (("!!",), 2, "expected a word to look for, found '!!'"),
        (("dates", "--since", "lately"), 2, "2h, 3d, yesterday, today), found 'lately'"),
        (("dates", "--since", "2026-11-21", "--until", "2026-11-20"), 2, "nothing is between"),
        (("-dates",), 2, "expected a word to look for, found '-dates'"),
        (("dates", "--dates"), 2, "No such option"),
        (("dates", "--conversation", "nobody"), 3, "no conversation 'nobody'"),
        (("dates", "--kind", "poem"), 2, "poem"),
        (("\udcff",), 2, "expected a word to look for"),
        (("dates", "--conversation", "\udcff"), 3, "no conversation"),
    ],
)
def test_what_cannot_be_asked_for_is_refused(
    demo: Cli, arguments: tuple[str, ...], status: int, words: str
) -> None:
    ran = demo("search", *arguments)

    assert ran.status == status
    assert words in ran.err
