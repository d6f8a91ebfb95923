"""What a model raises, and what becomes of a provider that keeps failing."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from stenolog import Team
from stenolog.engine import Agent, CircuitBreaker, RetryPolicy
from stenolog.errors import ModelError
from stenolog.models import ModelRequest, Scripted
from tests.engine.given import Clock, answers, errors, opened, run, run_team


class TestModels:
    """Whatever one model raises, the other lanes go on."""

    @pytest.mark.parametrize(
        "error",
        [
            SystemExit(3),
            BaseExceptionGroup("several", [KeyError("a"), asyncio.CancelledError()]),
            ModelError("weird", "busy"),
            ModelError("overloaded", None),  # type: ignore[arg-type]
            ModelError("overloaded", "busy", retry_after=float("nan")),
        ],
        ids=repr,
    )
    def test_another_lane_works_on_beside_it(self, error: BaseException, tmp_path: Path) -> None:
        def fails(prompt: ModelRequest) -> object:
            raise error

        agents = [
            Agent("coder", llm=Scripted(fails), retries=RetryPolicy(attempts={})),
            Agent("other", llm=Scripted("Hello.", piece=1, pause=0.01)),
        ]
        with opened(tmp_path / "t.db") as conversation:
            run(run_team(Team(agents), conversation, "Go"))

            assert {name: lane.status for name, lane in conversation.state().lanes.items()} == {
                "coder": "failed",
                "other": "idle",
            }
            assert [made.agent for made in answers(conversation)] == ["other"]

    def test_one_error_in_a_group_is_told_as_it_is(self, tmp_path: Path) -> None:
        clock = Clock()

        def fails(prompt: ModelRequest) -> object:
            raise ExceptionGroup("in a task group", [ModelError("overloaded", "busy", retry_after=7.0)])

        model = Scripted(fails, "There.")
        with opened(tmp_path / "t.db", clock) as conversation:
            run(run_team(Team([Agent("coder", llm=model)], world=clock.world), conversation, "Go"))

            assert [(each.category, each.message) for each in errors(conversation)] == [
                ("overloaded", "busy")
            ]
            assert max(clock.slept) > 6.9


class TestBreaker:
    """A provider that is left alone for a while."""

    def test_a_call_that_is_held_back_is_no_attempt_and_goes_as_soon_as_one_call_was_answered(
        self, tmp_path: Path
    ) -> None:
        clock, asked = Clock(), list[str]()

        def down_at_first(prompt: ModelRequest) -> object:
            asked.append(prompt.lane)
            if len(asked) <= 2:
                raise ModelError("overloaded", "busy")
            return "There."

        model = Scripted(down_at_first, endless=True, piece=2, pause=0.02)
        retries = RetryPolicy(attempts={"overloaded": 2})
        team = Team(
            [Agent(name, llm=model, retries=retries) for name in ("coder", "other")],
            world=clock.world,
            breaker=lambda: CircuitBreaker(failures=2, recovery_time=30),
        )
        with opened(tmp_path / "t.db", clock) as conversation:
            begun = clock.now
            run(run_team(team, conversation, "Go"))

            for agent in ("coder", "other"):
                failed, held_back = errors(conversation, agent)
                assert (failed.attempt, failed.message) == (1, "busy")
                assert (held_back.attempt, held_back.receipt) == (1, None)
                assert "the next try is in 29 s" in held_back.message
            assert sorted(made.agent for made in answers(conversation)) == ["coder", "other"]
        assert len(asked) == 4
        assert 30 <= (clock.now - begun).total_seconds() < 32

    @pytest.mark.parametrize(
        ("category", "left"),
        [("invalid_request", 0), ("unauthorized", 0), ("other", 30), ("process_exited", 30)],
    )
    def test_any_answer_of_a_provider_ends_the_row_of_its_failures(self, category: str, left: float) -> None:
        breaker = CircuitBreaker(failures=2, recovery_time=30)

        for each in ("overloaded", category, "network"):
            breaker.failed(each, 0)

        assert breaker.check(0) == left

    def test_one_call_tries_it_and_the_next_one_does_where_that_was_stopped(self) -> None:
        breaker = CircuitBreaker(failures=1, recovery_time=30)
        breaker.failed("network", 0)

        assert [breaker.check(now) for now in (1, 30)] == [29, 0]
        assert breaker.is_tried
        breaker.stopped()
        assert not breaker.is_tried
        assert breaker.check(31) == 0
        assert breaker.is_tried
