"""Where an edit stands: in the place of the earlier words; once they are answered, where it arrived."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stenolog import AssistantMessage, Event, LlmError, ModeSwitch, UserMessage
from stenolog.context import Budget, LastN, SinceLastTurn, policy
from stenolog.events import PositionRange, Receipt
from stenolog.projections.requests import build, every_request
from stenolog.projections.requests.incremental.series import window
from stenolog.projections.requests.pipeline.edits import ANEW
from stenolog.projections.requests.pipeline.lane import LaneId
from tests.requests.given import ASKED, CALL, calls, chat, log, said
from tests.requests.sessions import taken_up

ASKS, OK = ("user", "List the files"), ("assistant", "ok")
NOTE = ("user", ANEW)


def edit(text: str, replaces: int, **fields: Any) -> UserMessage:
    return UserMessage(text=text, replaces=replaces, **fields)


def answer(text: str, view: int, **fields: Any) -> AssistantMessage:
    return calls(text, receipt=Receipt(view=view, sha256=""), **fields)


def ok(view: int) -> AssistantMessage:
    return answer("ok", view)


SEEN: dict[str, tuple[list[Event], list[tuple[str, str]]]] = {
    "before the answer, in the place of the edited": (
        [ASKED, edit("All", 1), ok(2)],
        [("user", "All"), OK],
    ),
    "before the answer, in its place among others": (
        [ModeSwitch(joins=["coder"]), ASKED, UserMessage(text="Now"), edit("All", 2)],
        [("user", "All"), ("user", "Now")],
    ),
    "after the answer, where it arrived": (
        [ASKED, ok(1), edit("All", 1)],
        [ASKS, OK, NOTE, ("user", "All")],
    ),
    "after an answer without a receipt": (
        [ASKED, calls("ok"), edit("All", 1)],
        [ASKS, OK, NOTE, ("user", "All")],
    ),
    "while the answer is written, which did not see it": (
        [ASKED, edit("All", 1), ok(1)],
        [ASKS, OK, NOTE, ("user", "All")],
    ),
    "of what came while the answer was written": (
        [ASKED, UserMessage(text="Now"), ok(1), edit("At once", 2)],
        [ASKS, OK, ("user", "At once")],
    ),
    "after an answer that was cut off": (
        [ASKED, LlmError(agent="coder", category="cancelled", text="o"), edit("All", 1)],
        [
            ASKS,
            ("assistant", "o"),
            ("user", "[your answer was interrupted by the user]"),
            NOTE,
            ("user", "All"),
        ],
    ),
    "after a failure without a word": (
        [ASKED, LlmError(agent="coder", category="timeout"), edit("All", 1), calls("ok")],
        [("user", "All"), OK],
    ),
    "an edit of an edit that is not answered, in the place of that": (
        [ASKED, ok(1), edit("All", 1), edit("Some", 3)],
        [ASKS, OK, NOTE, ("user", "Some")],
    ),
    "an edit of an edit that is answered": (
        [ASKED, ok(1), edit("All", 1), ok(3), edit("Some", 3)],
        [ASKS, OK, NOTE, ("user", "All"), OK, NOTE, ("user", "Some")],
    ),
    "a second edit of the first wording": (
        [ASKED, edit("All", 1), ok(2), edit("Some", 1)],
        [("user", "All"), OK, NOTE, ("user", "Some")],
    ),
    "of words whose answer is hidden": (
        [ASKED, ok(1), ModeSwitch(hides=[PositionRange(first=2, last=2)]), edit("All", 1)],
        [("user", "All")],
    ),
    "of words that are hidden, with their answer": (
        [ASKED, ok(1), ModeSwitch(hides=[PositionRange(first=1, last=2)]), edit("All", 1)],
        [("user", "All")],
    ),
    "of words before a reset": (
        [ASKED, ok(1), ModeSwitch(context_from=4), edit("All", 1)],
        [("user", "All")],
    ),
    "of words that a summary covers": (
        [
            ASKED,
            ok(1),
            calls("Talk", purpose="summary", covers=[PositionRange(first=1, last=2)]),
            edit("All", 1),
        ],
        [("user", "<summary>\nTalk\n</summary>"), NOTE, ("user", "All")],
    ),
    "of words that were never in context": (
        [UserMessage(text="Later", in_context=False), ASKED, ok(2), edit("Later", 1)],
        [ASKS, OK, ("user", "Later")],
    ),
    "for the timeline alone": (
        [ASKED, ok(1), edit("All", 1, in_context=False), ASKED],
        [ASKS, OK, ASKS],
    ),
    "behind a fork": (
        [ASKED, ok(1), ModeSwitch(fork=True), edit("All", 1)],
        [ASKS, OK, NOTE, ("user", "All")],
    ),
    "for somebody else": (
        [ModeSwitch(scope="addressed"), ASKED, ok(2), edit("All", 2, to=["reviewer"]), ASKED],
        [ASKS, OK, ASKS],
    ),
    "of words for somebody else": (
        [
            ModeSwitch(scope="addressed"),
            ASKED,
            UserMessage(text="You", to=["reviewer"]),
            ok(2),
            edit("All", 3, to=["coder"]),
        ],
        [ASKS, OK, ("user", "All")],
    ),
    "an answer made anew, in the place of the old one": (
        [ASKED, ok(1), UserMessage(text="Now"), answer("Ok!", 1, replaces=2)],
        [ASKS, ("assistant", "Ok!"), ("user", "Now")],
    ),
    "an answer made anew, of one that others spoke into": (
        [ASKED, UserMessage(text="Now"), ok(1), answer("Ok!", 1, replaces=3)],
        [ASKS, ("assistant", "Ok!"), ("user", "Now")],
    ),
    "an answer made anew, of another agent's": (
        [
            ASKED,
            AssistantMessage(agent="reviewer", text="No"),
            calls("Ok!", replaces=2),
            UserMessage(text="Now"),
        ],
        [ASKS, ("assistant", "Ok!"), ("user", "Now")],
    ),
    "an answer that would take the place of a person's words": (
        [ASKED, calls("ok", replaces=1), UserMessage(text="Now")],
        [ASKS, OK, ("user", "Now")],
    ),
    "of the agent's own words": (
        [ASKED, ok(1), edit("No", 2)],
        [ASKS, ("user", "No")],
    ),
}


@pytest.mark.parametrize(("events", "expected"), SEEN.values(), ids=list(SEEN))
def test_where_an_edit_stands(events: list[Event], expected: list[tuple[str, str]]) -> None:
    shown = said(build(log(*events), "coder"))

    assert [each for each in shown if not each[1].startswith("[a preview")] == expected


def test_an_edit_of_what_was_answered_can_be_sent_and_says_why_it_stands_there() -> None:
    request = chat(ASKED, ok(1), edit("All", 1))

    assert request.ready
    assert [(part.positions, part.rule) for part in request.parts] == [
        ((1,), "user"),
        ((2,), "own"),
        ((3,), "edit-note"),
        ((3,), "user"),
    ]
    assert request.omissions == ()


def test_an_answer_made_anew_answers_nothing_that_was_said_since() -> None:
    anew = calls("Ok!", replaces=2)
    request = chat(ASKED, ok(1), UserMessage(text="Now"), anew, edit("At once", 3))

    assert said(request) == [ASKS, ("assistant", "Ok!"), ("user", "At once")]
    assert request.ready


def test_an_answer_made_anew_is_not_what_its_lane_is_at_work_on() -> None:
    conversation: list[Event] = [ASKED, ok(1), UserMessage(text="Now"), calls("I look", CALL)]
    conversation += [calls("Ok!", replaces=2), UserMessage(text="words " * 400)]

    request = build(log(*conversation), "coder", policy=Budget(tokens=300))

    assert ("assistant", "I look") in [(m["role"], m["content"]) for m in request.body["messages"]]


def test_a_backend_that_remembers_the_rest_is_told_of_an_answer_made_anew_and_of_what_came_since() -> None:
    first = answer("ok", 1, session="s1")
    request = build(
        log(ASKED, first, UserMessage(text="Now"), calls("Ok!", replaces=2)), "coder", policy=SinceLastTurn()
    )

    assert (said(request), request.ready) == ([("assistant", "Ok!"), ("user", "Now")], True)


def test_who_has_not_answered_is_shown_the_edit_in_the_place_of_the_edited() -> None:
    events = (ModeSwitch(joins=["coder", "reviewer"]), ASKED, ok(2), edit("All", 2))

    assert said(chat(*events))[0] == ASKS
    assert said(chat(*events, agent="reviewer"))[0] == ("user", "All")


def test_another_agents_answer_made_anew_comes_behind_what_answered_the_old_one() -> None:
    first = AssistantMessage(agent="reviewer", text="Wrong", to=["coder"])
    anew = AssistantMessage(agent="reviewer", text="Right", to=["coder"], replaces=2)

    request = chat(ModeSwitch(joins=["coder", "reviewer"]), first, ok(2), anew, UserMessage(text="Now"))

    assert request.ready
    assert [part.rule for part in request.parts] == ["attributed", "own", "edit-note", "attributed", "user"]


def test_a_backend_that_remembers_the_rest_gets_the_edit_and_its_note() -> None:
    request = build(log(ASKED, ok(1), edit("All", 1)), "coder", policy=SinceLastTurn())

    assert (said(request), request.ready) == ([NOTE, ("user", "All")], True)


def test_an_edit_of_what_a_cut_has_let_go_stands_where_it_arrived() -> None:
    conversation = [each for n in range(40) for each in (UserMessage(text=f"{n} " * 60), calls("ok"))]

    request = build(log(ASKED, *conversation, edit("All", 1)), "coder", policy=Budget(tokens=1_000))

    assert (said(request)[-1], NOTE in said(request)) == (("user", "All"), False)
    assert (request.ready, request.cuts > 0) == (True, True)


def test_words_that_an_answer_brings_back_count_against_the_budget_at_once() -> None:
    large = [UserMessage(text="word " * 500)] * 3
    edits = [edit("short", n) for n in (3, 4, 5)]
    entries = log(ASKED, ok(1), *large, *edits, *large, answer("ok", 5))
    chosen = policy(Budget(tokens=4_000))
    early = window(LaneId("coder"), chosen, entries[:-1])
    late = taken_up(early, entries)
    before = early.cuts
    early.take(entries[-1])
    late.take(entries[-1])

    assert (before, early.cuts, late.snapshot) == (0, 1, early.snapshot)


@given(data=st.data())
def test_what_an_answer_was_built_on_stays_the_beginning_of_all_that_is_sent_later(
    data: st.DataObject,
) -> None:
    events: list[Event] = [ModeSwitch(joins=["coder"]), ASKED]
    view = 0
    for n in range(10):
        view = view or len(events)
        what = data.draw(st.sampled_from(["edit", "edit", "say", "answer"]))
        if what == "answer":
            events.append(answer(f"answer {n}", view))
            view = 0
        else:
            edited = data.draw(st.integers(2, len(events))) if what == "edit" else None
            edits_words = edited is not None and isinstance(events[edited - 1], UserMessage)
            events.append(UserMessage(text=f"words {n}", replaces=edited if edits_words else None))
    sent = {request.at: said(request) for request in every_request(log(*events), "coder")}

    for position, event in enumerate(events, 1):
        if isinstance(event, AssistantMessage) and event.receipt is not None:
            asked = [each for each in sent[event.receipt.view] if not each[1].startswith("[a preview")]
            for later in range(position, len(events) + 1):
                assert sent[later][: len(asked)] == asked


@pytest.mark.parametrize("left", range(1, 7))
def test_a_window_that_was_left_cuts_as_one_that_was_not_though_a_note_stands_before_an_edit(
    left: int,
) -> None:
    entries = log(
        ASKED,
        answer("one", 1),
        edit("All", 1),
        UserMessage(text="Now"),
        answer("two", 4),
        UserMessage(text="And then?"),
    )
    kept, lane = policy(LastN(4)), LaneId("coder")

    going_on = taken_up(window(lane, kept, entries[:left]), entries)
    for entry in entries[left:]:
        going_on.take(entry)

    assert going_on.snapshot == window(lane, kept, entries).snapshot
