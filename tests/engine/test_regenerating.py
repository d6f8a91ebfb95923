"""An answer is made anew from where its request was made: in place of the old one, or beside it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator
from typing import Any

import pytest

import stenolog
from stenolog import Agent, AssistantMessage, Conversation, Entry, Event, ModeSwitch, Team, UserMessage
from stenolog.engine import regenerate
from stenolog.errors import IllegalCommandError, ModelError, PositionNotFoundError
from stenolog.events import PositionRange
from stenolog.maintenance import verify
from stenolog.models import ModelRequest, ModelResponse, ResponseDelta, Scripted


def reply(prompt: ModelRequest) -> str:
    """Return a mail of a length that depends on what was wished for."""
    return "short" if "Shorter" in str(prompt.body) else f"a long mail of {prompt.lane}"


def score(answer: AssistantMessage) -> dict[str, Any]:
    return {"quality": {"words": len(answer.text.split())}}


def writer(**options: Any) -> Agent:
    return Agent("writer", llm=Scripted(reply, endless=True), metadata=score, **options)


@pytest.fixture
def conversation() -> Iterator[Conversation]:
    """Yield three mails, written at once: at 6, 7 and 8."""
    with stenolog.open(":memory:") as log:
        conversation = log["mails"]
        conversation.append(ModeSwitch(joins=["writer"]), expected=0)
        conversation.extend([UserMessage(text=f"mail {n}", to=[f"writer/{n}"]) for n in range(3)])
        run(conversation)
        assert [entry.position for entry in answers(conversation)] == [6, 7, 8]
        yield conversation


def run(conversation: Conversation) -> None:
    async def go() -> None:
        async for _ in Team([writer()], join=False).run(conversation):
            pass

    asyncio.run(go())


def answers(conversation: Conversation) -> list[Entry]:
    return [entry for entry in conversation.entries() if isinstance(entry.event, AssistantMessage)]


def said(entry: Entry) -> AssistantMessage:
    assert isinstance(entry.event, AssistantMessage)
    return entry.event


def test_in_place_it_takes_the_place_of_the_old_answer_on_its_lane_alone(conversation: Conversation) -> None:
    old = said(answers(conversation)[1])
    entry = asyncio.run(regenerate(conversation, 7, writer(), "Shorter, please."))

    anew = said(entry)
    assert (entry.conversation, entry.position, anew.replaces) == ("mails", 9, 7)
    assert (anew.text, anew.task, anew.meta["quality"]) == ("short", old.task, {"words": 1})
    assert conversation.position == 9
    assert [item.hidden for item in conversation.timeline() if item.position in (6, 7, 8, 9)] == [
        False,
        True,
        False,
        False,
    ]


def test_beside_it_the_conversation_stays_as_it_is_and_no_entry_is_copied(conversation: Conversation) -> None:
    entry = asyncio.run(regenerate(conversation, 7, writer(), "Shorter, please.", in_place=False))

    fork = conversation.log[entry.conversation]
    assert conversation.position == 8
    assert said(entry).text == "short"
    assert said(entry).receipt is not None
    own = [e for e in fork.entries() if e.id not in {each.id for each in conversation.entries()}]
    assert [e.event.kind for e in own] == ["mode_switch", "user_message", "assistant_message"]
    assert verify(conversation.log).ok


def test_the_same_wish_is_done_once_and_another_one_anew(conversation: Conversation) -> None:
    once = asyncio.run(regenerate(conversation, 7, writer(), "Shorter, please."))
    again = asyncio.run(regenerate(conversation, 7, writer(), "Shorter, please."))
    other = asyncio.run(regenerate(conversation, 7, writer(), "Shorter and kinder."))

    assert once == again
    assert (other.position, said(other).replaces) == (10, 7)


def test_the_model_is_shown_the_answer_that_is_to_be_changed_as_it_stands_now(room: Conversation) -> None:
    seen = list[str]()

    def listen(prompt: ModelRequest) -> str:
        seen.append(str(prompt.body["messages"][-1]["content"]))
        return "better"

    of(room, 5, listen, wish="Shorter.")
    of(room, 5, listen, wish="Kinder.")
    of(room, 5, listen)

    assert "Shorter.\n\nThe answer that is to be changed:\n\nanswer 2" in seen[0]
    assert "Kinder.\n\nThe answer that is to be changed:\n\nbetter" in seen[1]
    assert "to be changed" not in seen[2]


def test_a_model_that_fails_changes_nothing_and_is_asked_again_the_next_time(
    conversation: Conversation,
) -> None:
    broken = Agent("writer", llm=Scripted(ModelError("unauthorized", "no key")))
    with pytest.raises(ModelError):
        asyncio.run(regenerate(conversation, 7, broken, "Shorter, please."))
    assert conversation.position == 8

    assert said(asyncio.run(regenerate(conversation, 7, writer(), "Shorter, please."))).text == "short"


def of(
    conversation: Conversation, position: int, *turns: Any, wish: str = "", **options: Any
) -> AssistantMessage:
    """Return the answer at a position made again by a writer who says these things."""
    agent = Agent("writer", llm=Scripted(*turns))
    return said(asyncio.run(regenerate(conversation, position, agent, wish, **options)))


def shown(conversation: Conversation) -> list[str]:
    return [message["content"] for message in conversation.request("writer").body["messages"]]


@pytest.fixture
def room() -> Iterator[Conversation]:
    """Yield two questions, to nobody by name, and their answers: at 3 and 5."""
    with stenolog.open(":memory:") as log:
        conversation = log["room"]
        for n in (1, 2):
            Team([Agent("writer", llm=Scripted(f"answer {n}"))]).ask_sync(conversation, f"question {n}")
        yield conversation


def test_what_was_asked_since_is_still_to_be_answered(room: Conversation) -> None:
    room.append(UserMessage(text="question 3"))
    of(room, 5, "answer 2 anew")

    assert shown(room)[-3:] == ["question 2", "answer 2 anew", "question 3"]
    assert room.state().lane("writer").status == "awaiting_llm"
    assert Team([Agent("writer", llm=Scripted("answer 3"))]).ask_sync(room) == "answer 3"


class Held(Scripted):
    """A script that waits for a moment before it answers."""

    moment: asyncio.Event

    async def stream(self, prompt: ModelRequest) -> AsyncGenerator[ResponseDelta | ModelResponse, None]:
        """Yield the next turn of the script, once the moment has come."""
        await self.moment.wait()
        async for piece in super().stream(prompt):
            yield piece


def test_an_answer_that_is_being_written_is_written_to_its_end(room: Conversation) -> None:
    async def main() -> str:
        model = Held("answer 3")
        model.moment = asyncio.Event()
        asking = asyncio.create_task(Team([Agent("writer", llm=model)]).ask(room, "question 3"))
        while room.position < 6:
            await asyncio.sleep(0.01)
        await regenerate(room, 3, Agent("writer", llm=Scripted("answer 1 anew")))
        model.moment.set()
        return str(await asking)

    assert asyncio.run(main()) == "answer 3"
    assert [said(entry).text for entry in room.entries(6)] == ["answer 1 anew", "answer 3"]


def test_it_is_said_to_whom_the_old_one_was_said_and_asks_nobody_again() -> None:
    with stenolog.open(":memory:") as log:
        conversation = log["room"]
        conversation.append(ModeSwitch(joins=["writer", "tester"], scope="addressed"), expected=0)
        conversation.append(UserMessage(text="Write.", to=["writer"]))
        conversation.append(AssistantMessage(agent="writer", text="@tester, test it.", to=["tester"]))
        conversation.append(AssistantMessage(agent="tester", text="Tested.", to=["user"]))
        anew = of(conversation, 3, "@user and @tester, test it well.")

        assert anew.to == ("tester",)
        assert {lane.status for lane in conversation.state().lanes.values()} == {"idle"}


def test_what_came_of_the_fork_since_is_not_what_was_wished_for(room: Conversation) -> None:
    beside = asyncio.run(regenerate(room, 5, writer(), "Shorter", in_place=False))
    fork = room.log[beside.conversation]
    Team([Agent("writer", llm=Scripted("Paris"))], join=False).ask_sync(fork, "The capital of France?")

    anew = of(room, 5, wish="Shorter")
    link = anew.meta["stenolog"]
    assert (anew.text, link["child"]["position"]) == ("short", beside.position)  # type: ignore[call-overload,index]


def test_an_answer_behind_another_one_of_its_agent_is_asked_for(room: Conversation) -> None:
    room.append(AssistantMessage(agent="writer", text="And more."))
    model = Scripted("And less.")
    anew = asyncio.run(regenerate(room, 6, Agent("writer", llm=model)))

    assert [message["content"] for message in model.prompts[0].body["messages"]][-2:] == [
        "answer 2",
        "Go on.",
    ]
    assert shown(room)[-2] == "And less."
    assert said(anew).replaces == 6


def test_an_answer_made_anew_is_made_anew_from_where_the_first_one_was_asked_for(room: Conversation) -> None:
    of(room, 3, "answer 1 anew")
    model = Scripted("answer 1 once more")
    asyncio.run(regenerate(room, 6, Agent("writer", llm=model), "Once more."))

    assert [message["content"] for message in model.prompts[0].body["messages"]] == [
        "question 1",
        "Once more.\n\nThe answer that is to be changed:\n\nanswer 1 anew",
    ]
    assert shown(room)[:4] == ["question 1", "answer 1 once more", "question 2", "answer 2"]


def test_what_was_hidden_since_is_not_read_again(room: Conversation) -> None:
    room.append(
        ModeSwitch(hides=[PositionRange(first=2, last=3), PositionRange(first=6, last=6)]), expected=5
    )
    model = Scripted("answer 2 anew")
    asyncio.run(regenerate(room, 5, Agent("writer", llm=model)))

    assert [message["content"] for message in model.prompts[0].body["messages"]] == ["question 2"]


@pytest.mark.parametrize(
    ("out", "why"),
    [
        (ModeSwitch(hides=[PositionRange(first=2, last=3)]), "hidden"),
        (ModeSwitch(context_from=4), "reset"),
        (
            AssistantMessage(agent="writer", purpose="summary", covers=[PositionRange(first=2, last=3)]),
            "summarised",
        ),
    ],
    ids=["hidden", "reset", "summarised"],
)
def test_what_is_out_of_context_does_not_come_back(room: Conversation, out: Event, why: str) -> None:
    once = asyncio.run(regenerate(room, 3, writer(), "Shorter"))
    room.append(out, expected=6)

    for position in (3, 6):
        with pytest.raises(IllegalCommandError, match=f"the answer at 3 is out of context: {why}"):
            of(room, position, "never asked")
    assert asyncio.run(regenerate(room, 3, writer(), "Shorter")) == once


def test_what_a_persons_words_have_taken_the_place_of_is_refused(room: Conversation) -> None:
    room.append(UserMessage(text="Let me say it myself.", replaces=5))

    with pytest.raises(IllegalCommandError, match="the words at 6 have taken the place of the answer at 5"):
        of(room, 5, "never asked")


@pytest.mark.parametrize("position", [0, -1, 99, 2**70])
def test_a_position_that_is_not_there_is_unknown(conversation: Conversation, position: int) -> None:
    with pytest.raises(PositionNotFoundError, match=f"'mails' has no position {position}: its last one is 8"):
        asyncio.run(regenerate(conversation, position, writer()))


@pytest.mark.parametrize("position", [1, 3])
def test_what_is_no_answer_of_the_agent_is_refused(conversation: Conversation, position: int) -> None:
    with pytest.raises(IllegalCommandError, match="expected an answer of 'writer'"):
        asyncio.run(regenerate(conversation, position, writer()))


def test_notes_that_fail_lose_no_answer() -> None:
    def fails(answer: AssistantMessage) -> dict[str, Any]:
        raise ValueError("no words")

    agent = Agent("writer", llm=Scripted("Dear Ann"), metadata=fails)
    with stenolog.open(":memory:") as log:
        assert Team([agent]).ask_sync(log["mail"], "Write.") == "Dear Ann"
        assert said(answers(log["mail"])[0]).meta == {"stenolog": {"notes": "failed: ValueError('no words')"}}
