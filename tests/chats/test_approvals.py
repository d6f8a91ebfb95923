"""Calls that wait for a person, in the chat: they are shown whole, and one message decides one call."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable

import pytest

import stenolog
from stenolog import Agent, AssistantMessage, Card, Log, ModeSwitch, Team, Tool, ToolCall
from stenolog.adapters.chats.commands import Told, call
from stenolog.adapters.chats.splitting import fence_of
from stenolog.chats import pieces
from stenolog.domain.entry import Draft
from stenolog.domain.settings import NOTHING, configure
from stenolog.engine import Delegate
from stenolog.models import Prompt, Scripted
from stenolog.tools import tool


@tool(approval=True)
def sell(cats: int) -> str:
    """Sell cats."""
    return f"{cats} sold"


def answering(*calls: ToolCall) -> Callable[[Prompt], object]:
    """A model that makes these calls, and then is done."""

    def reply(prompt: Prompt) -> object:
        return "Done." if any(m["role"] == "tool" for m in prompt.body["messages"]) else [*calls]

    return reply


def with_workers(*cats: int) -> Team:
    """A team whose lead has workers at once, each with a call that waits for a person."""
    workers = [
        Agent(
            f"reader{cat}",
            llm=Scripted(
                answering(ToolCall(id="s", name="sell", arguments=json.dumps({"cats": cat}))), endless=True
            ),
            tools=[sell],
        )
        for cat in cats
    ]
    asks = [ToolCall(id=w.name, name=f"ask_{w.name}", arguments='{"task": "sell"}') for w in workers]
    lead = Agent("lead", llm=Scripted(answering(*asks), endless=True), tools=[Delegate(w) for w in workers])
    return Team([lead])


def told(log: Log, who: Team, *commands: tuple[str, str], name: str = "talk") -> list[str]:
    """What is said to commands, each a name and the id of its message, once all workers wait for a person."""

    async def main() -> list[str]:
        async def work() -> None:
            async for _ in who.run(log[name], "go", id="1"):
                pass

        working = asyncio.create_task(work())
        waiting = len(who.agents["lead"].tools)
        async with asyncio.timeout(10):
            while not log[name].position or len(await who.waiting(log[name])) < waiting:
                await asyncio.sleep(0.01)
        said = [await call(command, Told(log[name], who, id=id)) for command, id in commands]
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)
        return said

    return asyncio.run(main())


def test_one_message_decides_one_call_of_the_workers_however_often_it_is_told(log: Log) -> None:
    first, again, next_one = told(
        log, with_workers(1, 2), ("approve", "7"), ("approve", "7"), ("refuse", "8")
    )

    assert (first.splitlines()[0], again, next_one) == (
        "It runs: sell.",
        "That was decided.",
        "It does not run: sell.",
    )


def test_ids_of_two_conversations_do_not_meet_at_the_workers(log: Log) -> None:
    said = [told(log, with_workers(1), ("approve", "console:3"), name=name) for name in ("one", "two")]

    assert said == [["It runs: sell."], ["It runs: sell."]]


def test_status_and_a_decision_show_what_workers_wait_for(log: Log) -> None:
    status, approved = told(log, with_workers(1, 2), ("status", ""), ("approve", ""))
    shown = [f'reader{n} asks to run\n```\nsell({{"cats": {n}}})\n```' for n in (1, 2)]

    assert [block for block in shown if block not in status] == []
    assert [approved == f"It runs: sell.\n{block}" for block in shown].count(True) == 1


@pytest.mark.parametrize("trick", ["", "\n```\nIt only looks.\n```\n"])
def test_a_call_to_be_approved_is_shown_whole_in_blocks_of_code_that_it_does_not_leave(trick: str) -> None:
    made = ToolCall(id="1", name="sh", arguments="echo " + "a" * 5000 + trick + "; rm -rf /")
    draft = AssistantMessage(agent="dev", tool_calls=[made])
    cards = ModeSwitch(cards={"dev": Card(tools=[Tool(name="sh", approval=True)])})
    shown = rendered(cards, draft)
    code = "".join(line for piece in shown for line in _code(piece)).replace("\n", "")

    assert code == f"sh({made.arguments})".replace("\n", "")
    assert len(shown) > 1


def rendered(*events: ModeSwitch | AssistantMessage) -> list[str]:
    """The pieces of the last of these events."""
    with stenolog.open(":memory:") as log:
        *before, last = log["talk"].extend([Draft(event) for event in events])
        settings = NOTHING
        for entry in before:
            settings = configure(settings, entry)
        return [*pieces()(last, settings)]


def _code(piece: str) -> list[str]:
    """The lines of the blocks of code."""
    begun, code = None, list[str]()
    for line in piece.split("\n"):
        found = fence_of(line)
        if begun is None:
            begun = found
        elif found and found.ends(begun):
            begun = None
        else:
            code.append(line)
    return code
