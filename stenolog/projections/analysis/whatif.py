"""The request as it might be, without some entries or under another policy, beside the real one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from stenolog.domain.entry import Entry
from stenolog.domain.errors import InvalidEventError, PositionNotFoundError
from stenolog.domain.events import ModeSwitch
from stenolog.domain.policy import PolicyLike
from stenolog.domain.settings import settings
from stenolog.domain.values import PositionRange
from stenolog.projections.requests import DEFAULT_API, Request, build
from stenolog.projections.requests.comparison import RequestDiff, diff
from stenolog.projections.requests.request import EMPTY_BLOBS
from stenolog.projections.requests.tokens import COUNTERS
from stenolog.projections.requests.tokens import Counter as TokenCounter


class WhatIf(NamedTuple):
    """The real request and the other one, and the difference from the real one to the other."""

    real: Request
    other: Request
    difference: RequestDiff

    @property
    def same(self) -> bool:
        """True if both requests have the same body and are equally ready."""
        return self.real.bytes == self.other.bytes and self.real.ready == self.other.ready


def whatif(
    entries: Iterable[Entry],
    agent: str,
    *,
    without: Sequence[PositionRange] = (),
    policy: PolicyLike = None,
    task: str = "",
    api: str = DEFAULT_API,
    blobs: Mapping[str, bytes] = EMPTY_BLOBS,
    counters: Mapping[str, TokenCounter] = COUNTERS,
) -> WhatIf:
    """Return the lane's request after these entries beside the one without some of them or under a policy.

    `without` hides entries as a mode switch would have done at the end. `policy` None is the card's. Raises
    `PositionNotFoundError` for a span that is not in the log, `InvalidEventError` for a mode switch: that is
    not shown, it sets something.
    """
    log = list(entries)
    given: dict[str, Any] = {"task": task, "api": api, "blobs": blobs, "counters": counters}
    real = build(log, agent, **given)
    other = build([*log, *_hiding(log, without)], agent, policy=policy, **given)
    return WhatIf(real, replace(other, at=real.at), diff(real, other))


def _hiding(log: Sequence[Entry], spans: Sequence[PositionRange]) -> list[Entry]:
    """Return a mode switch that hides the spans too; nothing where there are none."""
    if not spans:
        return []
    last = log[-1]
    for span in spans:
        where = f"{last.conversation!r}: expected"
        if span.last > last.position:
            raise PositionNotFoundError(f"{where} a position from 1 to {last.position}, found {span.last}")
        if span.first > span.last:
            raise PositionNotFoundError(f"{where} the lower position first, found {span.first}-{span.last}")
        if all(isinstance(entry.event, ModeSwitch) for entry in log[span.first - 1 : span.last]):
            reason = "it is a mode switch, and what it sets would stay in force"
            raise InvalidEventError(f"{where} something that a request shows, found {span.first}: {reason}")
    event = ModeSwitch(hides=(*settings(log).hides, *spans))
    return [Entry(last.conversation, last.position + 1, "what-if", last.time, "", event)]
