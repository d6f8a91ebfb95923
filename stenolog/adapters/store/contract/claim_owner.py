"""The owner of a claim: a runner with its process and machine."""

from __future__ import annotations

import os
import platform
from pathlib import Path
from typing import NamedTuple


class Owner(NamedTuple):
    """A runner as its claims name it.

    `start` is its process's start by the kernel's clock, `database` the identity of the opened file: a copy
    has another. Both are empty if unknown.
    """

    id: str
    host: str = ""
    pid: int = 0
    start: str = ""
    database: str = ""

    @classmethod
    def of_this_process(cls, id: str, database: str = "") -> Owner:
        pid = os.getpid()
        return cls(id, platform.node().replace(" ", "-"), pid, _start_of(pid), database)

    @classmethod
    def parse(cls, text: str) -> Owner:
        """Return the owner in a claim; other text is only an id."""
        # From the right, because an id may hold blanks and the four other parts do not.
        parts = text.rsplit(" ", 4)
        if len(parts) != 5 or not parts[2].isdecimal():
            return cls(text)
        id, host, pid, start, database = parts
        return cls(id, host, int(pid), start.strip("-"), database.strip("-"))

    def __str__(self) -> str:
        return f"{self.id} {self.host or '-'} {self.pid} {self.start or '-'} {self.database or '-'}"

    @property
    def is_running(self) -> bool:
        """True if the process runs on this machine."""
        # A process id is used again, so the start of the process is compared as well.
        return bool(self.start) and self.host == platform.node() and _start_of(self.pid) == self.start


def _start_of(pid: int) -> str:
    """Return a process's start in ticks since the machine's; "" if dead or unknown."""
    try:
        # Behind the last bracket, because a program's name may hold blanks and brackets.
        fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return ""
    # A zombie has ended, though its id is still taken.
    return "" if fields[0] in "ZX" else fields[19]
