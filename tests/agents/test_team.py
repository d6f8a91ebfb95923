"""A team of programs: whatever dies, the log tells the next process everything."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from stenolog import AssistantMessage, Conversation, Entry, LlmError, ModeSwitch
from stenolog.context import SinceLastTurn
from stenolog.engine import Agent, EntryAppended, RetryPolicy, RoundRobin, Team
from stenolog.events import PositionRange
from stenolog.models import ACP, Model
from tests.agents import given

DEV = "dev"
AT_ONCE = RetryPolicy(base=0.0)


@asynccontextmanager
async def team(model: Model, *names: str, **options: Any) -> AsyncIterator[Team]:
    agents = [Agent(name, llm=model, policy=SinceLastTurn(), retries=AT_ONCE) for name in names or (DEV,)]
    async with Team(agents, **options) as made:
        yield made


async def said(made: Team, conversation: Conversation, text: str, *to: str) -> list[Entry]:
    """Return the entries appended after a person's message, until all have done their work."""
    return [
        happened.entry
        async for happened in made.run(conversation, text, to=to or [DEV])
        if isinstance(happened, EntryAppended)
    ]


def answers(entries: list[Entry]) -> list[str]:
    return [entry.event.text for entry in entries if isinstance(entry.event, AssistantMessage)]


def errors(entries: list[Entry]) -> list[tuple[str, str]]:
    return [(e.event.category, e.event.text) for e in entries if isinstance(e.event, LlmError)]


async def test_a_process_that_remembers_is_told_only_what_is_new(conversation: Conversation) -> None:
    async with team(given.runs_on()) as made:
        found = [
            *answers(await said(made, conversation, "one")),
            *answers(await said(made, conversation, "two")),
        ]

    assert found == ["1: User: one", "2: User: one | User: two"]


ALL = "1: User: one\n\nAssistant (dev): 1: User: one\n\nUser: two"
"""How one answers that was told of all so far, by that of its second turn."""


async def test_a_process_killed_between_two_turns_comes_back_with_the_full_history(
    conversation: Conversation,
) -> None:
    model = given.runs_on()

    async with team(model) as made:
        await said(made, conversation, "one")
        await given.killed(model, DEV)
        entries = await said(made, conversation, "two")

    assert errors(entries) == [("process_exited", "")]
    assert [answer[: len(ALL)] for answer in answers(entries)] == [ALL]


async def test_a_process_that_dies_within_a_turn_comes_back_with_the_full_history(
    conversation: Conversation,
) -> None:
    async with team(given.runs_on()) as made:
        _, died, after = [
            await said(made, conversation, text) for text in ("one", "two, and die-later", "three")
        ]

    assert errors(died) == [("process_exited", "I was about to")]
    assert [answer[: len(ALL)] for answer in answers(died)] == [ALL]
    assert [(answer[:2], answer[-14:]) for answer in answers(after)] == [("2:", " | User: three")]


def test_a_team_that_was_started_anew_tells_its_processes_everything(conversation: Conversation) -> None:
    async def work(text: str) -> list[Entry]:
        async with team(given.runs_on()) as made:
            return await said(made, conversation, text)

    asyncio.run(work("one"))
    entries = asyncio.run(work("two"))

    assert errors(entries) == [("process_exited", "")]
    assert [answer[: len(ALL)] for answer in answers(entries)] == [ALL]


@pytest.mark.parametrize(
    ("switch", "known"),
    [
        (ModeSwitch(context_from=5), "three"),
        (ModeSwitch(hides=[PositionRange(first=2, last=3)]), "two three"),
    ],
)
async def test_a_reset_and_a_rewind_are_a_new_start_for_who_remembers(
    conversation: Conversation, switch: ModeSwitch, known: str
) -> None:
    async with team(given.runs_on(env={"BRIEF": "1"})) as made:
        await said(made, conversation, "one")
        await said(made, conversation, "two")
        conversation.append(switch, expected=5)
        entries = await said(made, conversation, "three")

    assert (errors(entries), answers(entries)) == ([], [known])


def test_a_session_that_the_program_keeps_itself_outlives_every_process(
    conversation: Conversation, tmp_path: Path
) -> None:
    agent = str(Path(__file__).with_name("acp_agent.py"))

    async def work(text: str) -> list[Entry]:
        model = ACP([sys.executable, "-I", agent], env={"STORE": str(tmp_path)})
        async with team(model) as made:
            return await said(made, conversation, text)

    asyncio.run(work("one"))
    entries = asyncio.run(work("two"))

    assert (errors(entries), answers(entries)) == ([], ["2: User: one | User: two"])


async def test_a_cancelled_turn_keeps_what_was_said_and_the_process_goes_on(
    conversation: Conversation,
) -> None:
    async with team(given.runs_on()) as made:
        await said(made, conversation, "one")
        cancelled: list[Entry] = []
        async for happened in made.run(conversation, "hang", to=[DEV]):
            if isinstance(happened, EntryAppended):
                cancelled.append(happened.entry)
            else:
                await made.cancel(conversation)
        after = await said(made, conversation, "three")

    assert errors(cancelled) == [("cancelled", "begun")]
    assert [answer[:2] for answer in answers(after)] == ["3:"]


async def test_roles_take_turns_until_all_others_pass(conversation: Conversation) -> None:
    """Each passes from its second turn on."""
    names = ("dev", "tester", "writer")

    turns = RoundRobin(pass_token=".....")
    async with team(given.runs_on(env={"PASSES": "1"}), *names, turns=turns) as made:
        entries = [h.entry async for h in made.run(conversation, "Ideas?") if isinstance(h, EntryAppended)]

    spoken = [(e.event.agent, e.event.text) for e in entries if isinstance(e.event, AssistantMessage)]
    assert [agent for agent, _ in spoken[:3]] == ["dev", "tester", "writer"]
    assert spoken[0] == ("dev", "1: User: Ideas?")
    assert spoken[3:] == [("dev", "....."), ("tester", ".....")]


async def test_twenty_agents_that_keep_dying_leave_nothing_behind_and_forget_nothing(
    conversation: Conversation,
) -> None:
    names = [f"agent {number}" for number in range(20)]
    texts = ["one", "two", "three", "four"]

    before = given.descriptors()
    model = given.runs_on(env={"BRIEF": "1"})
    async with team(model, *names) as made:
        for turn, text in enumerate(texts):
            for name in names[turn :: len(texts)] if turn else ():
                await given.killed(model, name)
            await said(made, conversation, text, *names)
    found = [given.descriptors() - before, len(asyncio.all_tasks())]

    assert found == [0, 1]

    last = {
        e.event.agent: e.event.text for e in conversation.entries() if isinstance(e.event, AssistantMessage)
    }
    missing = [(name, text) for name in names for text in texts if text not in last[name]]
    assert missing == []
