"""One response of a model is one response, in however many messages it was taken down."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from random import Random

import pytest

from stenolog import (
    AgentCard,
    AssistantMessage,
    Event,
    ModeSwitch,
    TextPart,
    ToolCall,
    ToolResult,
    UserMessage,
    step,
)
from stenolog.context import Budget, LastN, Policy, Reminder, policy
from stenolog.domain.lanes.step import INITIAL, fold
from stenolog.events import Origin
from stenolog.projections.formats import FORMATS
from stenolog.projections.requests import build
from stenolog.projections.requests.incremental.series import from_window, window
from stenolog.projections.requests.pipeline.budget import limits
from stenolog.projections.requests.pipeline.lane import LaneId
from tests.random_cases import seeds
from tests.requests.given import ASKED, calls, log

NAMED = ModeSwitch(joins=["coder"], cards={"coder": AgentCard(model="gpt-5")})
RESPONSE = Origin(system="claude-code", id="msg_1")


def call(nth: int) -> ToolCall:
    return ToolCall(id=f"c{nth}", name="shell")


def result(nth: int, text: str = "done") -> ToolResult:
    return ToolResult(call_id=f"c{nth}", text=text)


INTERLEAVED = (
    ASKED,
    calls("Three calls", call(1), call(2), source=RESPONSE),
    result(2),
    calls("", call(3), source=RESPONSE),
    result(3),
    result(1),
)


def test_a_request_is_not_sendable_while_a_call_of_an_earlier_part_runs() -> None:
    reasons = [build(log(NAMED, *INTERLEAVED[:n]), "coder").reason for n in range(2, len(INTERLEAVED) + 1)]

    assert reasons == [
        "2 of its calls have no result yet",
        "1 of its calls has no result yet",
        "2 of its calls have no result yet",
        "1 of its calls has no result yet",
        "",
    ]


def test_the_result_of_a_call_of_an_earlier_part_is_no_anomaly() -> None:
    state, anomalies = INITIAL, []
    for entry in log(*INTERLEAVED):
        state, transitions = step(state, entry)
        anomalies += [each.anomaly for each in transitions if each.anomaly]

    assert (anomalies, state.lane("coder").status) == ([], "awaiting_llm")


def test_the_parts_of_a_response_are_one_step_and_one_turn() -> None:
    in_parts = (
        ASKED,
        calls("One, ", source=RESPONSE),
        calls("two.", source=RESPONSE),
        ASKED,
        calls("Three."),
    )
    whole = (ASKED, calls("One, two.", source=RESPONSE), ASKED, calls("Three."))

    steps = [fold(log(*events[:-2])).lane("coder").steps for events in (in_parts, whole)]
    turns = [window(LaneId("coder"), policy(), log(*events)).memory.turns for events in (in_parts, whole)]

    assert (steps, turns) == ([1, 1], [2, 2])


def test_an_answer_of_the_same_id_to_another_question_is_another_response() -> None:
    again = (
        ASKED,
        calls("", call(1), source=RESPONSE),
        result(1),
        ASKED,
        calls("", call(2), source=RESPONSE),
    )

    lane = fold(log(*again)).lane("coder")

    assert (lane.steps, [open.id for open in lane.calls]) == (1, ["c2"])


@pytest.mark.parametrize("api", FORMATS)
def test_a_response_in_parts_is_as_large_as_the_same_in_one(api: str) -> None:
    words = TextPart(text="word " * 4_000)
    parts = (calls("", call(1), source=RESPONSE), _answer(words, call(2)), result(1), result(2))

    request = build(log(ASKED, *parts), "coder", policy=Budget(tokens=1_000), api=api)

    assert request.size.tokens > 1_000
    assert request.sendable is False
    assert request.reason.startswith("over budget (5,0")


@pytest.mark.parametrize("api", FORMATS)
def test_a_late_result_is_measured_as_it_is_quoted(api: str) -> None:
    long = ToolCall(id="x" * 10_240, name="shell")
    chatter = [event for _ in range(3) for event in (UserMessage(text="more " * 300), calls("ok"))]
    late = ToolResult(call_id=long.id, text="<message>" * 40)
    entries = log(ASKED, calls("", long), *chatter, UserMessage(text="last"), late)

    request = build(entries, "coder", policy=Budget(tokens=1_500), api=api)

    assert request.size.tokens <= 1_500 or not request.sendable


def _answer(*parts: TextPart | ToolCall) -> AssistantMessage:
    return AssistantMessage(agent="coder", parts=parts, source=RESPONSE)


# Any conversation with such responses


class Story:
    """A conversation as its file tells it: answers of several parts, tools, questions; all of any size."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.events: list[list[Event]] = []
        """Each event, or the parts of one response that follow each other."""

    def told(self, turns: int) -> Story:
        for turn in range(turns):
            self.events.append([UserMessage(text=self._words())])
            for nth in range(self.random.randint(0, 3)):
                self._response(f"m{turn}.{nth}")
            self.events.append([calls(self._words(), source=Origin(system="s", id=f"m{turn}"))])
        self.events.append([UserMessage(text=self._words())])
        return self

    def _words(self) -> str:
        return self.random.choice(("word ", "<message> ", "слово ")) * self.random.choice((1, 5, 40, 300))

    def _response(self, id: str) -> None:
        """Write a response: parts that follow each other, and perhaps more of them between its results."""
        source, waiting = Origin(system="s", id=id), list[ToolCall]()
        for _ in range(self.random.randint(1, 2)):
            made = []
            for _ in range(self.random.randint(1, 3)):
                long = "x" * self.random.choice((1, 1, 1, 4_000))
                named = ToolCall(id=f"{id}{len(waiting)}{long}", name="shell")
                waiting.append(named)
                made.append(calls(self._words(), named, source=source))
            self.events.append(list(made))
            while waiting and self.random.random() < 0.6:
                self._result(waiting.pop(self.random.randrange(len(waiting))))
        for named in waiting:
            self._result(named)

    def _result(self, named: ToolCall) -> None:
        self.events.append([ToolResult(call_id=named.id, text=self._words())])

    def in_parts(self) -> list[Event]:
        """Return each part of a response as a message, as an import of a growing file has it."""
        return [event for events in self.events for event in events]

    def whole(self) -> list[Event]:
        """Return neighbouring parts as one message, as an import of the whole file has them."""
        return [_joined(events) for events in self.events]


