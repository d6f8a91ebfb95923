"""Simulate many seeds, or one: `python -m tests.simulation --seeds 1000000 -j 2`."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Sequence
from multiprocessing import get_context

from .shrink import command, loaded, shrink
from .simulation import Outcome, play, simulate, simulate_task

SHARE = 50
"""Seconds between two lines of progress."""
CHUNK = 10
"""Seeds that a process takes at once."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Simulate and print failures; return the exit code, 1 if anything has failed."""
    options = _options(arguments)
    if options.script:
        return _told(play(loaded(options.script), thorough=options.thorough), short=True)
    if options.seed is not None:
        found = simulate(options.seed, thorough=options.thorough)
        return _told(found, short=options.no_shrink, thorough=options.thorough)
    begun = spoken = time.monotonic()
    failed = commits = done = 0
    for done, outcome in enumerate(_outcomes(options), 1):
        commits += outcome.commits
        if outcome.fault:
            failed += _told(outcome, short=options.no_shrink, thorough=options.thorough)
        if (now := time.monotonic()) - spoken > SHARE:
            spoken = now
            print(f"{done} seeds, {failed} failed, {done / (now - begun):.1f} per second", flush=True)
    took = time.monotonic() - begun
    print(f"{done} seeds, {commits} commits, {failed} failed, {done / took:.1f} per second")
    return int(failed > 0)


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seeds", type=int, default=1000, help="how many seeds")
    parser.add_argument("--first", type=int, default=1, help="the first of them")
    parser.add_argument("-j", "--jobs", type=int, default=1, help="how many processes work side by side")
    parser.add_argument("--seed", type=int, help="this seed alone")
    parser.add_argument("--script", help="this run alone, as a failing seed has printed it")
    parser.add_argument("--thorough", action="store_true", help="check everything after each commit")
    parser.add_argument("--no-shrink", action="store_true", help="print failing seeds as they are")
    return parser.parse_args(arguments)


def _outcomes(options: argparse.Namespace) -> Iterator[Outcome]:
    seeds = range(options.first, options.first + options.seeds)
    tasks = [(seed, options.thorough) for seed in seeds]
    if options.jobs < 2:
        yield from map(simulate_task, tasks)
        return
    with get_context("spawn").Pool(options.jobs, maxtasksperchild=40) as pool:
        yield from pool.imap_unordered(simulate_task, tasks, chunksize=CHUNK)


def _told(outcome: Outcome, *, short: bool, thorough: bool = False) -> int:
    """Print a failure and the command that repeats it; return 1 if there is one."""
    if not outcome.fault:
        print(f"seed {outcome.run.seed}: all holds, after {outcome.commits} commits")
        return 0
    print(f"seed {outcome.run.seed}: {outcome.fault}", flush=True)
    found = outcome if short else shrink(outcome, thorough=thorough)
    if found is not outcome:
        print(f"  made short: {found.fault}")
    print(f"  {command(found.run)}{' --thorough' if thorough else ''}", flush=True)
    return 1


if __name__ == "__main__":
    sys.exit(main())
