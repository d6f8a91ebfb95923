"""What `verify --requests` says: how many requests are the same, which differ, why some cannot be proved."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from .answer import Diagnostic
from .lines import Line, line

if TYPE_CHECKING:
    from stenolog.adapters.proving import Proved

DIFFERS, NOT_PROVABLE = "request-differs", "request-not-provable"
FAILURES = (DIFFERS, NOT_PROVABLE)


def request_counts(proved: Iterable[Proved]) -> dict[str, int]:
    """How many requests came out how."""
    counts = {"same": 0, "differs": 0, "not-provable": 0}
    for talk in proved:
        for outcome, number in talk.counts.items():
            counts[outcome] += number
    return counts


def request_notes(proved: Iterable[Proved], *, strict: bool) -> Iterator[Diagnostic]:
    """Each request that differs; those that cannot be proved together, by what is missing."""
    for talk in proved:
        reasons: Counter[str] = Counter()
        for proof in talk.proofs:
            if proof.outcome == "not-provable":
                reasons[proof.reason] += 1
            elif proof.outcome == "differs":
                what = f"the request of {proof.lane} at {proof.view} on {proof.wire} differs: {proof.reason}"
                where = (talk.conversation, proof.position)
                yield Diagnostic("error", DIFFERS, f"{where[0]!r} at {where[1]}: {what}", *where)
        for reason, number in sorted(reasons.items()):
            message = f"{talk.conversation!r}: {number} not provable: {reason}"
            yield Diagnostic("error" if strict else "note", NOT_PROVABLE, message, talk.conversation)


def request_line(counts: dict[str, int], *, strict: bool) -> Line:
    """212 requests: 210 same, 1 differs, 1 not provable."""
    if not any(counts.values()):
        return line(("· ", "cyan"), "no request has a receipt, so there is none to build again")
    failed = counts["differs"] or (strict and counts["not-provable"])
    mark = ("✗ ", "red") if failed else ("✓ ", "green")
    words = ", ".join(f"{number} {outcome.replace('-', ' ')}" for outcome, number in counts.items())
    return line(mark, f"{sum(counts.values())} requests: {words}")
