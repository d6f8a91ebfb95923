"""A disk that hangs delays traffic by seconds, and does not stop it; a slow one slows large answers down."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import IO

import pytest
from pydantic_core import to_json

from tests.tap import given
from tests.tap.given import Relay, read, read_head, relay, server

SIZE = 100 << 20
MEMORY_KILOBYTES = 200_000


@pytest.fixture
def hanging(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Have relays start whose disk hangs while this file exists."""

    def start(
        _: str, config: object, descriptors: tuple[int, ...], errors: IO[bytes]
    ) -> subprocess.Popen[bytes]:
        program = str(Path(__file__).with_name("hanging_relay.py"))
        process = subprocess.Popen(
            [sys.executable, program, str(tmp_path)],
            stdin=subprocess.PIPE,
            stdout=errors,
            stderr=errors,
            pass_fds=descriptors,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
        assert process.stdin is not None
        process.stdin.write(to_json(config))
        process.stdin.close()
        return process

    monkeypatch.setattr(given, "start", start)
    return tmp_path / "hangs"


def large(connection: socket.socket) -> None:
    while read_head(connection):
        connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % SIZE)
        for _ in range(SIZE >> 20):
            connection.sendall(bytes(1 << 20))


def get(running: Relay, client: socket.socket) -> int:
    """Ask, and return the size of the answer's content."""
    client.sendall(running.head())
    read_head(client)
    size = 0
    while size < SIZE:
        size += len(client.recv(1 << 20))
    return size


def test_a_large_answer_passes_a_disk_that_hangs_in_little_memory_and_later_ones_are_recorded(
    tmp_path: Path, hanging: Path
) -> None:
    with server(large) as upstream, relay(tmp_path / "run", upstream.port) as running:
        with running.connect() as client:
            hanging.touch()
            assert get(running, client) == SIZE
            status = Path(f"/proc/{running.process.pid}/status").read_text()
            hanging.unlink()
            running.ended(1)
            assert get(running, client) == SIZE
            first, second = running.ended(2)
        assert running.printed() == ""

    assert int(status.partition("VmHWM:")[2].split()[0]) < MEMORY_KILOBYTES
    assert first.json("end")["reason"].startswith("not-recorded: the disk took longer")
    assert len(first.content("data")) < SIZE
    assert len(second.content("data")) == SIZE


def test_the_end_of_a_tap_does_not_wait_for_a_disk_that_hangs(tmp_path: Path, hanging: Path) -> None:
    def answer(connection: socket.socket) -> None:
        read_head(connection)
        connection.sendall(b"HTTP/1.1 204 No Content\r\n\r\n")

    with server(answer) as upstream, relay(tmp_path / "run", upstream.port) as running:
        hanging.touch()
        with running.connect() as client:
            client.sendall(running.head())
            assert read(client, 12) == b"HTTP/1.1 204"
        assert running.stop() == 0
