"""The cut: it moves rarely, takes whole groups, keeps requests within their budget, and is told in full."""

from __future__ import annotations

import os
from collections.abc import Iterator
from cProfile import Profile
from itertools import pairwise

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from stenolog import (
    AgentCard,
    AssistantMessage,
    Entry,
    Event,
    ModeSwitch,
    Request,
    Tool,
    ToolResult,
    UserMessage,
)
from stenolog.context import Budget, LastN, Pins, Policy, Prompt, policy
from stenolog.domain.errors import InvalidPolicyError, RequestNotSendableError
from stenolog.projections.formats import FORMATS, validate
from stenolog.projections.messages.body_digest import turns
from stenolog.projections.messages.rules import CUTS
from stenolog.projections.messages.sizes import COUNTERS
from stenolog.projections.requests import LaneId, build, every_request, lanes
from stenolog.projections.requests.incremental.series import from_window, window, windows
from stenolog.projections.requests.incremental.window import Window
from stenolog.projections.requests.pipeline.budget import caps, limits, unit_sizes
from stenolog.projections.requests.sendable import takes_part
from tests.requests.given import CALL, calls, log
from tests.requests.histories import history
from tests.requests.judging import MODELS, complaints, needs_judges
from tests.requests.policies import SMALL
from tests.requests.sessions import taken_up

pytestmark = pytest.mark.slow

EXAMPLES = int(os.environ.get("STENOLOG_EXAMPLES", "100")) // 10
seeds = st.integers(min_value=0, max_value=2**32)
examples = settings(max_examples=EXAMPLES, derandomize=True, deadline=None, database=None)
each_policy = pytest.mark.parametrize("chosen", SMALL.values(), ids=SMALL)


def all_windows(entries: list[Entry], chosen: Policy) -> Iterator[Window]:
    """Yield the window of every lane after every entry."""
    for lane in lanes(entries):
        for made in windows(entries, lane, chosen):
            if takes_part(made) and made.state.blocked is None:
                yield made


@each_policy
@given(seed=seeds)
@example(seed=19)  # a window that begins with the agent's own words
@examples
def test_no_request_of_any_policy_breaks_a_law_or_exceeds_its_budget(chosen: Policy, seed: int) -> None:
    for made in all_windows(history(seed), chosen):
        for api in FORMATS:
            request = from_window(made, api)

            assert list(validate(api, request.body)) == []
            if chosen.budget and request.ready:
                assert request.size.fits(limits(chosen.budget))


