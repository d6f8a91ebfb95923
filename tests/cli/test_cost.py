"""`cost`: what was used, on the terminal and as JSON."""

from __future__ import annotations

import sqlite3
import xml.etree.ElementTree as ET
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import stenolog
from stenolog import AssistantMessage, LlmError, NewEntry, ToolCall, ToolResult, UserMessage
from stenolog.adapters.providers.prices import listed
from stenolog.events import Usage
from stenolog.projections.prices import price_of
from tests.cli.conftest import Ran

Cli = Callable[..., Ran]
PAID = Usage(input=200_000, output=10_000, cache_read=150_000)


@pytest.fixture
def used(cli: Cli, tmp_path: Path) -> Cli:
    """Return the command line, in a folder whose talks.db holds two conversations."""
    with stenolog.open(tmp_path / "talks.db") as log:
        log["shop"].extend(
            [
                UserMessage(text="Go"),
                LlmError(agent="coder", category="overloaded", model="gpt-5", duration_ms=80),
                AssistantMessage(
                    agent="coder",
                    model="gpt-5",
                    usage=PAID,
                    run="r1",
                    duration_ms=2_000,
                    first_token_ms=300,
                    tool_calls=[ToolCall(id="c1", name="shell")],
                ),
                ToolResult(call_id="c1", is_error=True, run="r1"),
                AssistantMessage(agent="tester", model="home-made", usage=Usage(input=10, output=5)),
            ]
        )
        log["lab"].extend([AssistantMessage(agent="coder", model="gpt-5", usage=PAID)])
    return cli


def rows(ran: Ran) -> list[list[str]]:
    """Return the table, cell by cell, without its title and its line."""
    return [line.split() for line in ran.out.splitlines()[2:] if line[:1] not in (" ", "")]


def test_each_agent_of_a_conversation_has_a_line(used: Cli) -> None:
    ran = used("cost", "shop")

    assert " ".join(ran.out.split("\n")[0].split()) == (
        "AGENT CALLS ERRORS TOOLS INPUT CACHED OUTPUT MEDIAN P95 FIRST USD"
    )
    assert [row[:4] for row in rows(ran)[:3]] == [
        ["coder", "2", "1", "1"],
        ["tester", "1", "-", "-"],
        ["all", "3", "1", "1"],
    ]
    assert "errors: 1 overloaded" in ran.out


def test_both_views_of_cost_and_the_list_count_the_same_errors_without_cancelled_calls(
    used: Cli, tmp_path: Path
) -> None:
    with stenolog.open(tmp_path / "talks.db") as log:
        log["shop"].append(LlmError(agent="coder", category="cancelled"))

    assert [row[:3] for row in rows(used("cost", "shop"))[:1]] == [["coder", "3", "1"]]
    assert "not counted as errors: 1 cancelled" in used("cost", "shop").out
    assert used("cost", "shop", "--context", "--json").data["agents"][0]["errors"] == 1
    assert [row["errors"] for row in used("ls", "--json").data if row["name"] == "shop"] == [1]


@pytest.mark.parametrize(
    ("by", "names"),
    [
        ("agent", ["coder", "tester"]),
        ("task", ["coder", "tester"]),
        ("run", ["", "r1"]),
        ("model", ["gpt-5", "home-made"]),
        ("conversation", ["shop", "lab"]),
    ],
)
def test_all_conversations_are_counted_where_none_is_named(used: Cli, by: str, names: list[str]) -> None:
    data = used("cost", "--by", by, "--json").data

    assert sorted(row["name"] for row in data["rows"]) == sorted(names)
    assert (data["total"]["calls"], data["total"]["tokens"]["input"]) == (4, 400_010)
    assert sorted(data["conversations"]) == ["lab", "shop"]


