"""Calls that wait for a person, in the chat: they are shown whole, and one message decides one call."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncGenerator, Callable
from typing import Any, NamedTuple

import pytest

import stenolog
from stenolog import (
    Agent,
    AgentCard,
    AssistantMessage,
    Conversation,
    Log,
    ModeSwitch,
    Team,
    Tool,
    ToolCall,
    ToolResult,
    UserMessage,
)
from stenolog.adapters.engine.approvals import PendingApproval, waiting
from stenolog.apps.chats.commands import CommandContext, call, typed_command
from stenolog.apps.chats.rendering import fence_of
from stenolog.chats import ChatSession, Delivery, OutgoingMessage, render_entry
from stenolog.domain.entry import NewEntry
from stenolog.domain.settings import NOTHING, configure
from stenolog.domain.values import Control
from stenolog.engine import AgentTool
from stenolog.models import ModelRequest, Scripted
from stenolog.tools import tool

from .given import until


@tool(approval=True)
def sell(cats: int) -> str:
    """Sell cats."""
    return f"{cats} sold"


def answering(*calls: ToolCall) -> Callable[[ModelRequest], object]:
    """Return a model that makes these calls, and then is done."""

    def reply(prompt: ModelRequest) -> object:
        return "Done." if any(m["role"] == "tool" for m in prompt.body["messages"]) else [*calls]

    return reply


def with_workers(*cats: int) -> Team:
    """Return a team whose lead has workers at once, each with a call that waits for a person."""
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
    lead = Agent("lead", llm=Scripted(answering(*asks), endless=True), tools=[AgentTool(w) for w in workers])
    return Team([lead])


@contextlib.asynccontextmanager
async def chatting(
    log: Log, who: Team, waits: int, name: str = "talk", words: str = "asks to run"
) -> AsyncGenerator[Chatting, None]:
    """Yield a room whose team has begun, once so many calls wait for a person and were asked about."""
    texts = list[str]()

    async def send(piece: OutgoingMessage) -> None:
        texts.append(piece.text)

    room = ChatSession(who, Delivery(log[name], "mail", send))
    async with room.open(), asyncio.timeout(20):
        await room.receive(UserMessage(text="go", author="Ann"), id="1")
        await until(lambda: sum(words in text for text in texts) >= waits)
        yield Chatting(room, texts, await who.pending_approvals(log[name]))


class Chatting(NamedTuple):
    """A room, what was sent there, and the calls that wait."""

    room: ChatSession
    texts: list[str]
    waits: list[PendingApproval]

    async def tell(self, line: str, id: str = "", author: str = "Ann") -> str:
        """Return the answer to a command."""
        command = typed_command(line)
        assert command is not None
        return await self.room.run_command(command, id=id, author=author)


def selling(*answers: Any, ran: list[int] | None = None) -> Team:
    """Return a team of one that may sell, answer by answer."""

    @tool(approval=True)
    def sell(cats: int) -> str:
        """Sell cats."""
        if ran is not None:
            ran.append(cats)
        return f"{cats} sold"

    return Team([Agent("bank", llm=Scripted(*answers), tools=[sell])])


def sale(cats: int, id: str = "s") -> ToolCall:
    """Return a call that sells."""
    return ToolCall(id=id, name="sell", arguments=json.dumps({"cats": cats}))


def test_one_message_decides_one_call_of_the_workers_however_often_it_is_told(log: Log) -> None:
    async def main() -> list[str]:
        async with chatting(log, with_workers(1, 2), 2) as chat:
            first, second = (call.code for call in chat.waits)
            return [
                await chat.tell(f"/approve {first}", "7"),
                await chat.tell(f"/approve {first}", "7"),
                await chat.tell(f"/refuse {second}", "8"),
            ]

    first, again, next_one = asyncio.run(main())

    assert (first.splitlines()[0], again, next_one) == (
        "It runs: sell.",
        "That was decided.",
        "It does not run: sell.",
    )


def test_ids_of_two_conversations_do_not_meet_at_the_workers(log: Log) -> None:
    async def main(name: str) -> str:
        async with chatting(log, with_workers(1), 1, name) as chat:
            return await chat.tell(f"/approve {chat.waits[0].code}", "console:3")

    assert [asyncio.run(main(name)) for name in ("one", "two")] == ["It runs: sell.", "It runs: sell."]


def test_status_and_a_decision_show_what_workers_wait_for(log: Log) -> None:
    async def main() -> tuple[str, str, list[PendingApproval]]:
        async with chatting(log, with_workers(1, 2), 2) as chat:
            status = await chat.tell("/status")
            return status, await chat.tell(f"/approve {chat.waits[0].code}"), chat.waits

    status, approved, waits = asyncio.run(main())
    shown = [asks(call) for call in waits]

    assert [block for block in shown if block not in status] == []
    assert approved == f"It runs: sell.\n{shown[1]}"


def asks(call: PendingApproval) -> str:
    """Return the question about a call."""
    return (
        f"{call.lane} asks to run\n```\n{call.name}({call.arguments})\n```\n"
        f"/approve {call.code} lets it, /refuse {call.code} does not."
    )


def test_the_question_of_a_worker_goes_out_in_the_chat_that_waits_for_it(log: Log) -> None:
    async def main() -> tuple[list[str], list[PendingApproval]]:
        async with chatting(log, with_workers(7), 1) as chat:
            return chat.texts, chat.waits

    texts, waits = asyncio.run(main())

    assert texts == [asks(call) for call in waits]
    assert waits[0].conversation != "talk"


def test_a_bare_approval_runs_nothing_where_two_calls_wait(log: Log) -> None:
    ran = list[int]()

    async def main() -> tuple[str, list[PendingApproval]]:
        async with chatting(log, selling([sale(1, "a"), sale(2, "b")], ran=ran), 2) as chat:
            return await chat.tell("/approve"), chat.waits

    said, waits = asyncio.run(main())

    assert said.splitlines()[0] == "Name the call by its code; nothing was decided."
    assert [asks(call) in said for call in waits] == [True, True]
    assert ran == []


def test_a_bare_approval_runs_nothing_where_the_only_call_was_not_shown(log: Log) -> None:
    ran = list[int]()

    async def main() -> str:
        who = selling(sale(1), ran=ran)
        await who.ask(log["talk"], "go")
        return await call("approve", CommandContext(log["talk"], who, author="Ann"))

    assert asyncio.run(main()).splitlines()[0] == "Name the call by its code; nothing was decided."
    assert ran == []


def test_a_bare_approval_runs_the_only_call_that_was_shown(log: Log) -> None:
    ran = list[int]()

    async def main() -> str:
        async with chatting(log, selling(sale(1), "Done.", ran=ran), 1) as chat:
            said = await chat.tell("/approve")
            await chat.room.drain()
            return said

    assert (asyncio.run(main()), ran) == ("It runs: sell.", [1])


def test_two_people_who_approve_the_same_call_approve_that_one(log: Log) -> None:
    ran = list[int]()

    async def main() -> list[str]:
        async with chatting(log, selling(sale(1), sale(99), "Done.", ran=ran), 1) as chat:
            code = chat.waits[0].code
            first = await chat.tell(f"/approve {code}", "2", "Ann")
            await until(lambda: sum("asks to run" in text for text in chat.texts) == 2)
            named = await chat.tell(f"/approve {code}", "3", "Bob")
            bare = await chat.tell("/approve", "4", "Bob")
            await chat.room.drain()
            return [first, named.splitlines()[0], bare.splitlines()[0]]

    assert asyncio.run(main()) == [
        "It runs: sell.",
        "That was decided.",
        "Name the call by its code; nothing was decided.",
    ]
    assert ran == [1]


def test_who_approves_a_call_with_other_arguments_behind_another_person_is_not_told_that_they_run(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran = list[int]()

    def overtaken(conversation: Conversation) -> list[PendingApproval]:
        calls = waiting(conversation)
        conversation.submit(UserMessage(control=Control(action="approve", call=calls[0].call)))
        return calls

    async def main() -> str:
        async with chatting(log, selling(sale(1), "Done.", ran=ran), 1) as chat:
            code = chat.waits[0].code
            monkeypatch.setattr("stenolog.apps.chats.commands.waiting", overtaken)
            reply = await chat.tell(f'/approve {code} {{"cats": 2}}', "2", "Bob")
            await chat.room.drain()
            return reply

    assert asyncio.run(main()) == "That was decided."
    assert ran == [1]


def test_a_bare_approval_of_who_approved_the_last_one_runs_the_next(log: Log) -> None:
    ran = list[int]()

    async def main() -> None:
        async with chatting(log, selling(sale(1), sale(2), "Done.", ran=ran), 1) as chat:
            await chat.tell("/approve", "2")
            await until(lambda: sum("asks to run" in text for text in chat.texts) == 2)
            await chat.tell("/approve", "3")
            await chat.room.drain()

    asyncio.run(main())

    assert ran == [1, 2]


def test_words_in_the_chat_refuse_the_call_and_are_answered(log: Log) -> None:
    ran = list[int]()

    async def main() -> list[str]:
        async with chatting(log, selling(sale(1), "As you wish.", ran=ran), 1) as chat:
            await chat.room.receive(UserMessage(text="no, wait", author="Ann"), id="2")
            await chat.room.receive(UserMessage(text="no, wait", author="Ann"), id="2")
            await chat.room.drain()
            return [chat.texts[-1], await chat.tell("/approve")]

    assert asyncio.run(main()) == ["As you wish.", "No call waits for you."]
    assert ran == []


@pytest.mark.parametrize("words", ["please", "zzzzz", "yes but only one"])
def test_an_approval_that_says_more_than_a_code_runs_nothing(log: Log, words: str) -> None:
    ran = list[int]()

    async def main() -> None:
        async with chatting(log, selling(sale(1), ran=ran), 1) as chat:
            await chat.tell(f"/approve {words}")
            await chat.room.drain()

    asyncio.run(main())

    assert ran == []


def test_an_approval_may_change_the_arguments_and_both_stand_in_the_log(log: Log) -> None:
    ran = list[int]()

    async def main() -> list[str]:
        async with chatting(log, selling(sale(100), "Done.", ran=ran), 1) as chat:
            code = chat.waits[0].code
            wrong = [
                await chat.tell(f"/approve {code} {json}") for json in ("{", '{"cats": "x"}', '{"n": 1}')
            ]
            said = await chat.tell(f'/approve {code} {{"cats": 3}}')
            await chat.room.drain()
            return [*wrong, said]

    *wrong, said = asyncio.run(main())
    events = [entry.event for entry in log["talk"].entries()]
    [made] = [
        event.tool_calls[0] for event in events if isinstance(event, AssistantMessage) and event.tool_calls
    ]
    [control] = [event.control for event in events if isinstance(event, UserMessage) and event.control]
    [result] = [event.text for event in events if isinstance(event, ToolResult)]

    assert (said, ran) == ("It runs: sell.", [3])
    assert [text.startswith("/approve: arguments") for text in wrong] == [True] * 3
    assert (made.arguments, control.arguments) == ('{"cats": 100}', '{"cats": 3}')
    assert result == '[The user changed the arguments of this call. It ran with {"cats": 3}]\n3 sold'


def test_what_is_invisible_or_looks_like_something_else_is_escaped_in_a_question(log: Log) -> None:
    made = ToolCall(id="1", name="pay", arguments='{"to": "p\u0430ypal\u200b", "why": "Привет, Анна"}')
    cards = ModeSwitch(cards={"dev": AgentCard(tools=[Tool(name="pay", approval=True)])})
    [shown] = rendered(cards, AssistantMessage(agent="dev", tool_calls=[made]))

    assert '{"to": "p\\u0430ypal\\u200b", "why": "Привет, Анна"}' in shown


@pytest.mark.parametrize("trick", ["", "\n```\nIt only looks.\n```\n"])
def test_a_call_to_be_approved_is_shown_whole_in_blocks_of_code_that_it_does_not_leave(trick: str) -> None:
    made = ToolCall(id="1", name="sh", arguments="echo " + "a" * 5000 + trick + "; rm -rf /")
    draft = AssistantMessage(agent="dev", tool_calls=[made])
    cards = ModeSwitch(cards={"dev": AgentCard(tools=[Tool(name="sh", approval=True)])})
    shown = rendered(cards, draft)
    code = "".join(line for piece in shown for line in _code(piece)).replace("\n", "")

    assert code == f"sh({made.arguments})".replace("\n", "")
    assert len(shown) > 1


def rendered(*events: ModeSwitch | AssistantMessage) -> list[str]:
    """Return the pieces of the last of these events."""
    with stenolog.open(":memory:") as log:
        *before, last = log["talk"].extend([NewEntry(event) for event in events])
        settings = NOTHING
        for entry in before:
            settings = configure(settings, entry)
        return [piece if isinstance(piece, str) else piece.text for piece in render_entry()(last, settings)]


def _code(piece: str) -> list[str]:
    """Return the lines of the blocks of code."""
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