def _joined(events: Sequence[Event]) -> Event:
    first = events[0]
    if not isinstance(first, AssistantMessage):
        return first
    parts = [part for event in events if isinstance(event, AssistantMessage) for part in event.parts]
    return AssistantMessage(agent=first.agent, parts=parts, source=first.source)


POLICIES: dict[str, Policy] = {
    "tokens": policy(Budget(tokens=700)),
    "characters": policy(Budget(characters=2_500)),
    "bytes": policy(Budget(bytes=6_000)),
    "messages": policy(Budget(messages=9)),
    **{f"last {n}": policy(LastN(n)) for n in (2, 3, 4, 5, 6)},
    "reminder": Budget(tokens=900) | Reminder(2, text="Mind the goal"),
}


@seeds(3, slow=20, nightly=200)
@pytest.mark.parametrize("chosen", POLICIES.values(), ids=POLICIES)
def test_a_response_in_parts_gives_the_requests_of_the_same_in_one(chosen: Policy, seeds: range) -> None:
    for seed in seeds:
        story = Story(seed).told(5)
        assert list(ends(story.in_parts(), chosen)) == list(ends(story.whole(), chosen)), seed


def ends(events: list[Event], chosen: Policy) -> Iterator[tuple[str, bool]]:
    """Yield the request after each question and each result; ids that depend on positions are made equal."""
    made = window(LaneId("coder"), chosen, [])
    for entry in log(NAMED, *events):
        made.take(entry)
        if not isinstance(entry.event, AssistantMessage):
            for api in ("anthropic", "openai-chat"):
                request = from_window(made, api)
                yield _without_places(request.bytes.decode()), request.sendable


def _without_places(body: str) -> str:
    return re.sub(r"x*[0-9_]+", "", body)


BUDGETS = [chosen for chosen in POLICIES.values() if chosen.budget is not None]


@seeds(3, slow=20, nightly=200)
@pytest.mark.parametrize("chosen", BUDGETS)
def test_no_request_that_is_over_its_budget_says_sendable(chosen: Policy, seeds: range) -> None:
    assert chosen.budget is not None
    for seed in seeds:
        made = window(LaneId("coder"), chosen, [])
        for entry in log(NAMED, *Story(seed).told(4).in_parts()):
            made.take(entry)
            for api in FORMATS:
                request = from_window(made, api)
                assert not request.sendable or request.size.fits(limits(chosen.budget)), (seed, request.at)
