"""Where an entry went: the requests it is in, what moved, what it refers to and what refers to it."""

from __future__ import annotations

import json

import pytest
from hypothesis import given

from stenolog import (
    AssistantMessage,
    Entry,
    Event,
    LlmError,
    ModeSwitch,
    TextPart,
    ToolCall,
    ToolResult,
    UserMessage,
)
from stenolog.context import LastN
from stenolog.errors import PositionNotFoundError, UnsupportedVersionError
from stenolog.events import PositionRange
from stenolog.parts import ReasoningPart
from stenolog.projections.analysis.blame import references
from stenolog.projections.analysis.explain import Explanation, explain, form
from stenolog.projections.analysis.quotes import quoting
from stenolog.projections.requests import build, every_request, lanes
from stenolog.testing import entries
from tests.analysis.crew import crew
from tests.strategies import logs

CREW = crew()


def way(told: Explanation, lane: str) -> list[tuple[int, int, str, tuple[str, ...]]]:
    """Return each stretch of a lane: from, to, fate and rules."""
    stretches = next(found.stretches for found in told.lanes if found.lane == lane)
    return [(each.first, each.last, each.form.fate, each.form.rules) for each in stretches]


def test_an_entry_has_a_stretch_for_each_form_that_a_lane_was_shown_it_in() -> None:
    told = explain(CREW, 3)

    assert way(told, "planner") == [(14, 14, "kept", ("own",))]
    assert way(told, "coder") == [
        (3, 6, "reworded", ("attributed",)),
        (9, 14, "dropped", ("over-budget",)),
    ]
    assert way(told, "reviewer") == [(10, 14, "dropped", ("not-addressed",))]


def test_a_stretch_says_as_what_at_what_cost_and_which_receipts_prove_it() -> None:
    coder = next(lane for lane in explain(CREW, 3).lanes if lane.lane == "coder")
    shown = coder.stretches[0]

    assert (shown.form.role, shown.form.message) == ("user", 1)
    assert 0 < shown.form.tokens_in < shown.form.tokens_out
    assert (shown.sendable, shown.sent) == (2, (4, 7))
    assert [stretch.sent for stretch in coder.stretches[1:]] == [(10, 12)]


def test_a_call_and_its_seal_are_two_rules_until_its_result_is_there() -> None:
    log = entries(
        UserMessage(text="Look", to=("coder",)),
        AssistantMessage(agent="coder", tool_calls=[ToolCall(id="c", name="shell")]),
        LlmError(agent="coder", category="cancelled"),
        UserMessage(text="And?", to=("coder",)),
        ToolResult(call_id="c", text="a.py"),
    )

    assert way(explain(log, 2), "coder") == [
        (4, 4, "kept", ("own", "placeholder-interrupted")),
        (5, 5, "kept", ("own",)),
    ]


def test_parts_that_the_wire_cannot_carry_are_named_beside_those_that_it_carries() -> None:
    log = entries(
        UserMessage(text="Look", to=("coder",)),
        AssistantMessage(agent="coder", parts=(ReasoningPart(text="Hm."), TextPart(text="I did."))),
        UserMessage(text="And?"),
    )
    stretch = explain(log, 2).lanes[0].stretches[0]

    assert (stretch.form.fate, stretch.form.without) == ("kept", ("reasoning-not-carried",))


def test_a_policy_that_is_asked_for_is_followed_instead_of_the_agents_own() -> None:
    assert way(explain(CREW, 2, policy=LastN(1)), "planner") == [
        (2, 2, "reworded", ("attributed",)),
        (14, 14, "dropped", ("beyond-last",)),
    ]


def test_a_setting_is_no_message_but_the_card_in_it_is_a_persona_and_tools() -> None:
    switched = [*(entry.event for entry in CREW), ModeSwitch(mode="agent")]

    assert way(explain(entries(*switched), 15), "coder") == [(15, 15, "a setting", ())]
    assert way(explain(CREW, 1), "coder")[0][2:] == ("kept", ("persona", "tools"))


def test_a_lane_without_a_request_yet_has_no_stretches() -> None:
    log = entries(UserMessage(text="Hello"), AssistantMessage(agent="coder", text="Hi"))

    assert [(lane.lane, len(lane.stretches)) for lane in explain(log[:1], 1).lanes] == []
    assert [(lane.lane, len(lane.stretches)) for lane in explain(log, 1).lanes] == [("coder", 1)]


