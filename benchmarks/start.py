"""The cost of `stenolog log` and `ls` from the start of the interpreter to the last line, against imports."""

from __future__ import annotations

import contextlib
import io
import tempfile
from collections.abc import Iterable
from pathlib import Path
from statistics import median

from benchmarks._ratio import Row, compiled
from benchmarks.imports import FLOOR, ROUNDS, cpu_s
from stenolog.apps.cli import run as stenolog

LIMIT = 2.0
OURS = """import sys; from stenolog.apps.cli import run
sys.stdout = sys.stderr
run({arguments!r})
sys.stdout = sys.__stdout__"""


def run() -> Iterable[Row]:
    compiled()
    with tempfile.TemporaryDirectory() as folder:
        db = str(Path(folder, "talks.db"))
        with contextlib.redirect_stdout(io.StringIO()):
            stenolog(["demo", "--db", db])
        for command in (["log", "demo"], ["ls"]):
            ours = OURS.format(arguments=[*command, "--db", db])
            pairs = [(cpu_s(ours), cpu_s(FLOOR)) for _ in range(ROUNDS)]
            ours_s, floor_s = median(one for one, _ in pairs), median(other for _, other in pairs)
            note = f"{ours_s * 1e3:.0f} against {floor_s * 1e3:.0f} ms of CPU"
            yield Row(f"stenolog {command[0]}", ours_s / floor_s, LIMIT, note=note)
