"""A call of `stenolog serve --stdio` from another process, against the same call in Python."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks._ratio import Row, compared
from stenolog.adapters.conversation import log as logs
from stenolog.domain.events import UserMessage

TEXT = "Which test fails, and since which commit? " * 7
APPEND = {"conversation": "talk", "events": [{"kind": "user_message", "event": {"text": TEXT}}]}
REQUEST = {"conversation": "talk", "agent": "coder"}


def run() -> Iterable[Row]:
    with tempfile.TemporaryDirectory() as folder:
        ours, floor = Path(folder, "ours.db"), Path(folder, "floor.db")
        for path in (ours, floor):
            with logs.open(path) as log:
                log["talk"].join("coder", model="gpt-5.2")
        with service(ours) as call, logs.open(floor) as log:
            talk = log["talk"]
            yield row(
                "append one entry over a pipe",
                lambda: call("append", APPEND),
                lambda: talk.append(UserMessage(TEXT)),
                limit=2,
                rounds=1000,
            )
            yield row(
                "a request of 1,000 messages over a pipe, its JSON written and read",
                lambda: call("request", REQUEST),
                lambda: json.loads(json.dumps(talk.request("coder").body)),
                limit=2.5,
                rounds=50,
            )


def row(
    name: str, ours: Callable[[], object], floor: Callable[[], object], *, limit: float, rounds: int
) -> Row:
    """Compare a call with the same one in Python."""
    ours_s, floor_s = compared(ours, floor, rounds)
    note = f"{ours_s * 1e6:.0f} against {floor_s * 1e6:.0f} µs"
    return Row(f"{name}, against Python", ours_s / floor_s, limit, note=note)


@contextmanager
def service(db: Path) -> Iterator[Callable[[str, dict[str, Any]], object]]:
    """Run the service, and yield a function that makes a call and returns the result."""
    command = [sys.executable, "-m", "stenolog", "serve", "--stdio", "--db", str(db)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        writer, reader = process.stdin, process.stdout

        def call(method: str, params: dict[str, Any]) -> object:
            writer.write(json.dumps({"id": 1, "method": method, "params": params}).encode() + b"\n")
            writer.flush()
            return json.loads(reader.readline())["result"]

        yield call
        writer.close()