@needs_judges
@each_policy
@given(seed=seeds)
@settings(examples, max_examples=max(EXAMPLES // 5, 5))
def test_the_judges_find_no_error_in_a_request_of_any_policy(chosen: Policy, seed: int) -> None:
    for made in all_windows(history(seed), chosen):
        for api in MODELS:
            assert complaints(api, from_window(made, api).body) == []


@each_policy
@given(seed=seeds)
@examples
def test_a_window_taken_up_from_its_mark_gives_the_same_request(chosen: Policy, seed: int) -> None:
    entries = history(seed)
    for made in all_windows(entries, chosen):
        again = taken_up(made, entries)
        before, after = from_window(made, "anthropic"), from_window(again, "anthropic")

        assert after.bytes == before.bytes
        assert (after.omissions, after.sendable, after.cuts) == (
            before.omissions,
            before.sendable,
            before.cuts,
        )


@each_policy
@given(seed=seeds)
@examples
def test_a_window_kept_up_is_the_window_folded_from_the_beginning(chosen: Policy, seed: int) -> None:
    entries = history(seed)
    for lane in lanes(entries):
        for length, made in enumerate(windows(entries, lane, chosen), 1):
            if length % 4 == 0:
                assert (
                    made.snapshot == window(lane, chosen, entries[:length], COUNTERS[chosen.counter]).snapshot
                )


@each_policy
@given(seed=seeds)
@examples
def test_what_is_in_the_window_is_never_larger_on_a_wire_than_it_was_measured(
    chosen: Policy, seed: int
) -> None:
    if chosen.budget is None or chosen.reminder is not None:
        return
    for made in all_windows(history(seed), chosen):
        sizes = unit_sizes(made, made.contents())
        measured = [sum(of) for of in zip(*sizes, strict=True)] or [0, 0, 0, 0]
        if chosen.history.delta or not caps(chosen):
            continue
        for api in FORMATS:
            request = from_window(made, api)
            size, front = request.size, sum(p.tokens_out for p in request.parts if p.role in FRONT)
            room = [10**9 if limit > 10**9 else 400 + 8 * front for limit in limits(chosen.budget)]
            within = [s <= m + r for s, m, r in zip(size, measured, room, strict=True)]

            assert all(within), (api, size, measured)


def long_conversation(turns: int) -> list[Entry]:
    """Return turns with a tool each: some 60 tokens of question, 25 of call, 100 of result, 40 of answer."""
    events: list[Event] = []
    for turn in range(turns):
        events += [
            UserMessage(text=f"Question {turn} " + "why " * 55),
            calls("", CALL),
            ToolResult(call_id="c1", text=f"result {turn} " + "line " * 75),
            calls(f"Answer {turn} " + "so " * 50),
        ]
    return log(*events)


BUDGET = 2_000
FRONT = ("system", "tools", "parameters")
"""The roles of what stands around the conversation."""


@pytest.fixture(scope="module")
def sent() -> list[Request]:
    """Return the requests of a hundred turns with tools, under a budget."""
    requests = every_request(long_conversation(100), "coder", policy=Budget(tokens=BUDGET))
    return [request for request in requests if request.ready]


def test_between_cuts_a_request_begins_with_all_of_the_one_before(sent: list[Request]) -> None:
    for before, after in pairwise(sent):
        if after.cuts == before.cuts:
            said = before.body["messages"]

            assert after.body["messages"][: len(said)] == said


def test_the_cut_moves_at_most_once_for_every_half_of_the_budget_that_is_added(sent: list[Request]) -> None:
    added = build(long_conversation(100), "coder").size.tokens

    assert 0 < sent[-1].cuts <= -(-added // (BUDGET // 2)) + 1


def test_no_request_is_over_its_budget_and_a_cut_leaves_less_than_half(sent: list[Request]) -> None:
    assert max(request.size.tokens for request in sent) <= BUDGET
    after_cuts = [b for a, b in pairwise(sent) if b.cuts > a.cuts]
    assert max(request.size.tokens for request in after_cuts) <= BUDGET // 2 + 150  # and what came since


def test_what_was_cut_is_one_run_with_its_rule_and_its_tokens(sent: list[Request]) -> None:
    (run,) = [run for run in sent[-1].omissions if run.rule in CUTS]

    assert (run.first, run.rule) == (1, "over-budget")
    assert run.tokens > BUDGET


def test_an_answer_with_its_calls_and_results_is_never_cut_in_two(sent: list[Request]) -> None:
    for request in sent:
        first = request.body["messages"][0]

        assert first["role"] != "tool"


def test_what_is_pinned_stays_wherever_the_cut_is() -> None:
    entries = long_conversation(50)
    pinned = Pins(positions=(1,), tags=("goal",))

    request = build(entries, "coder", policy=Budget(tokens=BUDGET) | pinned)

    assert request.body["messages"][0]["content"].startswith("Question 0 ")
    assert [(run.first, run.rule) for run in request.omissions] == [(2, "over-budget"), (177, "no-room")]


def test_the_last_message_of_the_user_stays_though_others_talk_on() -> None:
    chatter = [AssistantMessage(agent="other", text="Indeed " * 100) for _ in range(50)]
    entries = log(ModeSwitch(joins=["coder"]), UserMessage(text="The question"), *chatter)

    request = build(entries, "coder", policy=Budget(tokens=BUDGET))

    assert request.body["messages"][0]["content"] == "The question"
    assert (request.ready, request.size.tokens <= BUDGET) == (True, True)


def test_what_must_stay_and_does_not_fit_makes_a_request_unsendable_and_is_named() -> None:

    entries = log(
        ModeSwitch(cards={"coder": AgentCard(persona="Be brief")}, joins=["coder"]),
        UserMessage(text="long " * 2_000),
    )

    request = build(entries, "coder", policy=Budget(tokens=500))

    assert request.ready is False
    assert request.reason == (
        "over budget (2,510 tokens of 500), and this must stay: "
        "position 2 (latest-message, 2,500 tokens), position 1 (persona, 2 tokens)"
    )
    assert request.places == (2, 1)
    with pytest.raises(RequestNotSendableError, match="the request of coder at position 2: over budget"):
        request.check()


def test_a_running_call_and_its_answer_survive_any_cut() -> None:
    chatter = [AssistantMessage(agent="other", text="Indeed " * 100) for _ in range(50)]
    entries = log(UserMessage(text="Look"), calls("", CALL), *chatter, ToolResult(call_id="c1", text="found"))

    request = build(entries, "coder", policy=Budget(tokens=BUDGET))

    said = [(m["role"], m.get("tool_call_id")) for m in request.body["messages"]]
    assert said[:3] == [("user", None), ("assistant", None), ("tool", "c1")]


def test_a_last_n_shows_exactly_the_last_messages_and_whole_groups() -> None:
    request = build(long_conversation(30), "coder", policy=LastN(4))

    assert [m["role"] for m in request.body["messages"][:4]] == ["user", "assistant", "tool", "assistant"]
    assert {run.rule for run in request.omissions} == {"beyond-last"}


def test_an_entry_makes_a_longer_window_of_last_messages_make_no_more_calls() -> None:
    entries = long_conversation(150)

    def calls_made(number: int) -> int:
        profile = Profile()
        profile.runcall(window, LaneId("coder"), policy(LastN(number)), entries)
        return sum(each.callcount for each in profile.getstats() if not isinstance(each.code, str))

    assert calls_made(200) <= calls_made(50)


def test_the_conversation_part_stays_a_prefix_through_a_mode_switch_there_and_back() -> None:
    chosen = Prompt(modes={"chat": "Talk.", "agent": "Work."}, banner="Mode: {mode}")
    asked, there = UserMessage(text="Hi"), ModeSwitch(mode="agent")
    entries = log(asked, calls("Hello"), asked, there, calls("Done"), asked, ModeSwitch(mode="chat"), asked)

    requests = [r for r in every_request(entries, "coder", policy=chosen) if r.ready]

    conversations = [turns(request.body["messages"])[:-1] for request in requests]
    for before, after in pairwise(conversations):
        assert after[: len(before)] == before


def test_what_stands_before_the_conversation_is_kept_free_whatever_it_comes_to() -> None:
    tools = [Tool(name=f"tool_{i}", description="what it does " * 40) for i in range(20)]
    card = AgentCard(persona="You help.", tools=tools, policy=Budget(tokens=16_000))
    turns = [each for _ in range(60) for each in (UserMessage(text="why " * 400), calls("so " * 400))]
    entries = log(ModeSwitch(cards={"coder": card}, joins=["coder"]), *turns)

    asked = [r for r in every_request(entries, "coder") if r.body["messages"][-1]["content"][:3] == "why"]

    assert sum(part.tokens_out for part in asked[0].parts if part.role == "tools") > 3_000
    assert [request.reason for request in asked if not request.ready] == []
    assert asked[-1].cuts > 0


def test_what_must_stay_is_named_and_nothing_that_could_have_been_cut() -> None:
    card = AgentCard(persona="Rules. " * 400, policy=Budget(tokens=600, reserve=50))
    entries = log(
        ModeSwitch(cards={"coder": card}, joins=["coder"]),
        *[AssistantMessage(agent="other", text="Indeed " * 60) for _ in range(3)],
        UserMessage(text="Well?"),
    )

    named = build(entries, "coder").reason.partition("must stay: ")[2]

    assert named == "position 1 (persona, 700 tokens), position 5 (latest-message, 2 tokens)"


def test_a_cut_leaves_the_part_of_the_room_that_its_budget_names() -> None:
    log, cuts = long_conversation(60), {}
    for cut_to in (10, None, 50, 90):
        *_, made = windows(log, LaneId("coder"), Budget(tokens=2_000, cut_to=cut_to))
        cuts[cut_to] = made.cuts

    assert sorted(cuts.values()) == [*cuts.values()]
    assert cuts[10] < cuts[None] < cuts[90]


def test_a_part_that_is_larger_than_its_room_is_refused() -> None:
    with pytest.raises(InvalidPolicyError, match="expected cut_to from 1 to 100 per cent, found 101"):
        policy(Budget(tokens=2_000, cut_to=101))