def test_the_transitions_that_it_caused() -> None:
    assert [(made.lane, made.trigger, made.target) for made in explain(CREW, 10).transitions] == [
        ("coder", "answered", "idle"),
        ("reviewer", "asked", "awaiting_llm"),
    ]


def test_what_it_refers_to_and_what_refers_to_it() -> None:
    told = explain(CREW, 7)

    assert [(ref.first, ref.field) for ref in told.refers_to] == [(6, "cause"), (6, "receipt.view")]
    assert [(ref.position, ref.field) for ref in told.referred_to_by] == [(8, "control.call"), (9, "call")]


def test_references_by_spans_name_the_whole_span() -> None:
    log = entries(
        UserMessage(text="a"),
        UserMessage(text="b", replaces=1),
        AssistantMessage(agent="x", purpose="summary", covers=[PositionRange(first=1, last=2)], text="ab"),
        ModeSwitch(hides=[PositionRange(first=1, last=3)]),
        ModeSwitch(context_from=4),
    )

    assert [tuple(ref) for ref in references(log)] == [
        (2, 1, 1, "replaces"),
        (3, 1, 2, "covers"),
        (4, 1, 3, "hides"),
        (5, 1, 3, "context_from"),
    ]


@pytest.mark.parametrize("position", [0, 15])
def test_an_entry_that_is_not_there_is_refused(position: int) -> None:
    with pytest.raises(PositionNotFoundError, match=f"expected a position from 1 to 14, found {position}"):
        explain(CREW, position)


@given(logs(max_size=8))
def test_what_is_said_of_a_request_is_what_that_request_says(log: list[Entry]) -> None:
    """Every request that may have been sent lies in a stretch, and has the entry in the stretch's form."""
    try:
        requests = {lane.address: list(every_request(log, lane.agent, task=lane.task)) for lane in lanes(log)}
    except UnsupportedVersionError:
        return
    for entry in log:
        told = explain(log, entry.position)

        for lane in told.lanes:
            for request in requests[lane.lane]:
                if request.ready and request.at >= entry.position:
                    [stretch] = [s for s in lane.stretches if s.first <= request.at <= s.last]
                    found = form(request, entry)
                    assert (found.fate, found.rules) == (stretch.form.fate, stretch.form.rules)


def test_the_end_of_a_lane_is_what_its_request_now_shows() -> None:
    for lane in lanes(CREW):
        now = build(CREW, lane.agent)
        for entry in CREW:
            told = next(found for found in explain(CREW, entry.position).lanes if found.lane == lane.address)
            assert told.stretches[-1].form == form(now, entry)


# Which other entries quote one that is to be erased.


LINE = 'a "line" of 24 character'


@pytest.mark.parametrize(
    ("erased", "other", "is_quote"),
    [
        (UserMessage(text="twelve chars"), "so: twelve chars!", True),
        (UserMessage(text="eleven char"), "so: eleven char!", False),
        (UserMessage(text=f"{LINE}\nand more"), f"so: {LINE}!", True),
        (UserMessage(text=f"{LINE[1:]}\nand more"), f"so: {LINE[1:]}!", False),
        (AssistantMessage(agent="a", tool_calls=[ToolCall(id="c", name="n", arguments=LINE)]), LINE, True),
        (
            AssistantMessage(agent="a", tool_calls=[ToolCall(id="c", name="n", arguments=LINE[1:])]),
            LINE,
            False,
        ),
        (UserMessage(text=f"Zoë's {LINE}"), json.dumps([json.dumps({"t": f"ZOË'S {LINE}"})]), True),
    ],
)
def test_a_text_of_12_characters_a_line_or_arguments_of_24_are_found_where_they_are_quoted(
    erased: Event, other: str, is_quote: bool
) -> None:
    assert quoting(entries(erased, UserMessage(text=other)), {1}) == [2] * is_quote


def test_short_words_are_found_where_they_are_asked_for_and_stand_alone() -> None:
    said = [UserMessage(text=text) for text in ("xylo9", "see (xylo9)", "xylo99", "no")]
    assert quoting(entries(*said), {1}, also_short=True) == [2]
