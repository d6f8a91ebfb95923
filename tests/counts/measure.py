"""The counts of every flow, found in processes of their own, beside those that they are held to.

python -m tests.counts.measure            # shows both
python -m tests.counts.measure --write    # holds the flows to what was found
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
from pathlib import Path

from tests.counts.flows import FLOWS, ROOT, Counts

LIMITS = Path(__file__).with_name("limits.json")
ALLOWED = 1.03
"""How much more than the figure in `limits.json` a flow may cost."""
FIRST = "3.11"
"""The Python whose figures hold for others that have none: later ones make fewer calls."""
FEW = 20
"""Up to this a count may not grow at all."""
MARK = "fsync(999983)"


def limits() -> dict[str, Counts]:
    """Return the figures that flows are held to, on this Python."""
    by_python: dict[str, dict[str, Counts]] = json.loads(LIMITS.read_text())
    return by_python.get(version(), by_python[FIRST])


def most(count: int) -> int:
    """Return how much a flow may cost that cost `count` when the limit was set."""
    return count if count <= FEW else math.ceil(count * ALLOWED)


def version() -> str:
    """Return this Python's version, as `limits.json` names it."""
    return ".".join(platform.python_version_tuple()[:2])


def strace() -> list[str]:
    """Return the command that counts calls of fsync, or nothing if it cannot trace here."""
    if shutil.which("strace") is None:
        return []
    command = ["strace", "-f", "-e", "trace=fsync,fdatasync"]
    return [] if subprocess.run([*command, "true"], capture_output=True).returncode else command


def measured(flow: str, folder: Path, tracer: list[str]) -> Counts:
    """Return the counts of one flow; of fsync only if there is a tracer."""
    trace = folder / f"{flow}.trace"
    command = [sys.executable, "-m", "tests.counts.flows", str(folder), flow]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONHASHSEED": "0"}
    before = [*tracer, "-o", str(trace)] if tracer else []
    done = subprocess.run(
        [*before, *command], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(f"{flow} failed:\n{done.stderr}")
    found: Counts = json.loads(done.stdout)
    if tracer and (synced := _fsyncs(trace.read_text())):
        found["fsyncs"] = synced
    return found


def _fsyncs(trace: str) -> int:
    """Return the least number of fsyncs between a pair of marks, over the later half of the pairs."""
    pairs = trace.split(MARK)[1::2]
    return min((text.count("sync(") for text in pairs[len(pairs) // 2 :]), default=0)


def all_measured() -> dict[str, Counts]:
    """Return the counts of every flow that has some."""
    tracer = strace()
    with tempfile.TemporaryDirectory() as folder:
        found = {flow: measured(flow, Path(folder), tracer) for flow in FLOWS}
    return {flow: counts for flow, counts in found.items() if counts}


def main() -> None:
    """Print the counts, and write them down if asked."""
    found, held = all_measured(), limits() if LIMITS.exists() else {}
    for flow, counts in found.items():
        for name, count in counts.items():
            print(f"{flow:18}{name:22}{count:10,}{held.get(flow, {}).get(name, 0):10,}")
    if "--write" in sys.argv:
        by_python = json.loads(LIMITS.read_text()) if LIMITS.exists() else {}
        by_python[version()] = found
        LIMITS.write_text(json.dumps(by_python, indent=1) + "\n")


if __name__ == "__main__":
    main()
