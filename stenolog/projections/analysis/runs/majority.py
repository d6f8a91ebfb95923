"""Many runs compared: the one that most of the others are like, and where each leaves it."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from hashlib import sha256
from typing import NamedTuple

from stenolog.domain.entry import Entry

from ..cache.changes import Twins
from .comparison import Comparison, compared, steps_of
from .steps import Mask, Step, Stream


class Leaving(NamedTuple):
    """A run beside the one that most are like, and how many `stay` with that one where it leaves.

    All that do are counted, that one too; if they are no more than half of all runs, most had left before.
    """

    run: int
    comparison: Comparison
    stay: int


class Majority(NamedTuple):
    """Runs by their indexes: the one that most of them are like for longest, and each other one beside it."""

    run: int
    others: tuple[Leaving, ...]


def majority(
    runs: Sequence[Iterable[Entry]], *, agent: str = "", calls: bool = False, mask: Mask = str
) -> Majority:
    """Return where each run leaves the majority; arguments as in `compare`. It takes at least one run."""
    made = [steps_of(run, agent=agent, calls=calls, mask=mask) for run in runs]
    prefixes = [[*_prefixes(steps)] for steps in made]
    common = Counter(prefix for found in prefixes for prefix in found)
    chosen = max(range(len(made)), key=lambda run: (sum(common[each] for each in prefixes[run]), -run))
    found = {run: compared(made[chosen], steps) for run, steps in enumerate(made) if run != chosen}
    places = {run: _leaves_at(comparison) for run, comparison in found.items()}
    others = (
        Leaving(run, comparison, 1 + sum(place > places[run] for place in places.values()))
        for run, comparison in found.items()
    )
    return Majority(chosen, tuple(others))


def _prefixes(steps: Iterable[Step]) -> Iterator[str]:
    """Yield a digest for each step, of it and of all before it in its stream."""
    so_far: dict[Stream, str] = defaultdict(str)
    for step in steps:
        before = f"{step.stream} {so_far[step.stream]} {step.digest}"
        so_far[step.stream] = sha256(before.encode("utf-8", "surrogatepass")).hexdigest()
        yield so_far[step.stream]


def _leaves_at(comparison: Comparison) -> float:
    """Return the position in the majority's run at which another one leaves it; infinity if it does not."""
    first = comparison.first
    if first is None:
        return float("inf")
    place = Twins({later: earlier for earlier, later in comparison.twins.items()}).in_second
    return first.before or place(first.after)
