"""Importing transcripts by the thousand: memory, time against reading and keeping the bare lines, and again.

What is imported is made from a seed and deleted afterwards; `--megabytes 1000` takes a minute or two.
"""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from functools import partial
from itertools import islice
from pathlib import Path
from statistics import median
from typing import NamedTuple

from benchmarks import _transcripts
from benchmarks._ratio import Row, compiled
from stenolog.adapters.conversation import log as logs
from stenolog.importers import Report, files_in, import_files

MB = 1_000_000
ROUNDS = 3
BATCH = 500
"""Lines of one transaction of the floor."""
LIMIT_MB, SLOWER, AGAIN = 200, 6.0, 0.2
CHILD = """
import sys
from stenolog.apps.cli import run
status = run(sys.argv[1:])
with open("/proc/self/status") as told:
    peak = next(line.split()[1] for line in told if line.startswith("VmHWM"))
print(peak, file=sys.stderr)
sys.exit(status)
"""


class Took(NamedTuple):
    """Seconds of one piece of work: by the clock, and of the processor."""

    wall: float
    cpu: float


def run(megabytes: int = 60) -> Iterable[Row]:
    compiled()
    with tempfile.TemporaryDirectory() as folder:
        given = Path(folder, "given")
        given.mkdir()
        files = _transcripts.write(given, megabytes * MB)
        what = f"import {megabytes} MB, {files} files"
        yield from memory(Path(folder), given, what)
        yield from speed(Path(folder), given, what)


def memory(folder: Path, given: Path, what: str) -> Iterator[Row]:
    """Measure the memory of a process that imports, imports again, and exports the longest transcript."""
    database, exported = folder / "memory.db", folder / "long.jsonl"
    yield Row(f"{what}: peak", peak("import", given, "--db", database), LIMIT_MB, "MB")
    (database.with_name(f"{database.name}-checkpoints")).unlink()
    note = "nothing is remembered of the first time"
    yield Row(f"{what}: peak, again", peak("import", given, "--db", database), LIMIT_MB, "MB", note)
    with logs.open(database) as log:
        longest = max(log.names(), key=lambda name: log[name].position)
    took = peak("export", longest, "--db", database, "-o", exported)
    note = f"{exported.stat().st_size / MB:.0f} MB"
    yield Row("export the longest of them: peak", took, LIMIT_MB, "MB", note)
    took = peak("import", exported, "--db", folder / "other.db")
    yield Row("import that export: peak", took, LIMIT_MB, "MB", note)


def peak(*arguments: object) -> float:
    """Return the most memory that `stenolog ARGUMENTS` has taken in a process of its own, in MB."""
    command = [sys.executable, "-c", CHILD, *map(str, arguments)]
    done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=True)
    return round(int(done.stderr.split()[-1]) * 1024 / MB)


def speed(folder: Path, given: Path, what: str) -> Iterator[Row]:
    """Measure an import, another one, and reading and storing the lines unchanged."""
    files, size = list(files_in(given)), sum(file.stat().st_size for file in files_in(given))
    taken: dict[str, list[Took]] = {"first": [], "again": [], "floor": []}
    for number in range(ROUNDS if size < 200 * MB else 1):
        entries = 0
        with logs.open(folder / f"ours{number}.db") as log:

            def ours() -> None:
                nonlocal entries
                for report in import_files(log, files):
                    assert isinstance(report, Report)
                    entries += sum(found.appended for found in report.conversations)

            taken["first"].append(timed(ours))
            taken["again"].append(timed(ours))
        taken["floor"].append(timed(partial(by_hand, folder / f"floor{number}.db", files)))
    first, again, floor = (Took(*map(median, zip(*taken[name], strict=True))) for name in taken)
    note = f"{size / MB / first.wall:.0f} against {size / MB / floor.wall:.0f} MB/s"
    more = f"{entries / first.wall:.0f} entries/s; CPU {first.cpu:.2f} against {floor.cpu:.2f} s"
    name = f"{what}, against reading and keeping its lines: CPU"
    yield Row(name, first.cpu / floor.cpu, SLOWER, note=f"{note}, {more}")
    note = f"{again.cpu:.2f} against {first.cpu:.2f} s of CPU, {size / MB / again.wall:.0f} MB/s"
    yield Row("the same again, nothing has changed", again.cpu / first.cpu, AGAIN, note=note)


def timed(work: Callable[[], object]) -> Took:
    wall, cpu = time.perf_counter(), time.process_time()
    work()
    return Took(time.perf_counter() - wall, time.process_time() - cpu)


def by_hand(path: Path, files: list[Path]) -> None:
    """Read each line as JSON and store it unchanged, as durably: the least that a program can do."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("CREATE TABLE lines (number INTEGER PRIMARY KEY, file INTEGER, line BLOB)")
        rows = _rows(files)
        while some := list(islice(rows, BATCH)):
            connection.execute("BEGIN IMMEDIATE")
            connection.executemany("INSERT INTO lines (file, line) VALUES (?, ?)", some)
            connection.execute("COMMIT")


def _rows(files: list[Path]) -> Iterator[tuple[int, bytes]]:
    for number, file in enumerate(files):
        with file.open("rb") as stream:
            for line in stream:
                json.loads(line)
                yield number, line
