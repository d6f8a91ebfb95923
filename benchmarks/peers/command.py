"""`python -m benchmarks peers`: stenolog beside the libraries that people would pick instead.

    python -m benchmarks peers [--quick] [--peers NAME,…] [--kills N] [--growth N] [--write] [--report]

Every store runs in an environment of its own, which pip makes the first time. The whole takes some twelve
minutes on two processors and wants a machine that does nothing else; `--quick` takes three, its figures are
rough and are kept apart. What was found is kept in `benchmarks/results`; `--report` prints it again without
measuring (with `--quick` what was found quickly), and `--write` puts the tables and the plot of a commit into
the docs.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from dataclasses import replace

from benchmarks.peers import acceptance, costs, counts, page, speed
from benchmarks.peers.bench import QUICK, Plan, bench, commit, is_commit
from benchmarks.peers.registry import FLOORS, KNOWN


def main(arguments: list[str]) -> int:
    asked = parser().parse_args(arguments)
    if asked.write and (why := unfit(asked)):
        raise SystemExit(f"expected figures that are fit for the docs, found {why}")
    if not asked.report:
        measure(asked)
    if asked.write:
        page.write()
    return shown(asked.quick)


def unfit(asked: argparse.Namespace) -> str:
    """Return why what would be measured is nothing for the docs."""
    if asked.quick:
        return "--quick with --write: it is rough"
    if asked.peers:
        return "--peers with --write: the docs compare all stores"
    if not asked.report and not is_commit(now := commit()):
        return f"{now or 'no commit'} with --write: commit first, so that the docs can name it"
    return ""


def measure(asked: argparse.Namespace) -> None:
    """Measure, and keep what was found."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that the data, gigabytes, goes away
    with bench(names(asked.peers), plan(asked)) as made:
        for measures in (costs, speed, counts, acceptance):
            measures.run(made)


def shown(quick: bool) -> int:
    """Print what was found; nobody may read on, as behind `| head`."""
    try:
        status = page.show(quick)
        sys.stdout.flush()
        return status
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # what is left goes nowhere
        return 0


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog="python -m benchmarks peers")
    made.add_argument("--peers", metavar="NAME,…", help=f"only these and the floors: {', '.join(KNOWN)}")
    made.add_argument(
        "--quick",
        action="store_true",
        help="small and rough, to see that it works: a MISS of a time means nothing, nothing is written",
    )
    made.add_argument("--kills", type=int, metavar="N", help="kill -9 of stenolog so many times")
    made.add_argument("--growth", type=int, metavar="N", help="entries of the longest conversation")
    made.add_argument(
        "--report", action="store_true", help="measure nothing, print what was found last, and when"
    )
    made.add_argument("--write", action="store_true", help="put the table and the plot into the docs")
    return made


def names(asked: str | None) -> list[str]:
    """Return the stores that take part: the floors always do."""
    chosen = [*KNOWN] if asked is None else [*FLOORS, *asked.split(",")]
    unknown = sorted(set(chosen) - set(KNOWN))
    if unknown:
        raise SystemExit(f"expected peers among {', '.join(KNOWN)}, found {', '.join(unknown)}")
    return [name for name in KNOWN if name in chosen]


def plan(asked: argparse.Namespace) -> Plan:
    """Return the plan: how much is measured."""
    chosen = QUICK if asked.quick else Plan()
    given = {"kills": asked.kills, "growth": asked.growth}
    return replace(chosen, **{key: value for key, value in given.items() if value is not None})
