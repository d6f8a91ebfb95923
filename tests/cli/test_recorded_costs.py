"""`cost --cache` and `bisect --releases`: on the terminal and as JSON, for what a tap recorded."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

import stenolog
from tests.analysis.cache_break import REPLY, Break, bodies
from tests.analysis.cache_breaks import breaks
from tests.analysis.provider_cache import Provider
from tests.cli.conftest import Ran
from tests.recording.programs import BODIES, WORDS, Tap, answered, tool, turns

Cli = Callable[..., Ran]


[CHANGED] = [
    each for each in breaks() if (each.api, each.name) == ("anthropic", "the description of tool 2 changed")
]


@pytest.fixture
def missed(cli: Cli, tmp_path: Path) -> Cli:
    """Return the command line, in a folder whose talks.db has a conversation whose cache was missed once."""
    with stenolog.open(tmp_path / "talks.db") as log:
        record(Tap(log), CHANGED)
    return cli


def record(tap: Tap, one: Break, *, hour: bool = False, verdict: str = "") -> None:
    """Record the calls of a break, with what a provider states of them."""
    provider = Provider()
    for body in bodies(one):
        tokens, read, wrote = provider.usage(one.api, body, tap.time.timestamp() + 10)
        model = body["model"]
        counts = {"tokens": tokens, "read": read, "wrote": wrote, "hour": wrote if hour else 0}
        named = verdict if tap.number else ""
        reply = answered(one.api, REPLY, model=model, id=f"r{tap.number}", verdict=named, **counts)
        tap.ask(one.api, body, reply)


def test_a_miss_is_told_with_its_place_its_cause_and_its_cost(missed: Cli) -> None:
    ran = missed("cost", "--cache", "claude-s1")
    row = " ".join(ran.out.split())

    assert re.search(
        r"tools changed at /tools/2/description, character 13, by entry \d+: Charlie: -quick", row
    )
    assert "2 requests, 0% of their tokens from the cache; 1 miss" in ran.out
    assert ran.status == 0


def test_the_data_has_what_each_call_read_and_missed(missed: Cli) -> None:
    data = missed("cost", "--cache", "claude-s1", "--json").data
    [call] = data["calls"]

    assert call["before"] < call["cause"].pop("entry") <= call["view"]
    assert call["cause"] | {"words": ""} == {
        "kind": "tools",
        "how": "changed",
        "pointer": "/tools/2/description",
        "offset": 13,
        "rule": "",
        "was": [],
        "words": "",
    }
    assert call["agreement"] == "agrees"
    assert call["missed"] > 2_000
    assert call["cost_micro_usd"] > 0
    assert (data["total"]["calls"], data["total"]["misses"]) == (2, 1)


def test_calls_that_missed_nothing_are_shown_when_asked_for(missed: Cli) -> None:
    assert "cold start" not in missed("cost", "--cache").out
    assert "cold start" in missed("cost", "--cache", "--verbose").out
    assert len(missed("cost", "--cache", "--verbose", "--json").data["calls"]) == 2


def test_who_follows_a_conversation_is_told_of_a_costly_miss(cli: Cli, tmp_path: Path) -> None:
    tools = [tool("anthropic", f"Tool{n}", WORDS * 12) for n in range(20)]
    with stenolog.open(tmp_path / "talks.db") as log:
        tap = Tap(log)
        for words in ("one", "two", "three"):
            body = BODIES["anthropic"](turns("anthropic", [words]))
            body["tools"] = [tool("anthropic", words), *tools] if words == "three" else tools
            read, verdict = {"one": (0, ""), "two": (6_000, ""), "three": (0, "tools_changed")}[words]
            reply = answered("anthropic", words, id=words, tokens=6_200, read=read, verdict=verdict)
            tap.ask("anthropic", body, reply)
    out = cli("tail", "claude-s1", "--timeout", "0").out

    [line] = [line for line in out.splitlines() if "cache:" in line]
    said = "cache: 0 of 6,200 tokens read (the provider says: tools changed, 6,200); "
    assert line.startswith(f"    {said}")


def test_a_price_of_ones_own_is_taken(missed: Cli, tmp_path: Path) -> None:
    (tmp_path / "prices.toml").write_text('["claude-*"]\ninput = 1000\ncached = 0\nwritten = 2000\n')
    data = missed("cost", "--cache", "--prices", "prices.toml", "--json").data
    [call] = data["calls"]

    assert call["cost_micro_usd"] == call["missed"] * 2000


@pytest.mark.parametrize(
    ("verdict", "agreed"), [("tools_changed", 1), ("system_changed", 0), ("unavailable", None)]
)
def test_the_providers_verdict_stands_beside_ours_and_agreement_is_counted(
    cli: Cli, tmp_path: Path, verdict: str, agreed: int | None
) -> None:
    with stenolog.open(tmp_path / "talks.db") as log:
        record(Tap(log), CHANGED, verdict=verdict)
    words = " ".join(cli("cost", "--cache", "claude-s1").out.split())
    total = cli("cost", "--cache", "--json").data["total"]
    counted = f"the provider names a cause for 1 request, the same one as above for {agreed}"

    assert "WHY PROVIDER SAYS" in words
    assert f"tools {verdict.replace('_', ' ')}, " in words
    assert (total["verdicts"], total["confirmed"]) == (0 if agreed is None else 1, agreed or 0)
    assert (counted in words) == (agreed is not None)


def test_what_a_tap_saw_written_for_an_hour_has_the_price_of_an_hour(cli: Cli, tmp_path: Path) -> None:
    with stenolog.open(tmp_path / "talks.db") as log:
        record(Tap(log), CHANGED, hour=True)
    (tmp_path / "prices.toml").write_text('["claude-*"]\ninput = 1000\ncached = 0\nwritten = 2000\n')
    data = cli("cost", "--cache", "--prices", "prices.toml", "--json").data
    [call] = data["calls"]

    assert call["written_hour"] == call["written"] > 0
    assert call["cost_micro_usd"] == call["missed"] * 3200


def test_conditions_that_do_not_go_together_are_refused(missed: Cli) -> None:
    assert missed("cost", "--cache", "--plan").status == 2
    assert missed("cost", "--verbose").status == 2
    assert missed("cost", "--cache", "--since", "2026-01-01").status == 2


def test_a_log_without_receipts_says_that_nothing_can_be_compared(cli: Cli, tmp_path: Path) -> None:
    with stenolog.open(tmp_path / "talks.db") as log:
        log["t"].append(stenolog.UserMessage(text="hi"))

    assert "none can be compared" in cli("cost", "--cache").out


def test_releases_are_listed_with_their_prompts_and_the_difference(missed: Cli) -> None:
    out = missed("bisect", "--releases", "claude").out

    assert "claude, main:" in out
    assert "claude-cli/2.1.0" in out
    assert "1 tool changed" in out
    assert "~ tool Charlie" in out
    assert "- quick" in out
    assert "+ slow" in out


def test_the_data_of_releases_has_each_change(missed: Cli) -> None:
    [role] = missed("bisect", "--releases", "claude", "--json").data["roles"]
    [change] = role["changes"]
    [tool] = change["changed"]

    assert [version["requests"] for version in role["versions"]] == [1, 1]
    assert tool["description"] == [{"sign": "-", "text": "quick"}, {"sign": "+", "text": "slow"}]


def test_releases_of_a_program_that_no_tap_recorded_are_none(cli: Cli, tmp_path: Path) -> None:
    with stenolog.open(tmp_path / "talks.db") as log:
        log["t"].append(stenolog.UserMessage(text="hi"))

    assert "no program was recorded here" in cli("bisect", "--releases", "claude").out
    assert cli("bisect", "--releases", "claude", "--json").data["roles"] == []
