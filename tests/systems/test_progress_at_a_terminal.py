"""System 5 at a terminal: how far each mail is, while it is written; the scores stand in the log."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
import termios
from pathlib import Path

import pytest

import stenolog
from examples.stakeholder_mail.workflow import quality_of
from stenolog import AssistantMessage
from tests.examples.harness import PATIENCE, ROOT

pytestmark = pytest.mark.about_file("its tables are in the log's own database, and read as a file")
BAR = re.compile(r"email_writer/(mail-\d) +(━*╸?)")
"""A bar, as far as it is full; colours are taken out before."""
CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def at_a_terminal(folder: Path, *command: str) -> str:
    """Return the output of a program that runs at a terminal."""
    master, slave = pty.openpty()
    termios.tcsetwinsize(slave, (40, 120))
    env = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "COLUMNS", "LINES")}
    process = subprocess.Popen(
        [sys.executable, "-m", *command],
        stdin=slave,
        stdout=slave,
        stderr=slave,
        cwd=folder,
        env={**env, "TERM": "xterm", "PYTHONPATH": str(ROOT)},
    )
    os.close(slave)
    with os.fdopen(master, "rb", buffering=0) as screen:
        said = b"".join(iter(lambda: read(screen.fileno()), b""))
    assert process.wait(PATIENCE) == 0
    return said.decode()


def read(screen: int) -> bytes:
    """Read more from the screen; nothing once the program has gone."""
    try:
        return os.read(screen, 65_536)
    except OSError:  # Linux says so at the end of a terminal
        return b""


@pytest.mark.slow
def test_bars_grow_while_the_mails_are_written_and_the_scores_are_kept(tmp_path: Path) -> None:
    said = at_a_terminal(tmp_path, "examples.stakeholder_mail")
    lengths: dict[str, set[int]] = {}
    for mail, full in BAR.findall(CONTROL.sub("", said)):
        lengths.setdefault(mail, set()).add(len(full))
    with stenolog.open(tmp_path / "stakeholder_mail.db") as log:
        events = [entry.event for name in log for entry in log[name].entries()]
    reviews = [e for e in events if isinstance(e, AssistantMessage) and e.agent == "reviewer"]
    scores = {f"quality {quality_of(review)['score']:.0%}" for review in reviews}

    assert sorted(lengths) == [f"mail-{n}" for n in range(1, 9)]
    assert min(map(len, lengths.values())) > 2
    assert all(map(quality_of, reviews))
    assert scores == set(re.findall(r"quality \d+%", said))
