"""The reason for every part of a request, and for everything that was left out of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from stenolog.domain.entry import Entry
from stenolog.projections.describe import describe
from stenolog.projections.requests import Request
from stenolog.projections.requests.request import Disposition
from stenolog.projections.requests.rules import RULES

from .body_text import part_text


class Reason(NamedTuple):
    """Why a part stands in a request as it does.

    `message` is its index among the body's messages, -1 for what stands beside them. `does` is what the
    rule does, in words. `text` is what the part says there; where it shares its message with others, what
    the entry said.
    """

    message: int
    role: str
    positions: tuple[int, ...]
    disposition: Disposition
    rule: str
    does: str
    tokens_in: int
    tokens_out: int
    text: str


class Missing(NamedTuple):
    """A run of positions that was left out, the rule, what it does, and the tokens it would have cost.

    `text` is what the first of them said.
    """

    first: int
    last: int
    rule: str
    does: str
    tokens: int
    text: str


def why(request: Request, entries: Iterable[Entry]) -> tuple[Reason, ...]:
    """The reason for each part, in the order of the body; `entries` are those the request was built from."""
    log = {entry.position: entry for entry in entries}
    shared = Counter(part.message for part in request.parts)
    return tuple(
        Reason(
            part.message,
            part.role,
            part.positions,
            part.disposition,
            part.rule,
            RULES.get(part.rule, ""),
            part.tokens_in,
            part.tokens_out,
            part_text(request, part, shared[part.message] == 1) or _describe(log, part.positions),
        )
        for part in request.parts
    )


def left_out(request: Request, entries: Iterable[Entry]) -> tuple[Missing, ...]:
    """The reason for each run that was left out."""
    log = {entry.position: entry for entry in entries}
    return tuple(
        Missing(
            run.first, run.last, run.rule, RULES.get(run.rule, ""), run.tokens, _describe(log, (run.first,))
        )
        for run in request.dropped
    )


def _describe(log: dict[int, Entry], positions: tuple[int, ...]) -> str:
    return describe(log[positions[0]]).what if positions and positions[0] in log else ""
