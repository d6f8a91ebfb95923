"""The stores that take part in a run, each in a process of its own, and what is found about each."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.peers import environments
from benchmarks.peers.environments import NotInstalledError
from benchmarks.peers.registry import KNOWN
from benchmarks.peers.running import PeerFailedError, Running, UnsupportedError

RESULTS = Path(__file__).parent.parent / "results"
"""Ignored by git."""
AT_ONCE = 2
"""Stores that work side by side where nothing is timed."""


@dataclass(frozen=True)
class Plan:
    """The amount of work. `rounds`: how often each store has its turn; `other_kills`: of all but stenolog."""

    lengths: tuple[int, ...] = (10, 100, 1_000, 4_000)
    rounds: int = 5
    block: int = 10
    short: int = 50
    conversations: int = 100
    each: int = 20
    allowed_s: float = 6.0
    race: int = 20
    kills: int = 200
    other_kills: int = 10
    growth: int = 20_000
    quick: bool = False

    @property
    def left(self) -> int:
        """Turns of the conversation that a new process opens."""
        return min(length for length in self.lengths if length >= min(1_000, max(self.lengths)))


QUICK = Plan(
    quick=True,
    lengths=(10, 100),
    rounds=2,
    short=20,
    conversations=20,
    each=3,
    race=5,
    kills=6,
    other_kills=2,
    growth=1_500,
)


def commit() -> str:
    """Return the commit that is measured, marked if the checkout has changes; empty outside of one."""
    command = ["git", "describe", "--always", "--dirty", "--abbrev=8", "--exclude=*"]
    found = subprocess.run(command, cwd=Path(__file__).parent, capture_output=True, text=True, check=False)
    return found.stdout.strip()


def is_commit(name: str) -> bool:
    """Return whether it names a commit, and no checkout with changes."""
    return re.fullmatch("[0-9a-f]{8,}", name) is not None


@dataclass
class Bench:
    """One run. What is found about a store is kept in a file of its own after every measure."""

    names: list[str]
    plan: Plan
    data: Path
    found: dict[str, dict[str, Any]] = field(default_factory=dict)
    pythons: dict[str, str] = field(default_factory=dict)
    when: str = field(default_factory=lambda: time.strftime("%Y-%m-%d %H:%M %Z"))
    commit: str = field(default_factory=commit)

    def prepare(self) -> None:
        """Have every environment; a store that cannot be installed says why and is left out."""
        for name in list(self.names):
            self.found[name] = {
                "when": self.when,
                "commit": self.commit,
                "plan": asdict(self.plan),
                "failed": {},
            }
            try:
                self.pythons[name] = environments.python(KNOWN[name])
            except NotInstalledError as error:
                self.found[name]["not_measured"] = str(error)
                self.names.remove(name)
        self.save()

    @contextmanager
    def running(self, name: str, ahead_s: float = 0.0) -> Iterator[Running]:
        """Start a new process of a store, with its library imported; its clock may be wrong."""
        with Running(KNOWN[name], self.pythons[name], self.data / f"{name}.log") as child:
            if ahead_s:
                child.ask("skew", ahead_s=ahead_s)
            child.loaded = child.ask("load")
            yield child

    def path(self, name: str, what: str) -> str:
        """Return the path of a store's file."""
        return str(self.data / f"{name}-{what}.db")

    def each(self, measure: str, work: Callable[[str], None], names: list[str] | None = None) -> None:
        """Measure one store after the other; one that fails does not keep the others from it."""
        for name in self.names if names is None else names:
            self.tried(measure, work, name)
        self.save()

    def side_by_side(self, measure: str, work: Callable[[str], None]) -> None:
        """Do the same with some stores at once, to count and not to time."""
        with ThreadPoolExecutor(AT_ONCE) as pool:
            list(pool.map(lambda name: self.tried(measure, work, name), self.names))
        self.save()

    def tried(self, measure: str, work: Callable[[str], None], name: str) -> bool:
        """Return whether the measure was done; the reason for a failure is recorded."""
        try:
            work(name)
        except UnsupportedError:
            return False
        except PeerFailedError as error:
            self.found[name]["failed"][measure] = str(error)
            print(f"{name}: {measure}: {error}", file=sys.stderr, flush=True)
            return False
        return True

    def save(self) -> None:
        """Keep what was found."""
        where = folder(self.plan.quick)
        where.mkdir(parents=True, exist_ok=True)
        for name, found in self.found.items():
            (where / f"{name}.json").write_text(json.dumps(found))


def folder(quick: bool) -> Path:
    """Return the folder of the results: a quick run has one of its own."""
    return RESULTS / ("quick" if quick else "peers")


def kept(quick: bool = False) -> dict[str, dict[str, Any]]:
    """Return the results of each store's last measurement."""
    paths = {name: folder(quick) / f"{name}.json" for name in KNOWN}
    return {name: json.loads(path.read_text()) for name, path in paths.items() if path.exists()}


def planned(found: dict[str, dict[str, Any]]) -> Plan:
    """Return the plan by which it was found."""
    return Plan(**next((store["plan"] for store in found.values() if "plan" in store), {}))


@contextmanager
def bench(names: list[str], plan: Plan) -> Iterator[Bench]:
    """Prepare a run whose data is on the project's disk."""
    RESULTS.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=RESULTS, prefix="data-") as data:
        made = Bench(names, plan, Path(data))
        made.prepare()
        yield made
