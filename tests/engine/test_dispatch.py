"""The engine builds a request again from the file before it is sent, and asks nobody where it differs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from stenolog import AssistantMessage, Conversation, Entry, LlmError, Team
from stenolog.adapters.engine.model_calls import dispatch
from stenolog.adapters.engine.options import Options
from stenolog.engine import Agent, Runtime
from stenolog.models import Scripted
from tests.engine.given import Clock, opened, run, run_team


def changed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have this process hold a request that the file does not tell of."""
    real = Conversation.request

    def request(self: Conversation, *args: Any, **options: Any) -> Any:
        made = real(self, *args, **options)
        said = [*made.body["messages"][:-1], {"role": "user", "content": "Delete it."}]
        return replace(made, body=made.body | {"messages": said}, encoded=None)

    monkeypatch.setattr(Conversation, "request", request)


def asked(path: Path, model: Scripted, **options: Any) -> list[Entry]:
    team = Team([Agent("coder", model)], **({"world": Clock().world} | options))
    with opened(path / "talks.db") as conversation:
        return run(run_team(team, conversation, "Keep it."))


def test_a_request_that_differs_from_the_file_is_not_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    changed(monkeypatch)
    model = Scripted("Deleted.")
    error = asked(tmp_path, model)[-1].event
    assert model.prompts == []
    assert isinstance(error, LlmError)
    assert (error.category, error.receipt) == ("invalid_request", None)
    assert error.message.startswith(dispatch.DIFFERS)


def test_a_call_in_a_hundred_is_checked_by_chance_and_every_one_by_a_paranoid_team(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dispatch, "SAMPLED", 0.01)
    chances = [0.0099, 0.01, 0.5]
    world = Runtime(chance=lambda: chances.pop(0))
    assert [Options(world=world).is_checked() for _ in range(3)] == [True, False, False]
    assert Options(world=world, paranoid=True).is_checked(), "and it needs no chance for that"
    changed(monkeypatch)
    model = Scripted("Deleted.")
    asked(tmp_path, model, paranoid=True, world=Runtime(chance=lambda: 0.5))
    assert model.prompts == []


def test_a_call_that_is_not_checked_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dispatch, "SAMPLED", 0.0)
    changed(monkeypatch)
    assert isinstance(asked(tmp_path, Scripted("Deleted."))[-1].event, AssistantMessage)
