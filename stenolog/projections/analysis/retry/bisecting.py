"""Binary search for the first variant that a judge finds worse or better, though its verdicts are noisy.

The variants are in order; each is judged on the same samples. A part is only left out of the search if both
ends of the rest are proved to differ, so no variant is named by chance more often than stated.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import lgamma, log
from typing import Literal, NamedTuple, TypeAlias

Verdicts: TypeAlias = "Sequence[bool | None]"
"""Verdicts on a variant, by sample; None for a sample without one."""


class Search(NamedTuple):
    """Terms of a search: so many variants, and at most so many samples of each.

    `batch` are the samples asked for at once. `exact`: the judge always says the same of the same sample.
    """

    variants: int
    samples: int
    confidence: float = 0.95
    batch: int = 8
    exact: bool = False


class Bisection(NamedTuple):
    """Result of a search.

    "found": variant `after` differs from the one before it. "undecided": the change is after `before`, and
    at `after` at the latest. "no difference": none was found between the first and the last. `worse`: the
    later variants pass less often.
    """

    verdict: Literal["found", "undecided", "no difference"]
    before: int
    after: int
    worse: bool = False


class Wanted(NamedTuple):
    """Verdicts that the search needs next: on these variants, up to this number of samples each.

    `so_far` is the result if there are no more.
    """

    variants: tuple[int, ...]
    samples: int
    so_far: Bisection


class Searched(NamedTuple):
    """Result of a search, with the verdicts that it rests on, by variant."""

    found: Bisection
    verdicts: Mapping[int, Verdicts]


def searched(judge: Callable[[int, int], bool | None], search: Search) -> Searched:
    """Search with a judge of a variant and a sample."""
    verdicts: dict[int, list[bool | None]] = {}
    while isinstance(step := following(verdicts, search), Wanted):
        for variant in step.variants:
            known = verdicts.setdefault(variant, [])
            known += [judge(variant, sample) for sample in range(len(known), step.samples)]
    return Searched(step, verdicts)


def following(verdicts: Mapping[int, Verdicts], search: Search) -> Wanted | Bisection:
    """Return the verdicts to collect next, or the result.

    More verdicts never reverse an earlier step, so a search that was interrupted goes on where it was.
    """
    before, after = 0, search.variants - 1
    # An end that cannot be judged is none.
    while before < after and _is_mute(verdicts.get(before)):
        before += 1
    while before < after and _is_mute(verdicts.get(after)):
        after -= 1
    sign = _difference(verdicts, before, after, search)
    if not sign:
        return _more(verdicts, (before, after), search, Bisection("no difference", before, after))
    while possible := [each for each in range(before + 1, after) if not _is_mute(verdicts.get(each))]:
        middle = possible[(len(possible) - 1) // 2]
        if _difference(verdicts, before, middle, search, sign):
            after = middle
        elif _difference(verdicts, middle, after, search, sign):
            before = middle
        else:
            so_far = Bisection("undecided", before, after, sign < 0)
            return _more(verdicts, (before, middle, after), search, so_far)
    return Bisection("found" if after - before == 1 else "undecided", before, after, sign < 0)


def _is_mute(verdicts: Verdicts | None) -> bool:
    """Return whether a variant cannot be judged at all, as a commit whose team cannot be loaded."""
    return bool(verdicts) and all(verdict is None for verdict in verdicts or ())


def _more(
    verdicts: Mapping[int, Verdicts], variants: tuple[int, ...], search: Search, so_far: Bisection
) -> Wanted | Bisection:
    known = {variant: len(verdicts.get(variant, ())) for variant in variants}
    samples = min(search.samples, min(known.values()) + search.batch)
    lacking = tuple(variant for variant in variants if known[variant] < samples)
    return Wanted(lacking, samples, so_far) if lacking else so_far


def _difference(verdicts: Mapping[int, Verdicts], one: int, other: int, search: Search, sign: int = 0) -> int:
    """Return 1 if `other` is proved to pass more often than `one`, -1 if less often, else 0.

    With a sign only a difference of that sign counts.
    """
    pairs = zip(verdicts.get(one, ()), verdicts.get(other, ()), strict=False)
    better = worse = 0
    for before, after in pairs:
        if before is None or after is None or before == after:
            continue
        better, worse = better + after, worse + before
        found = 1 if better > worse else -1
        if search.exact:
            found = 1 if after else -1
        elif evidence(better, worse) < _enough(search):
            continue
        if found == (sign or found):
            return found
    return 0


def evidence(better: int, worse: int) -> float:
    """Return the logarithm of the evidence that two variants differ, from pairs with unlike verdicts.

    If they are equal, it ever exceeds log(1 / p) with a probability of at most p, however often one looks:
    a test martingale, the ratio of a uniform mixture to a fair coin.
    """
    return (better + worse) * log(2) + lgamma(better + 1) + lgamma(worse + 1) - lgamma(better + worse + 2)


def _enough(search: Search) -> float:
    # The intervals of the whole search tree, of which any may be tested: all share the error that is allowed.
    intervals = max(1, 2 * search.variants - 3)
    return log(intervals / (1 - search.confidence))
