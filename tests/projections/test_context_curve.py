"""The context of a lane over time: a sample for each call of its model, marks, and the picture."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import stenolog
from stenolog import AgentCard, AssistantMessage, LlmError, ModeSwitch, ToolCall, ToolResult, UserMessage
from stenolog.adapters.conversation.queries.requests import curves
from stenolog.adapters.conversation.queries.requests.window_cache import windows_of
from stenolog.context import Budget, LastN
from stenolog.events import Event, Origin, PositionRange, Usage
from stenolog.projections.context_curve import Mark, Sample, context_curve
from stenolog.projections.context_curve.plot import STYLE, nice_step, plot
from stenolog.projections.context_curve.sparkline import context_points, sparkline
from stenolog.projections.requests import LaneId, build
from stenolog.testing import entries

SVG = "{http://www.w3.org/2000/svg}"


def turn(nth: int, words: int = 40) -> Iterator[Event]:
    """Yield a turn with one tool call."""
    yield UserMessage(text=f"Mend {nth}. " * words, to=["coder"])
    call = ToolCall(id=f"c{nth}", name="shell", arguments="{}")
    used = Usage(input=1000 * nth, output=5, cache_read=900 * nth)
    yield AssistantMessage(agent="coder", parts=[call], usage=used)
    yield ToolResult(call_id=f"c{nth}", text="1 failed " * words)
    yield AssistantMessage(agent="coder", text="Done.", usage=used)


def talk(turns: int, **card: Any) -> list[Event]:
    opening = ModeSwitch(cards={"coder": AgentCard(model="gpt-5.2", **card)}, joins=["coder"])
    return [opening, *(event for nth in range(1, turns + 1) for event in turn(nth))]


@pytest.fixture
def log(tmp_path: Path) -> Iterator[stenolog.Log]:
    with stenolog.open(tmp_path / "talks.db") as opened:
        yield opened


def test_there_is_a_sample_for_each_call_with_the_size_of_its_request() -> None:
    written = entries(*talk(3))

    curve = context_curve(written, "coder")

    assert [sample.position for sample in curve.samples] == [3, 5, 7, 9, 11, 13]
    for sample in curve.samples:
        request = build(written[: sample.at], "coder", api=curve.api)
        assert (sample.at, sample.tokens) == (sample.position - 1, request.size.tokens)
    assert [(each.billed, each.cached) for each in curve.samples[:2]] == [(1000, 900), (1000, 900)]


def test_the_request_of_an_answer_with_a_receipt_is_the_one_that_the_receipt_names() -> None:
    begun = talk(1)
    receipt = build(entries(*begun), "coder").receipt
    answer = AssistantMessage(agent="coder", text="Late.", receipt=receipt)

    curve = context_curve(entries(*begun, UserMessage(text="Meanwhile"), answer), "coder")

    assert (curve.samples[-1].position, curve.samples[-1].at) == (7, 5)


def test_a_further_part_of_a_response_a_copy_and_a_summary_are_no_calls() -> None:
    origin = Origin(system="claude-code", id="m1")
    told = entries(
        UserMessage(text="Hi", to=["a"]),
        AssistantMessage(agent="a", text="One", source=origin, usage=Usage(input=9)),
        AssistantMessage(agent="a", text="Two", source=origin),
        AssistantMessage(agent="a", text="Copy", meta={"stenolog": {"copy_of": 2}}),
        AssistantMessage(agent="a", purpose="summary", text="S", covers=[PositionRange(first=1, last=2)]),
        LlmError(agent="a", category="budget"),
        LlmError(agent="a", category="timeout"),
    )

    curve = context_curve(told, "a")

    assert [(each.position, each.failed) for each in curve.samples] == [(2, ""), (7, "timeout")]


def test_cuts_compactions_resets_and_rewinds_are_marked() -> None:
    events = talk(12, policy=Budget(tokens=1000))
    events += [
        AssistantMessage(agent="coder", purpose="summary", text="S", covers=[PositionRange(first=2, last=4)]),
        ModeSwitch(context_from=20),
        ModeSwitch(agents=["another"], context_from=30),
        ModeSwitch(hides=[PositionRange(first=21, last=22)]),
        AssistantMessage(agent="coder", text="Done."),
    ]

    curve = context_curve(entries(*events), "coder")

    kinds = [mark.kind for mark in curve.marks]
    assert kinds[-3:] == ["compaction", "reset", "rewind"]
    assert curve.count("cut") == len(kinds) - 3 > 0
    assert [mark.position for mark in curve.marks[-3:]] == [50, 51, 53]
    assert {sample.budget for sample in curve.samples} == {curve.budget} == {1000}
    assert max(sample.tokens or 0 for sample in curve.samples) <= 1000
    assert all(mark.words for mark in curve.marks)


def test_a_request_that_cannot_be_rebuilt_has_no_tokens() -> None:
    events = [
        *talk(1),
        ModeSwitch(cards={"coder": AgentCard(policy={"budget": {"counter": "none", "tokens": 9}})}),
    ]

    curve = context_curve(entries(*events, *turn(2)), "coder")

    assert [sample.tokens is None for sample in curve.samples] == [False, False, True, True]


def test_the_largest_steps_are_those_of_the_bill() -> None:
    curve = context_curve(entries(*talk(4)), "coder")

    assert [(step.position, step.tokens) for step in curve.steps()] == [(7, 1000), (11, 1000), (15, 1000)]
    assert curve.largest is not None
    assert curve.largest.position == 15


def test_a_stored_conversation_has_the_same_curve_however_it_grew(log: stenolog.Log) -> None:
    events, stored = talk(30, policy=LastN(9)), log["demo"]
    for first in range(0, len(events), 17):
        stored.extend(events[first : first + 17])
        curve = stored.context_curve("coder")
        assert curve == context_curve(list(stored), "coder")

    past = stored.context_curve("coder", at=40)
    assert past == context_curve(list(stored.entries(at=40)), "coder")


def test_the_next_process_goes_on_from_what_was_kept(log: stenolog.Log, tmp_path: Path) -> None:
    stored = log["demo"]
    stored.extend(talk(30))
    before = stored.context_curve("coder")
    with stenolog.open(tmp_path / "talks.db") as other:
        again = other["demo"]
        tracer = curves._fresh(again, LaneId("coder"), again.position, lambda: False)
        assert not tracer._series.window.position  # nothing was measured again
        assert again.context_curve("coder") == before
        again.extend(turn(31))
        assert again.context_curve("coder") == context_curve(list(again), "coder")


def test_a_fork_goes_on_from_what_was_kept_of_its_parent(log: stenolog.Log) -> None:
    stored = log["demo"]
    stored.extend(talk(30))
    stored.context_curve("coder")
    for after in (len(stored), 61):
        forked = stored.fork(after=after)
        forked.extend(turn(31))
        curve = forked.context_curve("coder")
        assert curve._replace(conversation="") == context_curve(list(forked), "coder")._replace(
            conversation=""
        )


def test_several_curves_may_be_followed_at_once(log: stenolog.Log) -> None:
    talks = [log[name] for name in ("one", "two", "three", "four", "five", "six")]
    for nth in range(4):
        for stored in talks:
            stored.extend(talk(5, policy=LastN(7)) if not nth else turn(nth + 5))
            assert stored.context_curve("coder") == context_curve(list(stored), "coder")
    windows = [tracer._series.window for tracer in windows_of(log)._tracers.values()]
    assert sum(window.position > 0 for window in windows) == 1


def test_threads_may_ask_for_the_same_curve(log: stenolog.Log) -> None:
    stored = log["demo"]
    stored.extend(talk(20))
    with ThreadPoolExecutor(8) as pool:
        curves_made = list(pool.map(lambda _: stored.context_curve("coder"), range(40)))

    assert all(curve == curves_made[0] for curve in curves_made)


def test_an_answer_by_another_api_measures_all_anew(log: stenolog.Log) -> None:
    stored = log["demo"]
    stored.extend(talk(3))
    assert stored.context_curve("coder").api == "openai-chat"
    stored.append(AssistantMessage(agent="coder", text="Hi", source=Origin(system="claude-code", id="m")))

    curve = stored.context_curve("coder")

    assert curve.api == "anthropic"
    assert curve == context_curve(list(stored), "coder")


def test_a_look_that_may_take_no_time_goes_on_at_the_next_one(log: stenolog.Log) -> None:
    stored = log["demo"]
    stored.extend(talk(60))
    looks = [curves.context_curve(stored, "coder", seconds=0)]
    while looks[-1].waiting:
        looks.append(curves.context_curve(stored, "coder", seconds=0))

    assert len(looks) > 2
    assert looks[0].samples[-1].tokens is None
    assert looks[0].samples[-1].billed == 60_000
    assert looks[-1] == context_curve(list(stored), "coder")


def test_what_was_measured_is_forgotten_with_an_erased_entry(log: stenolog.Log) -> None:
    stored = log["demo"]
    stored.extend(talk(20))
    stored.context_curve("coder")
    stored.erase(2)

    assert stored.context_curve("coder") == context_curve(list(stored), "coder")


def test_an_agent_or_a_conversation_that_is_not_there_is_refused(log: stenolog.Log) -> None:
    log["demo"].extend(talk(1))

    with pytest.raises(stenolog.errors.AgentNotFoundError, match="did you mean 'coder'"):
        log["demo"].context_curve("codr")
    with pytest.raises(stenolog.errors.ConversationNotFoundError):
        log["nothing"].context_curve("coder")


def drawn(**options: Any) -> ET.Element:
    samples = [Sample(n, n - 1, 50 * n, 60 * n, 40 * n, 3000, "timeout" * (n == 9)) for n in range(1, 60)]
    marks = [Mark(20, "cut", "a <cut>"), Mark(30, "reset", "r"), Mark(40, "compaction", "c")]
    return ET.fromstring(plot(samples, marks, 60, "Context of <b>", **options))


def test_the_picture_has_a_line_for_each_measure_and_a_shape_for_each_mark() -> None:
    picture = drawn()

    shapes = {path.get("class") for path in picture.iter(f"{SVG}path")}
    assert {"line billed", "line rebuilt", "line limit", "cached", "failed"} <= shapes
    said = " ".join(filter(None, (text.text for text in picture.iter(f"{SVG}text"))))
    for words in ("billed input", "rebuilt from the log", "read from cache", "budget", "cut", "reset", "4k"):
        assert words in said
    assert picture.find(f"{SVG}title").text == "Context of <b>"  # type: ignore[union-attr]


def test_a_picture_of_a_page_has_no_style_of_its_own_and_links_to_each_request() -> None:
    picture = drawn(link=lambda at: f'/request/x?at={at}&agent="', standalone=False, at=5)

    assert STYLE not in ET.tostring(picture, "unicode")
    assert not [each for each in picture.iter() if each.tag == f"{SVG}style" or each.get("style")]
    links = [each.get("href") for each in picture.iter(f"{SVG}a")]
    assert '/request/x?at=0&agent="' in links
    assert all(each.get("aria-label") for each in picture.iter(f"{SVG}a"))


def test_a_picture_of_very_many_calls_stays_small() -> None:
    samples = [Sample(n, n - 1, n % 97, n % 89, n % 83) for n in range(1, 50_001)]
    marks = [Mark(n, "cut", "c") for n in range(1, 50_001, 3)]

    picture = plot(samples, marks, 50_000, "t", link=lambda at: f"/r?at={at}")

    assert picture.count("<") < 4_000
    assert len(picture) < 200_000


def test_a_picture_without_a_call_is_one_all_the_same() -> None:
    assert ET.fromstring(plot([], [], 3, "t")).tag == f"{SVG}svg"


@pytest.mark.parametrize(
    ("largest", "step"), [(0, 1), (5, 1), (6, 2), (180_000, 50_000), (1_000_001, 500_000)]
)
def test_the_steps_of_an_axis_are_round(largest: int, step: int) -> None:
    assert nice_step(largest) == step


def test_the_small_curve_has_the_largest_request_of_each_stretch_and_stays_small() -> None:
    events = talk(100)
    points = context_points(entries(*events)).points

    assert 20 <= len(points) <= 40
    assert max(points) == 100_000
    assert list(points) == sorted(points)
    assert context_points(entries(*talk(2))).points == (1000, 1000, 2000, 2000)


def test_the_small_curve_estimates_what_was_not_billed_and_falls_at_a_reset() -> None:
    said: list[Event] = [UserMessage("word " * 400, to=["a"]), AssistantMessage(agent="a", text="Yes.")]
    points = context_points(entries(*said, *said, ModeSwitch(context_from=5), *said)).points

    assert points[0] == 500
    assert points[1] > 900
    assert points[2] == points[0]


def test_the_small_curve_never_mixes_estimates_with_what_was_billed() -> None:
    failed = LlmError(agent="a", category="timeout")
    billed = AssistantMessage(agent="a", text="Hi", usage=Usage(input=9_000))

    assert context_points(entries(failed, billed, failed, billed)).points == (9_000, 9_000)


def test_each_lane_has_a_small_curve_and_the_first_is_that_of_the_conversation() -> None:
    first = AssistantMessage(agent="a", text="Hi", usage=Usage(input=10))
    other = AssistantMessage(agent="b", text="Hi", usage=Usage(input=99))

    found = context_points(entries(first, other, first))
    assert found.points == (10, 10)
    assert {where: lane.points for where, lane in found.lanes.items()} == {"a": (10, 10), "b": (99,)}


def test_the_small_curve_is_a_picture_with_words() -> None:
    picture = ET.fromstring(sparkline([10_000, 154_755, 49_803]))

    assert picture.get("aria-label") == "Context: 50k tokens last, 150k at most"
    assert sparkline([]) == sparkline([3]) == ""


def test_of_very_many_lanes_the_first_ones_have_a_small_curve() -> None:
    answers = [AssistantMessage(agent=f"a{nth}", text="Hi") for nth in range(40)]

    assert list(context_points(entries(*answers)).lanes) == [f"a{nth}" for nth in range(12)]


def test_a_stored_conversation_has_its_small_curve_without_a_request_being_built(log: stenolog.Log) -> None:
    stored = log["demo"]
    stored.extend(talk(50))
    log.on_request = lambda built: pytest.fail("a request was built")

    assert curves.small_curve(stored) == (context_points(list(stored)).points, 201)
    assert curves.small_curve(stored)[1] == 0


def test_without_a_bill_no_step_is_one_of_rates() -> None:
    log: list[Event] = [ModeSwitch(joins=["coder"], source=Origin(system="claude-code", id="m"))]
    for nth, model in enumerate(("claude-opus-4-6", "gpt-5") * 8):
        source = Origin(system="claude-code", id=f"m{nth}")
        answer = AssistantMessage(agent="coder", text="w " * 40, model=model, source=source)
        log += [UserMessage(text="w " * 400), answer]
    steps = context_curve(entries(*log), "coder").steps(99)

    assert len(steps) == 15
    assert max(step.tokens for step in steps) <= min(step.tokens for step in steps) + 40
