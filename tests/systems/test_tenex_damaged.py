"""System 3: one damaged event of a conversation; reading goes on, and answering after one command."""

from __future__ import annotations

from pathlib import Path

import pytest

import stenolog
from stenolog import AssistantMessage, Team, UserMessage
from stenolog.engine import Agent
from stenolog.errors import CorruptLogError
from stenolog.maintenance import verify
from stenolog.models import Scripted
from tests.command_line import run
from tests.postgres.in_schemas import damage


@pytest.fixture
def damaged(tmp_path: Path) -> Path:
    """Return a log of two conversations, one of which has a flipped byte in its third entry."""
    path = tmp_path / "t.db"
    with stenolog.open(path) as log:
        for name in ("menu", "other"):
            log[name].extend(
                [
                    UserMessage(text="One?", to=["coder"]),
                    AssistantMessage(agent="coder", text="Yes."),
                    UserMessage(text="Two?", to=["coder"]),
                    AssistantMessage(agent="coder", text="No."),
                ]
            )
    damage(path, 3)
    return path


def team() -> Team:
    return Team([Agent("coder", Scripted("Fine.", endless=True))])


def test_all_other_events_are_read_and_other_conversations_and_forks_before_it_are_answered(
    damaged: Path,
) -> None:
    with stenolog.open(damaged) as log:
        kinds = [item.kind for item in log["menu"].timeline()]
        texts = [getattr(entry.event, "text", None) for entry in log["menu"]]
        with pytest.raises(CorruptLogError, match=r"position 3 is damaged .* `stenolog db salvage`"):
            team().ask_sync(log["menu"], "Three?")

        assert kinds.count("damaged") == 1
        assert texts[3:] == ["Two?", "No."]
        assert team().ask_sync(log["other"], "Three?") == "Fine."
        assert team().ask_sync(log["menu"].fork(2), "Three?") == "Fine."


@pytest.mark.about_file("it is salvaged by reading the file")
def test_after_a_salvage_the_conversation_is_answered_with_all_but_the_damaged_event(
    damaged: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["db", "salvage", str(damaged), str(tmp_path / "new.db")]) == 1
    assert "'menu' at 3: lost" in capsys.readouterr().err

    with stenolog.open(tmp_path / "new.db") as log:
        assert team().ask_sync(log["menu"], "Three?") == "Fine."
        sent = [m["content"] for m in log["menu"].request("coder", log["menu"].position - 1).body["messages"]]
        assert sent == ["One?", "Two?", "No.", "Three?"]
        assert verify(log).ok
