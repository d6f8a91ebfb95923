"""Causes of a recorded answer: its request asked again without parts of it, from coarse to fine."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

from stenolog.domain.entry import Entry
from stenolog.domain.errors import InvalidEventError
from stenolog.domain.events import AssistantMessage, LlmError
from stenolog.domain.lanes.state import address
from stenolog.domain.lanes.triggers import response_of
from stenolog.projections.analysis.retry import (
    Case,
    Comparison,
    Estimate,
    Here,
    ModelQuestion,
    ModelReply,
    Pair,
    cases,
    judged,
    question,
    same_calls,
)
from stenolog.projections.analysis.retry.halving import Halved, Removal, Terms, Trials, halving, most_requests
from stenolog.projections.analysis.retry.leaving_out import Divided, Part, divided, in_words, without
from stenolog.projections.requests import Request

from .lanes import means

if TYPE_CHECKING:
    from stenolog.adapters.asking import Panel
    from stenolog.adapters.conversation.log import Conversation, Log

Passes: TypeAlias = Callable[[AssistantMessage | LlmError, AssistantMessage | LlmError], bool]
"""A judge: whether an answer is as good as the recorded one, which comes first."""
REFUSED = ("invalid_request", "context_length")
"""Categories of errors of a request that a provider does not take."""


class AnswerCauses(NamedTuple):
    """A recorded answer's request in parts, and which of them it depends on.

    `found` is None if nothing was asked. `calls` are the answers that it rests on, `micro_usd` their cost.
    """

    whole: Divided
    found: Halved | None = None
    calls: int = 0
    micro_usd: int = 0


def answer_in_parts(conversation: Conversation, position: int) -> Divided:
    """Return the request of the answer at a position, in parts.

    Raises `InvalidEventError` if no model call is there, `CallerError` if its request cannot be built.
    """
    log = list(conversation.entries())
    case = _case_at(cases(log), log[position - 1])
    if case is None:
        kind = log[position - 1].event.kind
        raise InvalidEventError(
            f"{conversation.name!r} at {position}: expected an answer of a model, found {kind}"
        )
    return divided(case, log, Here(**means(conversation)))


def _case_at(calls: Sequence[Case], entry: Entry) -> Case | None:
    """Return the call whose answer is at an entry, or goes on there: it is where its first message is."""
    response = response_of(entry.event) if isinstance(entry.event, AssistantMessage) else ""
    for case in reversed(calls):
        answer = case.answer
        goes_on = isinstance(answer, AssistantMessage) and response and response_of(answer) == response
        if case.position == entry.position or (goes_on and case.position < entry.position):
            return case
    return None


def last_answer(conversation: Conversation, agent: str | None, at: int | None = None) -> int:
    """Return the position of an agent's last answer, or of the last one at all.

    With `at`: the last one up to there, else the first. Raises `InvalidEventError` if there is none.
    """
    found = [case.position for case in cases(conversation.entries()) if agent in (None, address(*case.lane))]
    if not found:
        raise InvalidEventError(
            f"{conversation.name!r}: expected an answer of {agent or 'a model'}, found none"
        )
    return found[-1] if at is None else max((one for one in found if one <= at), default=found[0])


def _question(whole: Divided, request: Request, model: str, variant: str = "") -> ModelQuestion:
    name = model or str(request.body.get("model") or whole.case.answer.model)
    return question(whole.case, request, name, variant)


async def asked_causes(search: CauseSearch, panel: Panel) -> AnswerCauses:
    """Return the parts that an answer depends on, by verdicts of a panel on a model's answers."""
    seen = panel.seen

    def take(reply: ModelReply) -> None:
        search.take(reply)
        seen(reply)

    panel.seen = take
    while search.questions:
        search.go_on(await panel.verdicts(search.questions, search.samples))
    return search.causes


def search_estimate(search: CauseSearch, panel: Panel) -> Estimate:
    """Return what a search takes at most, without asking; nothing if all its answers are kept."""
    [first], requests = search.questions, most_requests(len(search.causes.whole.parts))
    # No request of the search is larger than the first one.
    most = panel.estimate([first], search.samples * requests)
    if panel.judge.model is None:
        store = panel.asking.answers
        kept = kept_causes(search, store.log, panel.judge.passes, store.via)
        if kept.found is not None and kept.found.is_complete:
            return most._replace(calls=0)
    return most


