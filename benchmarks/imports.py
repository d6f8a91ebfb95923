"""The cost of `import stenolog`, against importing the libraries that it stands on."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable
from statistics import median

from benchmarks._ratio import Row, compiled

FLOOR = "from pydantic import BaseModel; import eventsourcing.sqlite"
OURS = "import stenolog"
CPU = "; import time; print(time.process_time())"
ROUNDS = 15
LIMIT = 1.5


def run() -> Iterable[Row]:
    compiled()
    ours: list[float] = []
    floor: list[float] = []
    for _ in range(ROUNDS):
        ours.append(cpu_s(OURS))
        floor.append(cpu_s(FLOOR))
    ours_s, floor_s = median(ours), median(floor)
    note = f"{ours_s * 1e3:.0f} against {floor_s * 1e3:.0f} ms of CPU"
    yield Row("import stenolog", ours_s / floor_s, LIMIT, note=note)


def cpu_s(statement: str) -> float:
    """Return the CPU seconds of a new interpreter for a statement, its own start included."""
    done = subprocess.run([sys.executable, "-c", statement + CPU], capture_output=True, text=True, check=True)
    return float(done.stdout)
