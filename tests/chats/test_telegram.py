"""Telegram, against a stand-in for its server: what is heard, what is said, and who is not listened to."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator
from typing import Any

import pytest

import stenolog
from stenolog import AssistantMessage, Log, ModeSwitch, ToolCall, UserMessage
from stenolog.chats import split, utf16_length
from stenolog.contrib.telegram import Telegram
from stenolog.contrib.telegram import chat as telegram_chat
from stenolog.engine import RoundRobin
from stenolog.models import Model, ModelRequest, ResponseDelta, Scripted, StreamItem
from stenolog.models import ModelResponse as ModelAnswer
from stenolog.parts import FilePart, ImagePart

from .given import BOT, OTHER, ROLE, asked, echo, run, said, served, team, until
from .standin import KICKED, TOKEN, USER, StandIn


def test_a_message_is_answered(api: StandIn, log: Log) -> None:
    message = api.say("Hello.")

    assert run(api, log, 1) == ["you said Hello."]
    assert [(m.author, m.text) for m in said(log)] == [("Ann Lee", "Hello.")]
    assert said(log)[0].source == stenolog.events.Origin(system="telegram", id=f"1/{message}")
    assert f"telegram:{BOT}:1:{message}" in [entry.id for entry in log["telegram-1"].entries()]
    assert api.sent[0].mode == "MarkdownV2"


def test_each_chat_has_a_conversation_of_its_own(api: StandIn, log: Log) -> None:
    for chat in (1, 2, -3):
        api.say(f"from {chat}", chat)
    run(api, log, 3, chats=[1, 2, -3])

    assert sorted(log) == ["telegram--3", "telegram-1", "telegram-2"]
    assert {sent.chat: sent.text for sent in api.sent} == {n: f"you said from {n}" for n in (1, 2, -3)}


def test_a_function_may_name_the_conversation(api: StandIn, log: Log) -> None:
    api.say("Hello")
    run(api, log, 1, conversation=lambda chat: f"crew/{chat}")

    assert list(log) == ["crew/1"]


def test_a_chat_that_is_not_allowed_gets_no_answer_and_leaves_no_trace(
    api: StandIn, log: Log, caplog: pytest.LogCaptureFixture
) -> None:
    for text in ("Hello", "/status", "/reset"):
        api.say(text, chat=66)
    api.say("Hello", chat=1)
    with caplog.at_level(logging.INFO, "stenolog.chats"):
        run(api, log, 1)

    assert ({sent.chat for sent in api.sent}, list(log)) == ({1}, ["telegram-1"])
    assert "chat 66 is not allowed: it gets no answer" in caplog.messages


def test_no_chat_is_allowed_unless_it_is_named(api: StandIn, log: Log) -> None:
    api.say("Hello")
    run(api, log, 0, chats=())

    assert (api.sent, list(log)) == ([], [])


def test_what_is_delivered_twice_is_stored_once(api: StandIn, log: Log) -> None:
    api.say("Hello")
    [update] = api._updates[BOT]
    run(api, log, 1)
    api._updates[BOT].append(update)
    run(api, log, 1)
    api._updates[BOT].append(update | {"update_id": 99})
    run(api, log, 1)

    assert ([message.text for message in said(log)], api.texts()) == (["Hello"], ["you said Hello"])


def test_an_edited_message_takes_the_place_of_its_last_wording(api: StandIn, log: Log) -> None:
    message = api.say("one")
    run(api, log, 1)
    api.say("two", edit=message)
    run(api, log, 2)
    api.say("three", edit=message)
    api.say("three", edit=message)
    run(api, log, 3)
    positions = {
        e.event.text: e.position for e in log["telegram-1"].entries() if isinstance(e.event, UserMessage)
    }

    assert [(m.text, m.replaces) for m in said(log)] == [
        ("one", None),
        ("two", positions["one"]),
        ("three", positions["two"]),
    ]


def test_an_edit_of_what_was_never_heard_is_a_new_message(api: StandIn, log: Log) -> None:
    api.say("short now", edit=17)

    assert run(api, log, 1) == ["you said short now"]


def test_long_answers_arrive_in_pieces_with_their_code_whole(api: StandIn, log: Log) -> None:
    code = [f"value_{nth} = {nth} * 'x'  # 😀" for nth in range(400)]
    answer = "\n".join(["It is **this**.", "```python", *code, "```", "Done."])
    api.say("Code, please")
    run(api, log, 1, team(lambda _: answer))
    lines = [line for text in api.texts() for line in text.splitlines()]

    assert [line for line in lines if line.startswith("value_")] == code
    assert [sent for sent in api.sent if utf16_length(sent.raw) > 4096 or sent.mode != "MarkdownV2"] == []
    assert all(sent.raw.count("```") % 2 == 0 for sent in api.sent)
    assert (lines[0], lines[-1]) == ("It is this.", "Done.")


def test_a_restart_goes_on_with_what_is_unfinished_and_delivers_what_was_not(api: StandIn, log: Log) -> None:
    conversation = log["telegram-1"]
    conversation.append(AssistantMessage(agent="coder", text="imported, and never said here"))
    conversation.append(UserMessage(text="one"), id=f"telegram:{BOT}:1:1")
    conversation.append(AssistantMessage(agent="coder", text="answered before the crash"))
    asyncio.run(team().send(conversation, "two"))

    assert run(api, log, 2) == ["answered before the crash", "you said two"]
    assert run(api, log, 2) == ["answered before the crash", "you said two"]


def test_it_opens_its_bots_itself_where_nobody_has(api: StandIn, log: Log) -> None:
    api.say("/start")

    async def main() -> None:
        telegram = Telegram(team(), log, token=TOKEN, chats=[1], base_url=api.url, poll=1)
        serving = asyncio.create_task(telegram.serve())
        await until(lambda: api.sent)
        telegram.stop()
        await serving

    asyncio.run(main())

    assert api.asked[0] == "getMe"


def test_a_bot_shows_that_somebody_is_at_work(api: StandIn, log: Log) -> None:
    api.say("Hello")
    slow = stenolog.Team([stenolog.Agent("coder", llm=Scripted(echo, pause=0.05, piece=3))])
    run(api, log, 1, slow)

    assert api.actions == [(BOT, 1)]


class Busy(Model):
    """Does two things by itself, each once the one before was shown."""

    provider, api, name = "x", "plain", "busy"

    def __init__(self, telegram: StandIn) -> None:
        self.telegram = telegram

    async def stream(self, prompt: ModelRequest) -> AsyncGenerator[StreamItem, None]:
        yield ResponseDelta(0, "act", '{"type":"note","text":"edit a.py"}', "command-line")
        await until(lambda: self.telegram.sent)
        yield ResponseDelta(1, "act", '{"type":"note","text":"edit b.py"}', "command-line")
        await until(lambda: self.telegram.edits)
        yield ModelAnswer((stenolog.TextPart(text="Done."),))


def test_what_a_program_does_by_itself_shows_in_one_message(
    api: StandIn, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(telegram_chat, "SHOWN", 0.02)
    api.say("Hello")
    who = stenolog.Team([stenolog.Agent("coder", llm=Busy(api))])

    assert run(api, log, 2, who) == ["⚙ coder: note: edit a.py", "Done."]
    assert [text for _, text in api.edits] == ["⚙ coder: note: edit b.py"]


def test_what_is_said_while_agents_work_is_heard_by_the_next_step(api: StandIn, log: Log) -> None:
    begun = asyncio.Event()

    async def look() -> str:
        """Look."""
        begun.set()
        await until(lambda: any(m.text == "and this" for m in said(log)))
        return "seen"

    def reply(prompt: ModelRequest) -> object:
        if prompt.body["messages"][-1]["role"] == "tool" or "and this" in str(prompt.body):
            return f"heard {'both' if 'and this' in str(prompt.body) else 'one'}"
        return ToolCall(id="1", name="look")

    who = stenolog.Team([stenolog.Agent("coder", llm=Scripted(reply, endless=True), tools=[look])])

    async def main() -> None:
        async with served(api, who, log):
            api.say("this")
            await begun.wait()
            api.say("and this")
            await until(lambda: api.texts())

    asyncio.run(main())

    assert set(api.texts()) == {"heard both"}


def test_several_agents_behind_one_bot_have_their_names_above_their_answers(api: StandIn, log: Log) -> None:
    passing = RoundRobin(pass_token=".....")

    def reply(prompt: ModelRequest) -> str:
        return "....." if "said" in str(prompt.body) else "I said it."

    api.say("Hello")
    run(api, log, 1, team(reply, "dev", "qa", turns=passing), names={"dev": "Backend_Dev"})

    assert api.texts() == ["Backend_Dev\nI said it."]


def test_a_mention_and_an_answer_say_whom_a_message_is_for(api: StandIn, log: Log) -> None:
    api.say("@QA, look at this. mail@dev.org")
    quoted = {
        "message_id": 9,
        "date": 1,
        "chat": {"id": 1, "type": "private"},
        "text": "The Backend Dev\nI said it.",
    }
    quoted["from"] = {"id": BOT, "is_bot": True, "first_name": "Bot"}
    api.say("why?", reply_to_message=quoted)
    api.say("all")
    run(api, log, 2, team(echo, "dev", "qa"), names={"dev": "The *Backend* Dev"})

    assert [tuple(message.to) for message in said(log)] == [("qa",), ("dev",), ()]


def test_each_agent_may_have_a_bot_of_its_own(api: StandIn, log: Log) -> None:
    api.say("to the crew", chat=-1, bots=(BOT, ROLE))
    run(api, log, 2, team(echo, "dev", "qa"), tokens={"dev": TOKEN, "qa": OTHER}, chats=[-1])

    assert [message.text for message in said(log, "telegram--1")] == ["to the crew"]
    assert sorted(sent.bot for sent in api.sent) == [BOT, ROLE]
    assert {sent.text for sent in api.sent} == {"you said to the crew"}


def test_in_a_basic_group_where_ids_are_each_bots_own_the_first_one_listens(api: StandIn, log: Log) -> None:
    for id, bot in ((5, BOT), (9, ROLE)):
        chat = {"id": -1, "type": "group"}
        api.push(bot, {"message": {"message_id": id, "date": 1, "chat": chat, "from": USER, "text": "Hello"}})
    run(api, log, 2, team(echo, "dev", "qa"), tokens={"dev": TOKEN, "qa": OTHER}, chats=[-1])

    assert [message.text for message in said(log, "telegram--1")] == ["Hello"]


def test_alone_with_the_bot_of_an_agent_one_speaks_with_that_agent(api: StandIn, log: Log) -> None:
    api.say("to qa", bots=(ROLE,))
    run(api, log, 1, team(echo, "dev", "qa"), tokens={"dev": TOKEN, "qa": OTHER})

    assert (tuple(said(log)[0].to), [sent.bot for sent in api.sent]) == (("qa",), [ROLE])


def test_the_first_bot_speaks_for_one_that_may_not(api: StandIn, log: Log) -> None:
    api.closed[ROLE, -1] = KICKED
    api.say("@bot654321 hello", chat=-1)
    run(api, log, 1, team(echo, "dev", "qa"), tokens={"dev": TOKEN, "qa": OTHER}, chats=[-1])

    assert [(sent.bot, sent.text) for sent in api.sent] == [(BOT, "qa\nyou said @bot654321 hello")]


def test_pictures_and_documents_become_parts(api: StandIn, log: Log) -> None:
    api.files |= {"p": b"picture", "d": b"document"}
    sizes = [{"file_id": f, "file_unique_id": f, "width": w, "height": w} for f, w in (("s", 9), ("p", 90))]
    api.say(photo=sizes, caption="look")
    run(api, log, 1)  # said together, both might be answered at once
    api.say(document={"file_id": "d", "file_unique_id": "d", "file_name": "a.csv", "mime_type": "text/csv"})
    run(api, log, 2)
    first, second = said(log)

    assert isinstance(first.parts[1], ImagePart)
    assert isinstance(second.parts[0], FilePart)
    assert (first.text, log.blobs[first.parts[1].blob]) == ("look", b"picture")
    assert (second.parts[0].name, second.parts[0].media_type) == ("a.csv", "text/csv")
    assert log.blobs[second.parts[0].blob] == b"document"


def test_what_is_too_much_or_too_strange_is_refused_with_a_reason(api: StandIn, log: Log) -> None:
    api.say("long " * 100)
    api.say(voice={"file_id": "v", "file_unique_id": "v", "duration": 3})
    api.say(document={"file_id": "d", "file_unique_id": "d", "file_size": 2000})
    texts = run(api, log, 3, longest=100, largest=1000)

    assert sorted(texts) == [
        "I can take text, pictures and documents only.",
        "That is too large: 2,000 bytes, and I can take 1,000.",
        "That is too long: 500 characters, and I can take 100.",
    ]
    assert list(log) == []


def test_a_file_that_is_larger_than_it_claims_is_refused(api: StandIn, log: Log) -> None:
    api.files["d"] = b"x" * 2000
    api.say(document={"file_id": "d", "file_unique_id": "d", "file_size": 10})

    assert run(api, log, 1, largest=1000) == [
        "I could not take that: it has 2,000 bytes, and I can take 1,000"
    ]
    assert list(log) == []


def test_what_nobody_has_said_is_no_message(api: StandIn, log: Log) -> None:
    api.say(new_chat_members=[USER])
    api.say("from another bot", sender={"id": 8, "is_bot": True, "first_name": "B"})
    api.say("Hello")

    assert run(api, log, 1) == ["you said Hello"]
    assert len(said(log)) == 1


def test_reset_is_a_new_start_for_the_agents_and_loses_nothing(api: StandIn, log: Log) -> None:
    def reply(prompt: ModelRequest) -> str:
        return (
            f"{sum(m['role'] == 'user' for m in prompt.body['messages'])} messages, the last: {asked(prompt)}"
        )

    api.say("one")
    run(api, log, 1, team(reply))
    api.say("two")
    run(api, log, 2, team(reply))
    api.say("/reset")
    run(api, log, 3, team(reply))
    api.say("three")
    run(api, log, 4, team(reply))
    resets = [e.id for e in log["telegram-1"].entries() if isinstance(e.event, ModeSwitch)]

    assert api.texts() == [
        "1 messages, the last: one",
        "2 messages, the last: two",
        "A new start: the agents no longer see entries 1 to 5. The log keeps them.",
        "1 messages, the last: three",
    ]
    assert (log["telegram-1"].settings().context_from, resets[-1]) == (6, f"telegram:{BOT}:1:5")
    assert [item.text for item in log["telegram-1"].timeline() if item.text][:2] == ["one", api.texts()[0]]


def test_an_answer_goes_to_the_topic_that_it_was_asked_in(api: StandIn, log: Log) -> None:
    def look() -> str:
        """Look."""
        return "seen"

    def reply(prompt: ModelRequest) -> object:
        is_done = prompt.body["messages"][-1]["role"] == "tool"
        return "Seen." if is_done else ToolCall(id="1", name="look")

    who = stenolog.Team([stenolog.Agent("coder", llm=Scripted(reply, endless=True), tools=[look])])
    api.topics.add(77)
    for topic, count in ((77, 1), (66, 2), (0, 3)):
        within: dict[str, Any] = {"message_thread_id": topic, "is_topic_message": True} if topic else {}
        api.say("Hello", chat=-1, **within)
        run(api, log, count, who, chats=[-1])
    api.say("/start", chat=-1, message_thread_id=77, is_topic_message=True)
    run(api, log, 4, who, chats=[-1])

    assert [sent.topic for sent in api.sent] == [77, 0, 0, 77]


def test_commands_for_other_bots_are_not_ours(api: StandIn, log: Log) -> None:
    api.say("/status@another_bot", chat=-1)
    api.say("/status@bot123456", chat=-1)

    assert run(api, log, 1, chats=[-1]) == ["0 entries. Nobody has the turn.\n• coder: rests"]
    assert list(log) == []


def test_a_long_answer_is_cut_where_the_house_cuts_it(api: StandIn, log: Log) -> None:
    api.say("Hello")
    run(api, log, 1, team(lambda _: "word " * 2000))

    assert api.texts() == split("word " * 2000)
