"""How long a failed call waits, when a provider is left to recover, and that clocks may differ."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import stenolog
from stenolog import Agent, AssistantMessage, Conversation, LlmError, Team, UserMessage
from stenolog.adapters.engine.model_calls.retries import Waits
from stenolog.chats import Delivery, OutgoingMessage
from stenolog.contrib.workflow import messages_in
from stenolog.domain.lanes.effects import CallModel, RunTool
from stenolog.domain.lanes.state import LaneState, OpenCall
from stenolog.engine import CircuitBreaker, RetryPolicy
from stenolog.errors import ModelError
from stenolog.models import ModelRequest, ModelResponse, ResponseDelta, Scripted
from tests.engine.given import opened

ATTEMPTS = {
    "rate_limited": 8,
    "overloaded": 8,
    "network": 6,
    "timeout": 3,
    "process_exited": 4,
    "invalid_response": 2,
    "unauthorized": 1,
}
NOW = datetime(2026, 1, 1, 9, tzinfo=UTC)


@pytest.mark.parametrize(("category", "attempts"), ATTEMPTS.items())
def test_each_category_has_its_number_of_attempts(category: Any, attempts: int) -> None:
    waits = [RetryPolicy().wait(category, attempt, 0.0) for attempt in range(1, 10)]

    assert [wait is None for wait in waits] == [attempt >= attempts for attempt in range(1, 10)]


def test_waits_double_up_to_a_limit_and_chance_takes_up_to_half() -> None:
    policy = RetryPolicy(attempts={"network": 5_000})

    assert [policy.wait("network", n, 0.0) for n in range(1, 9)] == [1, 2, 4, 8, 16, 32, 60, 60]
    assert [policy.wait("network", n, 1.0) for n in (1, 2, 4_000)] == [0.5, 1, 30]
    assert RetryPolicy(max_delay=1e300, attempts={"network": 99}).wait("network", 90, 0.0) == 2.0**30


def test_a_provider_that_asks_for_longer_is_waited_for_up_to_a_limit() -> None:
    policy = RetryPolicy()

    assert [policy.wait("network", 1, 0.0, asked) for asked in (0.5, 7.0, 600.0, 600.1)] == [
        1.0,
        7.0,
        600.0,
        None,
    ]


def failing(breaker: CircuitBreaker, times: int, category: str = "overloaded", now: float = 0.0) -> None:
    """Have so many calls fail."""
    for _ in range(times):
        breaker.failed(category, now)


@pytest.mark.parametrize(
    ("category", "holds"),
    [("timeout", True), ("network", True), ("rate_limited", True), ("other", False), ("refused", False)],
)
def test_only_failures_of_the_provider_open_a_breaker(category: str, holds: bool) -> None:
    breaker = CircuitBreaker()
    failing(breaker, 4, category)
    assert breaker.check(0.0) == 0.0
    failing(breaker, 1, category)

    assert (breaker.check(10.0), breaker.seconds_open(10.0)) == ((20.0, 20.0) if holds else (0.0, 0.0))


def test_an_answer_or_a_refusal_ends_the_row_of_failures() -> None:
    for end in (CircuitBreaker.succeeded, lambda breaker: breaker.failed("unauthorized", 0.0)):
        breaker = CircuitBreaker()
        failing(breaker, 4)
        end(breaker)
        failing(breaker, 4)

        assert breaker.check(0.0) == 0.0


def test_one_call_tries_a_provider_once_it_had_its_time() -> None:
    breaker = CircuitBreaker()
    failing(breaker, 5)
    assert (CircuitBreaker().is_tried, breaker.check(29.0), breaker.is_tried) == (False, 1.0, False)

    assert (breaker.check(30.0), breaker.is_tried, breaker.seconds_open(31.0)) == (0.0, True, 0.0)
    breaker.stopped()
    assert not breaker.is_tried
    failing(breaker, 1, now=31.0)
    assert (breaker.check(32.0), breaker.is_tried) == (29.0, False)


def test_others_can_hold_calls_back_and_never_for_less_than_before() -> None:
    breaker = CircuitBreaker()
    assert breaker.seconds_open(5.0) == 0.0
    breaker.hold(0.0, 10.0)
    breaker.hold(1.0, 2.0)
    assert breaker.check(4.0) == 6.0
    breaker.hold(4.0, 20.0)

    assert breaker.seconds_open(4.0) == 20.0


def failed(conversation: Conversation, agent: str = "lead", seconds: float = 30.0) -> datetime:
    """Record a failed call that is tried again after so many seconds; return that time."""
    now = conversation.log.edge.clock()
    again = now + timedelta(seconds=seconds)
    conversation.append(LlmError(agent=agent, category="network", message="no", attempt=1, retry_at=again))
    return again


def due(agent: str, time: datetime | None) -> CallModel:
    """Return the next call of an agent."""
    return CallModel(LaneState(agent), 1, 2, time)


def test_a_wait_is_read_from_the_log_and_ends_by_the_clock_or_the_stopwatch(tmp_path: Path) -> None:
    now, clocked = 100.0, NOW
    with opened(tmp_path / "t.db", lambda: clocked) as conversation:  # type: ignore[arg-type]
        conversation.append(UserMessage(text="Go."))
        again = failed(conversation)
        failed(conversation, "other", 50.0)
        for number in range(300):
            conversation.append(UserMessage(text=str(number), in_context=False))
        waits = Waits(conversation, lambda: now)

        assert waits.seconds_until(due("lead", again), NOW, 600.0) == 30.0
        # Another host's clock is an hour behind: the stopwatch ends the wait.
        late = NOW - timedelta(hours=1)
        now = 110.0
        assert waits.seconds_until(due("lead", again), late, 600.0) == 20.0
        now = 131.0
        assert waits.seconds_until(due("lead", again), late, 600.0) == 0.0


def test_a_wait_has_a_limit_and_only_model_calls_wait(tmp_path: Path) -> None:
    with opened(tmp_path / "t.db", lambda: NOW) as conversation:  # type: ignore[arg-type]
        conversation.append(UserMessage(text="Go."))
        again = failed(conversation)
        waits = Waits(conversation, lambda: 0.0)

        assert waits.seconds_until(due("lead", again), NOW, 5.0) == 5.0
        assert waits.seconds_until(due("lead", again), again, 5.0) == 0.0
        assert waits.seconds_until(due("lead", None), NOW, 5.0) == 0.0
        # No error of this agent says so.
        assert waits.seconds_until(due("nobody", again), NOW - timedelta(hours=1), 600.0) == 0.0
        call = RunTool(LaneState("lead"), OpenCall("e", 1, 0, "c", "look"))
        assert waits.seconds_until(call, NOW, 5.0) == 0.0


# After an automatic retry the answer is whole, and nothing of the broken attempt is part of it.


WHOLE = "Dear Ann, we owe you 412,000 dollars. Yours, Acme"


class Breaking(Scripted):
    """Says all that was not said yet, as an answer that goes on would; its line breaks off `breaks` times."""

    def __init__(self, breaks: int) -> None:
        super().__init__(lambda prompt: _rest(prompt), endless=True, piece=22)
        self.breaks = breaks

    async def stream(self, prompt: ModelRequest) -> AsyncGenerator[ResponseDelta | ModelResponse, None]:
        async for said in super().stream(prompt):
            yield said
            if self.breaks:
                self.breaks -= 1
                raise ModelError("network", "reset")


def _rest(prompt: ModelRequest) -> str:
    before = [m["content"] for m in prompt.body["messages"] if m["role"] == "assistant"]
    return WHOLE.removeprefix("".join(before))


def attempts(number: int) -> RetryPolicy:
    return RetryPolicy(attempts={"network": number}, base=0.0)


def test_an_answer_that_is_retried_by_itself_is_whole_in_the_log_for_its_caller_in_tables_and_chats(
    tmp_path: Path,
) -> None:
    async def main(log: stenolog.Log) -> str:
        async with Team(
            [Agent("a", llm=Breaking(2), retries=attempts(3)), Agent("b", llm=Scripted("I see."))]
        ) as team:
            answer = await team.ask(log["t"], "How much?", to="a")
            await team.ask(log["t"], "And you?", to="b")
            return str(answer)

    with stenolog.open(tmp_path / "a.db") as log:
        answer = asyncio.run(main(log))
        entries = [*log["t"].entries()]
        rows = [
            row["content"] for entry in entries for row in messages_in(entry) if row["role"] == "assistant"
        ]
        shown = str(log["t"].request("b").body)
        chat = list[OutgoingMessage]()

        async def send(piece: OutgoingMessage) -> None:
            chat.append(piece)

        asyncio.run(Delivery(log["t"], "chat:ann", send).deliver())
        answers = [
            item.text for item in log["t"].timeline() if item.kind == "message" and item.author in ("a", "b")
        ]

    assert [piece.text for piece in chat] == answers == [WHOLE, "I see."]
    assert answer == WHOLE
    assert [e.event.text for e in entries if isinstance(e.event, AssistantMessage)] == [WHOLE, "I see."]
    assert [e.event.text for e in entries if isinstance(e.event, LlmError)] == [WHOLE[:22]] * 2
    assert rows == [WHOLE, "I see."]
    assert shown.count("Dear Ann") == 1


def test_where_it_fails_for_good_the_part_is_the_anchor_of_a_continue(tmp_path: Path) -> None:
    async def main(log: stenolog.Log) -> str:
        async with Team([Agent("a", llm=Breaking(2), retries=attempts(2))]) as team:
            with pytest.raises(ModelError):
                await team.ask(log["t"], "How much?")
            return str(await team.ask(log["t"], "continue"))

    with stenolog.open(tmp_path / "a.db") as log:
        assert asyncio.run(main(log)) == WHOLE[22:]


def test_who_asks_again_by_the_same_id_has_the_answer_that_is_there_and_no_model_is_asked(
    tmp_path: Path,
) -> None:
    async def main(log: stenolog.Log, *answers: str) -> str:
        async with Team([Agent("a", llm=Scripted(*answers))]) as team:
            return str(await team.ask(log["t"], "How much?", id="how-much"))

    with stenolog.open(tmp_path / "a.db") as log:
        first = asyncio.run(main(log, WHOLE))
        log["t"].append(AssistantMessage(agent="a", purpose="summary", text="Money."))
        again = asyncio.run(main(log))
        log["t"].append(UserMessage(text="Thanks.", to=["b"]))
        log["t"].append(AssistantMessage(agent="b", text="You are welcome."))
        later = asyncio.run(main(log))
        log["t"].erase(2, reason="A request", by="Ann")
        erased = asyncio.run(main(log))

    assert [first, again, later, erased] == [WHOLE] * 4
