"""What comes in between: timeouts, ends that fail, cancels seen by whoever works, words that wait."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from stenolog import AssistantMessage, Conversation, LlmError, Team, Text, ToolResult
from stenolog.engine import Agent, Retries
from stenolog.models import Answer, Prompt, Said, Scripted, Timeouts
from stenolog.tools import tool
from tests.engine.given import call, opened, run, told, worked

ONCE = Retries(attempts={})


class Stalls(Scripted):
    """Says a word, and then nothing for long."""

    async def stream(self, prompt: Prompt) -> AsyncGenerator[Said | Answer, None]:
        yield Said(0, "text", "Hm")
        await asyncio.sleep(20)


class FailsBehind(Scripted):
    """Fails once its answer is out."""

    async def stream(self, prompt: Prompt) -> AsyncGenerator[Said | Answer, None]:
        yield Answer((Text(text="There."),))
        yield Answer((Text(text="Or not."),))
        raise ConnectionError("cut")


def errors(talk: Conversation) -> list[tuple[str, str]]:
    found = [entry.event for entry in talk.entries() if isinstance(entry.event, LlmError)]
    return [(error.category, error.message) for error in found]


def test_a_stall_is_noticed_though_the_first_token_may_take_longer(tmp_path: Path) -> None:
    model = Stalls(timeouts=Timeouts(first=60, between=0.05))
    with opened(tmp_path / "t.db") as talk:
        run(worked(Team([Agent("coder", llm=model, retries=ONCE)]), talk, "Go"))

        assert errors(talk) == [("timeout", "no token for 0.05 s")]


def test_an_answer_that_is_there_counts_whatever_comes_behind_it(tmp_path: Path) -> None:
    with opened(tmp_path / "t.db") as talk:
        run(worked(Team([Agent("coder", llm=FailsBehind())]), talk, "Go"))

        assert told(talk)[-1] == ("assistant_message", "There.")
        assert errors(talk) == []


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
        await team.say(talk, "Go")
        await team.advance(talk)
        step = asyncio.create_task(team.advance(talk))
        await begun.wait()
        await team.cancel(talk)
        await step

    with opened(tmp_path / "t.db") as talk:
        run(main())

        assert talk.state().lane("coder").status == "idle"
        assert any(isinstance(entry.event, ToolResult) for entry in talk.entries())


def test_one_step_at_a_time_says_what_waited(tmp_path: Path) -> None:
    team = Team([Agent("coder", llm=Scripted("first", "second"))])

    async def main() -> None:
        await team.say(talk, "Go")
        await team.say(talk, "more", on_input="queue")
        while await team.advance(talk):
            pass

    with opened(tmp_path / "t.db") as talk:
        run(main())

        assert [text for _, text in told(talk)] == ["Go", "more", "first", "more", "second"]


def test_words_that_wait_for_rest_wait_for_an_approval_too(tmp_path: Path) -> None:
    @tool(approval=True)
    def sell() -> str:
        """Sell."""
        return "sold"

    team = Team([Agent("coder", llm=Scripted([call("sell")], "Sold.", "Fine."), tools=[sell])])
    with opened(tmp_path / "t.db") as talk:
        run(worked(team, talk, "Go"))
        run(team.say(talk, "later", on_input="queue"))
        run(worked(team, talk))

        assert [kind for kind, _ in told(talk)] == ["user_message", "assistant_message", "user_message"]


def test_a_run_whose_loop_ends_with_it_lets_its_claims_go(tmp_path: Path) -> None:
    team = Team([Agent("coder", llm=Scripted("x" * 400, "There.", pause=0.02))])

    async def main() -> None:
        working = asyncio.create_task(worked(team, talk, "Go"))
        await asyncio.sleep(0.2)
        for _ in range(2):
            working.cancel()
            await asyncio.sleep(0)

    with opened(tmp_path / "t.db") as talk:
        with contextlib.suppress(asyncio.CancelledError):
            asyncio.run(main())
        run(worked(team, talk))

        assert told(talk)[-1] == ("assistant_message", "There.")


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
    with opened(tmp_path / "t.db") as talk:
        for said in ("Go", "And now?"):
            run(worked(team, talk, said))

        assert [message.partition(" 0.05")[0] for _, message in errors(talk)] == [says]
        assert [e.event.text for e in talk.entries() if isinstance(e.event, AssistantMessage)] == [
            "one",
            "two",
        ]
