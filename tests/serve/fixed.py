"""`stenolog serve --stdio --db FILE` with a fixed clock, fixed ids and no entropy: the same bytes each time.

With `DEATHS` it kills by SIGKILL at one message of a run: `SIDE WHEN NUMBER FILE`. SIDE is `service` or
`client` (its parent), WHEN `before` or `after` the call is done, NUMBER that of the message, counted over all
services of the run by the size of FILE.
"""

from __future__ import annotations

import os
import signal
import sys
from datetime import UTC, datetime
from itertools import count
from pathlib import Path

import stenolog
from stenolog.apps.serve.messages import Message
from stenolog.apps.serve.service import Service
from stenolog.apps.serve.stdio import serve

START = datetime(2026, 11, 20, 9, 30, tzinfo=UTC)


def open_fixed(path: Path) -> stenolog.Log:
    """Open a log whose times are all the same, and whose ids are counted."""
    numbers = count(1)
    return stenolog.open(path, clock=lambda: START, ids=lambda: f"e{next(numbers)}", entropy=bytes)


class DyingService(Service):
    """A service that kills itself or its client at one message of a run, as `DEATHS` says."""

    def call(self, name: str, params: bytes) -> Message:
        """Do a call, and kill before or after it."""
        side, when, number, file = os.environ["DEATHS"].split(maxsplit=3)
        with Path(file).open("ab") as counted:
            counted.write(b".")
            is_it = counted.tell() == int(number)
        victim = os.getpid() if side == "service" else os.getppid()
        if is_it and when == "before":
            os.kill(victim, signal.SIGKILL)
        result = super().call(name, params)
        if is_it and when == "after":
            os.kill(victim, signal.SIGKILL)
        return result


if __name__ == "__main__":
    assert sys.argv[1:4] == ["serve", "--stdio", "--db"], sys.argv
    with open_fixed(Path(sys.argv[4])) as log:
        service = (DyingService if os.environ.get("DEATHS") else Service)(log)
        serve(service, sys.stdin.buffer, sys.stdout.buffer)
