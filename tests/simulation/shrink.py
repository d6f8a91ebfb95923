"""Make a failing run short: leave out actions and decisions for as long as it still fails."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import TypeAlias

from .actions import Action
from .simulation import Outcome, Run, play

TRIES = 600
"""Maximum number of runs that are tried."""
Item: TypeAlias = Action | tuple[str, int]


def shrink(failed: Outcome, *, tries: int = TRIES, thorough: bool = False) -> Outcome:
    """Return a short run that breaks the same invariant; the given one where it does not fail again."""
    best = failed
    left = tries

    def fails(items: Sequence[Item]) -> bool:
        nonlocal best, left
        if left <= 0:
            return False
        left -= 1
        outcome = play(_run(failed.run.seed, items), thorough=thorough)
        if is_found := rule(outcome) == rule(failed):
            best = outcome
        return is_found

    items: list[Item] = [*failed.run.actions, *failed.decisions.items()]
    if fails(items):
        minimal(items, fails)
    return best


def minimal(items: list[Item], fails: Callable[[Sequence[Item]], bool]) -> list[Item]:
    """Leave out parts of a list, large ones first, while the rest still fails: delta debugging."""
    size = max(1, len(items) // 2)
    while True:
        start, shorter = 0, False
        while start < len(items):
            rest = items[:start] + items[start + size :]
            if fails(rest):
                items, shorter = rest, True
            else:
                start += size
        if size == 1 and not shorter:
            return items
        size = max(1, size // 2) if not shorter or size > 1 else 1


def rule(outcome: Outcome) -> str:
    """Return the name of the invariant that was broken."""
    return outcome.fault.partition(":")[0]


def command(run: Run) -> str:
    """Return the command that repeats a run."""
    if run.decisions is None:
        return f"python -m tests.simulation --seed {run.seed}"
    return f"python -m tests.simulation --script '{dumped(run)}'"


def dumped(run: Run) -> str:
    """Return the run as JSON."""
    return json.dumps({"seed": run.seed, "actions": run.actions, "decisions": run.decisions})


def loaded(text: str) -> Run:
    """Read a run from JSON."""
    given = json.loads(text)
    actions = tuple(Action(*each) for each in given["actions"])
    return Run(int(given["seed"]), actions, dict(given["decisions"]))


def _run(seed: int, items: Sequence[Item]) -> Run:
    actions = tuple(item for item in items if isinstance(item, Action))
    decisions = dict(item for item in items if not isinstance(item, Action))
    return Run(seed, actions, decisions)
