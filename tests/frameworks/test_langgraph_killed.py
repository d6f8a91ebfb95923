"""A graph whose process is killed at any instant ends as one that was not."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from random import Random

import pytest

import stenolog
from stenolog.contrib.langgraph import LangGraphSaver
from tests.examples.harness import ROOT, clean
from tests.frameworks.langgraph_killed import CONFIG, TURNS


def started(path: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-m", "tests.frameworks.langgraph_killed", str(path)], cwd=ROOT)


def dies(path: Path, within: float) -> bool:
    """Kill the program `within` seconds after it has opened the file; whether it was still at work."""
    process = started(path)
    wal = path.with_name(f"{path.name}-wal")
    while not wal.exists() and process.poll() is None:
        time.sleep(0.005)
    time.sleep(within)
    process.kill()
    return process.wait() != 0


def ended(path: Path) -> tuple[list[str], list[str]]:
    """Return the words of the graph's last state, and those that the log tells."""
    with stenolog.open(path) as log:
        found = LangGraphSaver(log).get_tuple(CONFIG)
        assert found is not None
        told = [
            item for item in log["talk"].timeline() if item.kind in ("message", "tool") and not item.hidden
        ]
        words = [item.text for item in told if item.text and item.call is None]
        return [m.content for m in found.checkpoint["channel_values"]["messages"]], words


@pytest.mark.slow
def test_a_graph_that_is_killed_at_any_instant_ends_as_one_that_was_not(tmp_path: Path) -> None:
    path, chance = tmp_path / "talk.db", Random(5)

    kills = sum(dies(path, chance.uniform(0.02, 0.35)) for _ in range(5))
    assert started(path).wait() == 0

    state, told = ended(path)
    looked = ["a cat in the hat", "a cat in the box"]
    answered = ["Let me see.", *looked, "I know: a cat in the box."]
    assert kills >= 3
    assert state == [words for turn in range(TURNS) for words in (f"Where is {turn}?", *answered)]
    assert told == [words for words in state if words not in looked]
    clean(path)
