"""A journal that fails stops no traffic; a large body needs little memory, whatever the journal does."""

from __future__ import annotations

import hashlib
import json
import os
import queue
import random
import resource
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import IO

import pytest
from pydantic_core import to_json

from stenolog.apps.tap.journal import JournalReader
from stenolog.apps.tap.journal_writer import JournalWriter
from tests.tap import given
from tests.tap.given import Relay, read, read_all, read_head, relay, server, talking
from tests.tap.killing import killed
from tests.tap.test_journal import committed, exchange

OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"
MEGABYTE = 1 << 20
MEMORY_KILOBYTES = 300 * 1000
"""Resident memory of the relay at most, at 150 MB."""


def answers(connection: socket.socket) -> None:
    while head := read_head(connection):
        read(connection, int(head.split(b"Content-Length: ")[1].split(b"\r\n")[0]))
        connection.sendall(OK)


def peak_kilobytes(running: Relay) -> int:
    status = Path(f"/proc/{running.process.pid}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0])


def ask(running: Relay, client: socket.socket, size: int) -> None:
    client.sendall(running.head(f"Content-Length: {size}", method="POST") + b"x" * size)
    assert read(client, len(OK)) == OK


def test_a_disk_that_is_full_stops_nothing_and_leaves_a_gap(tmp_path: Path) -> None:
    """A limit of a file's size is what a full disk is to the relay, and it can be lifted again."""
    with server(answers) as upstream, relay(tmp_path / "run", upstream.port) as running:
        with running.connect() as client:
            ask(running, client, 1000)
            running.ended(1)
            resource.prlimit(running.process.pid, resource.RLIMIT_FSIZE, (5000, resource.RLIM_INFINITY))
            for size in (3000, 5 * MEGABYTE, 100, 100):
                ask(running, client, size)
            unlimited = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
            resource.prlimit(running.process.pid, resource.RLIMIT_FSIZE, unlimited)
            while not any("gap" in each.kinds for each in running.exchanges()):
                ask(running, client, 200)
            ask(running, client, 77)
            while running.ended(1)[-1].content("body") != b"x" * 77:
                pass
        (gap,) = (each.json("gap") for each in running.exchanges() if "gap" in each.kinds)

    assert gap["reason"] == "File too large"
    assert gap["exchanges"] >= 3
    assert (upstream.faults, running.process.returncode) == ([], 0)


def test_a_folder_that_is_deleted_stops_nothing(tmp_path: Path) -> None:
    with talking(tmp_path, answers) as (running, client):
        ask(running, client, 1000)
        running.ended(1)
        shutil.rmtree(tmp_path / "run")
        while not any("gap" in each.kinds for each in running.exchanges()):
            ask(running, client, 100)
        ask(running, client, 77)
        while (last := running.ended(1)[-1]).content("body") != b"x" * 77:
            pass

    assert len(last.content("body")) == 77


def test_a_tap_that_does_not_wait_says_so_of_each_request(tmp_path: Path) -> None:
    with talking(tmp_path, answers, waits=False) as (running, client):
        ask(running, client, 5 * MEGABYTE)
        (recorded,) = running.ended(1)

    assert recorded.json("request")["unproven"] is True
    assert len(recorded.content("body")) == 5 * MEGABYTE


@pytest.mark.slow
@pytest.mark.parametrize("fails", [False, True])
def test_a_body_of_150_megabytes_needs_little_memory_also_before_a_slow_server(
    tmp_path: Path, fails: bool
) -> None:
    size, digests = 150 * MEGABYTE, queue.Queue[str]()

    def slow(connection: socket.socket) -> None:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
        read_head(connection)
        digest, missing = hashlib.sha256(), size
        while missing:
            part = connection.recv(65536)
            digest.update(part)
            missing -= len(part)
        digests.put(digest.hexdigest())
        connection.sendall(OK)

    with server(slow) as upstream, relay(tmp_path / "run", upstream.port) as running:
        digest = hashlib.sha256()
        with running.connect() as client:
            client.sendall(running.head(f"Content-Length: {size}", method="POST"))
            for number in range(150):
                if fails and number == 20:
                    limit = (1000, resource.RLIM_INFINITY)
                    resource.prlimit(running.process.pid, resource.RLIMIT_FSIZE, limit)
                part = bytes([number]) * MEGABYTE
                digest.update(part)
                client.sendall(part)
            assert read(client, len(OK)) == OK
        assert digests.get(timeout=20) == digest.hexdigest()
        peak = peak_kilobytes(running)
        if not fails:
            (recorded,) = running.ended(1)
            assert recorded.json("ready") == {"bytes": size, "sha256": digest.hexdigest()}

    assert peak < MEMORY_KILOBYTES


def test_a_request_in_mid_upload_when_the_disk_fills_goes_up_whole(tmp_path: Path) -> None:
    received = queue.Queue[bytes]()

    def keep(connection: socket.socket) -> None:
        read_head(connection)
        received.put(hashlib.sha256(read(connection, 20 * MEGABYTE)).digest())
        connection.sendall(OK)

    with server(keep) as upstream, relay(tmp_path / "run", upstream.port) as running:
        body = b"".join(bytes([number]) * MEGABYTE for number in range(20))
        with running.connect() as client:
            client.sendall(running.head(f"Content-Length: {len(body)}", method="POST") + body[: 9 * MEGABYTE])
            while len(running.exchanges()[-1:]) == 0:
                pass
            limit = (1000, resource.RLIM_INFINITY)
            resource.prlimit(running.process.pid, resource.RLIMIT_FSIZE, limit)
            client.sendall(body[9 * MEGABYTE :])
            assert read_all(client)[: len(OK)] == OK

    assert received.get(timeout=20) == hashlib.sha256(body).digest()


def test_a_gap_says_since_when(tmp_path: Path) -> None:
    with server(answers) as upstream, relay(tmp_path / "run", upstream.port) as running:
        with running.connect() as client:
            ask(running, client, 10)
            first = running.ended(1)[0].records[0].time_ns
            resource.prlimit(running.process.pid, resource.RLIMIT_FSIZE, (10, resource.RLIM_INFINITY))
            ask(running, client, 20)
            unlimited = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
            resource.prlimit(running.process.pid, resource.RLIMIT_FSIZE, unlimited)
        while not any("gap" in each.kinds for each in running.exchanges()):
            pass
        (record,) = (each.records[0] for each in running.exchanges() if "gap" in each.kinds)

    assert first < json.loads(record.payload)["since"] <= record.time_ns


# A disk that hangs delays traffic by seconds, and does not stop it; a slow one slows large answers down.


SIZE = 100 << 20
HELD_KILOBYTES = 200_000


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

    assert int(status.partition("VmHWM:")[2].split()[0]) < HELD_KILOBYTES
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


# `kill -9` of a relay, at any moment: no request is lost that got an upstream byte, and parts are there.


READING = """
import os, sys
from pathlib import Path
from stenolog.apps.tap.journal import JournalReader
reader = JournalReader(Path(sys.argv[1]))
with open(sys.argv[2], "a") as done:
    for record in reader:
        if record.kind == "end":
            done.write(f"{record.exchange}\\n")
            done.flush()
            reader.done(record.exchange)
reader.close()
"""


def test_a_relay_killed_three_times_has_lost_nothing(tmp_path: Path) -> None:
    story = killed(tmp_path / "run", 3, seed=1)

    assert story.faults == []
    assert story.counts["requests"] > 10


@pytest.mark.slow
def test_a_relay_killed_forty_times_has_lost_nothing(tmp_path: Path) -> None:
    story = killed(tmp_path / "run", 40, seed=2)

    assert story.faults == []
    assert story.counts["partial answers"] > 10
    assert story.counts["requests that a kill has cut"] > 40


@pytest.mark.slow
def test_a_recorder_killed_at_random_moments_records_every_exchange(tmp_path: Path) -> None:
    folder, done = tmp_path / "run", tmp_path / "done"
    writer = JournalWriter(folder, 1, segment_bytes=5000)
    for number in range(0, 3000, 10):
        committed(writer, [entry for at in range(10) for entry in exchange(number + at, b"x" * 100)])
    writer.close()
    chance = random.Random(1)
    while True:
        recorder = subprocess.Popen([sys.executable, "-c", READING, str(folder), str(done)])
        try:
            recorder.wait(chance.uniform(0.2, 0.4))
            break
        except subprocess.TimeoutExpired:
            recorder.send_signal(signal.SIGKILL)
            recorder.wait()
    recorded = [int(line) for line in done.read_text().split()]

    assert sorted(set(recorded)) == list(range(3000))
    assert not folder.exists()


@pytest.mark.slow
def test_a_writer_killed_in_mid_write_leaves_a_journal_of_whole_records(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from tests.tap.test_journal import exchange\n"
        "from stenolog.apps.tap.journal_writer import JournalWriter\n"
        "writer = JournalWriter(Path(sys.argv[1]), int(sys.argv[2]), segment_bytes=1 << 20)\n"
        "for number in range(1 << 40):\n"
        "    writer.put(exchange(number, bytes([number % 256]) * (number % 200_000)))"
    )
    chance = random.Random(1)
    for generation in range(1, 8):
        folder = tmp_path / str(generation)
        process = subprocess.Popen([sys.executable, "-c", code, str(folder), str(generation)], env=os.environ)
        while not list(folder.glob("*")):
            time.sleep(0.01)
        time.sleep(chance.uniform(0, 0.1))
        process.kill()
        process.wait()
        found = [record for record in JournalReader(folder) if record.kind == "data"]

        assert found
        assert all(
            record.payload == bytes([record.exchange % 256]) * (record.exchange % 200_000) for record in found
        )
