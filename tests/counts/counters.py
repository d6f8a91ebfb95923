"""Counters of what a piece of work costs: calls, SQL statements, rows, hashed bytes and imported modules.

Nothing here measures time. `installed` has to run before stenolog is imported.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any

IN = "in "
"""Calls in one room of the package are counted under its name after this."""
PACKAGE = str(Path(__file__).parents[2] / "stenolog") + os.sep
OURS = str(Path(__file__).parent) + os.sep
NO_FILE = 999_983
FOUND: Counter[str] = Counter()
"""What was counted since the process began."""


class CountingCursor(sqlite3.Cursor):
    """A cursor that counts the rows that it gives."""

    def fetchone(self) -> Any:
        row = super().fetchone()
        FOUND["rows"] += row is not None
        return row

    def fetchmany(self, size: int | None = None) -> list[Any]:
        rows = super().fetchmany(self.arraysize if size is None else size)
        FOUND["rows"] += len(rows)
        return rows

    def fetchall(self) -> list[Any]:
        rows = super().fetchall()
        FOUND["rows"] += len(rows)
        return rows

    def __next__(self) -> Any:
        row = super().__next__()
        FOUND["rows"] += 1
        return row


class CountingConnection(sqlite3.Connection):
    """A connection that counts its statements and rows."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.set_trace_callback(_statement)

    def cursor(self, *arguments: Any, **options: Any) -> Any:
        return super().cursor(CountingCursor)

    def execute(self, *arguments: Any) -> Any:
        return self.cursor().execute(*arguments)


@cache
def counting(factory: type[sqlite3.Connection]) -> type[sqlite3.Connection]:
    """Return the class of connections made to count."""
    return type("Counting", (CountingConnection, factory), {})


class CountingHash:
    """A sha256 that counts the bytes given to it."""

    def __init__(self, data: Any = b"", inner: Any = None, **options: Any) -> None:
        self._inner = _sha256(**options) if inner is None else inner
        self.update(data)

    def update(self, data: Any) -> None:
        FOUND["hashed_bytes"] += len(data)
        self._inner.update(data)

    def copy(self) -> CountingHash:
        return CountingHash(inner=self._inner.copy())

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


_sha256 = hashlib.sha256
_connect = sqlite3.connect


def installed() -> None:
    """Count statements, rows and hashed bytes from here on, in every module imported later."""

    def connect(*arguments: Any, **options: Any) -> Any:
        factory = options.pop("factory", sqlite3.Connection)
        return _connect(*arguments, factory=counting(factory), **options)

    sqlite3.connect = connect
    hashlib.sha256 = CountingHash  # type: ignore[assignment]  # it has what callers use


def _statement(sql: str) -> None:
    FOUND["statements"] += not sql.startswith("--")  # a trigger of FTS is told as a comment


def _call(frame: FrameType, event: str, argument: object) -> None:
    if event == "call":
        path = frame.f_code.co_filename
        if path.startswith(PACKAGE):
            FOUND["calls"] += 1
            FOUND[room(path)] += 1
        elif not path.startswith(OURS):
            FOUND["library_calls"] += 1


@cache
def room(path: str) -> str:
    """Return the folder of a file, at most two deep, as it is counted."""
    return IN + "/".join(Path(path).relative_to(PACKAGE).parts[:-1][:2])


def counted(work: Callable[[], object]) -> dict[str, int]:
    """Return what the work costs, in this thread and in those that it starts.

    What libraries call is left out if the work imports modules: an import is thousands of calls, and their
    number depends on whether the module is compiled.
    """
    before, modules = FOUND.copy(), len(sys.modules)
    mark()
    threading.setprofile(_call)
    sys.setprofile(_call)
    try:
        work()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
        mark()
    found = {name: FOUND[name] - before[name] for name in sorted(FOUND)}
    found["modules"] = len(sys.modules) - modules
    if found["modules"]:
        found.pop("library_calls", None)
    return {name: number for name, number in found.items() if number}


def wait_for_threads() -> None:
    """Wait until all other threads have ended."""
    for thread in threading.enumerate():
        if thread is not threading.current_thread():
            thread.join()


def least(runs: Iterable[dict[str, int]]) -> dict[str, int]:
    """Return the least of each count over some runs, so that no timer or other thread adds to it."""
    found = [*runs]
    return (
        {}
        if not found[0]
        else {name: min(run[name] for run in found) for name in found[0] if all(name in run for run in found)}
    )


def mark() -> None:
    """Leave a mark in the trace of a process whose calls of fsync are counted."""
    with suppress(OSError):
        os.fsync(NO_FILE)
