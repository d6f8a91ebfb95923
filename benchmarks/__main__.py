"""Run every benchmark of this folder and print one table; exit 1 when a limit is missed.

python -m benchmarks [NAME...]
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

from benchmarks._ratio import Row


def main(wanted: list[str]) -> int:
    here = Path(__file__).parent
    names = sorted(path.stem for path in here.glob("*.py") if not path.stem.startswith("_"))
    missed = 0
    print(f"{'':4} {'value':>10} {'limit':>10}  benchmark")
    for name in wanted or names:
        for row in importlib.import_module(f"benchmarks.{name}").run():
            missed += not row.ok
            print(line(row), flush=True)
    return 1 if missed else 0


def line(row: Row) -> str:
    value, limit = (f"{number:.4g} {row.unit}" for number in (row.value, row.limit))
    return f"{'ok' if row.ok else 'MISS':4} {value:>10} {limit:>10}  {row.name} ({row.note})"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
