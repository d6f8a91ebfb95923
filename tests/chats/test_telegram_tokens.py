"""Tokens of Telegram: which are taken, what becomes of one that is refused, and that nobody sees them."""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import stenolog
from stenolog import Log, ToolCall
from stenolog.contrib.telegram import Telegram
from stenolog.contrib.telegram.service import channel
from stenolog.errors import CallerError
from stenolog.models import ModelRequest, Scripted
from stenolog.tools import ToolContext, tool
from tests.file_bytes import files_with

from .given import BOT, OTHER, ROLE, at_once, echo, run, served, team, until
from .standin import BROKEN, FLOOD, HANGS_UP, TOKEN, USER, Answer, StandIn


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"chats": ["1"]}, "chats: expected ids such as 123 or -1001234, found '1'"),
        ({"token": "", "tokens": {"a": TOKEN, "b": TOKEN}}, "tokens: expected a bot for each of a, b"),
    ],
)
def test_what_cannot_be_meant_is_refused(log: Log, options: dict[str, Any], expected: str) -> None:
    with pytest.raises(CallerError, match=expected):
        Telegram(team(echo, "a", "b"), log, **{"token": TOKEN, **options})


def test_without_the_library_the_error_is_the_line_that_installs_it() -> None:
    code = (
        "import sys; sys.modules['telegram'] = None\n"
        "import stenolog; from stenolog.contrib.telegram import Telegram\n"
        "try: Telegram(None, None, token='1:abc')\n"
        "except stenolog.errors.MissingExtraError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout == 'python-telegram-bot is not installed: pip install "stenolog[telegram]"\n'


def test_what_is_no_token_is_refused_without_being_shown(log: Log) -> None:
    with pytest.raises(CallerError) as caught:
        Telegram(team(), log, token="no:token at all")

    assert str(caught.value) == "token: expected one such as 123456:ABC-def, found 15 other characters"


@pytest.mark.parametrize("options", [{}, {"token": TOKEN, "tokens": {"coder": TOKEN}}])
def test_there_is_one_bot_for_all_or_one_for_each(log: Log, options: dict[str, Any]) -> None:
    with pytest.raises(CallerError, match="token=, or tokens="):
        Telegram(team(), log, **options)


def test_a_bot_for_nobody_in_the_team_is_refused(log: Log) -> None:
    with pytest.raises(CallerError, match="expected agents of the team, found cook"):
        Telegram(team(), log, tokens={"cook": TOKEN})


def test_a_token_that_telegram_refuses_ends_it(api: StandIn, log: Log) -> None:
    api.troubles["getMe"].append(Answer(401, "Unauthorized"))

    async def main() -> None:
        async with served(api, team(), log):
            pass

    with pytest.raises(CallerError, match="Telegram refuses the token of bot 123456"):
        asyncio.run(main())


@pytest.mark.parametrize("status", [401, 404])
def test_one_answer_as_to_an_unknown_bot_silences_no_chat(api: StandIn, log: Log, status: int) -> None:
    api.troubles["sendMessage"].append(Answer(status, "Not Found"))
    api.say("one")

    assert run(api, log, 1) == ["you said one"]


def test_a_token_that_is_withdrawn_meanwhile_ends_it_too(api: StandIn, log: Log) -> None:
    api.troubles["getUpdates"].append(Answer(401, "Unauthorized"))

    async def main() -> None:
        async with Telegram(team(), log, token=TOKEN, base_url=api.url, backoff=at_once) as telegram:
            await telegram.serve()

    with pytest.raises(CallerError, match="Telegram refuses the token of bot 123456"):
        asyncio.run(main())


def test_the_token_is_in_no_log_no_error_no_repr_and_no_file(
    api: StandIn, log: Log, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    api.troubles["sendMessage"].extend(
        [BROKEN, HANGS_UP, FLOOD, Answer(400, "Bad Request: can't parse entities")]
    )
    api.troubles["getFile"].extend([HANGS_UP, BROKEN])
    api.files["d"] = b"document"
    api.say("Hello")
    api.say(document={"file_id": "d", "file_unique_id": "d"})
    with caplog.at_level(logging.DEBUG):
        run(api, log, 2)
    shown = [f"{record.getMessage()} {record.args} {record.exc_info}" for record in caplog.records]
    telegram = Telegram(team(), log, token=TOKEN, base_url=api.url)
    secret = TOKEN.partition(":")[2]

    assert [line for line in [*shown, repr(telegram)] if secret in line] == []
    assert any("HTTP Request: POST" in line for line in shown)
    assert files_with(tmp_path, secret.encode()) == []
    assert repr(telegram) == "<Telegram bot 123456 in 0 chats>"


def test_the_channel_of_the_command_has_a_bot_for_each_role_in_chats_that_were_imported(
    api: StandIn, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DEV", TOKEN)
    monkeypatch.setenv("QA", OTHER)
    api.say("And the cookie?", chat=42, bots=(BOT, ROLE))
    options: dict[str, Any] = {"tokens": {"dev": "DEV", "qa": "QA"}, "conversation": "chat_{}"}
    served_by = partial(channel, team(echo, "dev", "qa"), log, chats=[42], base_url=api.url)

    async def main() -> None:
        serving = asyncio.create_task((telegram := served_by(**options)).serve())
        await until(lambda: len(api.sent) > 1 and not api.unconfirmed())
        telegram.stop()
        await serving

    asyncio.run(main())

    assert (list(log), sorted(sent.bot for sent in api.sent)) == (["chat_42"], [BOT, ROLE])
    with pytest.raises(
        CallerError, match="expected the bot's token in the environment variable that is"
    ) as no:
        channel(team(echo, "dev"), log, chats=[], tokens={"dev": OTHER})
    assert OTHER not in str(no.value)


# Calls that wait for a person in a chat of Telegram: a button, a reply or a code decides one.


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


def test_a_question_of_a_tool_has_a_button_for_each_choice_and_a_text_answers_it_too(
    api: StandIn, log: Log
) -> None:
    @tool
    async def book(call: ToolContext) -> str:
        """Book."""
        return f"{await call.ask('Which?', choices=['8:15', '9:40'])}, {await call.ask('Who?')}"

    def reply(prompt: ModelRequest) -> object:
        last = prompt.body["messages"][-1]
        return last["content"] if last["role"] == "tool" else ToolCall(id="1", name="book")

    model = Scripted(reply, endless=True)
    who = stenolog.Team([stenolog.Agent("coder", llm=model, tools=[book])])
    api.say("Book")
    run(api, log, 1, who)
    [asked] = api.sent
    api.press(asked, "9:40", "p1")
    run(api, log, 3, who)
    api.say("Ann")
    texts = run(api, log, 4, who)

    assert [*asked.buttons] == ["8:15", "9:40", "Refuse"]
    assert texts[-1] == "9:40, Ann"
