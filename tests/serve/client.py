"""A client of `stenolog serve --stdio`, as a program in any language would be: a process and its pipes."""

from __future__ import annotations

import json
import subprocess
import threading
from pathlib import Path
from queue import Queue
from types import TracebackType
from typing import Any, Self

from tests.forked import python

Json = dict[str, Any]


class RemoteError(Exception):
    """An error of the service; `data` has its type and its words."""

    def __init__(self, error: Json) -> None:
        super().__init__(error["message"])
        self.code: int = error["code"]
        self.data: Json = error["data"]
        self.type: str = error["data"]["type"]


class Client:
    """A service of its own on a database; calls of several threads are side by side."""

    def __init__(self, db: Path) -> None:
        command = python("-m", "stenolog", "serve", "--stdio", "--db", str(db))
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self._waiting: dict[int, Queue[Json]] = {}
        self._turn = threading.Lock()
        self._last = 0
        self.unasked: Queue[Json] = Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> int:
        """End the input, and return the exit code of the service."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        if not self.process.stdin.closed:
            self.process.stdin.close()
        code = self.process.wait(timeout=30)
        self._reader.join(timeout=30)
        self.process.stdout.close()
        return code

    def kill(self) -> None:
        """Kill the service with SIGKILL."""
        self.process.kill()
        self.process.wait(timeout=30)
        self._reader.join(timeout=30)  # it ends with the last process that holds the output

    def write(self, line: bytes) -> None:
        """Write a line as it is."""
        assert self.process.stdin is not None
        with self._turn:
            self.process.stdin.write(line + b"\n")
            self.process.stdin.flush()

    def send(self, method: str, **params: Any) -> Queue[Json]:
        """Send a call, and return where its answer comes."""
        with self._turn:
            self._last += 1
            id = self._last
            answer = self._waiting[id] = Queue()
        self.write(json.dumps({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).encode())
        return answer

    def call(self, method: str, **params: Any) -> Json:
        """Return the result of a call. Raises `RemoteError`."""
        return result_of(self.send(method, **params))

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            answer = json.loads(line)
            waiting = self._waiting.pop(answer["id"], None) if answer["id"] is not None else None
            (waiting or self.unasked).put(answer)


def result_of(answer: Queue[Json]) -> Json:
    """Return the result of a call that was sent. Raises `RemoteError`."""
    found = answer.get(timeout=30)
    if "error" in found:
        raise RemoteError(found["error"])
    result: Json = found["result"]
    return result


def said(text: str, id: str) -> Json:
    """Return a user's message on its way into the log."""
    return {"kind": "user_message", "event": {"text": text}, "id": id}
