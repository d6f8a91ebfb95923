"""Difference between two requests in a few numbers, without a look at their words."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from stenolog.projections.requests import Request, RequestPart
from stenolog.projections.requests.comparison import Sign, matches
from stenolog.projections.requests.explanation import Omission


class CountedChange(NamedTuple):
    """Parts that went (-), came (+) or have another form (~) by one rule: how many, from where to where.

    `tokens` is how many more the later request has of them.
    """

    sign: Sign
    rule: str
    parts: int
    first: int
    last: int
    tokens: int


def changes_in_short(before: Request, after: Request) -> list[CountedChange]:
    """Return the changes, counted by sign and rule, the largest first.

    A part whose words are others has another form if its rule or its size is another one, too.
    """
    found: dict[tuple[Sign, str], CountedChange] = {}
    for sign, rule, part, tokens in _changes(before, after):
        first, last = min(part.positions, default=0), max(part.positions, default=0)
        one = found.get((sign, rule), CountedChange(sign, rule, 0, first, last, 0))
        found[sign, rule] = one._replace(
            parts=one.parts + 1,
            first=min(one.first, first),
            last=max(one.last, last),
            tokens=one.tokens + tokens,
        )
    return sorted(found.values(), key=lambda one: (-abs(one.tokens), one))


def _changes(before: Request, after: Request) -> Iterator[tuple[Sign, str, RequestPart, int]]:
    """Yield each part that changed with its sign, its rule, and the tokens that it makes up."""
    omissions = sorted(after.omissions)
    for old, new in matches(before.parts, after.parts):
        if new is None and old is not None:
            rule = _rule_of(omissions, old.positions[0]) if old.positions else old.rule
            yield "-", rule or old.rule, old, -old.tokens_out
        elif old is None and new is not None:
            yield "+", new.rule, new, new.tokens_out
        elif old is not None and new is not None and _form(old) != _form(new):
            yield "~", new.rule, new, new.tokens_out - old.tokens_out


def _form(part: RequestPart) -> tuple[object, ...]:
    return part.rule, part.disposition, part.tokens_in, part.tokens_out, part.text


def _rule_of(omissions: list[Omission], position: int) -> str:
    """Return the rule by which a position is left out; empty where it is not. A run may overlap another."""
    return next((run.rule for run in omissions if run.first <= position <= run.last), "")
