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

from stenolog import Log
from stenolog.contrib.telegram import Telegram
from stenolog.contrib.telegram.service import channel
from stenolog.errors import CallerError
from tests.file_bytes import files_with

from .given import BOT, OTHER, ROLE, at_once, echo, run, served, team, until
from .standin import BROKEN, FLOOD, HANGS_UP, TOKEN, Answer, StandIn


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
