"""Asking a team and waiting for its answer: what a caller who sees no events is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from stenolog import Agent, Team
from stenolog.engine import RetryPolicy
from stenolog.errors import CallerError, ModelError
from stenolog.models import Scripted
from tests.engine.given import opened, run


def test_asking_without_an_event_loop_where_one_runs_says_what_to_use(tmp_path: Path) -> None:
    async def in_jupyter() -> None:
        Team([Agent("coder", llm=Scripted("Hi"))]).ask_sync(conversation, "Hi")

    with (
        opened(tmp_path / "t.db") as conversation,
        pytest.raises(CallerError, match=r"as in Jupyter: use `await team\.ask"),
    ):
        run(in_jupyter())


def test_who_asks_is_told_of_each_retry_in_the_log_of_the_program(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    model = Scripted(ModelError("network", "no route"), "There I am.")
    agent = Agent("coder", llm=model, retries=RetryPolicy(base=0.001))
    with opened(tmp_path / "t.db") as conversation:
        assert Team([agent]).ask_sync(conversation, "Hi") == "There I am."

    (record,) = caplog.records
    assert record.getMessage().startswith("coder: network: no route; next try at 20")
