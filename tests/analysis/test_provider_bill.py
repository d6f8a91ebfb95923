"""The API that an agent's answers came by, and what the provider billed beside what the log has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

import stenolog
from stenolog import AgentCard, AssistantMessage, Entry, LlmError, ModeSwitch, ToolResult, UserMessage
from stenolog.apps.views.lanes import request_of
from stenolog.events import Origin, Usage
from stenolog.projections.analysis.provider_bill import (
    Bill,
    Unexplained,
    answer_to,
    bill,
    last_answer,
    program_of,
    unexplained,
)
from stenolog.projections.requests import LaneId, build, every_request, lanes
from stenolog.projections.requests.pipeline.lane_apis import lane_apis
from stenolog.testing import entries
from tests.random_cases import seeds
from tests.requests.histories import history

LANE = LaneId("a")
CLAUDE = Origin(system="claude-code", id="m1")
USED = Usage(input=35_000, output=5, cache_read=30_000)


def said(**fields: Any) -> AssistantMessage:
    return AssistantMessage(agent="a", text="ok", **{"usage": USED, **fields})


def asked(position: int) -> Sequence[Entry]:
    """Two questions with an answer each; the receipt of the second was made at a position."""
    log = entries(UserMessage(text="hi", to=["a"]), said(source=CLAUDE), UserMessage(text="more", to=["a"]))
    receipt = build(log, "a").receipt
    return entries(*(entry.event for entry in log), said(receipt=receipt))


@pytest.mark.parametrize(
    ("events", "api"),
    [
        ((), "openai-chat"),
        ((said(source=CLAUDE),), "anthropic"),
        ((said(source=Origin(system="codex")),), "openai-responses"),
        ((said(model="claude-opus-4-6"),), "anthropic"),
        ((said(model="litellm/gemini-2.5-flash"),), "gemini"),
        ((ModeSwitch(cards={"a": AgentCard(provider="anthropic", model="opus")}),), "anthropic"),
        ((ModeSwitch(cards={"b": AgentCard(provider="anthropic", model="opus")}),), "openai-chat"),
        ((LlmError(agent="a", category="timeout", model="claude-x"),), "anthropic"),
        ((said(model="gpt-5"),), "openai-chat"),
    ],
)
def test_a_request_is_of_the_api_that_the_agents_answers_came_by(events: Any, api: str) -> None:
    assert lane_apis(entries(*events)).of(LANE) == api


@seeds(10, slow=100)
def test_every_request_that_names_no_api_is_of_the_api_of_the_agents_answers(seeds: range) -> None:
    for seed in seeds:
        log = history(seed)
        with stenolog.open(":memory:") as store:
            store["talk"].extend([entry.event for entry in log])
            for lane in lanes(log):
                api, (agent, task) = lane_apis(log).of(lane), lane
                asked = [build(log, agent, task=task), *every_request(log, agent, task=task)]
                asked += [store["talk"].request(agent, at, task=task) for at in (None, len(log))]
                asked.append(request_of(store["talk"], lane.address, len(log), None))

                assert {request.api.partition("@")[0] for request in asked} == {api}, (seed, lane)


def test_a_receipt_names_the_api_whatever_the_model_is_called() -> None:
    receipt = build(entries(UserMessage(text="hi", to=["a"])), "a", api="openai-responses").receipt

    assert lane_apis(entries(said(model="claude-x", receipt=receipt))).of(LANE) == "openai-responses"


def test_the_answer_to_a_request_is_found_by_its_cause() -> None:
    log = entries(
        UserMessage(text="hi"),
        AssistantMessage(agent="b", text="not this one", usage=USED, cause=1),
        said(cause=1),
        UserMessage(text="and?"),
        said(cause=4),
    )

    assert [getattr(answer_to(log, LANE, at), "position", None) for at in range(1, 6)] == [
        3,
        3,
        None,
        5,
        None,
    ]


def test_an_answer_without_a_cause_answers_what_stands_last_before_it() -> None:
    log = entries(UserMessage(text="hi"), ToolResult(call_id="1", text="x"), ModeSwitch(title="t"), said())

    assert [getattr(answer_to(log, LANE, at), "position", None) for at in range(1, 5)] == [None, 4, 4, None]


def test_an_answer_with_a_receipt_answers_the_request_that_the_receipt_names() -> None:
    log = asked(3)

    assert [getattr(answer_to(log, LANE, at), "position", None) for at in range(1, 5)] == [2, None, 4, None]


def test_what_was_billed_beyond_the_log_is_unexplained_if_another_program_sent_it() -> None:
    foreign, own = (entry for entry in asked(3) if entry.event.kind == "assistant_message")

    assert bill(foreign, 1, 39, is_its_own=True) == Bill("claude-code", 2, 1, 35_000, 30_000, 39, True)
    assert bill(foreign, 1, 39, is_its_own=True).is_short
    assert bill(own, 3, 39, is_its_own=True).unexplained is None


@pytest.mark.parametrize(
    ("rebuilt", "is_short"), [(34_501, False), (31_501, False), (31_500, True), (40_000, False)]
)
def test_a_small_difference_to_the_bill_is_one_of_counting(rebuilt: int, *, is_short: bool) -> None:
    (answer,) = entries(said(source=CLAUDE))

    assert bill(answer, 0, rebuilt, is_its_own=True).is_short is is_short


def test_the_last_answer_tells_the_program_and_the_last_bill() -> None:
    log = entries(said(source=CLAUDE), said(source=CLAUDE, usage=None), UserMessage(text="more"))

    assert program_of(reversed(log), LANE) == "claude-code"
    assert getattr(last_answer(log, LANE, 3), "position", None) == 1
    assert program_of(reversed(log), LaneId("b")) == ""
    assert last_answer(log, LaneId("b"), 3) is None


BOTH = ("system prompt", "tools")
START = "from the start: what came before this file, system prompt, tools"


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (Bill(), None),
        (Bill("claude-code"), Unexplained(BOTH, None, 0, 0, 0, 0, 0)),
        (Bill("claude-code", 2, 1, 100, 0, 39), Unexplained(BOTH, 0, 0, 0, 100, 39, 1)),
        (
            Bill("claude-code", 2, 1, 35_000, 0, 39, first=34_961),
            Unexplained(BOTH, 34_961, 34_961, 0, 35_000, 39, 1),
        ),
        (
            Bill("claude-code", 2, 1, 35_000, 0, 39, first=20_000),
            Unexplained(BOTH, 34_961, 20_000, 14_961, 35_000, 39, 1),
        ),
        (
            Bill("codex", 2, 1, 35_000, 0, 39, has_prompt=True, first=20_000),
            Unexplained(("tools",), 34_961, 20_000, 14_961, 35_000, 39, 1),
        ),
        (
            Bill("codex", 2, 1, 35_000, 0, 39, has_prompt=True, has_tools=True, first=20_000),
            Unexplained((), 34_961, 20_000, 14_961, 35_000, 39, 1),
        ),
        (Bill("codex", 2, 1, 100, 0, 90, has_prompt=True, has_tools=True), None),
    ],
)
def test_what_is_not_explained_has_two_parts(made: Bill, expected: Unexplained | None) -> None:
    assert made.unexplained == expected


@pytest.mark.parametrize(
    ("sizes", "first", "named", "words"),
    [
        ([(9_000, 1_000)], 8_000, BOTH, f"8,000 {START}: not recorded"),
        (
            [(9_000, 1_000), (20_000, 6_000)],
            8_000,
            BOTH,
            f"16,000 {START}: not recorded; 6,000 grown since",
        ),
        # What was there at first is gone later: it was no system prompt.
        (
            [(9_000, 1_000), (9_000, 4_000)],
            8_000,
            (),
            "13,000 from the start: what came before this file: not recorded",
        ),
        ([(2_000, 2_600), (20_000, 10_000)], -600, BOTH, "9,400 grown since"),
    ],
)
def test_only_what_was_there_at_first_and_stays_is_called_system_prompt_and_tools(
    sizes: list[tuple[int, int]], first: int, named: tuple[str, ...], words: str
) -> None:
    found = unexplained(BOTH, sizes, first, 7)

    assert (found.parts, found.in_words) == (named, words)
    assert found.first + found.grown == found.tokens == max(found.billed - found.rebuilt, 0)
