"""What `stenolog request` says of a conversation that another program had."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import stenolog
from stenolog import AgentCard, AssistantMessage, ModeSwitch, UserMessage
from stenolog.events import Origin, Usage
from tests.cli.conftest import Ran

Cli = Callable[..., Ran]
CLAUDE = Origin(system="claude-code", id="m1")


def imported(tmp_path: Path, **usage: Any) -> None:
    answer = AssistantMessage(agent="claude", text="Done.", model="claude-opus-4-6", source=CLAUDE, **usage)
    with stenolog.open(tmp_path / "talks.db") as log:
        card = ModeSwitch(cards={"claude": AgentCard(model="claude-opus-4-6")}, joins=["claude"])
        log["x"].extend([card, UserMessage(text="Go on.", to=["claude"]), answer])


def test_the_body_is_that_of_the_agents_own_provider(cli: Cli, tmp_path: Path) -> None:
    imported(tmp_path)

    assert cli("request", "x", "--at", "2", "--json").envelope["data"]["api"] == "anthropic@1"
    assert cli("request", "x", "--at", "2", "--api", "plain", "--json").envelope["data"]["api"] == "plain@1"


def test_beside_the_tokens_stands_the_bill_and_how_much_of_it_the_log_does_not_have(
    cli: Cli, tmp_path: Path
) -> None:
    imported(tmp_path, usage=Usage(input=35_261, output=5, cache_read=10_403))
    out = cli("request", "x", "--at", "2").out
    data = cli("request", "x", "--at", "2", "--json").envelope["data"]

    assert "billed 35,261 tokens, 10,403 of them cached, by the answer at 3" in out
    assert "not in this log: some 35,000 tokens, by the provider's bill" in out
    assert data["bill"]["missing"] == 35_261 - data["size"]["tokens"]


def test_a_request_that_has_no_answer_yet_is_told_beside_the_one_before_it(cli: Cli, tmp_path: Path) -> None:
    imported(tmp_path, usage=Usage(input=35_261, output=5))
    with stenolog.open(tmp_path / "talks.db") as log:
        log["x"].append(UserMessage(text="And now?", to=["claude"]))
    out = cli("request", "x").out

    assert "the request before it, at 2:" in out
    assert "not in this log: some 35,000 tokens" in out


def test_without_a_bill_it_says_that_nobody_knows_what_else_was_sent(cli: Cli, tmp_path: Path) -> None:
    imported(tmp_path)

    assert "the answers came from claude-code, without a bill: whether more was sent" in " ".join(
        cli("request", "x", "--at", "2").out.split()
    )


def test_of_a_request_that_stenolog_sent_nothing_is_missing(demo: Cli) -> None:
    out = demo("request", "--agent", "coder", "--at", "2").out

    assert "not in this log" not in out
    assert "came from" not in out


def test_the_first_question_of_a_thread_has_a_request_though_its_agent_answers_later(
    cli: Cli, tmp_path: Path
) -> None:
    with stenolog.open(tmp_path / "talks.db") as log:
        answer = AssistantMessage(agent="assistant", text="Sunny.", source=Origin(system="langchain"))
        log["42"].extend([ModeSwitch(mode="chat"), UserMessage(text="How is the weather?"), answer])

    ran = cli("request", "42", "--at", "2")

    assert (ran.status, "How is the weather?" in ran.out) == (0, True)
    assert "request for assistant at 2" in ran.out


@pytest.mark.parametrize("columns", ["80", "100", "160"])
def test_the_text_of_a_part_has_room_and_no_line_is_too_long(
    demo: Cli, monkeypatch: pytest.MonkeyPatch, columns: str
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    rows = demo("request", "--agent", "coder").out.splitlines()

    assert max(map(len, rows)) <= int(columns)
    assert any("Which test fails, an" in row for row in rows)
