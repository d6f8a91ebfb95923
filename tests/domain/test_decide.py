"""May this happen now? Each decision allows, refuses with reasons, and stays quiet where nothing is to do."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given

from stenolog import (
    AgentCard,
    AssistantMessage,
    Event,
    LlmError,
    ModeSwitch,
    State,
    Tool,
    ToolCall,
    ToolResult,
    UserMessage,
    decide,
    step,
)
from stenolog.domain.lanes.decide import CANCELLED, LEFT, REFUSED, UNANSWERED
from stenolog.domain.lanes.effects import RunTool, effects, ref
from stenolog.domain.lanes.state import find_call
from stenolog.domain.lanes.step import INITIAL, fold
from stenolog.errors import IllegalCommandError, UnsupportedVersionError
from stenolog.events import CallRef, Control, PositionRange, Unknown
from stenolog.testing import START, entries, example_conversation
from tests.strategies import asking, decided, histories

CALLS = [ToolCall(id="c1", name="shell"), ToolCall(id="d1", name="deploy")]
CARD = AgentCard(tools=[Tool(name="shell"), Tool(name="deploy", approval=True)])
OPENED = ModeSwitch(joins=["coder", "tester"], cards={"coder": CARD})
ASKED = UserMessage(text="Go", to=["coder"])
CALLED = AssistantMessage(agent="coder", tool_calls=CALLS[:1])
CAREFUL = AssistantMessage(agent="coder", tool_calls=CALLS)
FAILED = LlmError(agent="coder", category="timeout")
RETRIED = LlmError(agent="coder", category="overloaded", retry_at=START)
ANSWERED = AssistantMessage(agent="coder", text="Done")
GONE = ModeSwitch(leaves=["coder"])


def after(*events: Event) -> State:
    """Return the state after the opening, which is e1, and the events: e2, e3 …"""
    return fold(entries(OPENED, *events))


def tell(action: Any, **target: Any) -> UserMessage:
    return UserMessage(control=Control(action=action, **target))


def unrun(text: str, *, entry: str, index: int = 0) -> ToolResult:
    call = CALLS[index]
    ref = CallRef(entry=entry, index=index)
    return ToolResult(call_id=call.id, name=call.name, call=ref, text=text, is_error=True)


def covering(first: int, last: int) -> AssistantMessage:
    return AssistantMessage(agent="coder", purpose="summary", covers=[PositionRange(first=first, last=last)])


DEPLOY = CallRef(entry="e2", index=1)
SHELL = CallRef(entry="e2")
ASKING = asking("coder", SHELL)
ANSWER = tell("answer", call=SHELL, answer='"A"')
ALLOWED: dict[str, tuple[list[Event], Event]] = {
    "a message": ([], ASKED),
    "a message to nobody": ([], UserMessage(text="Hi")),
    "a message to a stranger": ([], UserMessage(text="Hi", to=["stranger"])),
    "a message while tools run": ([CALLED], ASKED),
    "an edit": ([ASKED], UserMessage(text="Go on", replaces=2)),
    "an answer": ([ASKED], ANSWERED),
    "an answer of a stranger": ([], AssistantMessage(agent="stranger", text="Hi")),
    "an answer that hands on to one who left": (
        [ModeSwitch(leaves=["tester"])],
        AssistantMessage(agent="coder", text="Tester?", to=["tester"]),
    ),
    "a result": ([CALLED], ToolResult(call_id="c1")),
    "a result that names its call": ([CALLED], ToolResult(call_id="x", call=CallRef(entry="e2"))),
    "an error": ([ASKED], FAILED),
    "an error to be retried": ([ASKED], RETRIED),
    "an error while tools run": ([CALLED], FAILED),
    "a model call that was cancelled": ([ASKED], LlmError(agent="coder", category="cancelled")),
    "a summary": ([ASKED, ANSWERED], covering(2, 3)),
    "a larger summary": ([ASKED, ANSWERED, covering(2, 2)], covering(1, 3)),
    "a summary after a rewound one": (
        [ASKED, ANSWERED, covering(2, 3), ModeSwitch(hides=[PositionRange(first=4, last=4)])],
        covering(3, 3),
    ),
    "an approval": ([CAREFUL], tell("approve", call=DEPLOY)),
    "a question of a running call": ([CALLED], ASKING),
    "questions of two calls": ([CAREFUL, ASKING, tell("approve", call=DEPLOY)], asking("coder", DEPLOY)),
    "a second question": ([CALLED, ASKING, ANSWER], ASKING),
    "an answer to a question": ([CALLED, ASKING], ANSWER),
    "an answer to the question meant": ([CALLED, ASKING], replace(ANSWER, cause=3)),
    "a result of a call that asks": ([CALLED, ASKING], ToolResult(call_id="c1")),
    "a cancel of the one named": ([ASKED], tell("cancel", agent="coder")),
    "a cancel of all": ([ASKED], tell("cancel")),
    "a cancel of a failed lane": ([ASKED, FAILED], tell("cancel", agent="coder")),
    "a continue": ([ASKED, FAILED], tell("continue")),
    "a continue before the retry": ([ASKED, RETRIED], tell("continue", agent="coder")),
    "a continue of an idle lane": ([], tell("continue", agent="coder")),
    "a change of mode": ([], ModeSwitch(mode="agent")),
    "a reset": ([ASKED], ModeSwitch(context_from=3)),
    "a rewind": ([ASKED], ModeSwitch(hides=[PositionRange(first=2, last=2)])),
    "the end of a rewind": ([ASKED], ModeSwitch(hides=None, context_from=None)),
    "leaving": ([], GONE),
    "joining again": ([GONE], ModeSwitch(joins=["coder"])),
}
COMPLETED: dict[str, tuple[list[Event], Event, tuple[Event, ...]]] = {
    "a refusal": (
        [CAREFUL],
        tell("refuse", call=DEPLOY),
        (tell("refuse", call=DEPLOY), unrun(REFUSED, entry="e2", index=1)),
    ),
    "a refusal of a question": (
        [CALLED, ASKING],
        tell("refuse", call=SHELL),
        (tell("refuse", call=SHELL), unrun(UNANSWERED, entry="e2")),
    ),
    "words in place of an answer": ([CALLED, ASKING], ASKED, (unrun(UNANSWERED, entry="e2"), ASKED)),
    "a cancel while a call asks": (
        [CALLED, ASKING],
        tell("cancel"),
        (unrun(CANCELLED, entry="e2"), tell("cancel")),
    ),
    "a cancel while tools run": (
        [CAREFUL],
        tell("cancel"),
        (unrun(CANCELLED, entry="e2"), unrun(CANCELLED, entry="e2", index=1), tell("cancel")),
    ),
    "a model call that was cancelled while tools run": (
        [CALLED],
        LlmError(agent="coder", category="cancelled"),
        (unrun(CANCELLED, entry="e2"), LlmError(agent="coder", category="cancelled")),
    ),
    "leaving while tools run": ([CALLED], GONE, (unrun(LEFT, entry="e2"), GONE)),
}
QUIET: dict[str, tuple[list[Event], Event]] = {
    "an empty message": ([], UserMessage()),
    "a switch that changes nothing": ([], ModeSwitch()),
    "a cancel of an idle lane": ([ANSWERED], tell("cancel", agent="coder")),
    "a continue of a lane that goes on": ([ASKED], tell("continue", agent="coder")),
    "an approval of a call that needs none": ([CALLED], tell("approve", call=CallRef(entry="e2"))),
    "an approval for the second time": (
        [CAREFUL, tell("approve", call=DEPLOY)],
        tell("approve", call=DEPLOY),
    ),
}
ILLEGAL: dict[str, tuple[list[Event], Event, str]] = {
    "a message to one who left": (
        [GONE],
        ASKED,
        "user_message: asked, but lane coder is closed; legal now: joined, left",
    ),
    "an edit of what is not there": (
        [ASKED],
        UserMessage(text="Go", replaces=3),
        "user_message: replaces position 3; legal now: positions 1 to 2",
    ),
    "an answer of one who left": (
        [GONE],
        ANSWERED,
        "assistant_message: answered, but lane coder is closed; legal now: joined, left",
    ),
    "an answer in place of what is not there": (
        [],
        AssistantMessage(agent="coder", replaces=2),
        "assistant_message: replaces position 2; legal now: positions 1 to 1",
    ),
    "a result for nothing": (
        [ASKED],
        ToolResult(call_id="c1"),
        "tool_result: no open call 'c1'; legal now: no result, for no call is open",
    ),
    "a result for another call": (
        [CALLED],
        ToolResult(call_id="c2"),
        "tool_result: no open call 'c2'; legal now: a result for 'c1'",
    ),
    "a second result": (
        [CALLED, ToolResult(call_id="c1")],
        ToolResult(call_id="c1"),
        "tool_result: no open call 'c1'; legal now: no result, for no call is open",
    ),
    "an error of one who left": (
        [GONE],
        FAILED,
        "llm_error: erred, but lane coder is closed; legal now: joined, left",
    ),
    "a cancelled call of one who left": (
        [GONE],
        LlmError(agent="coder", category="cancelled"),
        "llm_error: cancelled, but lane coder is closed; legal now: joined, left",
    ),
    "a summary of what is to come": (
        [ASKED],
        covering(1, 3),
        "assistant_message: covers 1-3, which is not within 1-2; "
        "legal now: spans of the past that hold closed calls and whole summaries",
    ),
    "a summary that runs backwards": ([ASKED], covering(2, 1), "covers 2-1, which is not within 1-2"),
    "a summary of an open call": ([CALLED], covering(1, 2), "covers 1-2, and in it the open call at 2"),
    "half of a summary": (
        [ASKED, ANSWERED, covering(2, 3)],
        covering(3, 4),
        "covers 3-4, and so a part of the summary of 2-3",
    ),
    "an approval of nothing": (
        [],
        tell("approve", call=DEPLOY),
        "user_message: approve of a call that awaits no approval; "
        "legal now: neither, for no call awaits approval",
    ),
    "an approval of no call": (
        [CAREFUL],
        tell("approve"),
        "user_message: approve of a call that awaits no approval; "
        "legal now: to approve or refuse e2[1] deploy",
    ),
    "a refusal of a call that runs": (
        [CAREFUL],
        tell("refuse", call=CallRef(entry="e2")),
        "user_message: refuse of a call that awaits no approval; "
        "legal now: to approve or refuse e2[1] deploy",
    ),
    "a question of a call that waits for approval": (
        [CAREFUL],
        asking("coder", DEPLOY),
        "user_message: ask of a call that does not run",
    ),
    "two questions of a call at once": ([CALLED, ASKING], ASKING, "ask of a call that does not run"),
    "a question without words": ([CALLED], tell("ask", call=SHELL), "ask of a call that does not run"),
    "a question by another": (
        [CALLED],
        asking("tester", SHELL),
        "user_message: ask by 'tester'; legal now: by the call's own lane, 'coder'",
    ),
    "an answer twice": (
        [CALLED, ASKING, ANSWER],
        ANSWER,
        "user_message: answer of a call that asks nothing; legal now: no answer, for no call asks",
    ),
    "an answer after the refusal": (
        [CALLED, ASKING, unrun(UNANSWERED, entry="e2")],
        ANSWER,
        "answer of a call that asks nothing",
    ),
    "an answer to an earlier question": (
        [CALLED, ASKING, ANSWER, ASKING],
        replace(ANSWER, cause=3),
        "user_message: answer to the question at 3, but the call asks the one at 5; "
        "legal now: to answer e2[0] shell, as JSON",
    ),
    "an answer of another call": (
        [CAREFUL, ASKING],
        tell("answer", call=DEPLOY, answer="1"),
        "answer of a call that asks nothing; legal now: to answer e2[0] shell, as JSON",
    ),
    "an answer that is no JSON": ([CALLED, ASKING], tell("answer", call=SHELL, answer="NaN"), "answer NaN"),
    "an approval of a question": (
        [CALLED, ASKING],
        tell("approve", call=SHELL),
        "approve of a call that asks a question; legal now: to answer or refuse it",
    ),
    "a cancel of nobody": (
        [],
        tell("cancel"),
        "user_message: nothing to cancel (coder is idle, tester is idle); "
        "legal now: to name a lane that is there",
    ),
    "a cancel of a stranger": ([], tell("cancel", agent="stranger"), "nothing to cancel (coder is idle"),
    "a continue where nothing failed": ([ASKED], tell("continue"), "nothing to continue (coder is awaiting"),
    "a continue while tools run": (
        [CALLED],
        tell("continue", agent="coder"),
        "user_message: continued, but lane coder is awaiting_tools; "
        "legal now: asked, answered, resulted, questioned, erred, cancelled, joined, left",
    ),
    "leaving of one who is not there": (
        [],
        ModeSwitch(leaves=["stranger"]),
        "mode_switch: ['stranger'] cannot leave; legal now: members ['coder', 'tester']",
    ),
    "leaving and joining at once": (
        [],
        ModeSwitch(leaves=["coder"], joins=["coder"]),
        "mode_switch: ['coder'] cannot leave",
    ),
    "a reset to what is not there": (
        [ASKED],
        ModeSwitch(context_from=4),
        "mode_switch: context_from 4; legal now: positions 1 to 3",
    ),
    "a rewind of what is not there": (
        [ASKED],
        ModeSwitch(hides=[PositionRange(first=2, last=3)]),
        "mode_switch: hides 2-3; legal now: spans within 1 to 2",
    ),
    "a rewind that runs backwards": (
        [ASKED],
        ModeSwitch(hides=[PositionRange(first=2, last=1)]),
        "mode_switch: hides 2-1; legal now: spans within 1 to 2",
    ),
}


@pytest.mark.parametrize(("past", "command"), ALLOWED.values(), ids=list(ALLOWED))
def test_it_allows(past: list[Event], command: Event) -> None:
    assert decide(after(*past), command) == (command,)


@pytest.mark.parametrize(("past", "command", "recorded"), COMPLETED.values(), ids=list(COMPLETED))
def test_it_completes_so_that_every_call_has_its_result(
    past: list[Event], command: Event, recorded: tuple[Event, ...]
) -> None:
    assert decide(after(*past), command) == recorded
    assert after(*past, *recorded).anomalies == 0
    for event in recorded:
        assert not isinstance(event, ToolResult) or find_call(after(*past, *recorded), event) is None


@pytest.mark.parametrize(("past", "command"), QUIET.values(), ids=list(QUIET))
def test_it_stays_quiet(past: list[Event], command: Event) -> None:
    assert decide(after(*past), command) == ()


@pytest.mark.parametrize(("past", "command", "reason"), ILLEGAL.values(), ids=list(ILLEGAL))
def test_it_refuses_and_says_what_would_be_legal(past: list[Event], command: Event, reason: str) -> None:
    with pytest.raises(IllegalCommandError) as caught:
        decide(after(*past), command)

    assert reason in str(caught.value)
    assert "; legal now: " in str(caught.value)


@pytest.mark.parametrize("command", [ASKED, ANSWERED, tell("cancel"), ModeSwitch()])
def test_nothing_is_decided_after_what_only_a_later_release_understands(command: Event) -> None:
    poll = Unknown(topic="poll@1", payload=b'{"needs":"0.9"}', needs="0.9")

    with pytest.raises(UnsupportedVersionError, match="poll@1 at position 2 needs stenolog"):
        decide(after(poll), command)


def test_what_this_release_does_not_know_cannot_be_decided() -> None:
    with pytest.raises(UnsupportedVersionError, match="poll@1 is unknown to this release"):
        decide(INITIAL, Unknown(topic="poll@1", payload=b"{}"))


def test_the_story_can_be_decided_event_by_event() -> None:
    state = INITIAL
    for entry in entries(*example_conversation()):
        assert entry.event in decide(state, entry.event)
        state = step(state, entry).state


@given(history=decided(max_size=24, asks=True))
def test_a_call_waits_from_its_question_to_its_answer_or_its_result(history: list[Event]) -> None:
    state, asked = INITIAL, dict[CallRef, int]()
    for entry in entries(*history):
        found = find_call(state, entry.event) if isinstance(entry.event, ToolResult) else None
        if found is not None:
            asked.pop(ref(found[1]), None)
        if isinstance(entry.event, UserMessage) and entry.event.control is not None:
            match entry.event.control:
                case Control(action="ask", call=CallRef() as call):
                    asked[call] = entry.position
                case Control(action="answer", call=CallRef() as call):
                    del asked[call]
                case _:
                    pass
        state = step(state, entry).state
        runs = {ref(effect.call) for effect in effects(state) if isinstance(effect, RunTool)}

        assert {ref(call): call.question for _, call in state.open_calls() if call.question} == asked
        assert runs.isdisjoint(asked)


@given(history=decided() | decided(asks=True))
def test_what_is_decided_is_never_out_of_order(history: list[Event]) -> None:
    state = INITIAL
    for entry in entries(*history):
        state, made = step(state, entry)

        assert [transition.anomaly for transition in made if transition.anomaly] == []


@given(past=histories(), command=histories(max_size=1))
def test_after_any_past_it_decides_or_says_why_not(past: list[Event], command: list[Event]) -> None:
    for event in command:
        try:
            decided_events = decide(fold(entries(*past)), event)
        except (IllegalCommandError, UnsupportedVersionError) as error:
            assert str(error).isprintable()  # noqa: PT017
        else:
            assert decided_events == () or event in decided_events
