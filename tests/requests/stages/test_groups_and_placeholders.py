"""Each call has exactly one result, in its place."""

from __future__ import annotations

import re

import pytest

from stenolog import LlmError, ToolCall, ToolResult, UserMessage
from stenolog.context import Policy
from stenolog.events import CallRef, Origin, Receipt
from stenolog.requests import every_request, lanes
from tests.domain.talking import fold
from tests.random_cases import seeds
from tests.requests.given import ASKED, CALL, calls, chat, said
from tests.requests.histories import history
from tests.requests.policies import SMALL


def test_what_came_between_a_call_and_its_result_comes_behind_them() -> None:
    request = chat(
        ASKED, calls("", CALL), UserMessage(text="Hurry"), ToolResult(call_id="c1", text="a.py"), calls("ok")
    )

    assert [role for role, _ in said(request)][:4] == ["user", "assistant", "tool", "user"]


def test_a_pending_call_gets_a_placeholder_and_the_request_is_a_preview() -> None:
    request = chat(ASKED, calls("", CALL))

    assert said(request)[-1] == ("tool", "[no result yet: the call is still running]")
    assert (request.sendable, request.reason) == (False, "1 of its calls has no result yet")
    assert request.places == (2,)


@seeds(20, slow=100)
@pytest.mark.parametrize("chosen", [SMALL["full"], SMALL["tokens"]])
def test_a_request_that_is_not_sent_carries_the_positions_that_its_reason_names(
    chosen: Policy, seeds: range
) -> None:
    for seed in seeds:
        log = history(seed, longest=24)
        for lane in lanes(log):
            for request in every_request(log, lane.agent, task=lane.task, policy=chosen):
                named = {int(found) for found in re.findall(r"\b(?:position|at) (\d+)\b", request.reason)}
                assert named <= {*request.places}, (seed, request.at)


def test_a_call_that_its_lane_waits_for_no_more_is_not_said_to_be_running() -> None:
    request = chat(ASKED, calls("", CALL), calls("Never mind"), ASKED)

    assert said(request)[2] == ("tool", "[no result was recorded]")


@seeds(15, slow=200)
@pytest.mark.parametrize("chosen", [None, SMALL["full"], SMALL["one voice"]])
def test_only_calls_that_a_lane_waits_for_are_said_to_be_running(chosen: Policy | None, seeds: range) -> None:
    for seed in seeds:
        log = history(seed, longest=24)
        for lane in lanes(log):
            for request in every_request(log, lane.agent, task=lane.task, policy=chosen):
                waiting = {call.position for _, call in fold(log[: request.at]).open_calls()}
                running = {p.positions[0] for p in request.parts if p.rule == "placeholder-running"}

                assert running <= waiting, (seed, request.at)


def test_a_call_that_the_user_interrupted_gets_a_placeholder_that_says_so() -> None:
    request = chat(ASKED, calls("", CALL), LlmError(agent="coder", category="cancelled"), ASKED)

    assert said(request)[2] == ("tool", "[no result: the call was interrupted]")


def test_the_placeholder_of_an_interrupted_call_stays_when_the_lane_has_answered_since() -> None:
    before = (ASKED, calls("", CALL), LlmError(agent="coder", category="cancelled"), ASKED)

    assert said(chat(*before, calls("ok"), ASKED))[:5] == said(chat(*before))


def test_a_placeholder_that_an_answer_was_built_on_is_final_and_the_result_follows_as_text() -> None:
    late = ToolResult(call_id="c1", text="a.py")
    before = (ASKED, calls("", CALL), UserMessage(text="And?"), calls("Still waiting"))

    request = chat(*before, late, UserMessage(text="Now?"))

    assert said(request)[:5] == said(chat(*before))[:5]
    assert said(request)[5] == ("user", '<tool-result call="c1" tool="shell">\na.py\n</tool-result>')


def test_a_second_result_and_an_orphan_become_text() -> None:
    request = chat(
        ToolResult(call_id="c0", text="of old"),
        ASKED,
        calls("", CALL),
        ToolResult(call_id="c1", text="one"),
        ToolResult(call_id="c1", text="two"),
    )

    assert [part.rule for part in request.parts][:5] == [
        "orphan-result",
        "user",
        "own",
        "result",
        "second-result",
    ]


def test_parts_of_one_foreign_message_are_joined_to_one_turn() -> None:
    source = Origin(system="claude-code", id="msg_1")
    second = ToolCall(id="c2", name="shell")

    request = chat(
        ASKED,
        calls("Two calls", CALL, source=source),
        ToolResult(call_id="c1", text="one"),
        calls("", second, source=source),
        ToolResult(call_id="c2", text="two"),
    )

    assert [role for role, _ in said(request)] == ["user", "assistant", "tool", "tool"]
    assert [call["id"] for call in request.body["messages"][1]["tool_calls"]] == ["c1", "c2"]


def test_a_result_that_names_its_call_finds_it_among_equal_ids() -> None:
    request = chat(
        ASKED,
        calls("", CALL, CALL),
        ToolResult(call_id="c1", call=CallRef(entry="e2", index=1), text="of the second"),
        ToolResult(call_id="c1", call=CallRef(entry="e2", index=0), text="of the first"),
    )

    assert [content for role, content in said(request) if role == "tool"] == ["of the first", "of the second"]


def test_what_ends_with_the_agents_own_word_is_a_preview_that_says_so() -> None:
    request = chat(ASKED, calls("ok"))

    assert request.reason == "nothing to answer: the agent has already answered"
    assert said(request)[-1] == ("user", "[a preview: there is nothing to answer here yet]")
    assert request.parts[-1].rule == "preview-note"


def test_a_call_whose_result_is_not_shown_is_not_said_to_be_running() -> None:
    shown_to_nobody = ToolResult(call_id="c1", text="a.py", in_context=False)

    request = chat(ASKED, calls("", CALL), shown_to_nobody)

    assert said(request)[2] == ("tool", "[there was a result; it is not shown here]")
    assert request.ready


def test_a_memory_takes_no_turn_and_closes_no_call() -> None:
    fact = calls("The user likes tabs", purpose="memory")

    request = chat(ASKED, calls("", CALL), fact, ToolResult(call_id="c1", text="a.py"))

    assert [role for role, _ in said(request)] == ["user", "assistant", "tool", "user"]
    assert said(request)[2:] == [("tool", "a.py"), ("user", "<memory>\nThe user likes tabs\n</memory>")]
    assert request.ready


def test_a_message_that_arrived_while_the_answer_was_written_is_still_to_be_answered() -> None:
    receipt = Receipt(view=1, sha256="0")

    assert chat(ASKED, ASKED, calls("ok", receipt=receipt)).ready
    assert not chat(ASKED, ASKED, calls("ok")).ready
