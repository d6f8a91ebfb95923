"""Conversations that other programs began: found by their titles, and read without a thought in the way."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import stenolog
from stenolog import (
    AgentCard,
    AssistantMessage,
    Control,
    Conversation,
    ModeSwitch,
    NewEntry,
    ReasoningPart,
    TextPart,
    ToolCall,
    UserMessage,
)
from stenolog.projections.describe import Opening, opening
from stenolog.projections.timeline import timeline
from stenolog.testing import entries
from tests.cli.conftest import Ran

Cli = Callable[..., Ran]
START = datetime(2026, 3, 1, tzinfo=UTC)
UUIDS = [f"{digit * 8}-aaaa-bbbb-cccc-{digit * 12}" for digit in "123"]


def said(conversation: Conversation, day: int, *events: Any) -> None:
    conversation.extend([NewEntry(event, time=START + timedelta(days=day)) for event in events])


@pytest.fixture
def sessions(cli: Cli, tmp_path: Path) -> Cli:
    """Three sessions: the one that was imported first ended last."""
    with stenolog.open(tmp_path / "talks.db") as log:
        card = AgentCard(model="claude-opus-4-5-20251101")
        began = ModeSwitch(cards={"claude": card}, meta={"claude-code": {"cwd": "/home/user/bakery"}})
        said(log[UUIDS[0]], 9, began, UserMessage(text="Why does the\noven not start?"))
        said(log[UUIDS[1]], 1, ModeSwitch(title="Named"), UserMessage(text="Not the title."))
        said(log[UUIDS[2]], 5, UserMessage(text="machine", author_kind="system"), UserMessage(text="third"))
    return cli


def test_the_list_has_titles_folders_models_and_the_latest_last(
    sessions: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    rows = [" ".join(row.split()) for row in sessions("ls").out.splitlines()[2:]]

    assert rows == [
        "22222222 2 idle 2026-03-02 00:00 Named",
        "33333333 3 idle 2026-03-06 00:00 third",
        "11111111 2 idle 2026-03-10 00:00 bakery claude-opus-4-5 Why does the oven not start?",
    ]


def test_the_json_of_the_list_has_names_folders_and_models_whole(sessions: Cli) -> None:
    *_, last = sessions("ls", "--json").envelope["data"]

    assert last["name"] == UUIDS[0]
    assert (last["short_name"], last["folder"]) == ("11111111", "/home/user/bakery")
    assert last["models"] == ["claude-opus-4-5-20251101"]


def test_the_beginning_of_a_name_in_the_list_is_a_name_to_every_command(sessions: Cli) -> None:
    assert "oven" in sessions("log", "11111111").out


def test_the_page_before_is_of_those_that_ended_earlier(sessions: Cli) -> None:
    shown = sessions("ls", "-n", "1", "--json").envelope["data"]
    before = sessions("ls", "-n", "1", "--before", "11111111", "--json").envelope["data"]

    assert [row["name"] for row in (*shown, *before)] == [UUIDS[0], UUIDS[2]]
    assert "1 older ones" in sessions("ls", "-n", "1", "--before", "11111111").err


def test_the_opening_is_what_a_person_said_first_and_where() -> None:
    log = entries(
        UserMessage(control=Control(action="continue")),
        UserMessage(text="a worker's", author="w", author_kind="agent"),
        UserMessage(text="  one\n two " + "x" * 200),
        ModeSwitch(meta={"other": 3, "codex": {"cwd": "/home/user/shop"}}),
        UserMessage(text="later"),
    )

    assert opening(log) == Opening(f"one two {'x' * 91}…", "/home/user/shop")
    assert opening([]) == Opening()


CALL = ToolCall(id="c1", name="shell", arguments="{}")
THOUGHT = ReasoningPart(text="The user wants " * 30)


def test_the_words_and_the_calls_of_an_answer_stand_before_its_thoughts(cli: Cli, tmp_path: Path) -> None:
    with stenolog.open(tmp_path / "talks.db") as log:
        log["x"].append(AssistantMessage(agent="coder", parts=[THOUGHT, TextPart(text="Let me look."), CALL]))

    assert "Let me look. → shell({}) (thinks: The user" in cli("log", "x").out
    assert "\x1b[2m(thinks: The user" in cli("log", "x", "--color", "always").out


@pytest.mark.parametrize("reason", ["length", "max_tokens", "MAX_TOKENS", "max_output_tokens"])
def test_an_answer_that_was_cut_is_marked_wherever_it_is_shown(cli: Cli, tmp_path: Path, reason: str) -> None:
    with stenolog.open(tmp_path / "talks.db") as log:
        cut = AssistantMessage(agent="coder", text="The failing " + "test " * 99, finish_reason=reason)
        log["x"].extend([UserMessage(text="Go."), cut])

    assert "[cut off at its limit of tokens] The failing" in cli("log", "x").out
    for command in (["timeline", "x"], ["show", "x", "3"]):
        assert f"cut off at its limit of tokens ({reason}): the rest is missing" in cli(*command).out


def test_a_call_that_was_cut_is_marked_too(cli: Cli, tmp_path: Path) -> None:
    with stenolog.open(tmp_path / "talks.db") as log:
        log["x"].append(AssistantMessage(agent="coder", tool_calls=[CALL], finish_reason="max_tokens"))
        items = timeline(log["x"].entries())

    assert [item.detail for item in items if "may be incomplete" in item.detail]
    assert "[cut off at its limit of tokens] → shell({})" in cli("log", "x").out
    for command in (["timeline", "x"], ["show", "x", "2"]):
        assert "this call may be incomplete" in cli(*command).out


def test_an_answer_that_ended_by_itself_is_not_marked() -> None:
    whole = entries(AssistantMessage(agent="a", text="ok", finish_reason="stop"))

    assert [item.detail for item in timeline(whole)] == [""]
