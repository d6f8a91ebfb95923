"""When an agent last had a text, and what took it away."""

from __future__ import annotations

import json

import pytest

from stenolog import (
    AgentCard,
    AssistantMessage,
    Event,
    LlmError,
    ModeSwitch,
    ToolCall,
    ToolResult,
    UserMessage,
)
from stenolog.analysis import Bisected, bisect
from stenolog.context import Budget, LastN, SinceLastTurn
from stenolog.errors import AgentNotFoundError
from stenolog.events import PositionRange
from stenolog.requests import FORMATS
from tests.requests.given import calls, log

ORDER = UserMessage(text="Never touch main", to=("coder",))


def test_a_text_that_is_still_there_says_since_when() -> None:
    found = bisect(log(ORDER, calls("Right."), UserMessage(text="Go")), "coder", "touch main")

    assert found == Bisected("touch main", "still in", runs=((1, 3),), last=3)


def test_a_text_that_was_never_said_was_never_in() -> None:
    assert bisect(log(ORDER, calls("Right.")), "coder", "prod").verdict == "never in"


def test_a_summary_that_took_it_away_is_named_with_its_run() -> None:
    summary = calls("They agreed.", purpose="summary", covers=[PositionRange(first=1, last=3)])

    found = bisect(log(ORDER, calls("Right."), UserMessage(text="Go"), summary), "coder", "touch main")

    assert found == Bisected(
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

    by_count = bisect(log(*conversation), "coder", "touch main", policy=LastN(4))
    by_size = bisect(log(*conversation), "coder", "touch main", policy=Budget(tokens=400))

    assert (by_count.rule, by_count.last, by_count.vanished) == ("beyond-last", 4, 5)
    assert (by_size.verdict, by_size.rule, by_size.source) == ("gone", "over-budget", (1,))


TWICE: list[Event] = [
    UserMessage(text="x marks it", to=("coder",)),
    calls("a"),
    UserMessage(text="y"),
    calls("b"),
] * 2


def test_a_text_that_comes_and_goes_has_several_runs() -> None:
    found = bisect(log(*TWICE, UserMessage(text="z")), "coder", "x marks", policy=LastN(2))

    assert found.runs == ((1, 2), (5, 6))
    assert (found.verdict, found.last, found.vanished, found.rule) == ("gone", 6, 7, "beyond-last")


def test_a_text_that_the_agents_backend_has_already_is_still_in() -> None:
    found = bisect(log(*TWICE, UserMessage(text="z")), "coder", "x marks", policy=SinceLastTurn())

    assert (found.verdict, found.runs) == ("still in", ((1, 9),))


@pytest.mark.parametrize("api", FORMATS)
@pytest.mark.parametrize("text", ['say "hi"', "two\nlines", "naïve ✓", "a\\b"])
def test_a_text_is_found_on_every_wire_as_it_was_said_and_within_arguments(api: str, text: str) -> None:
    call = ToolCall(id="c1", name="shell", arguments=json.dumps({"cmd": f"echo {text}"}, ensure_ascii=False))
    said = log(UserMessage(text=f"please {text}", to=("coder",)))
    called = log(ORDER, calls("", call), ToolResult(call_id="c1", text="ok"))

    assert bisect(said, "coder", text, api=api).runs == ((1, 1),)
    assert bisect(called, "coder", text, api=api).runs == ((2, 3),)


@pytest.mark.parametrize("api", FORMATS)
def test_what_no_model_reads_is_no_text(api: str) -> None:
    assert bisect(log(ORDER), "coder", "messages", api=api).verdict == "never in"
    assert bisect(log(ORDER), "coder", "role", api=api).verdict == "never in"


def test_a_persona_that_was_changed_was_replaced() -> None:
    first = ModeSwitch(cards={"coder": AgentCard(persona="You whisper.")})
    second = ModeSwitch(cards={"coder": AgentCard(persona="You shout.")})

    found = bisect(log(first, ORDER, second), "coder", "whisper")

    assert (found.verdict, found.last, found.vanished, found.rule) == ("gone", 2, 3, "replaced")


def test_an_error_that_was_answered_since_is_named() -> None:
    conversation = log(
        ORDER, LlmError(agent="coder", category="timeout", message="no token for 60 s"), calls("Here.")
    )

    found = bisect(conversation, "coder", "no token for 60 s")

    assert (found.last, found.vanished, found.source, found.rule) == (2, 3, (2,), "answered-since")


def test_the_source_is_the_entry_that_said_it_and_not_its_neighbours() -> None:
    conversation = log(
        UserMessage(text="one", to=("coder",)), calls("two"), ORDER, ModeSwitch(context_from=4)
    )

    found = bisect(conversation, "coder", "touch main")

    assert (found.source, found.rule) == ((3,), "reset")


def test_an_agent_that_nobody_knows_is_an_error() -> None:
    with pytest.raises(AgentNotFoundError):
        bisect(log(ORDER), "nobody", "x")


def test_of_two_agents_each_has_its_own_answer() -> None:
    conversation = log(
        ModeSwitch(scope="addressed", joins=("coder", "reviewer")),
        ORDER,
        AssistantMessage(agent="reviewer", text="Hm.", to=("coder",)),
    )

    assert bisect(conversation, "coder", "touch main").verdict == "still in"
    assert bisect(conversation, "reviewer", "touch main").verdict == "never in"
