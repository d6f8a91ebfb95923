"""Search, from coarse to fine, for the parts of a request that an answer depends on.

A group of parts is left out as a whole; only one that changes the verdicts is split. If neither half changes
them by itself, they carry the answer jointly: each is searched with the other one left out. What is named
in the end was left out by itself, too.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from itertools import count
from math import ceil, log, log2
from typing import Final, Literal, NamedTuple, TypeAlias

from .bisecting import Verdicts, evidence

Removal: TypeAlias = frozenset[int]
"""The parts that are left out, by index."""
NOTHING: Final[Removal] = frozenset()
FIRST, BATCH = 12, 4
"""Verdicts asked for at first, and each time that these do not decide."""
SAMPLES = 32
"""Verdicts on each request that prove a part of which nine of ten answers depend."""
MOST_JOINT = 4
"""So many parts at most are named as one joint cause."""
Verdict: TypeAlias = Literal["found", "no difference", "not repeated", "undecided"]


class Terms(NamedTuple):
    """Terms of a search: at most so many `samples` of each request.

    A part that does not matter is named with a probability of at most 1 - `confidence`.
    """

    samples: int = SAMPLES
    confidence: float = 0.95


class Trials(NamedTuple):
    """Verdicts that the search needs next: on the request without these parts, up to so many of each."""

    removals: tuple[Removal, ...]
    samples: int


class Cause(NamedTuple):
    """Parts that the answer depends on.

    `how` is "single" for one part, "jointly" if it takes all of them left out, and "among" if the cause is
    among them and could not be narrowed down. The request without them passed `passed` of `of` times.
    """

    how: Literal["single", "jointly", "among"]
    parts: tuple[int, ...]
    passed: int
    of: int


class Halved(NamedTuple):
    """Result of a search: what the answer depends on, and how often the unchanged request passed.

    "not repeated": it passed too rarely for a part to be blamed. "undecided": no cause was found before the
    verdicts ended. `fixed` parts cannot be left out. `is_complete` is False if the search ended early.
    """

    verdict: Verdict
    causes: tuple[Cause, ...]
    passed: int
    of: int
    requests: int
    fixed: tuple[int, ...]
    is_complete: bool


Halving: TypeAlias = Generator[Trials, Mapping[Removal, Verdicts], Halved]


def halving(kinds: Sequence[str], last: int | None = None, terms: Terms = Terms()) -> Halving:  # noqa: B008
    """Search the parts of these kinds, in their order; send the verdicts so far on all that was yielded.

    A removal without verdicts cannot be made. One with fewer than asked for gets no more. `last` is the part
    that is the request's end: not all others are left out with it.
    """
    return (yield from _Search(kinds, last, terms).found())


def most_requests(parts: int) -> int:
    """Return how many requests a search for one cause makes at most."""
    return 5 + 2 * _levels(parts)


def least_samples(parts: int, confidence: float) -> int:
    """Return how many verdicts on each request are needed at least to name a part of so many."""
    enough = _enough(parts, confidence)
    return next(samples for samples in count(1) if evidence(0, samples) >= enough)


def _enough(parts: int, confidence: float) -> float:
    # Every level tests two groups, and each may be named by chance.
    return log(most_requests(parts) / (1 - confidence))


def _levels(parts: int) -> int:
    # Two more, because kinds are separated first.
    return ceil(log2(max(parts, 2))) + 2


class _SpentError(Exception):
    """The driver gives no more verdicts."""


Causes: TypeAlias = Generator[Trials, Mapping[Removal, Verdicts], list[Removal]]


class _Search:
    def __init__(self, kinds: Sequence[str], last: int | None, terms: Terms) -> None:
        self.kinds, self.last, self.terms = kinds, last, terms
        self.verdicts: dict[Removal, Verdicts] = {}
        self.fixed: set[int] = set()
        self.open: list[Removal] = []
        self.named: list[Cause] = []
        self.enough = _enough(len(kinds), terms.confidence)

    def found(self) -> Halving:
        is_complete = True
        try:
            yield from self._ask((NOTHING,), self.terms.samples)
            if evidence(0, self._tally(NOTHING)[0]) < self.enough:
                return self._halved("not repeated", is_complete=True)
            yield from self._open()
            while self.open:
                yield from self._step(self.open[0])
        except _SpentError:
            is_complete = False
            self.named += [self._cause("among", group) for group in self.open]
        ended: Verdict = "no difference" if is_complete else "undecided"
        return self._halved("found" if self.named else ended, is_complete=is_complete)

    def _open(self) -> Generator[Trials, Mapping[Removal, Verdicts], None]:
        """Find the first groups to search; the last part is left out by itself, then with most others."""
        last = frozenset(() if self.last is None else (self.last,))
        others = frozenset(range(len(self.kinds))) - last
        tried = yield from self._tested([each for each in (others, last) if each], NOTHING)
        self.open = [group for group, changes in tried if changes]
        if last and not self.open:
            alike = [each for each in sorted(others) if self.kinds[each] == self.kinds[max(last)]]
            stay = [alike[: len(alike) // 2], alike[len(alike) // 2 :]]
            most = [each for some in stay if some and (each := others.difference(some))]
            tried = yield from self._tested([last | each for each in most], NOTHING, is_whole=True)
            self.open = [group for group, changes in tried if changes][:1]

    def _halved(self, verdict: Verdict, *, is_complete: bool) -> Halved:
        fixed, requests = tuple(sorted(self.fixed)), sum(map(bool, self.verdicts.values()))
        tally = self._tally(NOTHING)
        return Halved(verdict, tuple(self.named), *tally, requests, fixed, is_complete)

    def _step(self, group: Removal) -> Generator[Trials, Mapping[Removal, Verdicts], None]:
        """Split the first open group, or name what is in it."""
        tried = [] if len(group) == 1 else (yield from self._tested(self._split(group), NOTHING))
        changing = [each for each, changes in tried if changes]
        if not changing:
            causes = (yield from self._joint([each for each, _ in tried], NOTHING)) or [group]
            for cause in causes:
                yield from self._name(cause, group)
        self.open[:1] = changing

    def _narrowed(self, group: Removal, held: Removal) -> Causes:
        """Return what matters in a group whose removal, with `held` left out, changes the verdicts."""
        if len(group) == 1:
            return [group]
        tried = yield from self._tested(self._split(group), held)
        found: list[Removal] = []
        for each in (each for each, changes in tried if changes):
            found += yield from self._narrowed(each, held)
        return found or (yield from self._joint([each for each, _ in tried], held)) or [group]

    def _joint(self, groups: Sequence[Removal], held: Removal) -> Causes:
        """Return what takes several groups to change the verdicts: of each what matters without the rest."""
        found: list[Removal] = []
        for group in groups:
            others = held.union(*(each for each in groups if each is not group))
            [(_, changes)] = (yield from self._tested([group], others, is_whole=True)) or [(group, False)]
            if changes:
                inner = yield from self._narrowed(group, others)
                found = [one | other for one in found for other in inner] if found else inner
                found = found[:MOST_JOINT]
        return found

    def _name(self, cause: Removal, group: Removal) -> Generator[Trials, Mapping[Removal, Verdicts], None]:
        """Name a cause if it changes the verdicts by itself; else the group that it is from."""
        if len(cause) > MOST_JOINT:
            cause = group
        tried = yield from self._tested([cause], NOTHING, is_whole=True)
        if not any(changes for _, changes in tried):
            cause = group
        how: Literal["single", "jointly", "among"] = "single" if len(cause) == 1 else "jointly"
        made = self._cause("among" if cause == group and len(cause) > 1 else how, cause)
        self.named += [made] if made not in self.named else []

    def _cause(self, how: Literal["single", "jointly", "among"], parts: Removal) -> Cause:
        return Cause(how, tuple(sorted(parts)), *self._tally(parts))

    def _tested(
        self, groups: Sequence[Removal], held: Removal, *, is_whole: bool = False
    ) -> Generator[Trials, Mapping[Removal, Verdicts], list[tuple[Removal, bool]]]:
        """Return the groups that can be left out, and whether each changes the verdicts.

        One that cannot is split, unless `is_whole`.
        """
        found: list[tuple[Removal, bool]] = []
        waiting, samples = list(groups), FIRST
        yield from self._ask((held,), min(samples, self.terms.samples))
        while waiting:
            samples = min(samples, self.terms.samples)
            yield from self._ask((held, *(held | each for each in waiting)), samples)
            for group in tuple(waiting):
                decided = self._difference(held, held | group, samples)
                if decided is None and samples < self.terms.samples:
                    continue
                waiting.remove(group)
                if self.verdicts[held | group]:
                    found.append((group, bool(decided)))
                elif len(group) == 1:
                    self.fixed |= group
                elif not is_whole:
                    found += yield from self._tested(self._split(group), held)
            samples += BATCH
        return sorted(found, key=lambda one: min(one[0]))

    def _difference(self, one: Removal, other: Removal, samples: int) -> bool | None:
        """Return whether two requests differ in their verdicts; None: not known yet."""
        pairs = [
            (before, after)
            for before, after in zip(
                self.verdicts[one][:samples], self.verdicts[other][:samples], strict=False
            )
            if before is not None and after is not None and before != after
        ]
        better = sum(after for _, after in pairs)
        shown = evidence(better, len(pairs) - better)
        if shown >= self.enough:
            return True
        return False if shown <= 0 or not self.verdicts[other] else None

    def _ask(
        self, removals: tuple[Removal, ...], samples: int
    ) -> Generator[Trials, Mapping[Removal, Verdicts], None]:
        lacking = tuple(
            each
            for each in dict.fromkeys(removals)
            if each not in self.verdicts or 0 < len(self.verdicts[each]) < samples
        )
        if not lacking:
            return
        given = yield Trials(lacking, samples)
        self.verdicts.update((each, tuple(given.get(each, ()))) for each in lacking)
        if any(0 < len(self.verdicts[each]) < samples for each in lacking) or not self.verdicts[NOTHING]:
            raise _SpentError

    def _split(self, group: Removal) -> list[Removal]:
        """Return a group's halves; those of one kind stay together as long as there are others."""
        order = sorted(group)
        kinds = [self.kinds[each] for each in order]
        middle = kinds.count(kinds[0]) if kinds[0] != kinds[-1] else len(order) // 2
        return [frozenset(order[:middle]), frozenset(order[middle:])]

    def _tally(self, removal: Removal) -> tuple[int, int]:
        known = [each for each in self.verdicts.get(removal, ()) if each is not None]
        return sum(known), len(known)
