"""The counts of every flow, found in processes of their own, beside those that they are held to.

python -m tests.counts.measure            # shows both
python -m tests.counts.measure --write    # holds the flows to what was found, on this Python
"""

from __future__ import annotations

import json
import math
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path

from tests.counts.counters import IN
from tests.counts.flows import FLOWS, ON_POSTGRES, ROOT, Counts, Rows
from tests.postgres.server import programs

TABLE = Path(__file__).parents[1] / "costs.toml"
ALLOWED = 1.03
"""How much more than the figure in the table a flow may cost."""
FEW = 20
"""Up to this a count may not grow at all."""
VERSIONS = ("3.11", "3.12", "3.13")
"""The figures of the first hold for a Python that has none: later ones make fewer calls."""
BY_ROOM = ("append", "request, openai-chat, 1,000 entries")
"""The table has the calls of these in each room; they may move from one room to another."""
MARK = "fsync(999983"
HEAD = """\
# What each flow costs, counted: a change that makes one dearer by more than 3 % fails, and so does any growth
# of a count up to 20. `python -m tests.counts.measure --write` renews the figures of one Python. Raise one
# only in a commit that says why. Calls "in" one room of the package are not limited.
"""


def limits(version: str) -> dict[str, Counts]:
    """Return the figures that flows are held to, on one Python."""
    held = tomllib.loads(TABLE.read_text()) if TABLE.exists() else {}
    return {
        row: {name: _on(version, figure) for name, figure in counts.items()} for row, counts in held.items()
    }


def _on(version: str, figure: int | Mapping[str, int]) -> int:
    return figure if isinstance(figure, int) else figure.get(version, figure[VERSIONS[0]])


def dearer(found: Rows, held: Rows) -> list[str]:
    """Return the counts that are too high, and those that nothing limits."""
    return [
        f"{row}: {count:,} {name} of {held.get(row, {}).get(name, 0):,}"
        for row, counts in found.items()
        for name, count in counts.items()
        if not name.startswith(IN) and count > most(held.get(row, {}).get(name, 0))
    ]


def most(count: int) -> int:
    """Return how much a flow may cost that cost `count` when the limit was set."""
    return count if count <= FEW else math.floor(count * ALLOWED)


def this_version() -> str:
    """Return this Python's version, as the table names it."""
    return ".".join(platform.python_version_tuple()[:2])


def strace() -> list[str]:
    """Return the command that counts calls of fsync, or nothing if it cannot trace here."""
    if shutil.which("strace") is None:
        return []
    command = ["strace", "-f", "--seccomp-bpf", "-e", "trace=fsync,fdatasync"]
    return [] if subprocess.run([*command, "true"], capture_output=True).returncode else command


def measured(folder: Path, flows: Iterable[str] = FLOWS) -> Rows:
    """Return the counts of flows, each in a process of its own; of fsync only if there is a tracer."""
    tracer, found = strace(), {}
    for flow in flows:
        found.update(_measured(flow, folder, [] if flow in ON_POSTGRES else tracer))
    return found


def rows_on_postgres(held: Rows) -> Rows:
    """Return the rows of the table that need a server."""
    return {row: counts for row, counts in held.items() if "PostgreSQL" in row}


def _measured(flow: str, folder: Path, tracer: list[str]) -> Rows:
    trace = folder / f"{flow}.trace"
    command = [sys.executable, "-m", "tests.counts.flows", str(folder), flow]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONHASHSEED": "0"}
    before = [*tracer, "-o", str(trace)] if tracer else []
    done = subprocess.run(
        [*before, *command], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(f"{flow} failed:\n{done.stderr}")
    found: Rows = {
        row: {name: count for name, count in counts.items() if row in BY_ROOM or not name.startswith(IN)}
        for row, counts in json.loads(done.stdout).items()
    }
    # Marks do not tell rows apart, so fsyncs are counted in processes that make one.
    if tracer and len(found) == 1 and (synced := _fsyncs(trace.read_text())):
        next(iter(found.values()))["fsyncs"] = synced
    return found


def _fsyncs(trace: str) -> int:
    """Return the least number of fsyncs between a pair of marks, over the later half of the pairs."""
    pairs = trace.split(MARK)[1::2]
    return min((text.count("sync(") for text in pairs[len(pairs) // 2 :]), default=0)


def write(found: Rows) -> None:
    """Write what was found on this Python into the table; what others found stays."""
    found = {**found, **({} if programs() else rows_on_postgres(limits(this_version())))}
    by_version = {**{version: limits(version) for version in VERSIONS}, this_version(): found}
    text = HEAD
    for row, counts in found.items():
        text += f'\n["{row}"]\n'
        for name, count in counts.items():
            figures = {version: held.get(row, {}).get(name, count) for version, held in by_version.items()}
            key = f'"{name}"' if name.startswith(IN) else name
            text += f"{key} = {_figure(figures)}\n"
    TABLE.write_text(text)


def _figure(by_version: Mapping[str, int]) -> str:
    if len({*by_version.values()}) == 1:
        return str(next(iter(by_version.values())))
    return "{ " + ", ".join(f'"{version}" = {count}' for version, count in by_version.items()) + " }"


def main() -> None:
    """Print the counts, and write them down if asked."""
    held = limits(this_version())
    with tempfile.TemporaryDirectory() as folder:
        found = measured(Path(folder), [*FLOWS, *(ON_POSTGRES if programs() else ())])
    for row, counts in found.items():
        for name, count in counts.items():
            print(f"{row:58}{name:20}{count:10,}{held.get(row, {}).get(name, 0):10,}")
    if "--write" in sys.argv:
        write(found)


if __name__ == "__main__":
    main()
