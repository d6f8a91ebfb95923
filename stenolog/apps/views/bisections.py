"""Searches along an axis, such as the entries of a conversation, for the point that turned a judge."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from stenolog.domain.errors import CallerError, InvalidEventError
from stenolog.domain.events import AssistantMessage, LlmError
from stenolog.projections.analysis.bisection import holds
from stenolog.projections.analysis.retry.bisecting import Search, Searched, searched
from stenolog.projections.analysis.whatif import unwritten
from stenolog.projections.requests import LaneId, Request, build
from stenolog.projections.views.lines import describe

from .lanes import lane, means, own_api

if TYPE_CHECKING:
    from stenolog.adapters.conversation.log import Conversation


class Variant(NamedTuple):
    """A point of an axis: its name, such as an entry's position, and what a reader knows it by."""

    name: str
    title: str = ""


class Axis(NamedTuple):
    """Points in order, and the requests of recorded calls (`cases`) at each; None: none can be built there.

    `what` is one point, such as "entry".
    """

    what: str
    variants: Sequence[Variant]
    cases: Sequence[str]
    request: Callable[[int, int], Request | None]


class Judged(NamedTuple):
    """The result of a search along an axis.

    `passes` and `fails` say what turned, from a point on. A `confidence` of None: the judge never errs.
    """

    axis: Axis
    judge: str
    passes: str
    fails: str
    confidence: float | None
    searched: Searched


def of_entries(conversation: Conversation, address: str, at: int, first: int, last: int) -> Axis:
    """Return the request at a position, without the entries after each of `first` to `last`.

    Raises `InvalidEventError` if the entries are not before the request.
    """
    log, where = list(conversation.entries(at=at)), lane(address)
    if not 1 <= first < last <= at:
        raise InvalidEventError(f"--between: expected two entries from 1 to {at}, found {first} and {last}")
    given = {"task": where.task, "api": own_api(conversation, address), **means(conversation)}

    def request(variant: int, _case: int) -> Request | None:
        try:
            return build(unwritten(log, first + variant + 1, last), where.agent, **given)
        except CallerError:
            return None

    described = (describe(entry) for entry in log[first - 1 : last])
    variants = [Variant(str(at), f"{each.who}  {each.what}") for at, each in enumerate(described, first)]
    return Axis("entry", variants, [f"{address} at {at}"], request)


def view_of_last_call(conversation: Conversation, address: str, head: int) -> int:
    """Return the position of the request that a lane's last answer was to; the head if it has none."""
    where = lane(address)
    for entry in reversed(list(conversation.entries(at=head))):
        event = entry.event
        if isinstance(event, AssistantMessage | LlmError) and LaneId(event.agent, event.task) == where:
            return event.receipt.view if event.receipt else entry.position - 1
    return head


def by_text(axis: Axis, text: str) -> Judged:
    """Search for the point from which on the requests hold a text, or no longer."""

    def judge(variant: int, case: int) -> bool | None:
        request = axis.request(variant, case)
        return None if request is None else holds(request, text)

    search = Search(len(axis.variants), len(axis.cases), exact=True)
    holding = f"holds “{text}”"
    turned = f"the request {holding}", f"the request no longer {holding}"
    return Judged(axis, holding, *turned, None, searched(judge, search))


def judged_data(judged: Judged) -> dict[str, Any]:
    """Return a result as JSON."""
    axis, (found, verdicts) = judged.axis, judged.searched
    return {
        "axis": axis.what,
        "cases": axis.cases,
        "judge": judged.judge,
        "confidence": judged.confidence,
        "verdict": found.verdict,
        "before": axis.variants[found.before]._asdict(),
        "after": axis.variants[found.after]._asdict(),
        "worse": found.worse,
        "variants": len(axis.variants),
        "tried": [
            {"name": axis.variants[variant].name, "passed": passed, "of": of}
            for variant, (passed, of) in passes(verdicts).items()
        ],
    }


def passes(verdicts: Mapping[int, Sequence[bool | None]]) -> dict[int, tuple[int, int]]:
    """Return how many verdicts on each variant are good, and of how many, in the variants' order."""
    known = {variant: [each for each in some if each is not None] for variant, some in verdicts.items()}
    return {variant: (sum(known[variant]), len(known[variant])) for variant in sorted(known)}
