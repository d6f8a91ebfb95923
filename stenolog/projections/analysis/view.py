"""What a lane has seen, how that is known, and what of it another lane has not."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias

from stenolog.domain.entry import Entry
from stenolog.domain.errors import InvalidPolicy
from stenolog.domain.events import AssistantMessage, LlmError
from stenolog.domain.policy import Policy, PolicyLike
from stenolog.domain.policy import policy as policy_of
from stenolog.domain.values import Receipt
from stenolog.projections.requests import DEFAULT_WIRE, WIRES, Lane, Request, build, every_request
from stenolog.projections.requests.model import compact
from stenolog.projections.requests.tokens import COUNTERS, Counter
from stenolog.projections.requests.wires.sheet import EMPTY_BLOBS

from .explain import PREVIEW
from .matching import FRONT

Proof: TypeAlias = Literal["own", "receipt", "rebuilt", "cause", "next"]
PROOFS: Mapping[Proof, str] = {
    "own": "it said so itself",
    "receipt": "in a request that its receipt proves, to the byte",
    "rebuilt": "in the request that its receipt names, which is built otherwise today",
    "cause": "it answered it, without a receipt",
    "next": "not proved yet: in the request that it would be sent now",
}
"""How it is known that a lane has seen something, the surest first."""
SUREST = {proof: rank for rank, proof in enumerate(PROOFS)}


class Seen(NamedTuple):
    """A lane has seen the entry at `position`; `by` is its first answer that shows it (0: none yet).

    `unseen_by` is the rule that keeps the entry from the other lane; empty where none does.
    """

    position: int
    proof: Proof
    by: int
    unseen_by: str = ""


def seen(
    entries: Iterable[Entry],
    lane: Lane,
    *,
    wire: str = DEFAULT_WIRE,
    policy: PolicyLike = None,
    blobs: Mapping[str, bytes] = EMPTY_BLOBS,
    counters: Mapping[str, Counter] = COUNTERS,
) -> tuple[Seen, ...]:
    """What the lane has seen, by position, each with its surest proof.

    `policy` None is the agent's own. Raises what building a request raises.
    """
    return _look(list(entries), lane, wire, policy, blobs, counters).seen


def view(
    entries: Iterable[Entry],
    lane: Lane,
    minus: Lane,
    *,
    wire: str = DEFAULT_WIRE,
    policy: PolicyLike = None,
    blobs: Mapping[str, bytes] = EMPTY_BLOBS,
    counters: Mapping[str, Counter] = COUNTERS,
) -> tuple[Seen, ...]:
    """What the lane has seen that the other has not, and would not be shown now; otherwise as `seen`."""
    log = list(entries)
    mine = _look(log, lane, wire, policy, blobs, counters)
    other = _look(log, minus, wire, policy, blobs, counters)
    known = {there.position for there in other.seen}
    return tuple(
        here._replace(unseen_by=_dropped_by(other.now, here.position))
        for here in mine.seen
        if here.position not in known
    )


class _Look(NamedTuple):
    """What a lane has seen by the end of the log, and its request there."""

    seen: tuple[Seen, ...]
    now: Request


class _Answer(NamedTuple):
    """An answer or an error of the lane, and what it records of the request that it came from."""

    position: int
    cause: int
    receipt: Receipt | None


def _look(
    log: Sequence[Entry],
    lane: Lane,
    wire: str,
    policy: PolicyLike,
    blobs: Mapping[str, bytes],
    counters: Mapping[str, Counter],
) -> _Look:
    """Every entry that the lane has seen, with its surest proof and the first answer that gives it."""
    now = build(log, lane.agent, task=lane.task, wire=wire, policy=policy, blobs=blobs, counters=counters)
    answers = list(_answers(log, lane))
    found = [Seen(answer.position, "own", answer.position) for answer in answers]
    found += _by_receipts(log, lane, answers, blobs, counters)
    found += [Seen(a.cause, "cause", a.position) for a in answers if a.cause and a.receipt is None]
    found += [Seen(position, "next", 0) for position in told_of(now)]
    surest: dict[int, Seen] = {}
    for one in sorted(found, key=lambda one: (one.position, SUREST[one.proof], one.by)):
        surest.setdefault(one.position, one)
    return _Look(tuple(surest.values()), now)


def told_of(request: Request) -> set[int]:
    """The positions of the entries whose words stand in a request; settings are none."""
    return {
        position
        for part in request.parts
        if part.rule not in FRONT and part.rule != PREVIEW
        for position in part.positions
    }


def _answers(log: Iterable[Entry], lane: Lane) -> Iterator[_Answer]:
    for entry in log:
        match entry.event:
            case AssistantMessage() | LlmError() as event if lane.owns(event):
                yield _Answer(entry.position, event.cause or 0, event.receipt)
            case _:
                pass


def _by_receipts(
    log: Sequence[Entry],
    lane: Lane,
    answers: Iterable[_Answer],
    blobs: Mapping[str, bytes],
    counters: Mapping[str, Counter],
) -> Iterator[Seen]:
    """What stood in the requests that the receipts name, each built again under its own wire and policy."""
    alike: dict[tuple[str, str], list[tuple[int, Receipt]]] = defaultdict(list)
    for answer in answers:
        if answer.receipt is not None:
            alike[answer.receipt.wire, compact(answer.receipt.policy)].append(
                (answer.position, answer.receipt)
            )
    for sent in alike.values():
        like = sent[0][1]
        wanted = {receipt.view for _, receipt in sent}
        requests = every_request(
            log[: max(wanted)],
            lane.agent,
            task=lane.task,
            wire=_known_wire(like.wire),
            policy=_known_policy(like.policy),
            blobs=blobs,
            counters=counters,
        )
        for request in requests:
            for by, receipt in sent if request.upto in wanted else ():
                if receipt.view == request.upto:
                    same: Proof = "receipt" if request.sha256 == receipt.sha256 else "rebuilt"
                    yield from (Seen(position, same, by) for position in told_of(request))


def _known_wire(written: str) -> str:
    name = written.partition("@")[0]
    return name if name in WIRES else DEFAULT_WIRE


def _known_policy(written: Mapping[str, Any]) -> Policy | None:
    """The policy of a receipt; None, the agent's own, where this release does not know it."""
    try:
        return policy_of(written)
    except InvalidPolicy:
        return None


def _dropped_by(request: Request, position: int) -> str:
    return next((run.rule for run in request.dropped if run.first <= position <= run.last), "")
