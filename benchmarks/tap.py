"""A tap between agents and their provider: what it adds, what it loses to `kill -9`, what it takes.

    python -m benchmarks tap [--kills 100]

64 streams at once ask with 80 kB each and get 20 chunks. The same load runs with and without the tap, in
turns; a figure is the difference of both. Client, server and relay share the machine's processors.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

from benchmarks._ratio import Row, compiled
from benchmarks._tap_load import REQUEST_BYTES, Delays, measure
from tests.tap.given import read, read_head, relay, server
from tests.tap.killing import killed
from tests.tap.test_tap_command import children, listening

STREAMS, REQUESTS, ROUNDS = 64, 4, 5
KILLS_A_FOLDER = 50
MEGABYTES = 150
SETTLING_SECONDS, IDLE_SECONDS = 3, 5
STARTS = 5
NOW = """
import http.client, os, time
from urllib.parse import urlsplit
base = urlsplit(os.environ["OPENAI_BASE_URL"])
connection = http.client.HTTPConnection(base.netloc)
begun = time.monotonic()
connection.request("GET", base.path + "/models")
connection.getresponse().read()
print(begun, time.monotonic())
"""


def run(kills: int = 100) -> Iterable[Row]:
    """Measure latency, losses, memory, idling and the start."""
    compiled()
    yield from latency()
    yield from losses(kills)
    yield memory()
    yield from idle()
    yield start()


def latency() -> Iterator[Row]:
    """Yield rows for the first byte and for each chunk, with the request on disk."""
    direct, tapped, disk = [], [], list[float]()
    with (
        tempfile.TemporaryDirectory() as folder,
        answering() as port,
        relay(Path(folder, "run"), port) as running,
    ):
        for number in range(ROUNDS + 1):
            without = asyncio.run(measure(port, "", STREAMS, REQUESTS))
            through = asyncio.run(measure(running.port, running.base, STREAMS, REQUESTS))
            if number:  # the first round warms up
                direct.append(without)
                tapped.append(through)
                disk += synchronised(Path(folder))
    for name, limits, of in (("first byte", (2, 10), first), ("a chunk", (1, 10), chunks)):
        for share, limit in zip((0.5, 0.99), limits, strict=True):
            added = [
                quantile(of(through), share) - quantile(of(without), share)
                for without, through in zip(direct, tapped, strict=True)
            ]
            both = (
                f"{quantile(flat(tapped, of), share):.2f} against {quantile(flat(direct, of), share):.2f} ms"
            )
            note = f"{both}; rounds {', '.join(f'{each:.2f}' for each in added)}"
            if name == "first byte":
                note += f"; the disk alone takes {quantile(disk, share):.2f} ms"
            yield Row(f"tap: {name} later, {share:.0%} of all at most", median(added), limit, "ms", note)


def first(delays: Delays) -> list[float]:
    """Return the delays of first bytes."""
    return delays.first


def chunks(delays: Delays) -> list[float]:
    """Return the delays of later chunks."""
    return delays.chunks


def synchronised(folder: Path) -> list[float]:
    """Return the seconds that the disk takes for a request, which no relay can go below."""
    seconds = []
    with (folder / "floor").open("wb", buffering=0) as file:
        for _ in range(50):
            began = time.perf_counter()
            file.write(bytes(REQUEST_BYTES))
            os.fsync(file.fileno())
            seconds.append(time.perf_counter() - began)
    return seconds


def flat(rounds: list[Delays], of: Callable[[Delays], list[float]]) -> list[float]:
    """Return the delays of all rounds together."""
    return [each for delays in rounds for each in of(delays)]


def quantile(seconds: list[float], share: float) -> float:
    """Return a quantile in milliseconds."""
    return sorted(seconds)[min(len(seconds) - 1, int(len(seconds) * share))] * 1e3


@contextmanager
def answering() -> Iterator[int]:
    """Run the server of the load, and yield its port."""
    words = [sys.executable, "-m", "benchmarks._tap_load"]
    with subprocess.Popen(words, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        try:
            yield int(process.stdout.readline())
        finally:
            process.kill()


def losses(kills: int) -> Iterator[Row]:
    """Kill the relay, and count what the journal has not."""
    faults, counts, oldest = [], Counter[str](), 0.0
    for number in range(0, kills, KILLS_A_FOLDER):
        with tempfile.TemporaryDirectory() as folder:
            story = killed(Path(folder, "run"), min(KILLS_A_FOLDER, kills - number), seed=number)
        faults += story.faults
        counts += story.counts
        oldest = max(oldest, story.oldest_lost)
    for fault in faults:
        print(fault, file=sys.stderr)
    yield Row("tap: requests lost that got an upstream byte, and other faults", len(faults), 0, "",
              noted(counts, kills))  # fmt: skip
    note = f"{counts['chunks that were younger than the kill']} chunks were not yet written"
    yield Row("tap: a chunk not in the journal came before the kill, at most", oldest * 1e3, 100, "ms", note)


def noted(counts: Counter[str], kills: int) -> str:
    """Return the counts in words."""
    names = ("requests", "requests that a kill has cut", "partial answers")
    return ", ".join([f"{kills} kills", *(f"{counts[name]:,} {name}" for name in names)])


def memory() -> Row:
    """Send a large body to a server that reads slowly."""
    size = MEGABYTES << 20

    def slow(connection: socket.socket) -> None:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
        read_head(connection)
        missing = size
        while missing:
            missing -= len(connection.recv(1 << 16))
        connection.sendall(b"HTTP/1.1 204 No Content\r\n\r\n")

    with (
        tempfile.TemporaryDirectory() as folder,
        server(slow) as upstream,
        relay(Path(folder, "run"), upstream.port) as running,
        running.connect() as client,
    ):
        client.settimeout(300)
        head = f"POST {running.base}/v1 HTTP/1.1\r\nHost: {running.host}\r\ncontent-length: {size}\r\n\r\n"
        began = time.perf_counter()
        client.sendall(head.encode())
        for _ in range(MEGABYTES):
            client.sendall(bytes(1 << 20))
        assert read(client, 12) == b"HTTP/1.1 204"
        took = time.perf_counter() - began
        peak = status(running.process.pid, "VmHWM")
    return Row(f"tap: peak memory of the relay at a body of {MEGABYTES} MB", peak, 300, "MB", f"{took:.1f} s")


def status(pid: int, name: str) -> float:
    """Return a figure of a process in megabytes."""
    text = Path(f"/proc/{pid}/status").read_text()
    return int(text.partition(f"{name}:")[2].split()[0]) / 1000


def cpu_seconds(pid: int) -> float:
    """Return the CPU time of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def idle() -> Iterator[Row]:
    """Yield a row for each process of a tap that does nothing, and one for the CPU of all."""
    with (
        tempfile.TemporaryDirectory() as folder,
        server() as upstream,
        listening(Path(folder), upstream) as (process, _),
    ):
        time.sleep(SETTLING_SECONDS)
        pids = {"supervisor": process.pid, **children(process.pid)}
        before = sum(map(cpu_seconds, pids.values()))
        time.sleep(IDLE_SECONDS)
        used = sum(map(cpu_seconds, pids.values())) - before
        for name, pid in pids.items():
            yield Row(f"tap: resident memory, idle: {name}", status(pid, "VmRSS"), 80, "MB")
    yield Row("tap: CPU of all its processes, idle", used / IDLE_SECONDS * 100, 0, "%", f"{IDLE_SECONDS} s")


def start() -> Row:
    """Measure from the start of `stenolog tap` to the command, and to its first answer."""

    def answer(connection: socket.socket) -> None:
        read_head(connection)
        connection.sendall(b"HTTP/1.1 204 No Content\r\n\r\n")

    begun, answered = [], []
    with tempfile.TemporaryDirectory() as folder, server(answer) as upstream:
        url = f"openai=http://127.0.0.1:{upstream.port}"
        words = [sys.executable, "-m", "stenolog", "tap", "--db", f"{folder}/a.db", "--upstream", url, "--"]
        for _ in range(STARTS):
            now = time.monotonic()
            ran = subprocess.run(
                [*words, sys.executable, "-c", NOW], capture_output=True, text=True, check=True
            )
            times = [float(each) - now for each in ran.stdout.split()]
            begun.append(times[0])
            answered.append(times[1])
        shutil.rmtree(folder, ignore_errors=True)
        Path(folder).mkdir()
    return Row(
        "tap: from its start to the first answer that the command has", median(answered), 1, "s",
        f"the command asks after {median(begun):.2f} s",
    )  # fmt: skip
