"""An answer is made anew from where its request was made: in place of the old one, or beside it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

import stenolog
from stenolog import Agent, AssistantMessage, Conversation, Entry, ModeSwitch, Team, UserMessage
from stenolog.adapters.verify import verify
from stenolog.domain.errors import IllegalCommand, ModelFailed
from stenolog.engine import regenerate
from stenolog.models import Prompt, Scripted


def reply(prompt: Prompt) -> str:
    """A mail of a length that depends on what was wished for."""
    return "short" if "Shorter" in str(prompt.body) else f"a long mail of {prompt.lane}"


def score(answer: AssistantMessage) -> dict[str, Any]:
    return {"quality": {"words": len(answer.text.split())}}


def writer(**options: Any) -> Agent:
    return Agent("writer", llm=Scripted(reply, endless=True), notes=score, **options)


@pytest.fixture
def talk() -> Iterator[Conversation]:
    """Three mails, written at once: at 6, 7 and 8."""
    with stenolog.open(":memory:") as log:
        talk = log["mails"]
        talk.append(ModeSwitch(joins=["writer"]), expected=0)
        talk.extend([UserMessage(text=f"mail {n}", to=[f"writer/{n}"]) for n in range(3)])
        run(talk)
        assert [entry.position for entry in answers(talk)] == [6, 7, 8]
        yield talk


def run(talk: Conversation) -> None:
    async def go() -> None:
        async for _ in Team([writer()], join=False).run(talk):
            pass

    asyncio.run(go())


def answers(talk: Conversation) -> list[Entry]:
    return [entry for entry in talk.entries() if isinstance(entry.event, AssistantMessage)]


def said(entry: Entry) -> AssistantMessage:
    assert isinstance(entry.event, AssistantMessage)
    return entry.event


def test_in_place_it_takes_the_place_of_the_old_answer_on_its_lane_alone(talk: Conversation) -> None:
    old = said(answers(talk)[1])
    entry = asyncio.run(regenerate(talk, 7, writer(), "Shorter, please."))

    anew = said(entry)
    assert (entry.conversation, entry.position, anew.replaces) == ("mails", 9, 7)
    assert (anew.text, anew.task, anew.meta["quality"]) == ("short", old.task, {"words": 1})
    assert talk.position == 9
    assert [item.hidden for item in talk.timeline() if item.position in (6, 7, 8, 9)] == [
        False,
        True,
        False,
        False,
    ]


def test_beside_it_the_conversation_stays_as_it_is_and_no_entry_is_copied(talk: Conversation) -> None:
    entry = asyncio.run(regenerate(talk, 7, writer(), "Shorter, please.", in_place=False))

    fork = talk.log[entry.conversation]
    assert talk.position == 8
    assert said(entry).text == "short"
    assert said(entry).receipt is not None
    own = [e for e in fork.entries() if e.id not in {each.id for each in talk.entries()}]
    assert [e.event.kind for e in own] == ["mode_switch", "user_message", "assistant_message"]
    assert verify(talk.log).ok


def test_the_same_wish_is_done_once_and_another_one_anew(talk: Conversation) -> None:
    once = asyncio.run(regenerate(talk, 7, writer(), "Shorter, please."))
    again = asyncio.run(regenerate(talk, 7, writer(), "Shorter, please."))
    other = asyncio.run(regenerate(talk, 7, writer(), "Shorter and kinder."))

    assert once == again
    assert (other.position, said(other).replaces) == (10, 7)


def test_a_model_that_fails_changes_nothing_and_is_asked_again_the_next_time(talk: Conversation) -> None:
    broken = Agent("writer", llm=Scripted(ModelFailed("unauthorized", "no key")))
    with pytest.raises(ModelFailed):
        asyncio.run(regenerate(talk, 7, broken, "Shorter, please."))
    assert talk.position == 8

    assert said(asyncio.run(regenerate(talk, 7, writer(), "Shorter, please."))).text == "short"


@pytest.mark.parametrize("position", [1, 3, 99])
def test_what_is_no_answer_of_the_agent_is_refused(talk: Conversation, position: int) -> None:
    with pytest.raises(IllegalCommand, match="expected an answer of 'writer'"):
        asyncio.run(regenerate(talk, position, writer()))


def test_notes_that_fail_lose_no_answer() -> None:
    def fails(answer: AssistantMessage) -> dict[str, Any]:
        raise ValueError("no words")

    agent = Agent("writer", llm=Scripted("Dear Ann"), notes=fails)
    with stenolog.open(":memory:") as log:
        assert Team([agent]).ask_sync(log["mail"], "Write.") == "Dear Ann"
        assert said(answers(log["mail"])[0]).meta == {"stenolog": {"notes": "failed: ValueError('no words')"}}