def causes_so_far(
    conversation: Conversation, whole: Divided, file: Path | None = None, *, confidence: float = 0.95
) -> AnswerCauses:
    """Return what the kept answers of the recorded model say, judged by their calls; nothing is asked.

    They are in a file, by default beside the database. They say nothing about an answer without calls.
    """
    from stenolog.adapters.asking.answers import beside, replies
    from stenolog.adapters.conversation.log import open_existing

    path, unknown = conversation.log.path, AnswerCauses(whole)
    file = file or (None if "://" in path else beside(Path(path)))
    if not whole.case.answer.tool_calls or file is None or not file.exists():
        return unknown
    with open_existing(str(file)) as answers:
        [first] = CauseSearch(conversation, whole, Terms()).questions
        samples = sum(1 for _ in replies([first], answers))
        if not samples:
            return unknown
        return kept_causes(CauseSearch(conversation, whole, Terms(samples, confidence)), answers)


def kept_causes(
    search: CauseSearch, answers: Log, passes: Passes = same_calls, via: str | None = None
) -> AnswerCauses:
    """Return what is known of an answer's causes by the answers that a log has; nothing is asked."""
    from stenolog.adapters.asking.answers import replies

    while search.questions:
        verdicts: dict[str, list[bool | None]] = {}
        for one in search.questions:
            verdicts[one.key] = [None] * search.samples
            for reply in replies([one], answers, search.samples, via):
                search.take(reply)
                answer = reply.message
                is_same = answer is not None and passes(one.case.answer, answer)
                verdicts[one.key][reply.number - 1] = is_same
        search.go_on(verdicts)
    return search.causes


class CauseSearch:
    """A search for the parts that an answer depends on: `questions` to ask, each up to `samples` times.

    After the last there are none, and `causes` has the result. `model` is who is asked, by default the
    recorded one.
    """

    def __init__(self, conversation: Conversation, whole: Divided, terms: Terms, model: str = "") -> None:
        self._log, self._means = list(conversation.entries()), Here(**means(conversation))
        self._whole, self._model = whole, model
        self._made: dict[Removal, ModelQuestion | None] = {}
        self._replies: dict[str, dict[int, ModelReply]] = {}
        self._costs: dict[tuple[str, int], int] = {}
        self._steps = halving([part.kind for part in whole.parts], whole.last, terms)
        self._asked: dict[Removal, ModelQuestion] = {}
        self.samples = 0
        self.causes = AnswerCauses(whole)
        self._set(next(self._steps))

    @property
    def questions(self) -> list[ModelQuestion]:
        """The questions to ask next."""
        return list(self._asked.values())

    def take(self, reply: ModelReply) -> None:
        """Take a reply to a question, new or kept."""
        self._costs[reply.question.key, reply.number] = reply.micro_usd or 0
        if reply.is_final:
            self._replies.setdefault(reply.question.key, {})[reply.number] = reply

    def go_on(self, verdicts: Mapping[str, Sequence[bool | None]]) -> None:
        """Take the verdicts on the questions, by their keys, and find the next questions."""
        try:
            known = {
                each: self._verdicts_so_far(verdicts[one.key], one.key) for each, one in self._asked.items()
            }
            self._set(self._steps.send(known))
            while not self._asked:  # nothing of this can be sent
                self._set(self._steps.send({}))
        except StopIteration as end:
            self._asked = {}
            found, cost = end.value, sum(self._costs.values())
            self.causes = AnswerCauses(self._whole, found, len(self._costs), cost)

    def _set(self, trials: Trials) -> None:
        made = {each: self._question(each) for each in trials.removals}
        self._asked = {each: one for each, one in made.items() if one is not None}
        self.samples = trials.samples

    def _question(self, removal: Removal) -> ModelQuestion | None:
        if removal not in self._made:
            whole = self._whole
            request = without(whole, self._log, removal, self._means) if removal else whole.request
            parts = [whole.parts[at] for at in sorted(removal)]
            variant = f"without {in_words(parts)}" if parts else ""
            self._made[removal] = None if request is None else _question(whole, request, self._model, variant)
        return self._made[removal]

    def _verdicts_so_far(self, verdicts: Sequence[bool | None], key: str) -> Sequence[bool | None]:
        """Return the verdicts up to the first answer that is missing; none if the provider refuses it."""
        replies = self._replies.get(key, {})
        errors = [reply.error for reply in replies.values()]
        if errors and all(error is not None and error.category in REFUSED for error in errors):
            return ()
        return verdicts[: next((n for n in range(len(verdicts)) if n + 1 not in replies), len(verdicts))]


class Effect(NamedTuple):
    """Effect of leaving parts out: how often the answer was given with them and without, and bounds."""

    how: Literal["single", "jointly", "among"]
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
