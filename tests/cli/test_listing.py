"""`stenolog ls` with more conversations than fit on a page."""

from __future__ import annotations

import socket
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import click
import pytest
from pydantic import JsonValue

from stenolog.adapters.conversation.log import open as open_log
from stenolog.adapters.conversation.queries import overviews
from stenolog.adapters.conversation.queries.folds import persistent
from stenolog.apps.cli.app import app
from stenolog.apps.cli.arguments import options
from stenolog.apps.cli.arguments.position import full_name
from stenolog.apps.servers.sockets import server_socket
from stenolog.apps.views.figures import short_usd
from stenolog.domain.entry import Entry
from stenolog.domain.events import ModeSwitch, UserMessage
from stenolog.projections.views.overview import Overview, overview

Cli = Callable[..., Any]
DAY = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def many(cli: Cli) -> Cli:
    """Return a database with seven conversations, one a day."""
    with open_log("talks.db") as log:
        for number in range(7):
            at = DAY + timedelta(days=number)
            log[f"talk {number}"].append(UserMessage(text="hi"), time=at)
        log["talk 0"].append(UserMessage(text="back again"), time=DAY + timedelta(days=30))
        log["talk 3"].archive()
    return cli


def shown(cli: Cli, *options: str) -> list[str]:
    return [row["name"] for row in cli("ls", *options, "--json").data]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ((), "065421"),
        (("--all",), "0654321"),
        (("-n", "2"), "06"),
        (("-n", "2", "--older-than", "talk 5"), "42"),
        (("--until", "2026-01-03"), "21"),
        (("--since", "2026-01-02", "--until", "2026-01-05T00:00"), "421"),
        (("-n", "0"), "065421"),
        (("LK 4",), "4"),
        (("4", "--all", "-n", "1"), "4"),
        (("%",), ""),
        (("--since", "2026-01-06"), "065"),
        (("--since", "2026-01-06", "-n", "1"), "0"),
    ],
)
def test_those_that_ended_last_are_shown_and_what_was_asked_for(
    many: Cli, options: tuple[str, ...], expected: str
) -> None:
    assert shown(many, *options) == [f"talk {number}" for number in expected]


def test_a_page_says_how_many_are_left_and_how_to_see_them(many: Cli) -> None:
    ran = many("ls", "-n", "2")

    assert [line.split()[1] for line in ran.out.splitlines()[2:]] == ["6", "0"]
    assert ran.err == "· 4 older ones: --older-than 'talk 6'; -n 0 shows all\n"
    assert many("ls", "-n", "6").err == ""
    assert many("ls", "-n", "2", "--json").envelope["diagnostics"][0]["code"] == "more"


def test_where_nothing_is_it_says_what_was_asked_for(many: Cli) -> None:
    ran = many("ls", "poem")
    assert ran == (0, "", "· no conversation has 'poem' in its name, project, branch or title\n")
    assert (many("ls", "\udcff").status, many("ls", "\udcff").out) == (0, "")
    assert many("ls", "--older-than", "poem").status == 3


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--older-than", "talk 1"), "of 6 conversations none passes --older-than 'talk 1'"),
        (("--since", "2026-03-01", "-a"), "of 7 conversations none passes --since 2026-03-01"),
        (("talk 4", "--since", "2026-02-01"), "of 1 conversation none passes --since 2026-02-01"),
        (("talk 3",), "1 conversation put away: --all shows archived ones too"),
    ],
)
def test_what_is_there_but_does_not_pass_is_not_said_to_be_missing(
    many: Cli, options: tuple[str, ...], said: str
) -> None:
    assert many("ls", *options) == (0, "", f"· {said}\n")


def test_where_all_are_archived_it_is_not_said_that_there_is_none(cli: Cli) -> None:
    with open_log("talks.db") as log:
        log["talk"].append(UserMessage(text="hi"))
        log["talk"].archive()

    assert cli("ls").err == "· 1 conversation put away: --all shows archived ones too\n"


def test_a_conversation_is_found_by_the_beginning_of_its_name_among_all(many: Cli) -> None:
    assert many("show", "talk 3", "2", "--raw").out == "hi\n"
    assert many("log", "talk").status == 2
    assert "beginning of 7 conversations" in many("log", "talk").err
    assert "did you mean 'talk 5', " in many("log", "tolk 5").err


