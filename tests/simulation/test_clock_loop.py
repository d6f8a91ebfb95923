"""The loop of the simulation: threads, clocks and processes that are held up or dead, all in one thread."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import Any

import pytest

from tests.simulation.clock_loop import OWNER, ClockLoop
from tests.simulation.decisions import Decisions


@pytest.fixture
def loop() -> Iterator[ClockLoop]:
    """Yield a loop, which is closed in the end."""
    made = ClockLoop()
    yield made
    made.close()


class Someone:
    """A process that nothing befalls."""

    def __init__(self) -> None:
        self.is_dead = False
        self.held_until = 0.0
        self.tasks: list[asyncio.Task[Any]] = []
        self.context = copy_context()
        self.context.run(OWNER.set, self)

    def latency(self) -> float:
        return 0.0

    def befall(self) -> None:
        """Do nothing."""


async def wait(said: list[str], seconds: float, text: str) -> None:
    """Say something after so many seconds."""
    await asyncio.sleep(seconds)
    said.append(text)


def test_steps_come_in_the_order_of_a_clock_that_costs_no_time(loop: ClockLoop) -> None:
    one, other, said = Someone(), Someone(), list[str]()
    with loop.running():
        loop.spawn(wait(said, 3_000.0, "late"), one.context)
        loop.spawn(wait(said, 1.0, "early"), other.context)
        assert loop.play(10_000.0)

    assert said == ["early", "late"]
    assert 3_000.0 <= loop.now < 3_001.0


def test_a_dead_process_takes_no_further_step(loop: ClockLoop) -> None:
    one, other, said = Someone(), Someone(), list[str]()
    with loop.running():
        loop.spawn(wait(said, 5.0, "from the dead"), one.context)
        loop.spawn(wait(said, 5.0, "from the living"), other.context)
        loop.play(1.0)
        one.is_dead = True
        loop.play(10.0)
        for task in one.tasks:
            task._log_destroy_pending = False  # type: ignore[attr-defined]
            coroutine = task.get_coro()
            assert coroutine is not None  # as it is for a task that began eagerly
            coroutine.close()

    assert said == ["from the living"]


def test_others_go_on_while_a_process_is_held_up_in_a_job_and_its_thread_begins_no_other(
    loop: ClockLoop,
) -> None:
    one, other, said = Someone(), Someone(), list[str]()
    thread = ThreadPoolExecutor(1)

    def job() -> None:
        said.append("begins")
        loop.play_others(one, 10.0)
        said.append("ends")

    async def jobs() -> None:
        first = loop.run_in_executor(thread, job)
        second = loop.run_in_executor(thread, said.append, "the next job")
        await first
        await second

    with loop.running():
        loop.spawn(jobs(), one.context)
        loop.spawn(wait(said, 5.0, "the other"), other.context)
        loop.play(100.0)

    assert said == ["begins", "the other", "ends", "the next job"]


def test_a_decision_stays_the_same_when_others_are_left_out() -> None:
    drawn = Decisions(7)
    for _ in range(50):
        drawn.choose("p0.late", 0.5, 3)
        drawn.choose("p1.late", 0.5, 3)
    kept = {name: value for name, value in drawn.taken.items() if name.startswith("p1")}

    given = Decisions(7, kept)
    for _ in range(50):
        given.choose("p1.late", 0.5, 3)

    assert given.taken == kept
    assert len(drawn.taken) > len(kept) > 0
