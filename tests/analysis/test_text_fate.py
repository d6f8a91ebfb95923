"""When an agent last had a text, and what took it away."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

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
    ToolCall,
    ToolResult,
    UserMessage,
)
from stenolog.adapters.store.contract.values import Claim
from stenolog.analysis import Reached, TextFate, text_fate, trace_value
from stenolog.context import Budget, LastN, SinceLastTurn
from stenolog.errors import AgentNotFoundError, CallerError
from stenolog.events import PositionRange
from stenolog.parts import ImagePart
from stenolog.requests import FORMATS
from stenolog.tables import Table, attach_table
from tests.requests.given import calls, log

ORDER = UserMessage(text="Never touch main", to=("coder",))


def test_a_text_that_is_still_there_says_since_when() -> None:
    found = text_fate(log(ORDER, calls("Right."), UserMessage(text="Go")), "coder", "touch main")

    assert found == TextFate("touch main", "still in", runs=((1, 3),), last=3)


def test_a_text_that_was_never_said_was_never_in() -> None:
    assert text_fate(log(ORDER, calls("Right.")), "coder", "prod").verdict == "never in"


def test_a_summary_that_took_it_away_is_named_with_its_run() -> None:
    summary = calls("They agreed.", purpose="summary", covers=[PositionRange(first=1, last=3)])

    found = text_fate(log(ORDER, calls("Right."), UserMessage(text="Go"), summary), "coder", "touch main")

    assert found == TextFate(
        "touch main",
        "gone",
        runs=((1, 3),),
        last=3,
        vanished=4,
        source=(1,),
        rule="covered",
        dropped=(1, 3),
    )


def test_a_text_in_a_cut_is_gone_by_the_rule_of_the_window() -> None:
    conversation = [
        ORDER,
        *(event for n in range(20) for event in (calls(f"{n} " * 40), UserMessage(text=f"more {n}"))),
    ]

    by_count = text_fate(log(*conversation), "coder", "touch main", policy=LastN(4))
    by_size = text_fate(log(*conversation), "coder", "touch main", policy=Budget(tokens=400))

    assert (by_count.rule, by_count.last, by_count.vanished) == ("beyond-last", 4, 5)
    assert (by_size.verdict, by_size.rule, by_size.source) == ("gone", "over-budget", (1,))


TWICE: list[Event] = [
    UserMessage(text="x marks it", to=("coder",)),
    calls("a"),
    UserMessage(text="y"),
    calls("b"),
] * 2


def test_a_text_that_comes_and_goes_has_several_runs() -> None:
    found = text_fate(log(*TWICE, UserMessage(text="z")), "coder", "x marks", policy=LastN(2))

    assert found.runs == ((1, 2), (5, 6))
    assert (found.verdict, found.last, found.vanished, found.rule) == ("gone", 6, 7, "beyond-last")


def test_a_text_that_the_agents_backend_has_already_is_still_in() -> None:
    found = text_fate(log(*TWICE, UserMessage(text="z")), "coder", "x marks", policy=SinceLastTurn())

    assert (found.verdict, found.runs) == ("still in", ((1, 9),))


@pytest.mark.parametrize("api", FORMATS)
@pytest.mark.parametrize("text", ['say "hi"', "two\nlines", "naïve ✓", "a\\b"])
def test_a_text_is_found_on_every_wire_as_it_was_said_and_within_arguments(api: str, text: str) -> None:
    call = ToolCall(id="c1", name="shell", arguments=json.dumps({"cmd": f"echo {text}"}, ensure_ascii=False))
    said = log(UserMessage(text=f"please {text}", to=("coder",)))
    called = log(ORDER, calls("", call), ToolResult(call_id="c1", text="ok"))

    assert text_fate(said, "coder", text, api=api).runs == ((1, 1),)
    assert text_fate(called, "coder", text, api=api).runs == ((2, 3),)


@pytest.mark.parametrize("api", FORMATS)
def test_what_no_model_reads_is_no_text(api: str) -> None:
    assert text_fate(log(ORDER), "coder", "messages", api=api).verdict == "never in"
    assert text_fate(log(ORDER), "coder", "role", api=api).verdict == "never in"


def test_a_persona_that_was_changed_was_replaced() -> None:
    first = ModeSwitch(cards={"coder": AgentCard(persona="You whisper.")})
    second = ModeSwitch(cards={"coder": AgentCard(persona="You shout.")})

    found = text_fate(log(first, ORDER, second), "coder", "whisper")

    assert (found.verdict, found.last, found.vanished, found.rule) == ("gone", 2, 3, "replaced")


def test_an_error_that_was_answered_since_is_named() -> None:
    conversation = log(
        ORDER, LlmError(agent="coder", category="timeout", message="no token for 60 s"), calls("Here.")
    )

    found = text_fate(conversation, "coder", "no token for 60 s")

    assert (found.last, found.vanished, found.source, found.rule) == (2, 3, (2,), "answered-since")


def test_the_source_is_the_entry_that_said_it_and_not_its_neighbours() -> None:
    conversation = log(
        UserMessage(text="one", to=("coder",)), calls("two"), ORDER, ModeSwitch(context_from=4)
    )

    found = text_fate(conversation, "coder", "touch main")

    assert (found.source, found.rule) == ((3,), "reset")


def test_an_agent_that_nobody_knows_is_an_error() -> None:
    with pytest.raises(AgentNotFoundError):
        text_fate(log(ORDER), "nobody", "x")


def test_of_two_agents_each_has_its_own_answer() -> None:
    conversation = log(
        ModeSwitch(scope="addressed", joins=("coder", "reviewer")),
        ORDER,
        AssistantMessage(agent="reviewer", text="Hm.", to=("coder",)),
    )

    assert text_fate(conversation, "coder", "touch main").verdict == "still in"
    assert text_fate(conversation, "reviewer", "touch main").verdict == "never in"


# `trace_value` finds every place of a log that a value reached, and no other.


SECRET = 'hunter2 "é"'
SAID = Table("said", columns={"text": str}, rows=lambda entry: [{"text": getattr(entry.event, "text", "")}])


def ask(conversation: Conversation, agent: str, api: str) -> None:
    receipt = conversation.request(agent, api=api).receipt
    conversation.append(AssistantMessage(agent=agent, text="Fine.", model=f"m-{agent}", receipt=receipt))


def places(traced: Log, text: str = SECRET) -> list[tuple[str, str, int, str]]:
    return [
        (one.what, one.conversation, one.position, one.where) for one in trace_value(traced, text).reached
    ]


@pytest.fixture
def traced(tmp_path: Path) -> Iterator[Log]:
    with stenolog.open(tmp_path / "talks.db") as traced:
        attach_table(traced, SAID)
        demo = traced["demo"]
        cards: dict[str, AgentCard | None] = {"a": AgentCard(model="m-a"), "b": AgentCard(model="m-b")}
        demo.append(ModeSwitch(cards=cards, scope="addressed"), expected=0)
        demo.append(UserMessage(text="Hello.", to=["a", "b"]))
        ask(demo, "a", "openai-chat")
        demo.append(UserMessage(text=f"It is {SECRET}.", to=["a"]))
        ask(demo, "a", "anthropic")
        ask(demo, "b", "openai-chat")
    with stenolog.open(tmp_path / "talks.db") as traced:
        yield traced


def test_entries_requests_answers_and_tables(traced: Log) -> None:
    found = trace_value(traced, SECRET)
    assert places(traced) == [
        ("entry", "demo", 4, "/event/parts/0/text"),
        ("request", "demo", 4, ""),
        ("answer", "demo", 5, ""),
        ("table", "demo", 4, "said"),
    ]
    assert (found.agents, found.providers) == (("a",), ("anthropic m-a",))
    assert Reached("answer", "demo", 5, "a", "anthropic", "m-a") in found.reached


def test_it_is_found_in_json_inside_of_json_and_in_blobs(traced: Log) -> None:
    other = traced["other"]
    arguments = json.dumps({"password": SECRET})
    other.append(UserMessage(text="Go.", to=["a"]))
    other.append(
        AssistantMessage(agent="a", tool_calls=[ToolCall(id="c", name="login", arguments=arguments)])
    )
    other.append(ToolResult(call_id="c", text="ok", blob=traced.blobs.put(f"said {SECRET}".encode())))
    sha = other.entry(4).event.blob  # type: ignore[union-attr]
    found = places(traced)
    assert ("entry", "other", 3, "/event/parts/0/arguments") in found
    assert ("entry", "other", 4, f"/blobs/{sha}") in found
    assert ("blob", "", 0, sha) in found


def test_what_a_fork_inherits_is_told_once_and_its_own_requests_are_told(traced: Log) -> None:
    fork = traced["demo"].fork(name="fork")
    ask(fork, "a", "gemini")
    found = places(traced)
    assert ("request", "fork", 7, "") in found
    assert [place for place in found if place[:2] == ("entry", "fork")] == []


def test_what_streams_is_found_and_an_erasure_drops_it(traced: Log) -> None:
    demo = traced["demo"]
    claim = Claim(0, "a", "model", 2, 1, "key", "one", 0)
    (taken,) = traced.recorder.claims.take(demo.stream, [claim], demo.position)
    assert taken is not None
    half = len(SECRET) // 2
    traced.recorder.drafts.add([(taken.fence, SECRET[:half].encode()), (taken.fence, SECRET[half:].encode())])
    assert ("draft", "demo", 0, "") in places(traced)
    demo.erase(4)
    assert places(traced) == []


def test_after_an_erasure_nothing_is_left(traced: Log) -> None:
    traced["demo"].erase(4, reason="on request")
    assert places(traced) == []
    assert trace_value(traced, "on request").agents == ()


def test_a_name_and_an_empty_text(traced: Log) -> None:
    traced["about Alice"].append(UserMessage(parts=[ImagePart(url="https://example.org")]))
    assert places(traced, "Alice") == [("name", "about Alice", 0, "")]
    with pytest.raises(CallerError, match="a text to look for"):
        trace_value(traced, " ")
