"""Two requests compared: what both begin with, what ended that, what came, went or has another form."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import replace
from time import process_time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stenolog import AgentCard, AssistantMessage, Entry, Event, ModeSwitch, ToolCall, ToolResult, UserMessage
from stenolog.analysis import RequestDiff, diff
from stenolog.context import Budget, LastN
from stenolog.domain.values import PositionRange
from stenolog.errors import UnsupportedVersionError
from stenolog.projections.analysis.cache.changes import PartChange
from stenolog.projections.analysis.cache.difference import SECTIONS, first_pointer, shared_beginning
from stenolog.projections.analysis.word_diff import Span, word_diff
from stenolog.projections.formats import FORMATS
from stenolog.projections.messages.body_digest import compact
from stenolog.projections.messages.sizes import OVERHEAD, Rate
from stenolog.projections.requests import Request, build, every_request, lanes
from stenolog.projections.requests.part_texts import messages
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
    assert told.shared[:2] == (3, before.size.tokens)
    assert (told.first, told.again, told.fresh) == (None, 0, after.size.tokens - before.size.tokens)
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
    assert told.shared[:3] == (0, 0, 0)


def test_system_text_and_tools_that_differ_are_named_as_pointers() -> None:
    told = diff(build(CREW, "coder", api="anthropic"), build(CREW, "reviewer", api="anthropic"))

    assert {"/system", "/tools"} <= set(told.around)


def test_parts_that_are_only_counted_otherwise_are_no_change() -> None:
    """Two requests have one rate: the later one's, as its bills were known then."""
    log = entries(*TALK)
    before, after = build(log[:-2], "coder").at_rate(Rate(3, 2)), build(log, "coder").at_rate(Rate(4, 3))
    told = diff(before, after)

    assert [sign for sign, *_ in rows(told)] == ["+", "+"]
    assert (told.tokens_before, told.tokens_after) == (before.at_rate(after.rate).tokens, after.tokens)
    assert shared_beginning(before, after) == told.shared
    assert before.rate == Rate(3, 2)


@pytest.mark.parametrize("api", FORMATS)
def test_a_request_does_not_differ_from_itself(api: str) -> None:
    request = build(CREW, "coder", api=api, policy=Budget(tokens=2_000))
    told = diff(request, request)

    assert (told.equal, told.changes, told.around) == (True, (), ())
    assert told.shared.messages == len(messages(request)) > 0


def test_a_setting_that_no_model_reads_ends_no_beginning() -> None:
    card = AgentCard(model="gpt-5.2", persona="You mend.", parameters={"temperature": 0.5})
    log = entries(ModeSwitch(cards={"coder": card}), UserMessage(text="Look", to=("coder",)))
    request = build(log, "coder")
    told = diff(request, replace(request, body={**request.body, "temperature": 0.7}))

    assert (told.around, told.first, told.fresh, told.equal) == (("/temperature",), None, 0, False)


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
            ends = same == min(len(first), len(second)) or first[same] != second[same]
            assert ends or told.shared.sections != SECTIONS
            assert _net(told.changes) == _words(after) - _words(before)
            assert (told.tokens_before, told.tokens_after) == (before.size.tokens, after.size.tokens)


def _net(changes: tuple[PartChange, ...]) -> int:
    return sum(change.tokens_after - change.tokens_before for change in changes)


def _words(request: Request) -> int:
    return sum(part.tokens_out for part in request.parts)


CARD = AgentCard(model="gpt-5.2", persona="You mend what is broken.")
SHORT: list[Event] = [
    ModeSwitch(cards={"coder": CARD}, joins=("coder",)),
    UserMessage(text="one", to=("coder",)),
    AssistantMessage(agent="coder", text="two"),
    UserMessage(text="three", to=("coder",)),
]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=12,
)


def told_of(
    first: Sequence[Event], last: Sequence[Event], api: str = "anthropic", **asked: object
) -> RequestDiff:
    before = build(entries(*first), "coder", api=api)
    after = build(entries(*last), "coder", api=api, **asked)  # type: ignore[arg-type]
    return diff(before, after, entries(*last)[len(first) :], CARD)


@pytest.mark.parametrize("api", FORMATS)
def test_what_was_only_added_reads_nothing_anew(api: str) -> None:
    more = [*SHORT, AssistantMessage(agent="coder", text="four"), UserMessage(text="five", to=("coder",))]
    found = told_of(SHORT, more, api)
    assert (found.first, found.again) == (None, 0)
    assert found.shared.tokens == found.tokens_before
    assert found.shared.tokens + found.fresh == found.tokens_after


