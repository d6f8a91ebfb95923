"""Telegram where something goes wrong: the net, the server, the store, a chat that is gone, a token."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import stenolog
from stenolog import Log, TextPart, UserMessage
from stenolog.contrib.telegram import Telegram
from stenolog.parts import FilePart

from .given import BOT, OTHER, ROLE, echo, run, said, served, team, until
from .standin import BROKEN, FLOOD, HANGS_UP, KICKED, TOKEN, Answer, StandIn


def test_an_update_is_confirmed_only_once_it_is_in_the_log(
    api: StandIn, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    api.say("Hello")
    who, unconfirmed = team(), []
    say = who.send

    async def watched(*args: Any, **options: Any) -> Any:
        unconfirmed.append(api.unconfirmed())
        entries = await say(*args, **options)
        unconfirmed.append(api.unconfirmed())
        return entries

    monkeypatch.setattr(who, "send", watched)
    run(api, log, 1, who)

    assert (unconfirmed, api.unconfirmed()) == ([1, 1], 0)


def test_a_store_that_is_busy_delays_a_message_and_loses_none(
    api: StandIn, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    api.say("Hello")
    who, failures = (
        team(),
        [stenolog.errors.StoreTimeoutError("busy"), stenolog.errors.StoreTimeoutError("busy")],
    )
    say = who.send

    async def busy(*args: Any, **options: Any) -> Any:
        if failures:
            raise failures.pop()
        return await say(*args, **options)

    monkeypatch.setattr(who, "send", busy)

    assert run(api, log, 1, who) == ["you said Hello"]


def test_what_telegram_cannot_parse_is_sent_as_it_stands(api: StandIn, log: Log) -> None:
    api.troubles["sendMessage"].append(Answer(400, "Bad Request: can't parse entities: whatever"))
    api.say("*Hello*")

    assert run(api, log, 1) == ["you said *Hello*"]
    assert api.sent[0].mode == ""


def test_a_text_that_is_refused_in_every_form_leaves_a_note_and_what_follows_arrives(
    api: StandIn, log: Log
) -> None:
    api.troubles["sendMessage"].extend([Answer(400, "Bad Request: odd"), Answer(400, "Bad Request: odd")])
    api.say("one")
    run(api, log, 1)
    api.say("two")

    assert run(api, log, 2) == ["(This cannot be shown here: Odd)", "you said two"]


def test_flood_control_is_waited_for(api: StandIn, log: Log) -> None:
    api.troubles["sendMessage"].extend([FLOOD, FLOOD])
    api.troubles["getUpdates"].append(FLOOD)
    api.say("Hello")

    assert run(api, log, 1) == ["you said Hello"]
    assert api.asked.count("sendMessage") == 3


def test_failures_of_the_net_are_tried_again(api: StandIn, log: Log) -> None:
    api.troubles["getMe"].extend([HANGS_UP, BROKEN])
    api.troubles["getUpdates"].extend(
        [BROKEN, HANGS_UP, Answer(409, "Conflict: terminated by other getUpdates")]
    )
    api.troubles["sendMessage"].extend([BROKEN, HANGS_UP, Answer(500, "Internal Server Error")])
    api.say("Hello")

    assert run(api, log, 1) == ["you said Hello"]


def test_a_server_that_is_slow_is_waited_for(api: StandIn, log: Log) -> None:
    api.troubles["sendMessage"].append(Answer(after=0.3))
    api.say("Hello")

    assert run(api, log, 1) == ["you said Hello"]


def test_a_chat_that_the_bot_was_kicked_from_blocks_no_other(
    api: StandIn, log: Log, caplog: pytest.LogCaptureFixture
) -> None:
    api.closed[BOT, -5] = KICKED
    api.say("Hello", chat=-5)
    api.say("Hello", chat=1)
    run(api, log, 1, chats=[1, -5])
    note = "nothing goes to telegram:-5 any more: Forbidden: bot was kicked from the group chat"

    assert ([sent.chat for sent in api.sent], f"telegram--5: {note}" in caplog.messages) == ([1], True)
    assert log["telegram--5"].timeline()[-1].text == "you said Hello"


def test_what_could_not_be_delivered_is_once_the_bot_is_back(
    api: StandIn, log: Log, caplog: pytest.LogCaptureFixture
) -> None:
    api.closed[BOT, 1] = KICKED
    api.say("one")

    async def main() -> None:
        async with served(api, team(), log):
            await until(lambda: "nothing goes to" in caplog.text)
            api.closed.clear()
            api.say("two")
            await until(lambda: len(api.sent) == 2)

    asyncio.run(main())

    assert api.texts() == ["you said one", "you said two"]


def test_a_command_too_shows_that_the_bot_is_back(
    api: StandIn, log: Log, caplog: pytest.LogCaptureFixture
) -> None:
    api.closed[BOT, 1] = KICKED
    api.say("one")

    async def main() -> None:
        async with served(api, team(), log):
            await until(lambda: "nothing goes to" in caplog.text)
            api.closed.clear()
            api.say("/start")
            await until(lambda: len(api.sent) == 2)

    asyncio.run(main())

    assert "you said one" in api.texts()


def test_a_group_that_has_become_another_is_told_to_the_operator(
    api: StandIn, log: Log, caplog: pytest.LogCaptureFixture
) -> None:
    api.closed[BOT, -5] = Answer(400, "Bad Request: group upgraded", {"migrate_to_chat_id": -1005})
    api.say("Hello", chat=-5)
    api.say("Hello", chat=1)
    run(api, log, 1, chats=[1, -5])

    assert "the group has become chat -1005: allow that" in caplog.text


def test_a_message_that_cannot_be_taken_stops_no_other(
    api: StandIn, log: Log, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(Telegram, "_enter", _broken_for(-5, Telegram._enter))
    api.say("Hello", chat=-5)
    api.say("Hello", chat=1)

    assert run(api, log, 1, chats=[1, -5]) == ["you said Hello"]
    assert "chat -5: a message was not taken" in caplog.messages


def _broken_for(chat: int, enter: Any) -> Any:
    async def broken(self: Telegram, id: int) -> Any:
        if id == chat:
            raise stenolog.errors.CorruptLogError("broken")
        return await enter(self, id)

    return broken


@pytest.mark.parametrize("slow", [Answer(after=1.5), Answer(429, "Too Many Requests", {"retry_after": 2})])
def test_a_chat_that_is_slow_holds_up_no_other_and_is_confirmed_when_it_is_taken(
    api: StandIn, log: Log, slow: Answer
) -> None:
    api.files["d"] = b"document"
    api.troubles["getFile"].append(slow)
    unconfirmed = []

    async def main() -> None:
        async with served(api, team(), log, chats=[1, 2]) as telegram:
            api.say(document={"file_id": "d", "file_unique_id": "d"})
            await until(lambda: "getFile" in api.asked)
            api.say("behind it")
            api.say("Hello", chat=2)
            await until(lambda: api.texts(2))
            unconfirmed.append((api.unconfirmed(), api.texts(1)))
            await until(lambda: not api.unconfirmed())
            await telegram.drain()

    asyncio.run(main())
    told = [e.event for e in log["telegram-1"].entries() if isinstance(e.event, UserMessage)]

    assert unconfirmed == [(3, [])]
    assert [[type(part) for part in message.parts] for message in told] == [[FilePart], [TextPart]]


def test_what_was_not_taken_when_it_was_stopped_is_told_again(api: StandIn, log: Log) -> None:
    api.files["d"] = b"document"
    api.troubles["getFile"].append(Answer(after=5))

    async def main() -> None:
        async with served(api, team(), log, chats=[1, 2]):
            api.say("Hello", chat=2)
            api.say(document={"file_id": "d", "file_unique_id": "d"})
            api.say("behind it", chat=2)
            await until(lambda: len(said(log, "telegram-2")) == 2)

    asyncio.run(main())

    assert (api.unconfirmed(), "telegram-1" in log) == (2, False)
    run(api, log, 2, chats=[1, 2])
    assert (len(said(log)), len(said(log, "telegram-2"))) == (1, 2)


def test_a_store_that_is_busy_while_a_chat_is_opened_leaves_it_deaf_no_longer(
    api: StandIn, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, failures = stenolog.Conversation.position, [stenolog.errors.StoreTimeoutError("busy")]

    def busy(conversation: stenolog.Conversation) -> int:
        if failures:
            raise failures.pop()
        return real.fget(conversation)  # type: ignore[attr-defined, no-any-return]

    monkeypatch.setattr(stenolog.Conversation, "position", property(busy))
    api.say("one")

    assert run(api, log, 1) == ["you said one"]


def test_a_conversation_that_was_deleted_elsewhere_begins_anew(api: StandIn, log: Log) -> None:
    async def main() -> None:
        async with served(api, team(), log) as telegram:
            api.say("one")
            await until(lambda: api.sent)
            await telegram.drain()
            with stenolog.open(log.path) as other:
                other["telegram-1"].delete()
            api.say("two")
            await until(lambda: len(api.sent) == 2)

    asyncio.run(main())

    assert api.texts() == ["you said one", "you said two"]
    assert [m.text for m in said(log)] == ["two"]


def test_another_first_bot_says_nothing_again(api: StandIn, log: Log) -> None:
    api.say("one")
    run(api, log, 1)
    api.say("two", bots=(ROLE,))

    assert run(api, log, 2, token=OTHER) == ["you said one", "you said two"]


def test_a_bot_that_was_muted_speaks_again_once_somebody_writes(api: StandIn, log: Log) -> None:
    tokens = {"dev": TOKEN, "qa": OTHER}
    api.closed[ROLE, -1] = KICKED

    async def main() -> None:
        async with served(api, team(echo, "dev", "qa"), log, tokens=tokens, chats=[-1]):
            api.say("@qa one", chat=-1)
            await until(lambda: len(api.sent) == 1)
            api.closed.clear()
            api.say("@qa two", chat=-1)
            await until(lambda: len(api.sent) == 2)

    asyncio.run(main())

    assert [sent.bot for sent in api.sent] == [BOT, ROLE]


def test_a_group_that_moves_is_told_to_the_operator_as_it_does(
    api: StandIn, log: Log, caplog: pytest.LogCaptureFixture
) -> None:
    api.say(chat=-5, migrate_to_chat_id=-1005)
    api.say(chat=-6, migrate_to_chat_id=-1006)
    api.say("Hello")
    run(api, log, 1, chats=[1, -5])

    assert [line for line in caplog.messages if "has become" in line] == [
        "chat -5 has become chat -1005: allow that"
    ]


def test_a_live_location_is_answered_once(api: StandIn, log: Log) -> None:
    where = {"latitude": 1.0, "longitude": 2.0, "live_period": 900}
    first = api.say(location=where)
    for _ in range(3):
        api.say(edit=first, location=where)
    api.say(location=where)
    api.say("Hello")

    assert sorted(run(api, log, 2)) == ["I can take text, pictures and documents only.", "you said Hello"]


def test_replies_to_commands_come_in_order_though_one_fails(api: StandIn, log: Log) -> None:
    api.troubles["sendMessage"].append(BROKEN)
    for text in ("/start", "/status", "/nope"):
        api.say(text)

    assert [text.split()[0] for text in run(api, log, 3)] == ["Here", "0", "There"]
