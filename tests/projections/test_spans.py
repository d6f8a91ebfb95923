"""Spans are what agents did, once each, and the same whenever the log is read."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from hypothesis import given

from stenolog import (
    AgentCard,
    AssistantMessage,
    Entry,
    LlmError,
    ModeSwitch,
    NewEntry,
    ToolCall,
    ToolResult,
    UserMessage,
)
from stenolog.domain.settings import settings as fold
from stenolog.domain.values import PositionRange as Covered
from stenolog.events import ConversationRef, TurnPolicy, Usage
from stenolog.projections.otel_spans import Span, inherited, spans
from stenolog.testing import START, entries
from tests.strategies import logs

READ = ToolCall(id="c1", name="read", arguments='{"path": "a.py"}')
CARD = AgentCard(model="gpt-5.2", provider="openai", parameters={"temperature": 0.5})
ONE_TURN = [
    ModeSwitch(joins=["coder"], cards={"coder": CARD}),
    UserMessage(text="Read it."),
    AssistantMessage(
        agent="coder",
        tool_calls=[READ],
        model="gpt-5.2-2026",
        finish_reason="tool_calls",
        usage=Usage(input=90, output=12, cache_read=40),
        duration_ms=250,
        first_token_ms=125,
    ),
    ToolResult(call_id="c1", text="import os", duration_ms=20),
    AssistantMessage(agent="coder", text="It imports os."),
]


def told(*events: object, seconds: float = 1.0) -> list[Entry]:
    """Return a log of the events, one every so many seconds."""
    drafts = [NewEntry(event, time=START + timedelta(seconds=n * seconds)) for n, event in enumerate(events)]  # type: ignore[arg-type]
    return entries(*drafts)


def names(found: list[Span]) -> list[str]:
    return [span.name for span in found]


def test_a_turn_is_a_span_and_the_calls_in_it_are_its_children() -> None:
    found = list(spans(told(*ONE_TURN)))

    assert names(found) == ["chat gpt-5.2-2026", "execute_tool read", "chat gpt-5.2", "invoke_agent coder"]
    turn = found[-1]
    assert [span.parent for span in found] == [turn.id, turn.id, turn.id, ""]
    assert {span.trace for span in found} == {turn.trace}
    assert [span.kind for span in found] == ["client", "internal", "client", "internal"]


def test_a_span_ends_at_its_entry_and_begins_as_long_before_as_it_took() -> None:
    log = told(*ONE_TURN)
    first, tool, second, turn = spans(log)

    assert (first.start, first.end) == (log[2].time - timedelta(milliseconds=250), log[2].time)
    assert (tool.start, tool.end) == (log[3].time - timedelta(milliseconds=20), log[3].time)
    assert (second.start, second.end) == (log[3].time, log[4].time)
    assert (turn.start, turn.end) == (log[1].time, log[4].time)


def test_a_model_call_tells_what_the_conventions_ask_for() -> None:
    first, tool, *_ = spans(told(*ONE_TURN))

    assert first.attributes == {
        "gen_ai.operation.name": "chat",
        "gen_ai.conversation.id": "demo",
        "gen_ai.agent.name": "coder",
        "stenolog.lane": "coder",
        "stenolog.position": 3,
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "gpt-5.2",
        "gen_ai.response.model": "gpt-5.2-2026",
        "gen_ai.request.temperature": 0.5,
        "gen_ai.usage.input_tokens": 90,
        "gen_ai.usage.output_tokens": 12,
        "gen_ai.usage.cache_read.input_tokens": 40,
        "gen_ai.response.finish_reasons": ["tool_calls"],
        "gen_ai.response.time_to_first_chunk": 0.125,
    }
    assert tool.attributes["gen_ai.tool.name"] == "read"
    assert tool.attributes["gen_ai.tool.call.id"] == "c1"


def test_nothing_that_was_said_is_told_unless_it_is_asked_for() -> None:
    silent, telling = (str(list(spans(told(*ONE_TURN), content=told_too))) for told_too in (False, True))

    for words in ("a.py", "import os", "It imports os."):
        assert (words in silent, words in telling) == (False, True)


def test_a_call_that_failed_is_an_error_of_its_category_and_ends_the_turn_only_when_it_is_given_up() -> None:
    again = LlmError(agent="coder", category="timeout", message="60 s", retry_at=START)
    found = list(spans(told(*ONE_TURN[:2], again, LlmError(agent="coder", category="overloaded"))))

    assert [(span.name, span.error) for span in found] == [
        ("chat gpt-5.2", "timeout"),
        ("chat gpt-5.2", "overloaded"),
        ("invoke_agent coder", "overloaded"),
    ]


def test_a_call_that_a_limit_forbade_was_not_made() -> None:
    found = list(spans(told(*ONE_TURN[:2], LlmError(agent="coder", category="budget", message="spent"))))

    assert names(found) == ["invoke_agent coder"]


def test_what_one_agent_hands_on_to_another_is_in_the_same_trace_and_a_new_message_begins_another() -> None:
    turns = ModeSwitch(joins=["a", "b"], turns=TurnPolicy(rule="round_robin", options={"pass_token": "..."}))
    said = [AssistantMessage(agent="a", text="Ready."), AssistantMessage(agent="b", text="...")]

    found = [
        span
        for span in spans(told(turns, UserMessage(text="Go"), *said, UserMessage(text="More")))
        if span.name.startswith("invoke_agent")
    ]
    more = [UserMessage(text="More"), AssistantMessage(agent="coder", text="Yes")]
    again = list(spans(told(*ONE_TURN, *more)))

    assert names(found) == ["invoke_agent a", "invoke_agent b"]
    assert len({span.trace for span in found}) == 1
    assert len({span.trace for span in again}) == 2


def test_a_worker_in_its_callers_scope_is_in_its_trace_and_a_part_of_its_work() -> None:
    task = UserMessage(text="Read it.", author="coder", author_kind="agent", to=["reader/1"], cause=3)
    answer = AssistantMessage(agent="reader", task="1", text="Imports.")

    found = list(spans(told(*ONE_TURN[:3], task, answer, *ONE_TURN[3:])))

    worker, caller = (span for span in found if span.name.startswith("invoke_agent"))
    assert (worker.attributes["stenolog.lane"], worker.parent) == ("reader/1", caller.id)
    assert {span.trace for span in found} == {caller.trace}


def test_an_answer_that_nobody_asked_for_begins_when_it_came() -> None:
    *_, late = spans(told(*ONE_TURN, AssistantMessage(agent="coder", text="And more."), seconds=3600))

    assert (late.name, late.end - late.start) == ("chat gpt-5.2", timedelta(0))


def test_an_answer_was_asked_for_by_the_first_message_that_waits_for_it() -> None:
    log = told(*ONE_TURN[:2], UserMessage(text="Hello?"), AssistantMessage(agent="coder", text="Yes."))

    assert [(span.name, span.start) for span in spans(log)] == [
        ("chat gpt-5.2", log[1].time),
        ("invoke_agent coder", log[1].time),
    ]


def test_what_was_made_in_a_fork_is_no_call_here() -> None:
    link: Any = {"stenolog": {"child": {"conversation": "demo~1", "position": 9}}}
    summary = AssistantMessage(
        agent="coder", purpose="summary", text="Read.", meta=link, covers=[Covered(first=2, last=5)]
    )
    anew = AssistantMessage(agent="coder", text="It imports os, only.", replaces=5, meta=link)

    assert list(spans(told(*ONE_TURN, anew, summary))) == list(spans(told(*ONE_TURN)))


def test_a_fork_tells_its_own_part_of_what_was_under_way() -> None:
    fork = ModeSwitch(fork=True, parent=ConversationRef(conversation="demo", position=3, digest="ab" * 32))
    stopped = ToolResult(call_id="c1", text="not run in this fork", is_error=True)
    parent, here = told(*ONE_TURN), told(*ONE_TURN[:3], fork, stopped, ONE_TURN[-1])

    begun, *_, turn = spans(parent)
    own = list(spans(here, after=inherited(fold(here))))

    assert names(own) == ["chat gpt-5.2", "invoke_agent coder"]
    assert next(spans(here)) == begun
    assert ({span.trace for span in own}, own[0].parent) == ({turn.trace}, own[1].id)
    assert (own[1].id == turn.id, own[1].start, own[0].start) == (False, here[3].time, here[4].time)


def test_what_is_under_way_is_not_told_yet() -> None:
    assert names(list(spans(told(*ONE_TURN[:3])))) == ["chat gpt-5.2-2026"]


@given(logs())
def test_spans_have_ids_of_their_own_end_after_they_begin_and_grow_with_the_log(log: list[Entry]) -> None:
    found = list(spans(log))

    assert len({span.id for span in found}) == len(found)
    assert all(span.start <= span.end for span in found)
    assert {span.parent for span in found if span.parent in {each.id for each in found}} <= {
        span.id for span in found if span.name.startswith("invoke_agent")
    }
    for at in range(len(log)):
        assert list(spans(log[:at])) == [span for span in found if span.position <= at]
