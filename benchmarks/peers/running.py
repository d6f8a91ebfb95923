"""A store's process, asked from here."""

from __future__ import annotations

import json
import os
import select
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

from benchmarks.peers.registry import Known

ROOT = Path(__file__).parent.parent.parent
PATIENCE = 300.0
"""Seconds that an answer may take."""


class PeerFailedError(Exception):
    """A store did not do what it was asked; says what it said."""


class UnsupportedError(Exception):
    """A store has no way to do this."""


class Running:
    """The process of one store; a context manager that ends it."""

    def __init__(self, known: Known, python: str, log: Path) -> None:
        self.log = log.open("ab")
        self.process = subprocess.Popen(
            [python, "-m", "benchmarks.peers.child", known.module, known.kind],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.log,
            cwd=ROOT,
        )
        self.loaded: dict[str, Any] = {}
        self._rest = b""

    def __enter__(self) -> Running:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()

    def ask(self, do: str, patience: float = PATIENCE, **given: Any) -> dict[str, Any]:
        """Have something done; what came of it."""
        self.tell(do, **given)
        return self.answer(patience)

    def tell(self, do: str, **given: Any) -> None:
        """Have something done without waiting for it."""
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(json.dumps({"do": do, **given}).encode() + b"\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            raise PeerFailedError(f"its process is gone before {do!r}; see {self.log.name}") from None

    def answer(self, patience: float = PATIENCE) -> dict[str, Any]:
        """Return the answer to the oldest command. Raises `PeerFailedError`, `UnsupportedError`."""
        answer: dict[str, Any] = json.loads(self._line(time.monotonic() + patience))
        if "error" in answer:
            raise PeerFailedError(answer["error"])
        if "unsupported" in answer:
            raise UnsupportedError
        return answer

    def end(self, kill: bool = False) -> None:
        """Let it end, or kill it."""
        pipes = self.process.stdin, self.process.stdout
        if kill:
            self.process.kill()
        for pipe in pipes:
            assert pipe is not None
            with suppress(BrokenPipeError):
                pipe.close()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.log.close()

    def _line(self, deadline: float) -> bytes:
        assert self.process.stdout is not None
        file = self.process.stdout.fileno()
        while b"\n" not in self._rest:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([file], [], [], left)[0]:
                self.process.kill()
                raise PeerFailedError("no answer in time")
            piece = os.read(file, 1 << 16)
            if not piece:
                raise PeerFailedError(f"its process has ended; see {self.log.name}")
            self._rest += piece
        line, _, self._rest = self._rest.partition(b"\n")
        return line
