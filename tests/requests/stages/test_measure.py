"""What is counted: nothing that a model reads costs nothing, and a body is nobody else's."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from stenolog import AgentCard, Entry, ModeSwitch, Tool, ToolCall, ToolResult
from stenolog.context import Budget
from stenolog.parts import FilePart, ImagePart
from stenolog.projections.formats import FORMATS
from stenolog.projections.messages.message import Message
from stenolog.projections.messages.sizes import ESTIMATE, IMAGE_TOKENS, Size
from stenolog.projections.requests import build, every_request, lanes
from stenolog.projections.requests.builder import build_reference
from stenolog.projections.requests.pipeline.measure import Measure, parameters_size
from tests.random_cases import seeds
from tests.requests.given import ASKED, calls, log
from tests.requests.histories import BLOBS, crowded, history
from tests.requests.policies import SMALL
from tests.requests.sizes import FRAMING, oversize, uneven

PROVIDERS = [api for api in FORMATS if api != "plain"]
FIELDS: dict[str, Any] = {f"field_{n}": {"type": "string"} for n in range(40)}
SCHEMA = {"type": "object", "properties": FIELDS}
OUTPUT: dict[str, Any] = {"output": {"name": "answer", "schema": SCHEMA}}
EVERYTHING = Budget(messages=9, characters=9, tokens=9, bytes=9)
MEASURE = Measure(EVERYTHING, ESTIMATE)
PICTURE = ImagePart(media_type="image/png", blob="b" * 64)


def with_card(**fields: Any) -> list[Entry]:
    return log(ModeSwitch(cards={"coder": AgentCard(model="gpt-5", **fields)}), ASKED)


@pytest.mark.parametrize("api", PROVIDERS)
def test_the_schema_of_the_answer_is_counted_and_no_more_than_was_foreseen(api: str) -> None:
    with_it = build(with_card(parameters=OUTPUT), "coder", api=api)
    without = build(with_card(), "coder", api=api)

    added = with_it.size.tokens - without.size.tokens

    assert 300 < added <= parameters_size(AgentCard(parameters=OUTPUT))
    assert [part.role for part in with_it.parts if part.rule == "parameters"] == ["parameters"]


def test_parameters_without_a_schema_cost_nothing() -> None:
    assert parameters_size(AgentCard(parameters={"temperature": 1, "metadata": {"a": "b"}})) == 0


@pytest.mark.parametrize("api", PROVIDERS)
def test_what_is_done_to_a_body_is_not_done_to_the_card(api: str) -> None:
    tool = Tool(name="look", parameters={"type": "object", "properties": {"a": {"type": "string"}}})
    entries = with_card(tools=[tool], parameters=OUTPUT | {"metadata": {"a": {"b": 1}}})
    before = build(entries, "coder", api=api)
    sent = before.bytes

    empty({name: value for name, value in before.body.items() if name != "messages"})

    assert build(entries, "coder", api=api).bytes == sent


def empty(value: Any) -> None:
    """Empty every object and list in it."""
    for inner in list(
        value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    ):
        empty(inner)
    if isinstance(value, dict | list):
        value.clear()


NUMBERS = ",".join(["1e15"] * 100)
ARGUMENTS = {
    "numbers": f'{{"x":[{NUMBERS}]}}',
    "what is called as what is skipped": f'{{"id":"{"a" * 1_000}","type":"{"b" * 1_000}"}}',
    "a long key": f'{{"{"k" * 2_000}":1}}',
}


@pytest.mark.parametrize("api", PROVIDERS)
@pytest.mark.parametrize("arguments", ARGUMENTS.values(), ids=ARGUMENTS)
def test_the_arguments_of_a_call_are_counted_whole_and_measured_as_they_go_out(
    api: str, arguments: str
) -> None:
    measured = MEASURE.of(Message("assistant", (a_call(arguments),), (2,), "own"))

    added = size(api, arguments).minus(size(api, "{}"))

    assert len(arguments) - 2 <= added.characters
    assert added.fits(measured)


def a_call(arguments: str) -> ToolCall:
    return ToolCall(id="c1", name="look", arguments=arguments)


def size(api: str, arguments: str) -> Size:
    """Return the size of a request with a call of these arguments."""
    return build(log(ASKED, calls("", a_call(arguments))), "coder", api=api).size


def test_a_picture_is_measured_as_what_is_sent_of_it() -> None:
    at_hand = Measure(EVERYTHING, ESTIMATE, {PICTURE.blob: bytes(3_000)})
    by_url = ImagePart(media_type="image/png", url="https://a.b/" + "c" * 500)
    bare = bytes_of(MEASURE, PICTURE)

    assert bytes_of(at_hand, PICTURE) == bare - 2 + 4_000
    assert bytes_of(MEASURE, by_url) == bare + 512
    assert bare < 400


def test_the_name_of_a_file_is_measured() -> None:
    long, short = (FilePart(media_type="text/csv", name="n" * n, url="https://a.b/c") for n in (1_000, 1))

    assert bytes_of(MEASURE, long) - bytes_of(MEASURE, short) == 999


def bytes_of(measure: Measure, part: ImagePart | FilePart) -> int:
    return measure.of(Message("user", (part,), (1,), "user")).bytes


@pytest.mark.parametrize("api", PROVIDERS)
def test_a_picture_in_a_tool_result_weighs_what_a_picture_of_the_users_weighs(api: str) -> None:
    blobs = {PICTURE.blob: b"\x89PNG" + bytes(300_000)}
    result = log(ASKED, calls("", a_call("{}")), ToolResult(call_id="c1", parts=[PICTURE]))
    empty_result = log(ASKED, calls("", a_call("{}")), ToolResult(call_id="c1", text=""))

    request = build(result, "coder", api=api, blobs=blobs)

    added = request.size.tokens - build(empty_result, "coder", api=api).size.tokens
    assert IMAGE_TOKENS <= added <= IMAGE_TOKENS + FRAMING
    assert sum(part.tokens_out for part in request.parts if part.positions == (3,)) >= IMAGE_TOKENS


@seeds(10, slow=300, nightly=2_000)
def test_the_sizes_of_one_request_on_two_apis_differ_by_framing_only(seeds: range) -> None:
    for seed in seeds:
        entries = history(seed)
        for lane in lanes(entries):
            on = {api: build(entries, lane.agent, task=lane.task, api=api, blobs=BLOBS) for api in FORMATS}

            assert list(uneven(on)) == [], (seed, lane)


@seeds(10, slow=300, nightly=2_000)
def test_a_request_that_may_be_sent_fits_its_budget(seeds: range) -> None:
    for seed in seeds:
        random, entries = Random(seed), random_log(seed)
        chosen = Budget(tokens=random.choice((300, 900, 1_800, 4_000))) | SMALL[random.choice([*SMALL])]
        for lane in lanes(entries):
            for api in FORMATS:
                made = build(entries, lane.agent, task=lane.task, api=api, policy=chosen, blobs=BLOBS)

                assert list(oversize(made)) == [], (seed, lane, api)


@seeds(4, slow=25)
@pytest.mark.parametrize("budget", [300, 900, 1_800, 4_000])
def test_stubs_of_tools_are_cut_with_the_units_that_called_them_by_both_builders(
    budget: int, seeds: range
) -> None:
    for seed in seeds:
        chosen = Budget(tokens=budget)
        for made in every_request(crowded(seed), "coder", policy=chosen, blobs=BLOBS):
            log, api = crowded(seed)[: made.at], made.api.partition("@")[0]

            assert made == build_reference(log, "coder", api=api, policy=chosen, blobs=BLOBS), (seed, made.at)


def random_log(seed: int) -> list[Entry]:
    """Return a random history, every second one crowded with tools."""
    return crowded(seed) if seed % 2 else history(seed)
