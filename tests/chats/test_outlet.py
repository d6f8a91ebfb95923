"""What a conversation says outside: which entries, in which pieces, each at least once and in order."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from datetime import UTC, datetime

import pytest

import stenolog
from stenolog import (
    AgentCard,
    AssistantMessage,
    Conversation,
    Event,
    LlmError,
    Log,
    ModeSwitch,
    Tool,
    ToolCall,
    UserMessage,
)
from stenolog.adapters.engine.approvals import waiting
from stenolog.chats import Delivery, OutgoingMessage, render_entry
from stenolog.engine import RoundRobin
from stenolog.events import PositionRange

from .given import at_once, until


class Place:
    """A place outside that takes pieces, and now and then does not."""

    def __init__(self, *troubles: Callable[[], None] | None) -> None:
        self.texts: list[str] = []
        self.pieces: list[OutgoingMessage] = []
        self.troubles = [*troubles]

    async def send(self, piece: OutgoingMessage) -> None:
        trouble = self.troubles.pop(0) if self.troubles else None
        if trouble:
            trouble()
        self.texts.append(piece.text)
        self.pieces.append(piece)


OPENED: list[Log] = []


@pytest.fixture(autouse=True)
def closing() -> Iterator[None]:
    yield
    while OPENED:
        OPENED.pop().close()


def conversation_of(*events: Event) -> Conversation:
    OPENED.append(stenolog.open(":memory:"))
    conversation = OPENED[-1]["talk"]
    conversation.extend(events)
    return conversation


def delivered(
    conversation: Conversation, place: Place, name: str = "mail:ann", **options: object
) -> list[str]:
    """Return the messages that a run of its own delivers."""
    before = len(place.texts)
    outlet = Delivery(conversation, name, place.send, backoff=at_once, **options)  # type: ignore[arg-type]
    asyncio.run(outlet.deliver())
    return place.texts[before:]


def raising(error: Exception) -> Callable[[], None]:
    def trouble() -> None:
        raise error

    return trouble


def said(text: str, **fields: object) -> AssistantMessage:
    return AssistantMessage(agent="coder", text=text, **fields)  # type: ignore[arg-type]


def test_answers_go_out_and_nothing_else_that_is_no_answer() -> None:
    conversation = conversation_of(
        UserMessage(text="Hello"),
        said("An answer."),
        said("A summary.", purpose="summary"),
        said("For the timeline alone.", in_context=False),
        said("", tool_calls=[ToolCall(id="1", name="look")]),
        said("Another answer."),
    )

    assert delivered(conversation, Place()) == ["An answer.", "Another answer."]


def test_a_pass_does_not_go_out_under_the_rule_that_has_it() -> None:
    passing = RoundRobin(pass_token=".....")
    conversation = conversation_of(
        said("....."), ModeSwitch(turns=passing), said(" ..... "), said("..... or not")
    )

    assert delivered(conversation, Place()) == [".....", "..... or not"]


def test_an_answer_that_was_taken_back_before_it_went_out_does_not() -> None:
    conversation = conversation_of(said("one"), said("two"), said("three"))
    conversation.submit(ModeSwitch(hides=[PositionRange(first=3, last=3)]))

    assert delivered(conversation, Place()) == ["one", "three"]


def test_an_error_after_which_nothing_is_tried_is_a_short_note_without_its_message() -> None:
    conversation = conversation_of(
        LlmError(agent="coder", category="network", message="https://host/?key=secret"),
        LlmError(agent="coder", category="cancelled"),
        LlmError(agent="coder", category="timeout", retry_at=datetime(2026, 1, 1, tzinfo=UTC)),
    )

    assert delivered(conversation, Place()) == [
        "(coder could not answer: the model could not be reached. /continue goes on.)"
    ]


def test_a_call_that_waits_for_a_person_goes_out_by_itself_with_the_way_to_decide() -> None:
    card = AgentCard(tools=[Tool(name="sell", approval=True), Tool(name="look")])
    calls = [ToolCall(id="1", name="sell", arguments='{"n": 3}'), ToolCall(id="2", name="look")]
    conversation = conversation_of(ModeSwitch(cards={"coder": card}), said("I sell.", tool_calls=calls))

    [waits] = waiting(conversation)

    assert delivered(conversation, Place()) == [
        "I sell.",
        'coder asks to run\n```\nsell({"n": 3})\n```\n'
        f"/approve {waits.code} lets it, /refuse {waits.code} does not.",
    ]


def test_a_second_run_goes_on_behind_what_has_arrived() -> None:
    conversation, place = conversation_of(said("one")), Place()
    first = delivered(conversation, place)
    conversation.append(said("two"))

    assert (first, delivered(conversation, place), delivered(conversation, place)) == (["one"], ["two"], [])


def test_outlets_of_different_names_come_along_on_their_own() -> None:
    conversation, place = conversation_of(said("one")), Place()

    assert (delivered(conversation, place), delivered(conversation, place, "mail:bob")) == (["one"], ["one"])


def test_an_answer_that_arrived_in_part_goes_on_with_its_next_piece() -> None:
    conversation = conversation_of(said("a" * 500 + "b" * 500 + "c" * 500))
    place = Place(None, raising(PermissionError("gone")))
    first = delivered(conversation, place, render=render_entry(limit=500))

    assert first == ["a" * 500]
    assert delivered(conversation, place, render=render_entry(limit=500)) == ["b" * 500, "c" * 500]
    assert [(p.speaker, p.position, p.nth, p.number) for p in place.pieces] == [
        ("coder", 2, nth, 3) for nth in (1, 2, 3)
    ]


def test_what_may_work_later_is_tried_until_it_does_and_in_order() -> None:
    place = Place(
        raising(ConnectionError("no net")), raising(TimeoutError()), None, raising(OSError("again"))
    )

    assert delivered(conversation_of(said("one"), said("two")), place) == ["one", "two"]


def test_a_place_that_wants_nothing_any_more_is_left_alone_and_that_is_told(
    caplog: pytest.LogCaptureFixture,
) -> None:
    conversation, place = conversation_of(said("one"), said("two")), Place(raising(PermissionError("kicked")))

    async def main() -> tuple[int, str]:
        outlet = Delivery(conversation, "mail:ann", place.send)
        return await outlet.deliver() + await outlet.deliver(), outlet.closed

    with caplog.at_level(logging.WARNING, "stenolog.chats"):
        assert asyncio.run(main()) == (0, "kicked")
    assert caplog.messages == ["talk: nothing goes to mail:ann any more: kicked"]
    assert (conversation.position, delivered(conversation, place)) == (3, ["one", "two"])


def test_one_that_is_opened_again_goes_on_with_what_could_not_be_delivered() -> None:
    conversation, place = (
        conversation_of(said("one"), said("two")),
        Place(None, raising(PermissionError("kicked"))),
    )

    async def main() -> int:
        outlet = Delivery(conversation, "mail:ann", place.send)
        await outlet.deliver()
        outlet.reopen()
        return await outlet.deliver()

    assert (asyncio.run(main()), place.texts) == (1, ["one", "two"])


def test_one_may_begin_with_the_first_entry_of_its_own() -> None:
    conversation, place = conversation_of(said("imported")), Place()
    none_yet = delivered(conversation, place, first="mail:")
    conversation.append(UserMessage(text="Hello"), id="mail:1")
    conversation.append(said("an answer"))

    assert (none_yet, delivered(conversation, place, first="mail:")) == ([], ["an answer"])


def test_entries_are_followed_as_they_are_appended() -> None:
    conversation, place = conversation_of(said("one")), Place()

    async def main() -> None:
        following = asyncio.create_task(Delivery(conversation, "mail:ann", place.send).follow())
        await until(lambda: len(place.texts) == 1)
        await asyncio.to_thread(conversation.append, said("two"))
        await until(lambda: len(place.texts) == 2)
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)

    asyncio.run(main())

    assert place.texts == ["one", "two"]


def test_one_that_is_stopped_while_a_piece_is_on_its_way_does_not_send_that_again() -> None:
    conversation, sent, may_arrive = conversation_of(said("one"), said("two")), [], asyncio.Event()

    async def slowly(piece: OutgoingMessage) -> None:
        sent.append(piece.text)
        await may_arrive.wait()

    async def main() -> None:
        sending = asyncio.create_task(Delivery(conversation, "mail:ann", slowly).deliver())
        await until(lambda: sent)
        sending.cancel()
        await asyncio.sleep(0)
        may_arrive.set()
        await asyncio.gather(sending, return_exceptions=True)

    asyncio.run(main())

    assert (sent, delivered(conversation, Place())) == (["one"], ["two"])


def test_a_long_silence_is_noted_so_that_a_restart_does_not_read_it_again() -> None:
    conversation, place = conversation_of(*[UserMessage(text="Hello")] * 600), Place()
    delivered(conversation, place)
    with conversation.log.datastore.reading() as connection:
        marks = connection.execute("SELECT name, position, piece FROM tracking").fetchall()

    assert marks == [("mail:ann", 512, 0)]


def test_the_names_of_the_agents_stand_above_their_answers() -> None:
    place = Place()
    delivered(
        conversation_of(said("one", task="2")),
        place,
        render=render_entry({"coder": "Backend Dev"}, heading="{name}: "),
    )

    assert place.texts == ["Backend Dev: one"]


def test_whatever_else_goes_wrong_while_it_follows_is_told_and_tried_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    conversation, place = (
        conversation_of(said("one"), said("two")),
        Place(raising(RuntimeError("no such thing"))),
    )

    async def main() -> None:
        following = asyncio.create_task(
            Delivery(conversation, "mail:ann", place.send, backoff=at_once).follow()
        )
        await until(lambda: len(place.texts) == 2)
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)

    asyncio.run(main())

    assert place.texts == ["one", "two"]
    assert caplog.messages == ["talk: mail:ann: no such thing; it is tried again"]
