"""The request as it would have been: without some entries, or under another policy. No model is called."""

from __future__ import annotations

from collections import Counter as Bag
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from stenolog.domain.entry import Entry
from stenolog.domain.errors import UnknownPosition
from stenolog.domain.events import ModeSwitch
from stenolog.domain.policy import PolicyLike
from stenolog.domain.settings import settings
from stenolog.domain.values import Span
from stenolog.projections.requests import DEFAULT_WIRE, Dropped, Explained, Request, build
from stenolog.projections.requests.sections import said
from stenolog.projections.requests.tokens import COUNTERS, Counter
from stenolog.projections.requests.wires.sheet import EMPTY_BLOBS


class WhatIf(NamedTuple):
    """The real request and the other one, and what differs.

    `gone` are the parts that only the real one has, `came` those that only the other has: what was said
    otherwise stands in both. `left_out` are the runs that only the other leaves out, `let_in` those that only
    the real one does. `shared` is the number of messages that both begin with.
    """

    real: Request
    other: Request
    shared: int
    gone: tuple[Explained, ...]
    came: tuple[Explained, ...]
    left_out: tuple[Dropped, ...]
    let_in: tuple[Dropped, ...]

    @property
    def same(self) -> bool:
        """Whether nothing at all would have been otherwise."""
        return self.real.bytes == self.other.bytes and self.real.sendable == self.other.sendable


def whatif(
    entries: Iterable[Entry],
    agent: str,
    *,
    without: Sequence[Span] = (),
    policy: PolicyLike = None,
    task: str = "",
    wire: str = DEFAULT_WIRE,
    blobs: Mapping[str, bytes] = EMPTY_BLOBS,
    counters: Mapping[str, Counter] = COUNTERS,
) -> WhatIf:
    """The lane's request after these entries, beside the one without some of them or under a policy.

    `without` hides entries as a mode switch would have done at the end. `policy` None is the card's.
    Raises `UnknownPosition` for a span that is not in the log.
    """
    log = list(entries)
    given: dict[str, Any] = {"task": task, "wire": wire, "blobs": blobs, "counters": counters}
    real = build(log, agent, **given)
    other = build([*log, *_hiding(log, without)], agent, policy=policy, **given)
    return compared(real, replace(other, upto=real.upto))


def compared(real: Request, other: Request) -> WhatIf:
    """What differs between two requests, part by part."""
    return WhatIf(
        real,
        other,
        shared(said(real.body), said(other.body)),
        tuple(_without(real.parts, other.parts)),
        tuple(_without(other.parts, real.parts)),
        tuple(run for run in other.dropped if run not in real.dropped),
        tuple(run for run in real.dropped if run not in other.dropped),
    )


def shared(one: Sequence[Any], other: Sequence[Any]) -> int:
    """How many messages two conversations begin with in common."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (mine, theirs) in pairs if mine != theirs), min(len(one), len(other)))


def _hiding(log: Sequence[Entry], spans: Sequence[Span]) -> list[Entry]:
    """The mode switch that hides the spans too, behind the log; nothing where there are none."""
    if not spans:
        return []
    last = log[-1]
    for span in spans:
        if span.first > span.last or span.last > last.position:
            where = f"{last.conversation!r}: expected positions from 1 to {last.position}"
            raise UnknownPosition(f"{where}, found {span.first}-{span.last}")
    event = ModeSwitch(hides=(*settings(log).hides, *spans))
    return [Entry(last.conversation, last.position + 1, "what-if", last.at, "", event)]


def _without(mine: Iterable[Explained], theirs: Iterable[Explained]) -> Iterator[Explained]:
    """My parts that they have not, wherever in the body they stand."""
    left = Bag(_known_by(part) for part in theirs)
    for part in mine:
        if left[_known_by(part)]:
            left[_known_by(part)] -= 1
        else:
            yield part


def _known_by(part: Explained) -> Explained:
    return part._replace(message=0)