@pytest.mark.usefixtures("examples_alone")
def test_json_has_tokens_milliseconds_and_micro_dollars(used: Cli) -> None:
    row = used("cost", "shop", "--json").data["rows"][0]

    assert row == {
        "name": "coder",
        "calls": 2,
        "answers": 1,
        "answers_without_usage": 0,
        "answers_understated": 0,
        "errors": {"overloaded": 1},
        "retries": 0,
        "tools": 1,
        "tool_errors": 1,
        "tokens": {
            "input": 200_000,
            "output": 10_000,
            "cache_read": 150_000,
            "cache_write": 0,
            "reasoning": 0,
            "cache_write_hour": 0,
        },
        "took_ms": row["took_ms"],
        "first_token_ms": row["first_token_ms"],
        "tools_took_ms": {"median": None, "p95": None},
        "known_cost_micro_usd": 50_000 * 1.25 + 150_000 * 0.125 + 10_000 * 10,
        "cost_micro_usd": 50_000 * 1.25 + 150_000 * 0.125 + 10_000 * 10,
    }
    assert row["took_ms"]["median"] == pytest.approx(80, rel=0.05)
    assert row["took_ms"]["p95"] == pytest.approx(2_000, rel=0.05)


@pytest.fixture
def examples_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Set prices that no newer version of a package changes."""
    monkeypatch.setattr("stenolog.adapters.providers.prices._is_installed", lambda: False)


@pytest.mark.usefixtures("examples_alone")
def test_the_cost_is_by_the_price_list_or_by_ones_own(used: Cli, tmp_path: Path) -> None:
    (tmp_path / "p.toml").write_text('["gpt-*"]\ninput = 10\n["*"]\ninput = 100_000\n')
    examples, mine = used("cost", "shop"), used("cost", "shop", "--prices", "p.toml")

    assert [row[-1] for row in rows(examples)[:3]] == ["0.1812", "?", "≥0.1812"]
    assert "no price is known for home-made: give one with --prices" in examples.out
    assert [row[-1] for row in rows(mine)[:3]] == ["2.00", "1.00", "3.00"]
    assert "USD at your prices" in mine.out


@pytest.mark.usefixtures("examples_alone")
@pytest.mark.parametrize("options", [(), ("--by", "model"), ("--cache",)])
def test_example_prices_name_the_extra_that_has_current_ones(used: Cli, options: tuple[str, ...]) -> None:
    words = " ".join(used("cost", "lab", *options).out.split())

    assert "example prices of 2025-11 (current ones: `pip install 'stenolog[prices]'`)" in words


def test_the_prices_are_those_of_the_package_where_it_is_installed(used: Cli) -> None:
    assert "USD at prices of genai-prices" in used("cost", "lab").out


def test_an_earlier_position_counts_what_was_used_up_to_it(used: Cli) -> None:
    assert used("cost", "shop", "--at", "3", "--json").data["total"]["calls"] == 1
    assert used("cost", "--at", "2").status == 2


@pytest.mark.parametrize(
    ("options", "calls"),
    [
        (("--since", "2026-03-02"), 2),
        (("--until", "2026-03-02"), 2),
        (("--since", "2026-03-02", "--until", "2026-03-02"), 1),
        (("--since", "2026-03-03T00:01"), 0),
        (("--until", "3d"), 3),
        (("--since", "yesterday"), 0),
    ],
)
def test_the_cost_of_a_time_is_that_of_the_entries_of_that_time(
    cli: Cli, tmp_path: Path, options: tuple[str, ...], calls: int
) -> None:
    answer = AssistantMessage(agent="a", model="gpt-5", usage=PAID)
    with stenolog.open(tmp_path / "talks.db") as log:
        for day in (1, 2, 3):
            log["x"].append(answer, time=datetime(2026, 3, day, tzinfo=UTC))
        log["quiet"].append(UserMessage(text="Go."), time=datetime(2026, 3, 2, tzinfo=UTC))
    data = cli("cost", *options, "--by", "conversation", "--json").data

    assert data["total"]["calls"] == calls
    assert data["total"]["tokens"]["input"] == calls * PAID.input
    assert [row["name"] for row in data["rows"]] == (["x"] if calls else [])


def test_a_result_and_an_unnamed_model_of_the_time_are_those_of_what_came_before_it(
    cli: Cli, tmp_path: Path
) -> None:
    call = AssistantMessage(agent="a", model="gpt-5", usage=PAID, tool_calls=[ToolCall(id="c", name="look")])
    result = ToolResult(call_id="c", text="there")
    found = AssistantMessage(agent="a", usage=PAID, text="Found.")
    with stenolog.open(tmp_path / "talks.db") as log:
        log["x"].append(call, time=datetime(2026, 3, 1, tzinfo=UTC))
        at = datetime(2026, 3, 2, tzinfo=UTC)
        log["x"].extend([NewEntry(result, time=at), NewEntry(found, time=at)])
    (row,) = cli("cost", "--since", "2026-03-02", "--by", "model", "--json").data["rows"]

    assert (row["name"], row["calls"], row["tools"]) == ("gpt-5", 1, 1)


def test_a_time_is_no_part_of_a_plan(used: Cli) -> None:
    assert "not with --plan" in used("cost", "shop", "--plan", "--since", "2h").err


@pytest.mark.usefixtures("examples_alone")
def test_the_list_says_below_that_its_prices_are_examples(used: Cli) -> None:
    assert "USD at example prices of" in used("ls").err


def test_the_list_says_nothing_of_prices_that_are_no_examples(used: Cli) -> None:
    assert "prices" not in used("ls").err


def test_answers_that_do_not_say_what_they_used_have_no_cost(cli: Cli, tmp_path: Path) -> None:
    with stenolog.open(tmp_path / "talks.db") as log:
        for agent in ("coder", "reviewer"):
            log["talk"].append(AssistantMessage(agent=agent, text="Done.", model="gpt-5.2"))

    ran = cli("cost", "talk")

    assert {row[-1] for row in rows(ran)[:3]} == {"?"}
    assert "2 of 2 calls do not say how many tokens they used" in ran.out


def test_the_demo_costs_the_same_for_everybody(cli: Cli) -> None:
    cli("demo")

    assert [row[-1] for row in rows(cli("cost", "demo"))[:4]] == ["≥0.0082", "0.0075", "0.0015", "≥0.0171"]


def test_a_conversation_without_a_model_used_nothing(cli: Cli, tmp_path: Path) -> None:
    with stenolog.open(tmp_path / "talks.db") as log:
        log["quiet"].append(UserMessage(text="Anybody?"))

    ran = cli("cost")

    assert (ran.status, ran.out.strip()) == (0, "no model was called, and no tool")


def test_prices_that_make_no_sense_are_refused_in_a_line(used: Cli, tmp_path: Path) -> None:
    (tmp_path / "bad.json").write_text('{"gpt-*": {"input": "much"}}')

    ran: Any = used("cost", "shop", "--prices", "bad.json")

    assert (ran.status, ran.out) == (2, "")
    assert "expected USD per million tokens, found 'much'" in ran.err


@pytest.mark.usefixtures("examples_alone")
@pytest.mark.parametrize("model", ["gpt-5.5", "gpt-5-nano", "gpt-5-pro", "claude-sonnet-4-9", "gpt-5-mini-x"])
def test_an_example_price_is_that_of_no_other_model(model: str) -> None:
    assert price_of(model, listed()) is None


@pytest.mark.usefixtures("examples_alone")
@pytest.mark.parametrize(
    ("model", "usd"), [("gpt-5", 1.25), ("gpt-5-mini-2025-08-07", 0.25), ("claude-sonnet-4-20250514", 3.0)]
)
def test_an_example_price_is_that_of_the_model_and_of_its_dated_releases(model: str, usd: float) -> None:
    found = price_of(model, listed())

    assert found is not None
    assert found.input == usd


def test_conversations_have_the_names_titles_and_order_of_the_list(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [f"{number}0b38d1e-f048-428b-89da-e5dca96614d4" for number in (1, 3, 2)]
    with stenolog.open(tmp_path / "talks.db") as log:
        for number, name in enumerate(names):
            log[name].extend(
                [UserMessage(text=f"Loaf {number}"), AssistantMessage(agent="a", model="gpt-5", usage=PAID)]
            )
    shown = rows(cli("cost", "--by", "conversation"))[:3]

    assert [(row[0], row[-2:]) for row in shown] == [
        (name[:8], ["Loaf", str(number)]) for number, name in reversed([*enumerate(names)])
    ]
    monkeypatch.delenv("COLUMNS")
    assert all(name in cli("cost", "--by", "conversation").out for name in names)


def test_days_and_weeks_have_a_line_each_in_their_order(demo: Callable[..., Any]) -> None:
    """The demo is of one day, a Friday."""
    for by, name in (("day", "2026-11-20"), ("week", "2026-W47")):
        data = demo("cost", "--by", by, "--json").data
        assert [row["name"] for row in data["rows"]] == [name]
        assert data["total"]["calls"] == demo("cost", "--json").data["total"]["calls"]


def test_the_rows_are_sorted_by_their_costs_and_then_by_their_calls(demo: Callable[..., Any]) -> None:
    rows = demo("cost", "--by", "model", "--json").data["rows"]
    places = [(-row["known_cost_micro_usd"], -row["calls"]) for row in rows]
    assert len(rows) > 1
    assert places == sorted(places)


# `cost --context`: calls and tokens of each agent, and the context of one of them over time.


def test_it_counts_for_each_agent_and_tells_the_largest_request_of_the_busiest(demo: Cli) -> None:
    told = demo("cost", "demo", "--context").out

    assert told.splitlines()[0].split() == ["AGENT", "CALLS", "ERRORS", "TOOLS", "INPUT", "CACHED", "OUTPUT"]
    for agent in ("coder", "reviewer"):
        assert agent in told
    assert "coder: its largest request is at" in told
    assert "tokens with the request at" in told


def test_the_picture_is_written_to_a_file(demo: Cli, tmp_path: Path) -> None:
    told = demo("cost", "demo", "--context", "--agent", "reviewer", "--plot", str(tmp_path / "context.svg"))

    picture = ET.fromstring((tmp_path / "context.svg").read_text("utf-8"))
    assert "Context of reviewer in demo" in str(picture.get("aria-label"))
    assert f"✓ drawn to {tmp_path / 'context.svg'}" in told.out


def test_a_sample_has_its_request_as_rebuilt_and_as_billed(demo: Cli) -> None:
    data = demo("cost", "demo", "--context", "--agent", "coder", "--json").data

    request = demo("request", "demo", "--agent", "coder", "--at", str(data["largest"]["at"]), "--json")
    assert data["largest"]["tokens"] == request.data["size"]["tokens"]
    assert data["samples"][0].keys() == {"position", "at", "tokens", "billed", "cached", "budget", "failed"}


def test_an_agent_that_is_not_there_and_a_conversation_without_answers_are_refused(
    demo: Cli, cli: Cli
) -> None:
    assert demo("cost", "demo", "--context", "--agent", "codr").status == 2
    assert "no agent has answered yet" in demo("cost", "demo", "--context", "--at", "1").err


@pytest.mark.parametrize("command", [("cost", "--context"), ("state",)])
def test_a_damaged_entry_does_not_stop_the_numbers(
    tmp_path: Path, cli: Cli, command: tuple[str, ...]
) -> None:
    path = tmp_path / "broken.db"
    with stenolog.open(path) as log:
        log["demo"].extend([UserMessage("Hi", to=["a"]), AssistantMessage(agent="a", text="zebra")])
        log["demo"].extend([ToolResult(call_id="1"), AssistantMessage(agent="a", text="Yes")])

    with closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE stored_events SET state = x'00' WHERE originator_version = 2")
        connection.commit()

    told = cli(*command, "demo", "--db", str(path))

    assert (told.status, told.err) == (0, "")


# `cost --advise`: what would have been cheaper.


def test_advice_may_be_to_leave_all_as_it_is_and_its_options_are_of_no_other_view(demo: Cli) -> None:
    told = demo("cost", "demo", "--advise")

    assert "leave it" in told.out
    assert demo("cost", "demo", "--advise", "--json").data["agents"][0]["agent"] == "coder"
    assert demo("cost", "demo", "--advise", "--agent", "codr").status == 2
    assert demo("cost", "demo", "--advise", "--at", "9").status == 2
    assert demo("cost", "--advise", "--project", "nowhere", "--json").data["conversations"] == []
    assert demo("cost", "demo", "--project", "x").status == 2
    assert demo("cost", "demo", "--plot", "x.svg").status == 2
