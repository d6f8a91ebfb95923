"""What was used: calls, tokens, tools, errors, times and cost, of whom and for what."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from statistics import median

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from stenolog import (
    AgentCard,
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
from stenolog.domain.lanes.limits import Tokens
from stenolog.errors import InvalidEventError
from stenolog.events import PositionRange
from stenolog.events import Usage as Counted
from stenolog.projections.prices import PRICES, Price, cost, price_of, price_table
from stenolog.projections.views.overview import overview
from stenolog.projections.views.spending import compaction_costs, dearest, spending, together
from stenolog.projections.views.usage import BOUNDS, LARGEST, Histogram, Usage, UsageTotals, usage, usage_by
from stenolog.testing import START, entries
from tests.strategies import logs

USAGES = TypeAdapter(Usage)
PAID = Counted(input=1_000, output=100, cache_read=600, cache_write=50, reasoning=30)
CALL = ToolCall(id="c1", name="shell")


def of(*events: Event) -> Usage:
    return usage(entries(*events))


def answer(agent: str = "coder", model: str = "gpt-5", **fields: object) -> AssistantMessage:
    return AssistantMessage(agent=agent, model=model, usage=PAID, **fields)  # type: ignore[arg-type]


def test_answers_errors_and_retries_are_counted() -> None:
    total = of(
        UserMessage(text="Go", to=["coder"]),
        LlmError(agent="coder", category="overloaded", retry_at=START),
        LlmError(agent="coder", category="overloaded", retry_at=START),
        LlmError(agent="coder", category="timeout", usage=PAID),
        answer(),
        answer(purpose="summary"),
        LlmError(agent="coder", category="budget", message="max_steps: 2"),
    ).total

    assert (total.answers, total.untold, total.retries) == (2, 0, 2)
    assert total.errors == {"overloaded": 2, "timeout": 1, "budget": 1}
    assert total.calls == 5
    assert total.sum == Tokens(3_000, 300, 1_800, 150, 90)


def test_a_call_whose_usage_is_not_known_is_so_once_in_each_count() -> None:
    half = LlmError(agent="coder", category="cancelled", parts=[TextPart(text="Half an ans")])
    log = entries(
        answer(), half, LlmError(agent="coder", category="timeout"), AssistantMessage(agent="coder")
    )
    total = usage(log).total

    assert (total.calls, total.untold) == (4, 2)
    assert overview(log).partial == spending(log, PRICES).total.unknown == total.untold


def test_what_was_used_is_told_by_agent_lane_run_and_model() -> None:
    used = of(
        answer(),
        answer(task="docs", run="r1"),
        answer("tester", "claude-haiku-4-5", run="r1"),
        answer(run="r2"),
    )

    def answers(by: str) -> dict[str, int]:
        return {name: tally.answers for name, tally in used.by(by)}  # type: ignore[arg-type]

    assert answers("agent") == {"coder": 3, "tester": 1}
    assert answers("lane") == {"coder": 2, "coder/docs": 1, "tester": 1}
    assert answers("run") == {"": 1, "r1": 2, "r2": 1}
    assert answers("model") == {"gpt-5": 3, "claude-haiku-4-5": 1}


def test_what_names_no_model_is_that_of_the_lanes_last_one_or_of_its_card() -> None:
    used = of(
        ModeSwitch(cards={"coder": AgentCard(model="gpt-5"), "tester": None}),
        LlmError(agent="coder", category="timeout"),
        answer(model="gpt-5.2"),
        LlmError(agent="coder", category="network"),
        AssistantMessage(agent="tester", text="Hm."),
    )

    assert {model: dict(tally.errors) for model, tally in used.by("model")} == {
        "gpt-5": {"timeout": 1},
        "gpt-5.2": {"network": 1},
        "": {},
    }
    assert used.total.untold == 1


def test_tool_results_are_those_of_the_lane_that_called() -> None:
    used = of(
        answer(tool_calls=[CALL, CALL]),
        answer("tester", tool_calls=[CALL]),
        ToolResult(call_id="c1", duration_ms=20),
        ToolResult(call_id="c1", is_error=True),
        ToolResult(call_id="nobody's"),
    )

    assert {name: (tally.tools, tally.tool_errors) for name, tally in used.by("agent")} == {
        "coder": (1, 1),
        "tester": (1, 0),
    }
    assert used.total.tools_took.percentile(50) == 20


def test_times_are_those_of_calls_and_of_their_first_tokens() -> None:
    total = of(
        *(answer(duration_ms=100 * n, first_token_ms=n) for n in range(1, 20)),
        LlmError(agent="coder", category="timeout", duration_ms=60_000),
        answer(),
    ).total

    assert total.first.percentile(50) == 10
    assert total.took.percentile(50) == pytest.approx(1_000, rel=0.05)
    assert total.took.percentile(100) == pytest.approx(60_000, rel=0.05)
    assert UsageTotals().took.percentile(50) is None


@given(numbers=st.lists(st.integers(0, LARGEST), min_size=1, max_size=50), percent=st.sampled_from((50, 95)))
def test_a_percentile_is_at_most_five_percent_off(numbers: list[int], percent: int) -> None:
    spread = Histogram()
    for number in numbers:
        spread = spread.add(number)
    true = sorted(numbers)[-(-len(numbers) * percent // 100) - 1]

    assert spread.percentile(percent) == pytest.approx(true, rel=0.05)
    assert true > 20 or spread.percentile(percent) == true


def test_a_histogram_is_small_and_takes_any_number() -> None:
    spread = Histogram()
    for number in (-5, 0, 10**15, LARGEST):
        spread = spread.add(number)

    assert len(BOUNDS) < 200
    assert [spread.percentile(25), spread.percentile(100)] == [0, BOUNDS[-1]]
    assert median([spread.percentile(50) or 0]) == 0


@given(one=st.lists(st.integers(0, 99)), other=st.lists(st.integers(0, 99)))
def test_two_histograms_together_are_that_of_both(one: list[int], other: list[int]) -> None:
    def spread(numbers: list[int]) -> Histogram:
        made = Histogram()
        for number in numbers:
            made = made.add(number)
        return made

    assert spread(one).plus(spread(other)) == spread([*one, *other])


@given(log=logs())
def test_usage_goes_on_from_what_was_written_down(log: list[Entry]) -> None:
    half = len(log) // 2
    begun = usage(log[:half])
    written = USAGES.dump_json(begun)

    assert USAGES.validate_json(written) == begun
    assert usage(log[half:], USAGES.validate_json(written)) == usage(log)


@given(log=logs())
def test_however_it_is_told_it_is_the_same_in_all(log: list[Entry]) -> None:
    used = usage(log)

    for by in ("agent", "lane", "run", "model", "tool"):
        tallies = [tally for _, tally in used.by(by)]
        assert sum(tally.calls for tally in tallies) == used.total.calls
        assert sum(tally.tools for tally in tallies) == used.total.tools


TABLE = (Price("small", 0.25, 0.025, 2.0), Price("*", 3.0, 0.3, 15.0, 3.75))


def test_the_cost_is_of_what_was_read_written_fresh_and_answered() -> None:
    fresh, cached, written, output = 350 * 3.0, 600 * 0.3, 50 * 3.75, 100 * 15.0

    assert of(answer()).total.cost(TABLE) == round(fresh + cached + written + output)
    assert of(answer(model="small")).total.cost(TABLE) == round(400 * 0.25 + 600 * 0.025 + 100 * 2.0)
    assert of(answer(), answer("tester", "other")).total.cost(PRICES) is None
    assert of().total.cost(PRICES) == 0


@pytest.mark.parametrize(
    ("price", "expected"),
    [
        (Price("*", 3.0, 0.3, 15.0, 3.75), 40 * 6.0),
        (Price("*", 3.0, 0.3, 15.0, 3.75, 7.0), 40 * 7.0),
        (Price("*", 3.0, 0.3, 15.0), 40 * 3.0),
    ],
)
def test_what_the_cache_keeps_for_an_hour_has_a_price_of_its_own(price: Price, expected: float) -> None:
    minutes = Tokens(input=100, cache_write=60)
    both = minutes._replace(input=140, cache_write=100, cache_write_hour=40)

    assert cost({"*": both}, [price]) == cost({"*": minutes}, [price]) + expected  # type: ignore[operator]


def test_micro_dollars_are_whole_and_rounded_once() -> None:
    """Prices of a fraction of a micro-dollar for a token add up before they are rounded."""
    assert cost({"small": Tokens(input=1)}, TABLE) == 0
    assert cost({"small": Tokens(input=3)}, TABLE) == 1
    assert cost({"small": Tokens(input=1), "other": Tokens(input=1)}, TABLE) == 3
    assert cost({"*": Tokens(input=10**15)}, [Price("*", 0.123456, 0, 0)]) == 123_456 * 10**9
    assert cost({"unknown": Tokens()}, []) == 0


def test_a_price_table_is_read_from_a_mapping() -> None:
    given = {"gpt-*": {"input": 1, "output": 2.5}, "*": {"input": 3, "cached": 0, "written": 4}}

    assert price_table(given) == (Price("gpt-*", 1, 1, 2.5), Price("*", 3, 0, 0, 4))
    assert price_of("gpt-5", price_table(given)) == Price("gpt-*", 1, 1, 2.5)


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ([], "prices: expected an object, found list"),
        (
            {"gpt-*": 3},
            "prices: 'gpt-*': expected a table of input, cached, output, written, written_hour, found 3",
        ),
        ({"gpt-*": {"inptu": 3}}, "written_hour, found {'inptu': 3}"),
        ({"gpt-*": {"input": -1}}, "'gpt-*': input: expected USD per million tokens, found -1"),
        ({"gpt-*": {"input": True}}, "'gpt-*': input: expected USD per million tokens, found True"),
        ({"gpt-*": {"input": float("nan")}}, "'gpt-*': input: expected USD per million tokens, found nan"),
    ],
    ids=str,
)
def test_a_price_table_that_makes_no_sense_is_refused(given: object, complaint: str) -> None:
    with pytest.raises(InvalidEventError) as caught:
        price_table(given)

    assert complaint in str(caught.value)


# By tool, by day, and the dearest: sums of whole numbers.


READ = ToolCall(id="c1", name="read")
LIST = ToolCall(id="c2", name="list")
TOOLS = ("read", "list")


def result(id: str, text: str) -> ToolResult:
    return ToolResult(call_id=id, text=text)


def test_a_call_counts_for_the_tool_whose_result_it_is_the_first_to_read_of_several_the_longest() -> None:
    used = of(
        answer(tool_calls=[READ, LIST]),
        result("c1", "much of it"),
        result("c2", "little"),
        LlmError(agent="coder", category="overloaded"),
        answer(tool_calls=[LIST]),
        result("c2", "x"),
        answer(),
        answer(),
    )

    assert {name: (tally.calls, tally.tools) for name, tally in used.by("tool")} == {
        "": (2, 0),
        "read": (2, 1),
        "list": (1, 2),
    }


@st.composite
def paid_logs(draw: st.DrawFn) -> list[Entry]:
    """Return answers of some agents and models with any usage, stated costs, calls and results."""
    events: list[Event] = []
    for nth in range(draw(st.integers(0, 25))):
        read = draw(st.integers(0, 10**6))
        paid = Counted(
            input=read + draw(st.integers(0, 10**6)),
            output=draw(st.integers(0, 10**5)),
            cache_read=read,
            cost=draw(st.none() | st.integers(0, 10**7)),
        )
        name = draw(st.sampled_from(TOOLS))
        said = answer(
            draw(st.sampled_from(("coder", "tester"))),
            draw(st.sampled_from(("small", "large", "unknown"))),
            tool_calls=[ToolCall(id=f"c{nth}", name=name)],
        )
        events += [replace(said, usage=draw(st.none() | st.just(paid))), result(f"c{nth}", "x" * nth)]
    made = entries(*events)
    return [entry._replace(time=START + timedelta(hours=draw(st.integers(0, 90)))) for entry in made]


KNOWN = (Price("small", 0.25, 0.025, 2.0), Price("large", 3.0, 0.3, 15.123456, 3.75))


@given(log=logs() | paid_logs())
def test_the_sums_of_each_axis_are_the_total_to_the_last_digit(log: list[Entry]) -> None:
    found = spending(log, KNOWN)

    for sums in found.axes.values():
        assert together(sums.values()) == found.total
    assert together(call.spent for call in found.calls) == found.total


@given(log=paid_logs())
def test_what_was_spent_is_what_usage_says_of_the_same_agent_model_tool_and_day(log: list[Entry]) -> None:
    found, used = spending(log, KNOWN), usage(log)
    days = usage_by(log, lambda entry: f"{entry.time:%Y-%m-%d}")

    tallies = {by: dict(used.by(by)) for by in ("agent", "model", "tool")}
    for axis, of_axis in {**tallies, "day": {day: each.total for day, each in days.items()}}.items():
        called = {name: tally for name, tally in of_axis.items() if tally.calls}
        assert called.keys() == found.axes[axis].keys()
        for name, tally in called.items():
            spent = found.axes[axis][name]
            assert (spent.calls, spent.input, spent.output) == (
                tally.calls,
                tally.sum.input,
                tally.sum.output,
            )
            assert spent.micro_usd == tally.known_cost(KNOWN)
            assert (spent.unknown > 0) >= (tally.cost(KNOWN) is None)


@given(log=paid_logs())
def test_the_dearest_requests_are_those_that_cost_most(log: list[Entry]) -> None:
    calls = spending(log, KNOWN).calls
    named = {call.position for call in dearest(calls)}
    costs = {call.position: call.spent.cost for call in calls}

    assert len(named) == min(10, len(costs))
    assert min((costs[at] for at in named), default=0) >= max(
        (cost for at, cost in costs.items() if at not in named), default=0
    )


def test_a_compaction_costs_its_summary_and_what_is_read_anew_and_saves_what_is_no_longer_sent() -> None:
    def step(tokens: int) -> AssistantMessage:
        return replace(answer(model="large"), usage=Counted(input=tokens, output=10))

    summary = replace(step(9_000), purpose="summary", covers=[PositionRange(first=1, last=2)])
    calls = spending(entries(step(8_000), step(9_000), summary, step(2_000), step(2_500)), KNOWN).calls

    [found] = compaction_costs([(3, "compaction")], calls, "coder", lambda at: at * 100, KNOWN)

    assert (found.cost, found.missed) == (calls[2].spent.micro_usd, 400)
    assert (found.tokens, found.saved, found.calls) == (7_000, 2_100, 2)
    [free] = compaction_costs([(3, "rewind")], calls[:2] + calls[3:], "coder", lambda at: 0, ())
    assert (free.cost, free.saved) == (0, None)
