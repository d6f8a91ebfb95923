"""Entries and rows are committed together, whenever the program that writes them dies."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from random import Random

import pytest

import stenolog
from stenolog import UserMessage
from tests.tables.given import plain_sql

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
def test_a_writer_killed_at_any_instant_leaves_exactly_the_rows_of_its_entries(path: Path) -> None:
    chance, before = Random(1), 0
    for _ in range(4):
        command = [sys.executable, "-m", "tests.tables.write", str(path)]
        process = subprocess.Popen(command, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)})
        give_up = time.monotonic() + 60
        while _rows(path) <= before and time.monotonic() < give_up:
            time.sleep(0.005)
        time.sleep(chance.uniform(0, 0.1))
        assert process.poll() is None
        process.kill()
        process.wait()

        with stenolog.open(path) as log:  # which keeps no table: nothing is caught up
            said = [
                (name, entry.position, line)
                for name in log
                for entry in log[name].entries()
                if isinstance(entry.event, UserMessage)
                for line in entry.event.text.splitlines()
            ]
        assert sorted(said) == plain_sql(path, "SELECT talk, at, line FROM lines ORDER BY talk, at, line")
        assert len(said) > before
        before = len(said)


def _rows(path: Path) -> int:
    """Return the number of rows; none while there is no table."""
    if not path.exists() or not plain_sql(path, "SELECT 1 FROM sqlite_master WHERE name = 'lines'"):
        return 0
    return int(plain_sql(path, "SELECT count(*) FROM lines")[0][0])
