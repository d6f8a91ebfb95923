"""The example of a web service as processes, and a client of it that reads its stream by hand."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import httpx

from tests.examples import harness

PATIENCE = 60.0
"""Seconds for which something is waited for: the processes of the tests share few processors."""


class Event(NamedTuple):
    """An event of the stream, with its id where it has one."""

    id: int | None
    kind: str
    data: dict[str, Any]


class Example(NamedTuple):
    """The running example: its URL, and the id of the process that has begun all others."""

    url: str
    pid: int

    @property
    def workers(self) -> list[int]:
        """The ids of the processes of its workers."""
        command = ["pgrep", "-P", str(self.pid), "-f", "examples.web_service.worker"]
        return [*map(int, subprocess.run(command, capture_output=True, check=True).stdout.split())]


def free_port() -> int:
    """Return a port that nobody listens on."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return int(listening.getsockname()[1])


@contextmanager
def process(*arguments: str, **env: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run a module until the block ends, which it must not do by itself."""
    command = [sys.executable, "-m", *arguments]
    with subprocess.Popen(command, cwd=harness.ROOT, env={**os.environ, **env}) as running:
        try:
            yield running
            assert running.poll() is None, "it has ended by itself"
        finally:
            running.terminate()
            try:
                running.wait(PATIENCE)
            finally:
                running.kill()


@contextmanager
def web(address: str) -> Iterator[str]:
    """Run one web process, and yield its URL."""
    port = free_port()
    options = ("--port", str(port), "--log-level", "warning", "--timeout-graceful-shutdown", "1")
    with process("uvicorn", "examples.web_service.app:app", *options, STENOLOG_DB=address) as running:
        yield up(f"http://127.0.0.1:{port}", running)


@contextmanager
def whole(*options: str, **env: str) -> Iterator[Example]:
    """Run the example as its README says."""
    port = free_port()
    with process("examples.web_service", "--port", str(port), *options, **env) as running:
        yield Example(up(f"http://127.0.0.1:{port}", running), running.pid)


def up(url: str, running: subprocess.Popen[bytes], path: str = "") -> str:
    """Return the URL once a path of it is answered."""
    give_up = time.monotonic() + PATIENCE
    while True:
        try:
            httpx.get(url + path).raise_for_status()
            return url
        except httpx.TransportError:
            assert running.poll() is None, "it has ended"
            assert time.monotonic() < give_up, "it does not answer"
            time.sleep(0.05)


def say(url: str, name: str, text: str, id: str = "") -> int:
    """Post a message; return its position."""
    done = httpx.post(f"{url}/talks/{name}", json={"text": text, "id": id}, timeout=PATIENCE)
    assert done.status_code == 202, done.text
    return int(done.json()["position"])


def events(url: str, name: str, after: int = 0) -> Generator[Event, None, None]:
    """Yield the events behind a position, until this is closed."""
    headers = {"Last-Event-ID": str(after)} if after else {}
    with httpx.stream("GET", f"{url}/talks/{name}/events", headers=headers, timeout=PATIENCE) as answer:
        assert answer.status_code == 200, answer.read()
        yield from parsed(answer.iter_lines())


def parsed(lines: Iterator[str]) -> Iterator[Event]:
    """Yield the events of a stream as a browser takes them: none without its last line."""
    id, kind, data = None, "", ""
    for line in lines:
        name, _, value = line.partition(": ")
        if not line and data:
            yield Event(id, kind, json.loads(data))
        if not line:
            id, kind, data = None, "", ""
        elif name == "id":
            id = int(value)
        elif name == "event":
            kind = value
        elif name == "data":
            data = value


def up_to(stream: Iterator[Event], kind: str) -> list[Event]:
    """Return the events up to the first entry of a kind, or the first piece."""
    found = []
    for event in stream:
        found.append(event)
        if kind in (event.kind, event.data.get("kind")) and (event.kind == "entry" or kind == "piece"):
            return found
    raise AssertionError(f"the stream ended after {found}")


def positions(found: list[Event]) -> list[int]:
    """Return the positions of the entries."""
    return [event.id for event in found if event.id is not None]
