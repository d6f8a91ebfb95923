"""Samples of a lane's context, one for each model call, and marks where it became smaller."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple, TypeAlias

from stenolog.domain.entry import Entry
from stenolog.domain.events import AssistantMessage, Event, LlmError, ModeSwitch
from stenolog.domain.lanes.triggers import response_of
from stenolog.projections.messages.sizes import Rate
from stenolog.projections.requests import LaneId
from stenolog.projections.requests.lane_rates import LaneRates
from stenolog.projections.views.usage import counts_elsewhere

MarkKind: TypeAlias = Literal["cut", "compaction", "reset", "rewind"]
MARK_WORDS: dict[MarkKind, str] = {
    "cut": "the window outgrew its room, and the oldest messages left it",
    "compaction": "a summary took the place of messages",
    "reset": "nothing before it is sent any more",
    "rewind": "messages were taken out of context",
}


class ModelCall(NamedTuple):
    """A model call, reported by the entry at `position`; `at` is the position of its request.

    `billed` are the input tokens that the provider states, of which `cached` were read from its cache; None:
    it states none. `failed` is the category of a failed call's error.
    """

    position: int
    at: int
    billed: int | None = None
    cached: int | None = None
    failed: str = ""


class Sample(NamedTuple):
    """A call with the `tokens` of its request as it is rebuilt, and the budget in tokens.

    `tokens` None: the request cannot be rebuilt. `budget` None: the policy has none.
    """

    position: int
    at: int
    tokens: int | None
    billed: int | None = None
    cached: int | None = None
    budget: int | None = None
    failed: str = ""

    @property
    def is_api_error(self) -> bool:
        """True if the call failed, and no person cancelled it."""
        return self.failed not in ("", "cancelled")

    @property
    def size(self) -> int:
        """The tokens that were sent: as billed, else as rebuilt."""
        return self.billed if self.billed is not None else self.tokens or 0


def as_billed(samples: Sequence[Sample], rates: LaneRates) -> list[Sample]:
    """Return samples with the tokens of rebuilt requests as they are billed, except under a budget.

    Beside a bill each counts at the rate then; without any bill all at the last one, so that no step between
    two of them is one of rates.
    """
    if samples and all(each.billed is None for each in samples):
        last = rates.at(samples[-1].at)
        return [_at_rate(each, last) for each in samples]
    return [_at_rate(each, rates.at(each.at)) for each in samples]


def _at_rate(sample: Sample, rate: Rate) -> Sample:
    if sample.tokens is None or sample.budget is not None:
        return sample
    return sample._replace(tokens=rate.of(sample.tokens))


class Mark(NamedTuple):
    """A place at which the context of a lane became smaller."""

    position: int
    kind: MarkKind
    words: str


def call_of(entry: Entry, lane: LaneId, response: str = "") -> ModelCall | None:
    """Return the call of a lane's model that an entry reports; None for any other entry.

    `response` answered the lane's last call: a further part of it is no call.
    """
    event = entry.event
    if not isinstance(event, AssistantMessage | LlmError) or not lane.owns(event) or not event.in_context:
        return None
    if counts_elsewhere(event) or not _asks_its_model(event, response):
        return None
    used = event.usage
    billed = used.input if used is not None and used.input else None
    cached = None if used is None or billed is None else used.cache_read
    at = entry.position - 1 if event.receipt is None else event.receipt.view
    failed = event.category if isinstance(event, LlmError) else ""
    return ModelCall(entry.position, max(at, 0), billed, cached, failed)


def _asks_its_model(event: AssistantMessage | LlmError, response: str) -> bool:
    if isinstance(event, LlmError):
        return event.category != "budget"
    if event.purpose != "answer" or (event.replaces is not None and event.usage is None):
        return False
    return not response or response_of(event) != response


def answered_by(event: Event, lane: LaneId, response: str) -> str:
    """Return the foreign id of the lane's last response after an event."""
    is_answer = isinstance(event, AssistantMessage) and lane.owns(event) and event.purpose == "answer"
    return response_of(event) if is_answer and isinstance(event, AssistantMessage) else response


def mark_of(entry: Entry, lane: LaneId) -> Mark | None:
    """Return the mark of an entry that makes the lane's context smaller, cuts excepted."""
    match entry.event:
        case AssistantMessage(purpose="summary", agent=agent, covers=covers) if (
            agent == lane.agent and covers
        ):
            number = sum(span.last - span.first + 1 for span in covers)
            return Mark(entry.position, "compaction", f"a summary in the place of {number:,} entries")
        case ModeSwitch(agents=agents) if agents and lane.agent not in agents:
            return None
        case ModeSwitch(context_from=int(first)):
            return Mark(entry.position, "reset", f"nothing before {first} is sent any more")
        case ModeSwitch(hides=tuple(spans)) if spans:
            number = sum(span.last - span.first + 1 for span in spans)
            return Mark(entry.position, "rewind", f"{number:,} entries are out of context")
        case _:
            return None
