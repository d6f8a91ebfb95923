"""A model that one worker leaves alone after failures is left alone by all."""

from __future__ import annotations

import time
from functools import partial

import pytest

import stenolog
from stenolog import Agent, LlmError, Team
from stenolog.engine import CircuitBreaker
from stenolog.models import ModelError, Scripted
from stenolog.workers import submit
from tests.workers.given import until, working


def failing() -> tuple[Team, Scripted]:
    """Return a team whose model is overloaded, and that leaves it alone for a minute after one failure."""
    model = Scripted(*[ModelError("overloaded", "too many requests")] * 50)
    return Team([Agent("coder", llm=model)], breaker=partial(CircuitBreaker, 1, 60.0)), model


@pytest.mark.slow
async def test_a_model_that_failed_for_one_worker_is_asked_by_no_other(server_log: str) -> None:
    (first, _), (second, unasked) = failing(), failing()
    with stenolog.open(server_log) as log, stenolog.open(server_log) as other:
        async with working(log, first, name="first"), working(other, second, name="second"):
            await submit(log["demo"], "What is it?", team="first")
            breaker = second.options.breaker_of(unasked)
            await until(lambda: breaker.seconds_open(time.monotonic()) > 50)
            await submit(log["other"], "What is it?", team="second")
            await until(lambda: any(isinstance(entry.event, LlmError) for entry in log["other"]))

        (error,) = [entry.event for entry in log["other"] if isinstance(entry.event, LlmError)]
        assert error.receipt is None
        assert "not called" in error.message