def test_looking_for_a_name_reads_no_list_of_all(many: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[list[str]] = []

    def noted(names: Any, written: str) -> str:
        asked.append([*names])
        return full_name(asked[-1], written)

    monkeypatch.setattr("stenolog.apps.cli.arguments.lookup.full_name", noted)

    assert many("show", "talk 3", "2").status == 0
    assert asked == []
    assert many("show", "talk 5~", "2").status == 3
    assert len(asked) == 1


def test_a_shell_is_told_the_first_names_and_the_last_and_so_what_all_begin_with(
    many: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(options, "COMPLETED", 3)
    context, parameter = click.Context(app, info_name="stenolog"), click.Argument(["conversation"])

    assert options.names(context, parameter, "talk") == ["talk 0", "talk 1", "talk 2", "talk 6"]
    assert options.names(context, parameter, "talk 5") == ["talk 5"]


def test_a_second_list_goes_on_from_what_the_first_has_read(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[int] = []

    def noted(now: Overview, entry: Entry) -> Overview:
        seen.append(entry.position)
        return overview.evolve(now, entry)

    counting = persistent(replace(overview, evolve=noted))
    monkeypatch.setattr(overviews, "OVERVIEW", counting)
    with open_log("talks.db") as log:
        log["x"].extend([UserMessage(text=str(number)) for number in range(100)])
    first = cli("ls").out
    assert seen == [*range(1, 102)]
    with open_log("talks.db") as log:
        log["x"].append(UserMessage(text="more"))

    second = cli("ls").out
    assert (first.splitlines()[2].split()[3], second.splitlines()[2].split()[3]) == ("100", "101")
    assert seen[101:] == [102]


@pytest.mark.parametrize("part", ["BREAD", "fix/rye", "bakery", "60b38"])
def test_a_part_may_be_one_of_the_name_the_project_the_branch_or_the_title(cli: Cli, part: str) -> None:
    name = "60b38d1e-f048-428b-89da-e5dca96614d4"
    place: dict[str, JsonValue] = {"cwd": "/home/user/bakery", "branch": "fix/rye"}
    with open_log("talks.db") as log:
        log["another"].append(UserMessage(text="hi"))
        log[name].extend([ModeSwitch(meta={"claude-code": place}), UserMessage(text="Count the bread")])

    assert shown(cli, part) == [name]
    assert shown(cli, part, "-n", "1") == [name]


UUID = "303ebbc4-8574-4a6e-ba7a-e73a3ada1d17"


@pytest.fixture
def forked(cli: Cli) -> Cli:
    """Return a database with an old session that was forked just now, and a newer session."""
    with open_log("talks.db") as log:
        log[UUID].append(UserMessage(text="Bake it."), time=DAY)
        log["younger"].append(UserMessage(text="hi"), time=DAY + timedelta(days=9))
    assert cli("fork", UUID[:8], "--after", "2").status == 0
    return cli


def test_a_fork_just_made_is_the_newest_and_so_the_conversation_that_is_left_out(forked: Cli) -> None:
    assert shown(forked) == [f"{UUID}~1", "younger", UUID]
    assert f"the newest conversation: {UUID}~1" in forked("log").err


def test_a_fork_of_a_uuid_is_shown_and_found_by_its_beginning_and_its_number(forked: Cli) -> None:
    rows = [row.split() for row in forked("ls").out.splitlines()[2:5]]

    assert [row[0] for row in rows] == ["303ebbc4", "younger", "303ebbc4~1"]
    assert " ".join(rows[2]).endswith("fork of 303ebbc4@2: Bake it.")
    assert forked("show", "303ebbc4~1").out.startswith(f"{UUID}~1@3")
    assert forked("show", "303ebbc4").out.startswith(f"{UUID}@2")
    assert forked("show", "303ebbc4~2").status == 3


@pytest.mark.parametrize(("cost", "shown"), [(1_234, "≥0.0012"), (0, "≥0.0000"), (2_000_000, "≥2.00")])
def test_a_cost_that_is_incomplete_is_marked_however_small_it_is(cost: int, shown: str) -> None:
    assert short_usd(cost, is_least=True) == shown
    assert short_usd(cost, is_least=False) == shown[1:]


def test_an_erasure_does_not_make_a_conversation_the_newest(cli: Callable[..., Any], tmp_path: Path) -> None:
    day = datetime(2026, 2, 3, tzinfo=UTC)
    with open_log(tmp_path / "talks.db") as log:
        for number, name in enumerate(("old", "new")):
            time = day + timedelta(days=number)
            log[name].append(UserMessage(text="The key is swordfish."), time=time)
            log[name].append(UserMessage(text="Thanks."), time=time)
        log["old"].erase(2, reason="a key", by="keeper")
        digest = log["old"].digest
    rows = cli("ls", "--json").data
    assert rows[1]["digest"] == digest
    assert [(row["name"], row["last_at"][:10]) for row in rows] == [
        ("new", "2026-02-04"),
        ("old", "2026-02-03"),
    ]
    assert "the newest conversation: new" in cli("show").err


# `stenolog search`: what was said, on one screen.


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


# The socket that `inspect` and `serve` listen at.


def test_no_answer_waits_until_its_head_is_acknowledged() -> None:
    with (
        server_socket("127.0.0.1", 0) as (bound, url),
        socket.create_connection(bound.getsockname()),
        bound.accept()[0] as accepted,
    ):
        assert url == f"http://127.0.0.1:{bound.getsockname()[1]}"
        assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
