"""Knowledge of a lane: the entries that it has seen, the proof of each, and those another lane lacks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, Literal, NamedTuple, TypeAlias

from stenolog.domain.entry import Entry
from stenolog.domain.events import AssistantMessage, LlmError
from stenolog.domain.policy import PolicyLike
from stenolog.domain.values import Receipt
from stenolog.projections.messages.body_digest import compact
from stenolog.projections.messages.explanation import omission_rule
from stenolog.projections.messages.message import EMPTY_BLOBS
from stenolog.projections.messages.rules import FRONT
from stenolog.projections.messages.sizes import COUNTERS, Counter
from stenolog.projections.requests import LaneId, Request, build, check_takes_part
from stenolog.projections.requests.as_sent import SentForms
from stenolog.projections.requests.incremental.window import Window
from stenolog.projections.requests.pipeline.lane_apis import known_api
from stenolog.projections.requests.pipeline.tool_groups import PREVIEW_RULE
from stenolog.projections.requests.request import known_policy

from .explain import some_requests

Proof: TypeAlias = Literal["own", "receipt", "rebuilt", "cause", "delivered", "next"]
PROOFS: Mapping[Proof, str] = {
    "own": "it said so itself",
    "receipt": "in a request that its receipt proves, to the byte",
    "rebuilt": "in the request that its receipt names, which is built otherwise today",
    "cause": "it answered it, without a receipt",
    "delivered": "its policy leaves it out, since its backend has it",
    "next": "not proved yet: in the request that it would be sent now",
}
"""Kinds of evidence that a lane has seen an entry, the strongest first."""
SUREST = {proof: rank for rank, proof in enumerate(PROOFS)}


class Seen(NamedTuple):
    """A lane has seen the entry at `position`; `by` is its first answer that shows it (0: none yet).

    `unseen_by` is the rule that hides the entry from the other lane, else "".
    """

    position: int
    proof: Proof
    by: int
    unseen_by: str = ""


def seen(
    entries: Iterable[Entry],
    lane: LaneId,
    *,
    api: str | None = None,
    policy: PolicyLike = None,
    blobs: Mapping[str, bytes] = EMPTY_BLOBS,
    counters: Mapping[str, Counter] = COUNTERS,
) -> tuple[Seen, ...]:
    """Return the entries that the lane has seen, by position, each with its surest proof.

    `policy` None is the agent's own. Raises as `build`.
    """
    return _look(list(entries), lane, api, policy, blobs, counters).seen


def view(
    entries: Iterable[Entry],
    lane: LaneId,
    minus: LaneId,
    *,
    api: str | None = None,
    policy: PolicyLike = None,
    blobs: Mapping[str, bytes] = EMPTY_BLOBS,
    counters: Mapping[str, Counter] = COUNTERS,
) -> tuple[Seen, ...]:
    """Return the entries that the lane has seen, and the other has not and would not be shown now."""
    log = list(entries)
    mine = _look(log, lane, api, policy, blobs, counters)
    other = _look(log, minus, api, policy, blobs, counters)
    known = {there.position for there in other.seen}
    return tuple(
        here._replace(unseen_by=omission_rule(other.now.omissions, here.position))
        for here in mine.seen
        if here.position not in known
    )


class _Look(NamedTuple):
    """Entries that a lane has seen by the end of the log, and its request there."""

    seen: tuple[Seen, ...]
    now: Request


class _Answer(NamedTuple):
    """An answer or an error of the lane, and what it records of the request that it came from."""

    position: int
    cause: int
    receipt: Receipt | None


def _look(
    log: Sequence[Entry],
    lane: LaneId,
    api: str | None,
    policy: PolicyLike,
    blobs: Mapping[str, bytes],
    counters: Mapping[str, Counter],
) -> _Look:
    """Return every entry that the lane has seen, with its surest proof and first such answer."""
    check_takes_part(log, lane.agent)
    now = build(log, lane.agent, task=lane.task, api=api, policy=policy, blobs=blobs, counters=counters)
    answers = list(_answers(log, lane))
    surest: dict[int, Seen] = {}
    for one in chain(
        (Seen(answer.position, "own", answer.position) for answer in answers),
        _by_receipts(log, lane, answers, blobs, counters),
        (Seen(a.cause, "cause", a.position) for a in answers if a.cause and a.receipt is None),
        (
            Seen(position, "delivered", 0)
            for run in now.held_runs
            for position in range(run.first, run.last + 1)
        ),
        (Seen(position, "next", 0) for position in told_of(now)),
    ):
        if one.position not in surest or _weight(one) < _weight(surest[one.position]):
            surest[one.position] = one
    return _Look(tuple(surest[position] for position in sorted(surest)), now)


def _weight(seen: Seen) -> tuple[int, int]:
    return SUREST[seen.proof], seen.by


def told_of(request: Request) -> set[int]:
    """Return the positions whose words are in a request, without settings."""
    return {
        position
        for part in request.parts
        if part.rule not in FRONT and part.rule != PREVIEW_RULE
        for position in part.positions
    }


def _answers(log: Iterable[Entry], lane: LaneId) -> Iterator[_Answer]:
    for entry in log:
        match entry.event:
            case AssistantMessage() | LlmError() as event if lane.owns(event):
                yield _Answer(entry.position, event.cause or 0, event.receipt)
            case _:
                pass


def _by_receipts(
    log: Sequence[Entry],
    lane: LaneId,
    answers: Iterable[_Answer],
    blobs: Mapping[str, bytes],
    counters: Mapping[str, Counter],
) -> Iterator[Seen]:
    """Yield the entries in the requests that receipts name, each rebuilt under its own API and policy."""
    alike: dict[tuple[str, str, str], list[tuple[int, Receipt]]] = defaultdict(list)
    for answer in answers:
        if answer.receipt is not None:
            receipt = answer.receipt
            like = receipt.api, receipt.pipeline, compact(receipt.policy)
            alike[like].append((answer.position, receipt))
    for sent in alike.values():
        yield from _delivered(log, lane, sent, {"blobs": blobs, "counters": counters})


def _delivered(
    log: Sequence[Entry], lane: LaneId, sent: Sequence[tuple[int, Receipt]], means: Mapping[str, Any]
) -> Iterator[Seen]:
    answers: dict[int, list[tuple[int, Receipt]]] = defaultdict(list)
    for by, receipt in sent:
        answers[receipt.view].append((by, receipt))
    like = sent[0][1]
    api, policy = known_api(like.api.partition("@")[0]), known_policy(like)
    forms = SentForms(log, lane, means["blobs"])

    def wanted(window: Window) -> bool:
        return window.position in answers

    for request in some_requests(log[: max(answers)], lane, wanted, api=api, policy=policy, **means):
        for by, receipt in answers[request.at]:
            shown = forms.form(request, receipt)
            same: Proof = "receipt" if shown.sha256 == receipt.sha256 else "rebuilt"
            yield from (Seen(position, same, by) for position in told_of(shown))
