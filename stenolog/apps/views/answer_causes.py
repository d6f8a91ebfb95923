"""Causes of a recorded answer: its request asked again without parts of it, from coarse to fine."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

from stenolog.domain.errors import InvalidEventError
from stenolog.domain.events import AssistantMessage, LlmError
from stenolog.domain.lanes.state import address
from stenolog.projections.analysis.retry import (
    Comparison,
    Here,
    Pair,
    Question,
    Reply,
    cases,
    judged,
    question,
    same_calls,
)
from stenolog.projections.analysis.retry.halving import Halved, Removal, Terms, Trials, halving
from stenolog.projections.analysis.retry.leaving_out import Divided, Part, divided, in_words, without

from .lanes import means

if TYPE_CHECKING:
    from stenolog.adapters.conversation.log import Conversation

Outcome: TypeAlias = AssistantMessage | LlmError
Judge: TypeAlias = Callable[[Outcome, Outcome], bool]
"""Returns whether an answer is as the recorded one, which comes first."""
Asked: TypeAlias = Callable[[Sequence[Question], int], AsyncIterator[Reply]]
"""Yields the replies to questions, up to so many of each."""
REFUSED = ("invalid_request", "context_length")
"""Categories of errors of a request that a provider does not take."""


class AnswerCauses(NamedTuple):
    """A recorded answer's request in parts, and which of them it depends on.

    `found` is None if nothing was asked. `calls` are the replies that it rests on, `micro_usd` their cost.
    """

    whole: Divided
    found: Halved | None = None
    calls: int = 0
    micro_usd: int | None = 0


def answer_in_parts(conversation: Conversation, position: int) -> Divided:
    """Return the request of the answer at a position, in parts.

    Raises `InvalidEventError` if no model call is there, `CallerError` if its request cannot be built.
    """
    log = list(conversation.entries())
    case = next((each for each in cases(log) if each.position == position), None)
    if case is None:
        kind = log[position - 1].event.kind
        raise InvalidEventError(
            f"{conversation.name!r} at {position}: expected an answer of a model, found {kind}"
        )
    return divided(case, log, Here(**means(conversation)))


def last_answer(conversation: Conversation, agent: str | None) -> int:
    """Return the position of an agent's last answer, or of the last one at all.

    Raises `InvalidEventError` if there is none.
    """
    found = [case.position for case in cases(conversation.entries()) if agent in (None, address(*case.lane))]
    if not found:
        raise InvalidEventError(
            f"{conversation.name!r}: expected an answer of {agent or 'a model'}, found none"
        )
    return found[-1]


async def answer_causes(
    conversation: Conversation,
    whole: Divided,
    model: str,
    asked: Asked,
    judge: Judge = same_calls,
    terms: Terms = Terms(),  # noqa: B008
) -> AnswerCauses:
    """Return the parts that an answer depends on; `asked` asks the model of this name, or looks up."""
    search = _Questions(conversation, whole, model, judge)
    steps = halving([part.kind for part in whole.parts], whole.last, terms)
    try:
        trials = next(steps)
        while True:
            trials = steps.send(await search.verdicts(trials, asked))
    except StopIteration as end:
        return AnswerCauses(whole, end.value, search.calls, search.micro_usd)


class _Questions:
    """The questions of a search, each made once, and the costs of their replies."""

    def __init__(self, conversation: Conversation, whole: Divided, model: str, judge: Judge) -> None:
        self._log, self._here = list(conversation.entries()), Here(**means(conversation))
        self._whole, self._model, self._judge = whole, model, judge
        self._made: dict[Removal, Question | None] = {}
        self._costs: dict[tuple[str, int], int | None] = {}

    async def verdicts(self, trials: Trials, asked: Asked) -> Mapping[Removal, Sequence[bool | None]]:
        """Return the verdicts so far on requests without some parts; none on those that cannot be made."""
        wanted = {each: made for each in trials.removals if (made := self._question(each)) is not None}
        replies: dict[str, dict[int, Outcome]] = {}
        async for reply in asked(list(wanted.values()), trials.samples):
            self._costs[reply.question.key, reply.number] = reply.micro_usd
            outcome = reply.message or reply.error
            if outcome is not None and reply.is_final:
                replies.setdefault(reply.question.key, {})[reply.number] = outcome
        return {each: self._judged(replies.get(one.key, {}), trials.samples) for each, one in wanted.items()}

    @property
    def calls(self) -> int:
        return len(self._costs)

    @property
    def micro_usd(self) -> int | None:
        """The cost of all replies; None if that of one is not known."""
        known = [cost for cost in self._costs.values() if cost is not None]
        return sum(known) if len(known) == len(self._costs) else None

    def _question(self, removal: Removal) -> Question | None:
        if removal not in self._made:
            request = without(self._whole, self._log, removal, self._here) if removal else self._whole.request
            parts = [self._whole.parts[at] for at in sorted(removal)]
            variant = f"without {in_words(parts)}" if parts else ""
            case = self._whole.case
            made = None if request is None else question(case, request, self._model, variant)
            self._made[removal] = made
        return self._made[removal]

    def _judged(self, replies: Mapping[int, Outcome], samples: int) -> list[bool | None]:
        """Return verdicts by number; those of a search that ends early are fewer."""
        outcomes = [replies.get(number) for number in range(1, samples + 1)]
        first_missing = outcomes.index(None) if None in outcomes else samples
        found = outcomes[:first_missing]
        if found and all(isinstance(each, LlmError) and each.category in REFUSED for each in found):
            return []
        recorded = self._whole.case.answer
        return [None if each is None else self._judge(recorded, each) for each in found]


class Effect(NamedTuple):
    """Effect of leaving parts out: how often the answer was given with them and without, and bounds."""

    how: Literal["alone", "jointly", "among"]
    parts: tuple[Part, ...]
    comparison: Comparison


def effects(causes: AnswerCauses, confidence: float) -> list[Effect]:
    """Return the effect of each cause."""
    found = causes.found
    if found is None:
        return []
    return [
        Effect(
            cause.how,
            tuple(causes.whole.parts[at] for at in cause.parts),
            judged([Pair("", found.passed, found.of, cause.passed, cause.of)], confidence).whole,
        )
        for cause in found.causes
    ]


def causes_data(conversation: Conversation, causes: AnswerCauses, terms: Terms) -> dict[str, Any]:
    """Return the parts of an answer's request, and what it depends on, as JSON."""
    whole, found = causes.whole, causes.found
    data: dict[str, Any] = {
        "conversation": conversation.name,
        "position": whole.case.position,
        "agent": address(*whole.case.lane),
        "parts": [part._asdict() for part in whole.parts],
        "found": None,
    }
    if found is not None:
        data["found"] = {
            "verdict": found.verdict,
            "passed": found.passed,
            "of": found.of,
            "causes": [_effect_data(effect) for effect in effects(causes, terms.confidence)],
            "fixed": [whole.parts[at].name for at in found.fixed],
            "is_complete": found.is_complete,
            "confidence": terms.confidence,
            "requests": found.requests,
            "calls": causes.calls,
            "known_cost_micro_usd": causes.micro_usd,
        }
    return data


def _effect_data(effect: Effect) -> dict[str, Any]:
    compared = effect.comparison
    return {
        "how": effect.how,
        "parts": [{"kind": part.kind, "name": part.name} for part in effect.parts],
        "passed": compared.after.passed,
        "of": compared.after.of,
        "change": compared.after.share - compared.before.share,
        "low": compared.low,
        "high": compared.high,
    }
