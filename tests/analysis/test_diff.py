"""Two requests compared: what they begin with in common, what came, what went, what has another form."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given

from stenolog import AgentCard, AssistantMessage, Entry, Event, ModeSwitch, ToolCall, ToolResult, UserMessage
from stenolog.context import Budget, LastN
from stenolog.errors import UnsupportedVersionError
from stenolog.projections.requests import APIS, Request, build, every_request, lanes
from stenolog.projections.requests.comparison import Change, RequestDiff, diff, messages
from stenolog.projections.requests.tokens import OVERHEAD
from stenolog.testing import entries
from tests.analysis.crew import crew
from tests.strategies import logs

CREW = crew()
TALK: list[Event] = [
    UserMessage(text="one", to=("coder",)),
    *(
        event
        for number in range(2, 12)
        for event in (
            AssistantMessage(agent="coder", text=f"answer {number}"),
            UserMessage(text=f"and {number}"),
        )
    ),
]


def rows(told: RequestDiff) -> list[tuple[str, int, int, str, str]]:
    """Return each change as its sign, its positions, and the rules before and after."""
    return [(change.sign, change.first, change.last, change.was, change.rule) for change in told.changes]


def test_what_was_said_since_came_and_all_before_it_is_shared() -> None:
    before, after = build(entries(*TALK[:3]), "coder"), build(entries(*TALK[:5]), "coder")
    told = diff(before, after)

    assert rows(told) == [("+", 4, 4, "", "own"), ("+", 5, 5, "", "user")]
    assert told.shared == (3, before.size.tokens)
    assert (told.messages_before, told.messages_after) == (3, 5)
    more = sum(OVERHEAD + each.tokens_after for each in told.changes)
    assert told.tokens_after - told.tokens_before == more
    assert (told.around, told.equal) == ((), False)


def test_a_run_that_was_dropped_is_one_line_with_its_rule_and_tokens() -> None:
    log = entries(*TALK)
    before, after = build(log, "coder"), build(log, "coder", policy=LastN(3))
    told = diff(before, after)

    assert rows(told) == [("-", 1, 18, "", "beyond-last")]
    assert told.changes[0].parts == 18
    gone = told.changes[0].tokens_before + told.changes[0].parts * OVERHEAD
    assert gone == told.tokens_before - told.tokens_after


def test_what_comes_back_says_by_which_rule_it_had_been_left_out() -> None:
    log = entries(*TALK)
    told = diff(build(log, "coder", policy=LastN(3)), build(log, "coder", policy=LastN(5)))

    assert rows(told) == [("+", 17, 17, "beyond-last", "user"), ("+", 18, 18, "beyond-last", "own")]


def test_the_same_words_in_another_form_are_a_change_with_both_rules() -> None:
    log = entries(
        UserMessage(text="Look", to=("coder",)),
        AssistantMessage(agent="coder", text="I saw it."),
        AssistantMessage(agent="reviewer", text="So did I."),
    )
    told = diff(build(log, "coder"), build(log, "reviewer"))

    assert rows(told)[:3] == [
        ("~", 1, 1, "user", "attributed"),
        ("~", 2, 2, "own", "attributed"),
        ("~", 3, 3, "attributed", "own"),
    ]
    assert told.shared.messages == 0


def test_a_seal_that_is_no_longer_needed_is_gone_and_its_result_came() -> None:
    log = entries(
        UserMessage(text="Look", to=("coder",)),
        AssistantMessage(agent="coder", tool_calls=[ToolCall(id="c", name="shell")]),
        ToolResult(call_id="c", text="a.py"),
    )
    told = diff(build(log[:2], "coder"), build(log, "coder"))

    assert rows(told) == [("-", 2, 2, "placeholder-running", ""), ("+", 3, 3, "", "result")]


def test_a_persona_from_another_mode_switch_is_the_same_part_with_other_words() -> None:
    log = entries(
        ModeSwitch(cards={"coder": AgentCard(persona="You code.", parameters={"temperature": 0.5})}),
        UserMessage(text="Look", to=("coder",)),
        ModeSwitch(cards={"coder": AgentCard(persona="You mend.", model="gpt-5")}),
    )
    told = diff(build(log[:2], "coder"), build(log, "coder"))

    assert rows(told) == [("~", 3, 3, "persona", "persona")]
    assert told.changes[0].text == "You mend."
    assert told.around == ("/model", "/temperature")
    assert told.shared == (0, 0)


def test_system_text_and_tools_that_differ_are_named_as_pointers() -> None:
    told = diff(build(CREW, "coder", api="anthropic"), build(CREW, "reviewer", api="anthropic"))

    assert {"/system", "/tools"} <= set(told.around)


@pytest.mark.parametrize("api", APIS)
def test_a_request_does_not_differ_from_itself(api: str) -> None:
    request = build(CREW, "coder", api=api, policy=Budget(tokens=2_000))
    told = diff(request, request)

    assert (told.equal, told.changes, told.around) == (True, (), ())
    assert told.shared.messages == len(messages(request)) > 0


def test_keys_in_another_order_are_other_bytes() -> None:
    request = build(entries(*TALK[:1]), "coder")
    [message] = request.body["messages"]
    turned = {**request.body, "messages": [dict(reversed(message.items()))]}
    other = replace(request, body=turned)

    assert diff(request, other).shared.messages == 0


@given(logs(max_size=8))
def test_the_shared_prefix_is_the_longest_and_nothing_is_lost(log: list[Entry]) -> None:
    """What is not named as a change stands in both requests, by the same rule."""
    try:
        requests = [
            request for lane in lanes(log) for request in every_request(log, lane.agent, task=lane.task)
        ][-6:]
    except UnsupportedVersionError:
        return
    for before in requests:
        for after in requests:
            told = diff(before, after)
            first, second = messages(before), messages(after)
            same = told.shared.messages

            assert list(first[:same]) == list(second[:same])
            assert same == min(len(first), len(second)) or first[same] != second[same]
            assert _net(told.changes) == _words(after) - _words(before)
            assert (told.tokens_before, told.tokens_after) == (before.size.tokens, after.size.tokens)


def _net(changes: tuple[Change, ...]) -> int:
    return sum(change.tokens_after - change.tokens_before for change in changes)


def _words(request: Request) -> int:
    return sum(part.tokens_out for part in request.parts)