def test_a_rewind_is_named_as_the_cause_of_what_it_hides() -> None:
    hide = ModeSwitch(hides=(PositionRange(first=2, last=3),))
    found = told_of(SHORT, [*SHORT, hide])
    assert found.first is not None
    assert (found.first.kind, found.first.how, found.first.rule) == ("history", "removed", "hidden")
    assert (found.first.entry, found.first.was) == (5, (2,))
    assert found.first.pointer.startswith("/messages/0")
    assert found.again > 0  # the last message was sent before, and is no longer after the same words


def test_a_summary_is_named_as_the_cause_of_what_it_covers() -> None:
    summary = AssistantMessage(
        agent="coder", purpose="summary", text="all", covers=(PositionRange(first=2, last=3),)
    )
    found = told_of(SHORT, [*SHORT, summary])
    assert found.first is not None
    assert (found.first.kind, found.first.rule, found.first.entry) == ("compaction", "covered", 5)


def test_a_changed_setting_beside_the_messages_ends_the_beginning_before_them() -> None:
    other = ModeSwitch(cards={"coder": AgentCard(model="gpt-5.2", persona="You break what is whole.")})
    found = told_of(SHORT, [*SHORT, other])
    assert found.first is not None
    assert (found.first.kind, found.first.pointer, found.first.entry) == ("system", "/system/0/text", 5)
    assert found.shared.messages == 0
    assert found.again > 0


def test_another_model_has_nothing_in_its_cache() -> None:
    other = ModeSwitch(cards={"coder": AgentCard(model="gpt-6", persona=CARD.persona)})
    found = told_of(SHORT, [*SHORT, other])
    assert found.shared[:3] == (0, 0, 0)
    assert found.first is not None
    assert (found.first.kind, found.first.entry) == ("model", 5)


def test_a_cut_names_its_rule() -> None:
    found = told_of(SHORT, SHORT, policy=LastN(1))
    assert found.first is not None
    assert found.first.rule == "beyond-last"


@given(JSON, JSON)
def test_the_first_pointer_is_to_a_value_that_differs(one: object, other: object) -> None:
    left, right = (json.loads(compact(each)) for each in (one, other))
    if compact(left) != compact(right):
        pointer = first_pointer(left, right)
        there = [_at(value, pointer) for value in (left, right)]
        assert there[0] != there[1] or compact(there[0]) != compact(there[1])


def _at(value: object, pointer: str) -> object:
    for key in pointer.split("/")[1:]:
        name = key.replace("~1", "/").replace("~0", "~")
        if isinstance(value, list):
            value = value[int(name)] if int(name) < len(value) else "nothing there"
        elif isinstance(value, dict):
            value = (value[name], [*value].index(name)) if name in value else "nothing there"
            value = value[0] if isinstance(value, tuple) and isinstance(value[0], dict | list) else value
        elif isinstance(value, tuple):
            value = value[0]
    return value


def test_the_same_keys_in_another_order_differ_at_the_first_that_is_elsewhere() -> None:
    one = {"a": 1, "b": {"x": 1, "y": 2}}
    other = {"a": 1, "b": {"y": 2, "x": 1}}

    assert first_pointer(one, other) == "/b/y"


# The difference of two texts: it holds both, says little where little changed, and is quick.


TEXTS = st.text(st.sampled_from("ab \n."), max_size=60) | st.text(max_size=20)


@given(TEXTS, TEXTS)
def test_both_texts_can_be_read_off_a_difference(old: str, new: str) -> None:
    spans = word_diff(old, new)
    assert "".join(span.text for span in spans if span.sign != "+") == old
    assert "".join(span.text for span in spans if span.sign != "-") == new
    assert all(span.text for span in spans)
    assert (old == new) == all(span.sign == "=" for span in spans)


def test_a_changed_word_is_one_word_taken_and_one_given() -> None:
    assert word_diff("one two three\nfour", "one 2 three\nfour") == (
        Span("=", "one "),
        Span("-", "two"),
        Span("+", "2"),
        Span("=", " three\nfour"),
    )


def test_where_hardly_a_word_stays_both_texts_are_whole() -> None:
    assert word_diff("a cat sat there", "nobody knows why") == (
        Span("-", "a cat sat there"),
        Span("+", "nobody knows why"),
    )


def test_texts_of_200_kb_are_compared_in_less_than_a_tenth_of_a_second() -> None:
    draw = random.Random(1)
    lines = [" ".join(f"w{draw.randrange(10_000)}" for _ in range(12)) for _ in range(3_000)]
    changed = [f"{line} more" if index % 2 else line for index, line in enumerate(lines)]
    old, new = "\n".join(lines), "\n".join(changed)
    assert len(old) > 200_000
    begin = process_time()
    spans = word_diff(old, new)
    took = process_time() - begin
    assert len(spans) > 2_000
    assert took < 0.3  # 0.06 s by itself, on a machine that others use too
