"""What comes in between: timeouts, ends that fail, cancels seen by whoever works, words that wait."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

import stenolog
from stenolog import (
    AssistantMessage,
    Conversation,
    LlmError,
    ModeSwitch,
    Team,
    TextPart,
    ToolResult,
    UserMessage,
)
from stenolog.adapters.engine.journal.journal import Journal
from stenolog.adapters.engine.journal.recovery import DIED, recover
from stenolog.adapters.engine.options import Options
from stenolog.adapters.store.claims import Claims
from stenolog.adapters.store.contract.values import Claim
from stenolog.domain.lanes.effects import UNKNOWN
from stenolog.engine import Agent, RetryPolicy
from stenolog.models import ModelRequest, ModelResponse, ResponseDelta, Scripted, Timeouts
from stenolog.tools import ToolContext, tool
from tests.engine.given import call, opened, outline, results, run, run_team

ONCE = RetryPolicy(attempts={})


class Stalls(Scripted):
    """Says a word, and then nothing for long."""

    async def stream(self, prompt: ModelRequest) -> AsyncGenerator[ResponseDelta | ModelResponse, None]:
        yield ResponseDelta(0, "text", "Hm")
        await asyncio.sleep(20)


class FailsBehind(Scripted):
    """Fails once its answer is out."""

    async def stream(self, prompt: ModelRequest) -> AsyncGenerator[ResponseDelta | ModelResponse, None]:
        yield ModelResponse((TextPart(text="There."),))
        yield ModelResponse((TextPart(text="Or not."),))
        raise ConnectionError("cut")


def errors(conversation: Conversation) -> list[tuple[str, str]]:
    found = [entry.event for entry in conversation.entries() if isinstance(entry.event, LlmError)]
    return [(error.category, error.message) for error in found]


def test_a_stall_is_noticed_though_the_first_token_may_take_longer(tmp_path: Path) -> None:
    model = Stalls(timeouts=Timeouts(first_token=60, idle=0.05))
    with opened(tmp_path / "t.db") as conversation:
        run(run_team(Team([Agent("coder", llm=model, retries=ONCE)]), conversation, "Go"))

        assert errors(conversation) == [("timeout", "no token for 0.05 s")]


def test_an_answer_that_is_there_counts_whatever_comes_behind_it(tmp_path: Path) -> None:
    with opened(tmp_path / "t.db") as conversation:
        run(run_team(Team([Agent("coder", llm=FailsBehind())]), conversation, "Go"))

        assert outline(conversation)[-1] == ("assistant_message", "There.")
        assert errors(conversation) == []


def test_one_step_at_a_time_sees_a_cancel(tmp_path: Path) -> None:
    begun = asyncio.Event()

    @tool
    async def slow() -> str:
        """Take long."""
        begun.set()
        await asyncio.sleep(15)
        return "done"

    team = Team([Agent("coder", llm=Scripted([call("slow")], "never"), tools=[slow])])

    async def main() -> None:
        await team.send(conversation, "Go")
        await team.advance(conversation)
        step = asyncio.create_task(team.advance(conversation))
        await begun.wait()
        await team.cancel(conversation)
        await step

    with opened(tmp_path / "t.db") as conversation:
        run(main())

        assert conversation.state().lane("coder").status == "idle"
        assert any(isinstance(entry.event, ToolResult) for entry in conversation.entries())


def test_one_step_at_a_time_says_what_waited(tmp_path: Path) -> None:
    team = Team([Agent("coder", llm=Scripted("first", "second"))])

    async def main() -> None:
        await team.send(conversation, "Go")
        await team.send(conversation, "more", on_input="queue")
        while await team.advance(conversation):
            pass

    with opened(tmp_path / "t.db") as conversation:
        run(main())

        assert [text for _, text in outline(conversation)] == [
            "Go",
            "more",
            "first",
            "more",
            "second",
        ]


def test_words_that_wait_for_rest_wait_for_an_approval_too(tmp_path: Path) -> None:
    @tool(approval=True)
    def sell() -> str:
        """Sell."""
        return "sold"

    team = Team([Agent("coder", llm=Scripted([call("sell")], "Sold.", "Fine."), tools=[sell])])
    with opened(tmp_path / "t.db") as conversation:
        run(run_team(team, conversation, "Go"))
        run(team.send(conversation, "later", on_input="queue"))
        run(run_team(team, conversation))

        assert [kind for kind, _ in outline(conversation)] == [
            "user_message",
            "assistant_message",
            "user_message",
        ]


def test_a_run_whose_loop_ends_with_it_lets_its_claims_go(tmp_path: Path) -> None:
    team = Team([Agent("coder", llm=Scripted("x" * 400, "There.", pause=0.02))])

    async def main() -> None:
        working = asyncio.create_task(run_team(team, conversation, "Go"))
        await asyncio.sleep(0.2)
        for _ in range(2):
            working.cancel()
            await asyncio.sleep(0)

    with opened(tmp_path / "t.db") as conversation:
        with contextlib.suppress(asyncio.CancelledError):
            asyncio.run(main())
        run(run_team(team, conversation))

        assert outline(conversation)[-1] == ("assistant_message", "There.")


@pytest.mark.parametrize(
    ("fault", "says"), [(OSError("gone"), "OSError: gone"), (None, "it did not say within")]
)
def test_a_backend_that_cannot_say_whether_it_remembers_is_told_everything(
    tmp_path: Path, fault: Any, says: str
) -> None:
    class Forgetful(Scripted):
        remembers = True

        async def lost(self, lane: str, conversation: str, session: str) -> str:
            if fault is not None:
                raise fault
            await asyncio.sleep(20)
            return ""

    team = Team([Agent("coder", llm=Forgetful("one", "two", timeouts=Timeouts(connect=0.05)))])
    with opened(tmp_path / "t.db") as conversation:
        for said in ("Go", "And now?"):
            run(run_team(team, conversation, said))

        assert [message.partition(" 0.05")[0] for _, message in errors(conversation)] == [says]
        assert [e.event.text for e in conversation.entries() if isinstance(e.event, AssistantMessage)] == [
            "one",
            "two",
        ]


# Effects that were taken from a runner which lives, or died just now: each is done once.


def test_a_runner_that_takes_its_own_effect_back_does_it_anew_and_stops_what_it_was_at(
    tmp_path: Path,
) -> None:
    began: list[str] = []
    stopped: list[str] = []

    @tool(repeat="safe")
    async def look(context: ToolContext) -> str:
        """Look, and take long the first time."""
        began.append(context.id)
        if len(began) == 2:
            waits.set()
        try:
            await asyncio.sleep({1: 1_000, 2: 0.1}.get(len(began), 0.0))
        except asyncio.CancelledError:
            stopped.append(context.id)
            raise
        return f"{context.id} is done"

    async def main() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, told: unhandled.append(told))
        working = asyncio.create_task(run_team(team, conversation, "Go"))
        await waits.wait()
        conversation.log.take_claims("demo")
        await working

    unhandled: list[object] = []
    waits = asyncio.Event()
    model = Scripted([call("look", "long"), call("look", "short")], "It is a cat.")
    team = Team([Agent("coder", llm=model, tools=[look])])
    with opened(tmp_path / "t.db") as conversation:
        run(main())
        texts = [result.text for result in results(conversation)]

    assert sorted(texts) == ["long is done", "short is done"]
    assert began == ["long", "short", "long", "short"]
    assert stopped == ["long"]
    assert unhandled == []


def test_a_call_that_began_after_the_last_look_and_whose_process_died_is_not_run_again(
    tmp_path: Path,
) -> None:
    @tool
    def feed() -> str:
        """Feed it, once."""
        return "fed"

    with opened(tmp_path / "t.db") as conversation, stenolog.open(tmp_path / "t.db") as other:
        conversation.extend([ModeSwitch(mode="agent", joins=["coder"]), UserMessage(text="Go")])
        agents = {"coder": Agent("coder", llm=Scripted("never"), tools=[feed])}
        presence = conversation.log.recorder.claims.presence("one")
        journal = Journal(conversation, presence, agents, Options())

        other["demo"].append(AssistantMessage(agent="coder", tool_calls=[call("feed")]))
        begun = Claim(0, "coder", "tool 3/0", 3, 1, "", "somebody who died", 0)
        Claims(other.recorder, other["demo"].stream).take([begun], 3)
        for claim in journal.orphans():
            recover(journal, claim, agents, {"coder": {"feed": feed}}, Options(), DIED)
        presence.close()

        (result,) = results(conversation)
        assert result.meta == UNKNOWN
