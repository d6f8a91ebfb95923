"""Run every benchmark of this folder and print one table; exit 1 when a limit is missed.

A row that says "adr" is over its limit, as a decision in `docs/explanation/decisions` accepts.

    python -m benchmarks [NAME...] [--every N] [--seeds N] [--kills N] [--megabytes N] [--requests N]
    python -m benchmarks peers [--help]

`corpus` and `fuzz` build hundreds of thousands of requests: `--every N` takes every N-th prefix of the
transcripts, `--seeds N` so many random histories. `kills` kills a program so many times, `bulk` imports so
many megabytes, `tap_corpus` sends so many requests. The others compare two ways of doing the same in one
run, and want a machine that does nothing else. `peers` sets stenolog beside other libraries; it installs
them, and is run by its name alone.
"""

from __future__ import annotations

import argparse
import importlib
import inspect
import sys
from pathlib import Path


def main(arguments: list[str]) -> int:
    here = Path(__file__).parent
    names = sorted(path.stem for path in here.glob("*.py") if not path.stem.startswith("_"))
    reader = parser(names)
    asked = reader.parse_args(arguments)
    if unknown := [name for name in asked.names if name not in names]:
        reader.error(
            f"no benchmark {unknown[0]!r}; there are {', '.join(names)}, and peers by its name alone"
        )
    missed = 0
    print(f"{'':4} {'value':>10} {'limit':>10}  benchmark")
    for name in asked.names or names:
        try:
            run = importlib.import_module(f"benchmarks.{name}").run
        except ModuleNotFoundError as missing:
            reader.error(f"{name}: {missing.name} is not installed: pip install -e '.[dev]'")
        given = {key: getattr(asked, key) for key in inspect.signature(run).parameters}
        for row in run(**{key: value for key, value in given.items() if value is not None}):
            missed += row.is_missed
            print(row.line(), flush=True)
    return 1 if missed else 0


def parser(names: list[str]) -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog="python -m benchmarks")
    made.add_argument("names", nargs="*", metavar="NAME", help=", ".join(names))
    made.add_argument("--every", type=int, metavar="N", help="corpus: every N-th prefix, and the last")
    made.add_argument("--kills", type=int, metavar="N", help="kills, examples, tap: so many times kill -9")
    made.add_argument("--megabytes", type=int, metavar="N", help="bulk: so much is imported")
    made.add_argument("--requests", type=int, metavar="N", help="tap_corpus: so many go through the tap")
    made.add_argument("--seeds", type=int, metavar="N", help="fuzz: so many random histories")
    return made


if __name__ == "__main__":
    if sys.argv[1:2] == ["peers"]:
        sys.exit(importlib.import_module("benchmarks.peers.command").main(sys.argv[2:]))
    sys.exit(main(sys.argv[1:]))
