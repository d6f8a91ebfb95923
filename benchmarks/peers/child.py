"""The process in a store's own environment: it reads a command a line, and answers each with a line of JSON.

python -m benchmarks.peers.child MODULE CLASS
"""

from __future__ import annotations

import importlib
import json
import os
import resource
import sqlite3
import sys
import time
import traceback
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

from benchmarks.peers import workload
from benchmarks.peers.peer import Peer, UnsupportedError
from benchmarks.peers.workload import Alphabet, Event, turn

SYNCHRONOUS = {"0": "OFF", "1": "NORMAL", "2": "FULL", "3": "EXTRA"}
QUIET = {"LANGSMITH_TRACING": "false", "OPENAI_AGENTS_DISABLE_TRACING": "1"}


class Child:
    """One store and the file it works on."""

    def __init__(self, module: str, kind: str) -> None:
        self.module, self.kind = module, kind
        self.path = Path()
        self.peer = Peer()

    def load(self) -> dict[str, Any]:
        """Import the library."""
        start = time.perf_counter()
        self.type: type[Peer] = getattr(
            importlib.import_module(f"benchmarks.peers.libraries.{self.module}"), self.kind
        )
        return {"import_s": time.perf_counter() - start}

    def about(self) -> dict[str, Any]:
        """Return the versions."""
        versions = {name: metadata.version(name) for name in self.type.packages}
        python = ".".join(map(str, sys.version_info[:3]))
        return {"versions": versions, "python": python, "sqlite": sqlite3.sqlite_version}

    def open(self, path: str) -> dict[str, Any]:
        """Open a file, or make one."""
        self.path = Path(path)
        if self.type.prepared and not self.path.exists():
            _in_wal_mode(self.path)
        self.peer = self.type()
        self.peer.open(self.path)
        return {}

    def close(self) -> dict[str, Any]:
        """Close it, with all that was written in the one file; its bytes, and those of what is beside it."""
        self.peer.close()
        with sqlite3.connect(self.path) as database:
            database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        database.close()
        stored = self.path.stat().st_size
        whole = sum(path.stat().st_size for path in self.path.parent.glob(f"{self.path.name}*"))
        return {"bytes": stored, "beside": whole - stored}

    def reopen(self) -> dict[str, Any]:
        """Close and open again: whatever was held in memory is gone."""
        closed = self.close()
        self.open(str(self.path))
        return closed

    def durability(self, path: str) -> dict[str, Any]:
        """Return the journal and the level that a turn is written with, by the statements that set them."""
        set_by: list[str] = []
        library: Any = sqlite3
        real = library.connect

        def watched(*given: Any, **named: Any) -> Any:
            connection = real(*given, **named)
            connection.set_trace_callback(set_by.append)
            return connection

        library.connect = library.dbapi2.connect = watched
        try:
            self.open(path)
            self.peer.turn(turn("durable", 1))
            self.peer.close()
        finally:
            library.connect = library.dbapi2.connect = real
        database = real(path)
        journal = database.execute("PRAGMA journal_mode").fetchone()[0].upper()
        default = SYNCHRONOUS[str(database.execute("PRAGMA synchronous").fetchone()[0])]
        database.close()
        return {"journal": journal, "synchronous": _level(set_by, default), "prepared": self.type.prepared}

    def fill(self, conversation: str, turns: int, alphabet: Alphabet = "latin") -> dict[str, Any]:
        """Write a history without building any list."""
        self.peer.fill(conversation, turns, alphabet)
        return {}

    def turns(
        self,
        conversation: str,
        first: int,
        count: int,
        alphabet: Alphabet = "latin",
        allowed_s: float = 1e9,
    ) -> dict[str, Any]:
        """Run turns, one after the other, until the time is over; the seconds of each."""
        scripts = [turn(conversation, first + number, alphabet) for number in range(count)]
        wall: list[float] = []
        for script in scripts:
            start = time.perf_counter()
            self.peer.turn(script)
            wall.append(time.perf_counter() - start)
            if sum(wall) > allowed_s:
                break
        return {"wall": wall}

    def exact(self, conversation: str, turns: int) -> dict[str, Any]:
        """Return whether the list has all messages, and nothing else."""
        messages = self.peer.said(self.peer.messages(conversation))
        return {"exact": messages == workload.said(conversation, turns)}

    def fresh(self, path: str, conversation: str) -> dict[str, Any]:
        """Open a file and build a list, as the first thing."""
        start = time.perf_counter()
        self.open(path)
        messages = self.peer.messages(conversation)
        return {"list_s": time.perf_counter() - start, "messages": len(messages)}

    def at(self, conversation: str, turn: int) -> dict[str, Any]:
        """Return the list as it was after a turn."""
        start = time.perf_counter()
        messages = self.peer.at(conversation, turn)
        seconds = time.perf_counter() - start
        return {"at_s": seconds, "exact": self.peer.said(messages) == workload.said(conversation, turn)}

    def fork(self, conversation: str, turn: int, name: str) -> dict[str, Any]:
        """Fork the conversation there."""
        start = time.perf_counter()
        self.peer.fork(conversation, turn, name)
        return {"fork_s": time.perf_counter() - start}

    def interleave(self, conversations: int, turns: int, allowed_s: float) -> dict[str, Any]:
        """Write a turn of each conversation in turns, until the time is over."""
        names = [f"m{number}" for number in range(conversations)]
        scripts = [turn(name, number) for number in range(1, turns + 1) for name in names]
        start = time.perf_counter()
        done = 0
        for done, script in enumerate(scripts, 1):  # noqa: B007 - how many is told
            self.peer.turn(script)
            if time.perf_counter() - start > allowed_s:
                break
        seconds = time.perf_counter() - start
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        return {"events": done * workload.STEPS, "wall": seconds, "turns": done, "peak_mb": peak}

    def race(self, conversation: str, first: int, count: int) -> dict[str, Any]:
        """Write turns while another process does the same; return the acknowledged and the failed ones."""
        acknowledged: list[str] = []
        failed: list[str] = []
        for number in range(first, first + count):
            try:
                self.peer.turn(turn(conversation, number), lambda event: acknowledged.append(event.id))
            except Exception as error:
                failed.append(f"{type(error).__name__}: {str(error)[:80]}")
            time.sleep(0.002)  # a model would take longer; it lets the other one in
        return {"acknowledged": acknowledged, "failed": failed}

    def skew(self, ahead_s: float) -> dict[str, Any]:
        """Have a clock that is wrong from here on; before `load`, lest a library holds the right one."""
        now, now_ns = time.time, time.time_ns
        time.time = lambda: now() + ahead_s
        time.time_ns = lambda: now_ns() + int(ahead_s * 1e9)
        return {}

    def endless(self, conversation: str, acks: str) -> dict[str, Any]:
        """Write turns until the process is killed, and note each durable event in the file `acks`."""
        told = os.open(acks, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

        def acknowledge(event: Event) -> None:
            os.write(told, f"{event.id}\n".encode())

        number = 0
        while True:
            number += 1
            self.peer.turn(turn(conversation, number), acknowledge)

    def kept(self, conversation: str, turns: list[int]) -> dict[str, Any]:
        """Return the ids of what the store holds ("?": it was never said), and the faults of the request."""
        known = {event.said: event.id for number in turns for event in turn(conversation, number)}
        ids = [known.get(said, "?") for said in self.peer.kept(conversation)]
        broken = workload.broken(self.peer.said(self.peer.messages(conversation)))
        return {"ids": ids, "broken": broken}


def _in_wal_mode(path: Path) -> None:
    """Create an empty database that stays in WAL mode."""
    with sqlite3.connect(path) as database:
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("CREATE TABLE empty (x)")
        database.execute("DROP TABLE empty")
    database.close()


def _level(statements: list[str], default: str) -> str:
    """Return the synchronous level that was set last before the first row was written."""
    for statement in statements:
        words = statement.lower().replace("=", " ").split()
        if words[:2] == ["pragma", "synchronous"] and len(words) > 2:
            level = words[2].upper()
            default = SYNCHRONOUS.get(level, level)
        elif words[:1] == ["insert"]:
            break
    return default


def serve(child: Child, answers: int) -> None:
    """Answer commands until there are no more."""
    for line in sys.stdin:
        command = json.loads(line)
        work: Callable[..., dict[str, Any]] = getattr(child, command.pop("do"))
        try:
            answer = work(**command)
        except UnsupportedError:
            answer = {"unsupported": True}
        except Exception as error:
            traceback.print_exc()
            answer = {"error": f"{type(error).__name__}: {str(error)[:300]}"}
        os.write(answers, json.dumps(answer).encode() + b"\n")


if __name__ == "__main__":
    os.environ.update(QUIET)
    own = os.dup(1)
    os.dup2(2, 1)  # what a library prints is no answer
    serve(Child(*sys.argv[1:3]), own)
    os._exit(0)  # a library's threads may not let the process end
