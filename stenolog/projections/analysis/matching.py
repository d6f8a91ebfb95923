"""Which part of one request is which part of another."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Hashable, Iterable
from typing import NamedTuple

from stenolog.projections.requests import RequestPart
from stenolog.projections.requests.rules import STAGES

FRONT = frozenset(rule for stage, rules in STAGES.items() if stage.startswith("prefix") for rule in rules)
"""The rules of what stands around the conversation."""


class Match(NamedTuple):
    """A part of the first request and the same part of the second; None where one of them has it not."""

    before: RequestPart | None
    after: RequestPart | None

    @property
    def sort_key(self) -> tuple[bool, int, bool]:
        """The order of changes: parts of the prefix first, then by position in the log."""
        part = self.after or self.before
        assert part is not None
        return part.rule not in FRONT, min(part.positions, default=0), self.after is not None


def matches(before: Iterable[RequestPart], after: Iterable[RequestPart]) -> list[Match]:
    """Every part of both, matched: by rule and positions, by what it is of, or by its rule in the prefix.

    What a rule added matches only what the same rule added there: it is another thing than the words that
    it stands at.
    """
    found: list[Match] = []
    left, right = list(before), list(after)
    for key in (_exactly, _by_origin, _by_rule):
        left, right = _matched(left, right, key, found)
    found += [Match(part, None) for part in left] + [Match(None, part) for part in right]
    return sorted(found, key=lambda match: match.sort_key)


def _matched(
    left: Iterable[RequestPart],
    right: Iterable[RequestPart],
    key: Callable[[RequestPart], Hashable | None],
    found: list[Match],
) -> tuple[list[RequestPart], list[RequestPart]]:
    """Match the parts of one key, in their order, and hand back what is left of both; None is no key."""
    waiting: dict[Hashable, deque[RequestPart]] = defaultdict(deque)
    for part in right:
        waiting[key(part)].append(part)
    rest = []
    for part in left:
        same = waiting[key(part)] if key(part) is not None else ()
        if same:
            found.append(Match(part, same.popleft()))
        else:
            rest.append(part)
    return rest, [part for parts in waiting.values() for part in parts]


def _exactly(part: RequestPart) -> Hashable | None:
    return part.rule, part.positions


def _by_origin(part: RequestPart) -> Hashable | None:
    return None if part.disposition == "added" or part.rule in FRONT else part.positions[:1] or None


def _by_rule(part: RequestPart) -> Hashable | None:
    return part.rule if part.rule in FRONT else None
