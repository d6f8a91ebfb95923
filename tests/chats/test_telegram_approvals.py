"""Calls that wait for a person in a chat of Telegram: a button, a reply or a code decides one."""

from __future__ import annotations

import asyncio

import stenolog
from stenolog import Log, ToolCall
from stenolog.models import ModelRequest, Scripted
from stenolog.tools import tool

from .given import BOT, run, served, until
from .standin import USER, Answer, StandIn


def shop(*sales: int) -> tuple[stenolog.Team, list[int]]:
    """Return a team of one that makes these sales in one answer, and what was sold."""
    sold = list[int]()

    @tool(approval=True)
    def sell(loaves: int) -> str:
        """Sell loaves."""
        sold.append(loaves)
        return f"{loaves} sold"

    calls = [ToolCall(id=f"{n}", name="sell", arguments=f'{{"loaves": {n}}}') for n in sales]

    def reply(prompt: ModelRequest) -> object:
        return "Sold." if prompt.body["messages"][-1]["role"] == "tool" else calls

    model = Scripted(reply, endless=True)
    return stenolog.Team([stenolog.Agent("coder", llm=model, tools=[sell])]), sold


def test_a_call_is_approved_in_the_chat(api: StandIn, log: Log) -> None:
    who, sold = shop(3)
    api.say("Sell three")
    run(api, log, 1, who)
    api.say("/approve")
    texts = run(api, log, 3, who)

    assert "sell({" in texts[0]
    assert (sorted(texts[1:]), sold) == (["It runs: sell.", "Sold."], [3])


def test_a_button_decides_the_call_that_it_stands_below(api: StandIn, log: Log) -> None:
    who, sold = shop(3, 4)
    api.say("Sell")
    run(api, log, 2, who)
    first, second = api.sent
    api.press(second, "Approve", "p1")
    api.press(second, "Approve", "p2")
    api.press(first, "Refuse", "p3")
    texts = run(api, log, 6, who)

    assert [*first.buttons] == ["Approve", "Refuse"]
    assert sorted(text.splitlines()[0] for text in texts[2:]) == [
        "It does not run: sell.",
        "It runs: sell.",
        "Sold.",
        "That was decided.",
    ]
    assert sold == [4]
    assert api.asked.count("answerCallbackQuery") == 3


def test_a_reply_decides_the_call_whose_question_it_answers(api: StandIn, log: Log) -> None:
    who, sold = shop(3, 4)
    api.say("Sell")
    run(api, log, 2, who)
    _, second = api.sent
    api.say('/approve {"loaves": 5}', reply_to_message=second.seen)
    texts = run(api, log, 3, who)

    assert texts[2].splitlines()[0] == "It runs: sell."
    assert sold == [5]


def test_a_reply_to_another_bots_question_decides_nothing(api: StandIn, log: Log) -> None:
    who, sold = shop(3, 4)
    api.say("Sell")
    run(api, log, 2, who)
    _, second = api.sent
    api.say("/approve", reply_to_message=second._replace(bot=777).seen)
    texts = run(api, log, 3, who)

    assert texts[2].splitlines()[0] == "Name the call by its code; nothing was decided."
    assert sold == []


def test_a_bare_approval_that_was_sent_before_the_question_decides_nothing(api: StandIn, log: Log) -> None:
    who, sold = shop(3)

    async def main() -> None:
        async with served(api, who, log) as telegram:
            api.say("Sell three")
            late = api.say(chat=2, text="for its id alone")
            await until(lambda: len(api.sent) >= 1)
            chat = {"id": 1, "type": "private"}
            early = {"message_id": late, "date": 1, "chat": chat, "from": USER, "text": "/approve"}
            api.push(BOT, {"message": early})
            await until(lambda: len(api.sent) >= 2 and not api.unconfirmed())
            await telegram.drain()

    asyncio.run(main())

    assert api.texts(1)[1].splitlines()[0] == "Name the call by its code; nothing was decided."
    assert sold == []


def test_a_call_of_which_a_part_cannot_be_shown_is_not_asked_about(api: StandIn, log: Log) -> None:
    who, sold = shop(3)
    api.troubles["sendMessage"] += [Answer(400, "Bad Request: no"), Answer(400, "Bad Request: no")]

    async def main() -> None:
        async with served(api, who, log) as telegram:
            api.say("Sell three")
            await until(lambda: len(api.sent) >= 1)
            api.say("/approve")
            await until(lambda: len(api.sent) >= 2 and not api.unconfirmed())
            await telegram.drain()

    asyncio.run(main())

    assert api.texts()[0] == "(This cannot be shown here: No)"
    assert sold == []
