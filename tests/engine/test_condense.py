"""Condensing: what a summary may take the place of, who writes it, and what comes of a crash."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from functools import reduce
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stenolog import (
    Agent,
    AssistantMessage,
    Conversation,
    Entry,
    Event,
    LlmError,
    ModeSwitch,
    State,
    Team,
    ToolCall,
    ToolResult,
    UserMessage,
    evolve,
)
from stenolog.context import Budget, LastN, Pins
from stenolog.domain.lanes.decide import decide
from stenolog.domain.lanes.state import address
from stenolog.engine import compact
from stenolog.errors import IllegalCommandError, ModelError
from stenolog.events import Control, PositionRange, Receipt
from stenolog.models import ModelRequest, Scripted
from stenolog.projections.requests import lanes
from stenolog.projections.views.context import context, middle
from stenolog.testing import entries
from tests.engine.given import opened, run, run_team
from tests.requests.histories import history
from tests.strategies import decided

LOOK = ToolCall(id="c1", name="look", arguments="{}")
NEVER = UserMessage(text="Never main.", author_kind="system")


def rounds(number: int) -> list[Event]:
    """Return rounds of four messages: a question, a call, its result, an answer."""
    return [
        event
        for n in range(number)
        for event in (
            UserMessage(text=f"Question {n} " + "why " * 40),
            AssistantMessage(agent="coder", text=f"Look {n}", tool_calls=[LOOK]),
            ToolResult(call_id="c1", text=f"{n} " + "line " * 60),
            AssistantMessage(agent="coder", text=f"Answer {n} " + "so " * 40),
        )
    ]


def to_coder(said: list[Event]) -> list[Event]:
    return [replace(each, to=["coder"]) if isinstance(each, UserMessage) else each for each in said]


def spans(conversation: Conversation, keep: int = 4) -> list[tuple[int, int]]:
    return [(span.first, span.last) for span in middle(conversation.entries(), "coder", keep)]


def brief(*turns: Any) -> Agent:
    return Agent("brief", llm=Scripted(*(turns or ("They looked.",)), endless=True))


def test_the_last_messages_and_the_last_question_stay(tmp_path: Path) -> None:
    with opened(tmp_path / "t.db") as conversation:
        conversation.extend([ModeSwitch(joins=["coder"]), *rounds(3)])
        assert spans(conversation, keep=4) == [(2, 9)]
        assert spans(conversation, keep=2) == [(2, 9)]  # 11 calls, and its result at 12 stays
        assert spans(conversation, keep=1) == [(2, 9), (11, 12)]  # 13 goes on from the result: a step of many
        assert spans(conversation, keep=0) == [(2, 9), (11, 13)]
        assert spans(conversation, keep=11) == []


def test_where_nothing_was_said_or_all_of_it_stays_nothing_is_condensed(tmp_path: Path) -> None:
    with opened(tmp_path / "t.db") as conversation:
        assert spans(conversation, keep=0) == []
        conversation.extend([ModeSwitch(joins=["coder"]), NEVER, UserMessage(text="Go")])
        assert spans(conversation, keep=0) == []


def test_what_the_system_says_stays(tmp_path: Path) -> None:
    with opened(tmp_path / "t.db") as conversation:
        nor = UserMessage(text="Nor beta.", author_kind="system")
        conversation.extend([ModeSwitch(joins=["coder"]), NEVER, *rounds(1), nor, *rounds(2)])

        assert spans(conversation, keep=4) == [(3, 6), (8, 11)]


def test_an_open_call_stays_and_all_behind_it(tmp_path: Path) -> None:
    with opened(tmp_path / "t.db") as conversation:
        called = AssistantMessage(agent="coder", tool_calls=[LOOK])
        conversation.extend([ModeSwitch(joins=["coder"]), *rounds(1), UserMessage(text="Go"), called])
        conversation.extend([UserMessage(text=f"And {n}") for n in range(9)])

        assert spans(conversation, keep=2) == [(2, 5)]


BY_USER = UserMessage(text="Deploy it.", to=["tester"])
BY_AGENT = AssistantMessage(agent="coder", text="@tester, deploy it.", to=["tester"])
BY_CALLER = AssistantMessage(agent="coder", text="@tester?", tool_calls=[LOOK], to=["tester"])
FAILED = LlmError(agent="tester", category="timeout")


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ([BY_USER], [(2, 5), (7, 10)]),
        ([BY_AGENT], [(2, 5), (7, 10)]),
        ([BY_CALLER, ToolResult(call_id="c1", text="!")], [(2, 5), (8, 11)]),
        ([BY_USER, FAILED], [(2, 5), (7, 11)]),
    ],
    ids=["by a user", "by an agent", "with a call", "failed"],
)
def test_what_another_agent_was_asked_and_has_not_answered_stays(
    tmp_path: Path, said: list[Event], expected: list[tuple[int, int]]
) -> None:
    with opened(tmp_path / "t.db") as conversation:
        conversation.extend([ModeSwitch(joins=["coder", "tester"]), *to_coder(rounds(1)), *said])
        conversation.extend(to_coder(rounds(2)))

        assert spans(conversation, keep=4) == expected


def test_a_question_and_its_answer_are_covered_together_whatever_came_between(tmp_path: Path) -> None:
    with opened(tmp_path / "t.db") as conversation:
        conversation.extend([ModeSwitch(joins=["coder"]), *rounds(2), UserMessage(text="And now?")])
        run(compact(conversation, "coder", brief(), over=10, keep=4))
        receipt = Receipt(view=10, sha256="")
        conversation.append(AssistantMessage(agent="coder", text="Now this.", cause=10, receipt=receipt))
        conversation.append(UserMessage(text="Well?"))

        assert (spans(conversation, keep=2), spans(conversation, keep=1)) == ([(2, 9)], [(2, 12)])


def test_behind_a_result_a_summary_may_end_and_not_behind_what_came_before_the_answer_to_it(
    tmp_path: Path,
) -> None:
    called = AssistantMessage(agent="coder", tool_calls=[LOOK])
    answer = AssistantMessage(agent="coder", text="So.", cause=4, receipt=Receipt(view=4, sha256=""))
    with opened(tmp_path / "t.db") as conversation:
        conversation.extend([ModeSwitch(joins=["coder"]), UserMessage(text="Go"), called])
        memory = AssistantMessage(agent="coder", purpose="memory", text="They look.")
        conversation.extend([ToolResult(call_id="c1", text="!"), memory, answer])
        conversation.extend(rounds(1))

        assert [spans(conversation, keep=n)[-1:] for n in (4, 5, 6)] == [[(2, 6)], [(2, 4)], [(2, 4)]]


def test_a_call_and_its_result_are_covered_together_though_a_cancel_came_between(tmp_path: Path) -> None:
    cancel = UserMessage(control=Control(action="cancel"))
    with opened(tmp_path / "t.db") as conversation:
        conversation.extend([ModeSwitch(joins=["coder"]), UserMessage(text="Go")])
        conversation.extend([AssistantMessage(agent="coder", tool_calls=[LOOK]), cancel])
        conversation.extend([UserMessage(text="Well?"), ToolResult(call_id="c1", text="late"), *rounds(1)])

        assert (spans(conversation, keep=5), spans(conversation, keep=4)) == ([], [(2, 6)])


def test_a_later_summary_takes_the_place_of_an_earlier_one_and_never_for_nothing(tmp_path: Path) -> None:
    with opened(tmp_path / "t.db") as conversation:
        conversation.extend([ModeSwitch(joins=["coder"]), *rounds(3)])
        first = AssistantMessage(
            agent="coder", purpose="summary", covers=middle(conversation.entries(), "coder", 4), text="Short."
        )
        conversation.submit(first)
        assert spans(conversation, keep=4) == []
        conversation.extend(rounds(2))
        later = middle(conversation.entries(), "coder", 4)

        assert later == (PositionRange(first=2, last=18),)
        decide(
            conversation.state(),
            AssistantMessage(agent="coder", purpose="summary", covers=later, text="Shorter."),
        )


@pytest.mark.parametrize(("start", "covered"), [(10, [(11, 14)]), (4, [(5, 14)])], ids=["turn", "result"])
def test_after_a_reset_only_what_came_since_is_condensed_and_no_result_whose_call_came_before(
    tmp_path: Path, start: int, covered: list[tuple[int, int]]
) -> None:
    with opened(tmp_path / "t.db") as conversation:
        conversation.extend([ModeSwitch(joins=["coder"]), *rounds(2)])
        conversation.append(ModeSwitch(context_from=start), expected=9)
        conversation.extend(rounds(2))

        assert spans(conversation) == covered


def test_a_request_that_is_small_enough_is_left_alone(tmp_path: Path) -> None:
    with opened(tmp_path / "t.db") as conversation:
        conversation.extend([ModeSwitch(joins=["coder"]), *rounds(3)])

        assert run(compact(conversation, "coder", brief(), over=10_000, keep=4)) is None
        assert run(compact(conversation, "coder", brief(), keep=4)) is None
        assert len(conversation.log) == 1


@pytest.mark.parametrize(
    ("policy", "over", "covered"),
    # The last three messages are no whole turn: what the policy cuts of it is covered too.
    [(None, 400, [(2, 9)]), (Budget(tokens=500), None, [(2, 9)]), (LastN(3), None, [(2, 9), (11, 12)])],
    ids=["over", "cut", "last"],
)
def test_the_summary_stands_in_the_place_of_the_middle_and_names_its_fork(
    tmp_path: Path, policy: Any, over: int | None, covered: list[tuple[int, int]]
) -> None:
    summariser = Scripted("They looked three times.")
    coder = Agent("coder", llm=Scripted("It is mended."), policy=policy)
    with opened(tmp_path / "t.db") as conversation:
        conversation.extend([ModeSwitch(joins=["coder"], cards={"coder": coder.card([])}), *rounds(3)])
        made = run(compact(conversation, "coder", Agent("brief", llm=summariser), over=over, keep=3))
        run(run_team(Team([coder]), conversation, "And now?"))
        fork, *_ = (name for name in conversation.log if name != "demo")
        shown = json.dumps(conversation.request("coder").body)

        assert made is not None
        assert isinstance(made.event, AssistantMessage)
        assert made.event.covers == tuple(PositionRange(first=a, last=b) for a, b in covered)
        child: Any = made.event.meta["stenolog"]
        assert child["child"]["conversation"] == fork
        assert "Question 0" in json.dumps(summariser.prompts[0].body)
        assert "Question 0" not in shown
        assert "They looked three times." in shown
        own = next(conversation.log[fork].entries(covered[-1][1]))
        assert own.event.kind == "mode_switch"  # those before are shared, none is copied


def test_what_the_policy_pins_stays_beside_the_summary(tmp_path: Path) -> None:
    note = UserMessage(text="Never touch main.", tags=["goal"])
    coder = Agent("coder", policy=Pins(tags=["goal"]))
    with opened(tmp_path / "t.db") as conversation:
        joins = ModeSwitch(joins=["coder"], cards={"coder": coder.card([])})
        conversation.extend([joins, note, *rounds(3)])
        run(compact(conversation, "coder", brief(), over=400, keep=4))
        said = [message["content"] for message in conversation.request("coder").body["messages"]]

        assert ("Never touch main." in said, "<summary>\nThey looked.\n</summary>" in said) == (True, True)


def test_where_agents_are_shown_what_concerns_them_alone_the_summariser_reads_no_more(tmp_path: Path) -> None:
    summariser = Scripted("They looked.")
    secret = UserMessage(text="For the tester alone.", to=["tester"])
    ours = UserMessage(text="Mend it. " + "Now. " * 400, to=["coder"])
    with opened(tmp_path / "t.db") as conversation:
        conversation.extend([ModeSwitch(joins=["coder", "tester"], scope="addressed"), secret, ours])
        conversation.append(AssistantMessage(agent="coder", text="Mended."))
        conversation.extend([UserMessage(text=f"Again {n}.", to=["coder"]) for n in range(3)])
        made = run(compact(conversation, "coder", Agent("brief", llm=summariser), over=200, keep=2))
        read, shown = summariser.prompts[0].body["messages"], conversation.request("coder").body["messages"]

        assert made is not None
        assert [text in str(read) for text in ("Mend it.", "Mended.", "tester alone")] == [True, True, False]
        assert shown[0]["content"] == "<summary>\nThey looked.\n</summary>"
        assert [text in str(conversation.request("tester").body) for text in ("looked", "alone")] == [
            False,
            True,
        ]


@pytest.mark.parametrize("scope", ["open", "addressed"])
def test_what_was_taken_out_of_context_since_is_not_read(tmp_path: Path, scope: Any) -> None:
    summariser = Scripted("They looked.")
    edit = UserMessage(text="Question 1, without the password", replaces=6)
    with opened(tmp_path / "t.db") as conversation:
        conversation.extend([ModeSwitch(joins=["coder"], scope=scope), *rounds(4), edit])
        conversation.append(
            ModeSwitch(hides=[PositionRange(first=2, last=5), PositionRange(first=16, last=17)]), expected=18
        )
        made = run(compact(conversation, "coder", Agent("brief", llm=summariser), over=200, keep=5))
        read = str(summariser.prompts[0].body)

        assert made is not None
        assert [f"{what} {n} " in read for what in ("Question", "Answer") for n in range(3)] == [
            *(False, False, True),
            *(False, True, True),
        ]


def test_what_is_taken_out_of_context_while_the_summary_is_written_comes_back_by_none(tmp_path: Path) -> None:
    with opened(tmp_path / "t.db") as conversation:

        def says(prompt: ModelRequest) -> str:
            if conversation.position == 13:
                conversation.append(ModeSwitch(hides=[PositionRange(first=2, last=5)]), expected=13)
            return "All." if "Question 0" in str(prompt.body) else "The rest."

        conversation.extend([ModeSwitch(joins=["coder"]), *rounds(3)])
        with pytest.raises(IllegalCommandError, match="what is in context has changed"):
            run(compact(conversation, "coder", brief(says), over=400, keep=4))
        made = run(compact(conversation, "coder", brief(says), over=200, keep=4))

        assert made is not None
        assert made.event.text == "The rest."  # type: ignore[union-attr]


def test_where_a_summary_was_taken_out_of_context_another_one_is_written(tmp_path: Path) -> None:
    turns = iter(["They looked.", "They did look.", "They really did."])
    texts, agent = list[str](), brief(lambda prompt: next(turns))
    with opened(tmp_path / "t.db") as conversation:
        conversation.extend([ModeSwitch(joins=["coder"]), *rounds(3)])
        for hides in (True, False, True):
            made = run(compact(conversation, "coder", agent, over=400, keep=4))
            assert made is not None
            texts.append(made.event.text)  # type: ignore[union-attr]
            first, last = (made.position, made.position) if hides else (14, 16)
            hidden = [PositionRange(first=first, last=last)]
            conversation.append(ModeSwitch(hides=hidden), expected=conversation.position)

        assert texts == ["They looked.", "They did look.", "They really did."]


def test_a_summariser_that_fails_changes_nothing_and_is_asked_again_the_next_time(tmp_path: Path) -> None:
    turns = iter([ModelError("unauthorized", "no such key"), "They looked."])

    def says(prompt: ModelRequest) -> object:
        return next(turns)

    with opened(tmp_path / "t.db") as conversation:
        conversation.extend([ModeSwitch(joins=["coder"]), *rounds(3)])
        with pytest.raises(ModelError, match="unauthorized: no such key"):
            run(compact(conversation, "coder", brief(says), over=400, keep=4))
        assert conversation.position == 13
        made = run(compact(conversation, "coder", brief(says), over=400, keep=4))

        assert made is not None
        assert (made.position, len(conversation.log)) == (14, 2)


def test_a_crash_before_the_summary_is_merged_asks_no_model_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    submit = Conversation.submit

    def dies(conversation: Conversation, command: Event, *, id: str | None = None) -> list[Entry]:
        if isinstance(command, AssistantMessage) and command.purpose == "summary":
            raise KeyboardInterrupt
        return submit(conversation, command, id=id)

    with opened(tmp_path / "t.db") as conversation:
        conversation.extend([ModeSwitch(joins=["coder"]), *rounds(3)])
        monkeypatch.setattr(Conversation, "submit", dies)
        with pytest.raises(KeyboardInterrupt):
            run(compact(conversation, "coder", brief(), over=400, keep=4))
    monkeypatch.undo()
    with opened(tmp_path / "t.db") as conversation:
        made = run(
            compact(conversation, "coder", brief(ModelError("other", "never asked")), over=400, keep=4)
        )

        assert made is not None
        assert (made.event.text, len(conversation.log)) == ("They looked.", 2)  # type: ignore[union-attr]


def summarised(log: list[Entry], keep: int) -> Iterator[tuple[Entry, bool]]:
    """Yield a summary for each lane, as far as there is one to make, and whether it counts."""
    state = reduce(evolve, log, State())
    for lane in lanes(log):
        if lane.agent and (covers := middle(log, lane.address, keep)):
            who = AssistantMessage(agent=lane.agent, task=lane.task, text="Short.")
            made = replace(who, purpose="summary", covers=covers)
            decide(state, made)
            entry = Entry("talk", state.position + 1, "summary", log[-1].time, "", made)
            yield entry, any(each.position == entry.position for each in context([*log, entry]).summaries)


def test_whatever_a_log_holds_a_summary_of_its_middle_is_legal() -> None:
    assert sum(1 for seed in range(200) for _ in summarised(history(seed), keep=3)) > 150


@given(decided(max_size=24), st.integers(0, 6))
def test_of_a_log_that_was_decided_on_a_summary_holds_and_nothing_is_summarised_twice(
    said: list[Event], keep: int
) -> None:
    log = entries(*said)
    for entry, holds in summarised(log, keep):
        assert isinstance(entry.event, AssistantMessage)
        assert holds
        assert middle([*log, entry], address(entry.event.agent, entry.event.task), keep + 1) == ()


def test_few_messages_that_are_too_large_are_condensed_too(tmp_path: Path) -> None:
    with opened(tmp_path / "t.db") as conversation:
        conversation.extend([ModeSwitch(joins=["coder"]), *rounds(3)])
        before = conversation.request("coder").size.tokens
        small = run(compact(conversation, "coder", brief(), over=before + 1))
        made = run(compact(conversation, "coder", brief(), over=before // 2))

        assert (small, made is not None) == (None, True)
        assert conversation.request("coder").size.tokens < before
