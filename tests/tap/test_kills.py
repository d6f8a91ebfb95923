"""`kill -9` of a relay, at any moment: no request is lost that got an upstream byte, and parts are there."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from stenolog.apps.tap.journal import JournalReader
from stenolog.apps.tap.journal_writer import JournalWriter
from tests.tap.killing import killed
from tests.tap.test_journal import committed, exchange

READING = """
import os, sys
from pathlib import Path
from stenolog.apps.tap.journal import JournalReader
reader = JournalReader(Path(sys.argv[1]))
with open(sys.argv[2], "a") as done:
    for record in reader:
        if record.kind == "end":
            done.write(f"{record.exchange}\\n")
            done.flush()
            reader.done(record.exchange)
reader.close()
"""


def test_a_relay_killed_three_times_has_lost_nothing(tmp_path: Path) -> None:
    story = killed(tmp_path / "run", 3, seed=1)

    assert story.faults == []
    assert story.counts["requests"] > 10


@pytest.mark.slow
def test_a_relay_killed_forty_times_has_lost_nothing(tmp_path: Path) -> None:
    story = killed(tmp_path / "run", 40, seed=2)

    assert story.faults == []
    assert story.counts["partial answers"] > 10
    assert story.counts["requests that a kill has cut"] > 40


@pytest.mark.slow
def test_a_recorder_killed_at_random_moments_records_every_exchange(tmp_path: Path) -> None:
    folder, done = tmp_path / "run", tmp_path / "done"
    writer = JournalWriter(folder, 1, segment_bytes=5000)
    for number in range(0, 3000, 10):
        committed(writer, [entry for at in range(10) for entry in exchange(number + at, b"x" * 100)])
    writer.close()
    chance = random.Random(1)
    while True:
        recorder = subprocess.Popen([sys.executable, "-c", READING, str(folder), str(done)])
        try:
            recorder.wait(chance.uniform(0.2, 0.4))
            break
        except subprocess.TimeoutExpired:
            recorder.send_signal(signal.SIGKILL)
            recorder.wait()
    recorded = [int(line) for line in done.read_text().split()]

    assert sorted(set(recorded)) == list(range(3000))
    assert not folder.exists()


@pytest.mark.slow
def test_a_writer_killed_in_mid_write_leaves_a_journal_of_whole_records(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from tests.tap.test_journal import exchange\n"
        "from stenolog.apps.tap.journal_writer import JournalWriter\n"
        "writer = JournalWriter(Path(sys.argv[1]), int(sys.argv[2]), segment_bytes=1 << 20)\n"
        "for number in range(1 << 40):\n"
        "    writer.put(exchange(number, bytes([number % 256]) * (number % 200_000)))"
    )
    chance = random.Random(1)
    for generation in range(1, 8):
        folder = tmp_path / str(generation)
        process = subprocess.Popen([sys.executable, "-c", code, str(folder), str(generation)], env=os.environ)
        while not list(folder.glob("*")):
            time.sleep(0.01)
        time.sleep(chance.uniform(0, 0.1))
        process.kill()
        process.wait()
        found = [record for record in JournalReader(folder) if record.kind == "data"]

        assert found
        assert all(
            record.payload == bytes([record.exchange % 256]) * (record.exchange % 200_000) for record in found
        )
