"""`kill -9` of a relay at random moments, between clients that ask again and a server that notes who came."""

from __future__ import annotations

import hashlib
import http.client
import json
import random
import socket
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from tests.tap.given import Recorded, Relay, relay, server

CLIENTS = 6
CHUNKS = 8
CHUNK_SECONDS = 0.01
BODY_BYTES = (300, 5_000, 80_000)


@dataclass
class Story:
    """Counts, and the faults: empty if nothing was lost."""

    kills: int = 0
    arrived: dict[str, bytes] = field(default_factory=dict)
    received: dict[str, list[tuple[float, int]]] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)
    killed_at: list[float] = field(default_factory=list)
    oldest_lost: float = 0.0
    """Seconds: how long before a kill the client had a chunk that is not in the journal, at most."""


def body_of(name: str) -> bytes:
    """Return the body of a request, which its name decides."""
    size = BODY_BYTES[int(name.partition("-")[2]) % len(BODY_BYTES)]
    return (hashlib.sha256(name.encode()).hexdigest().encode() * (size // 64 + 1))[:size]


def answer_of(name: str) -> list[bytes]:
    """Return the parts of an answer."""
    return [f"data: {name} {number}\n\n".encode() for number in range(CHUNKS)]


def killed(folder: Path, kills: int, seed: int) -> Story:
    """Kill a relay so many times while clients ask, and look for every request in the journal."""
    story, chance = Story(kills), random.Random(seed)
    ending = threading.Event()
    with server() as upstream, relay(folder, upstream.port) as running:
        upstream.handler = lambda connection: _answer(connection, story)
        asking = [threading.Thread(target=_ask, args=[running, at, ending, story]) for at in range(CLIENTS)]
        for thread in asking:
            thread.start()
        for generation in range(2, kills + 2):
            before = story.counts["answers"]
            while story.counts["answers"] == before and not story.faults:
                time.sleep(0.005)  # the relay is up again, and serves
            time.sleep(chance.uniform(0, 0.15))
            running.process.kill()
            story.killed_at.append(time.monotonic())
            running.process.wait()
            running.start(generation)
        ending.set()
        for thread in asking:
            thread.join()
        running.stop()
        if printed := running.printed():
            story.faults.append(f"the relay printed: {printed[-2000:]}")
        _check(running.exchanges(), story)
    return story


def _answer(connection: socket.socket, story: Story) -> None:
    """Note each request with its first byte, and answer it in chunks."""
    try:
        while data := connection.recv(1 << 20):
            while b"\r\n\r\n" not in data:
                more = connection.recv(1 << 20)
                if not more:
                    story.counts["heads that were cut"] += 1
                    return
                data += more
            head, _, body = data.partition(b"\r\n\r\n")
            name = head.split(b" ")[1].rpartition(b"/")[2].decode()
            story.arrived[name] = b""
            while len(body) < len(body_of(name)) and (more := connection.recv(1 << 20)):
                body += more
            story.arrived[name] = body
            connection.sendall(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
            for part in answer_of(name):
                connection.sendall(b"%x\r\n%s\r\n" % (len(part), part))
                time.sleep(CHUNK_SECONDS)
            connection.sendall(b"0\r\n\r\n")
    except OSError:
        story.counts["answers that were cancelled"] += 1


def _ask(running: Relay, at: int, ending: threading.Event, story: Story) -> None:
    """Ask again and again, after a failure at once and with another name."""
    number = 0
    connection = http.client.HTTPConnection(running.host, timeout=30)
    while not ending.is_set():
        number += 1
        name = f"{at}-{number}"
        received: list[tuple[float, int]] = []
        story.received[name] = received
        try:
            connection.request("POST", f"{running.base}/v1/{name}", body=body_of(name))
            answer = connection.getresponse()
            if answer.status != 200:
                story.faults.append(f"{name}: {answer.status} {answer.read()!r}")
                ending.set()
                return
            content = b""
            while part := answer.read1(65536):
                content += part
                received.append((time.monotonic(), len(content)))
            if content != b"".join(answer_of(name)):
                story.faults.append(f"{name}: another answer: {content!r}")
            story.counts["answers"] += 1
        except (OSError, http.client.HTTPException):
            story.counts["requests that a kill has cut"] += 1
            connection.close()
    connection.close()


def _check(exchanges: list[Recorded], story: Story) -> None:
    """Compare the journal with what the server got and what the clients had."""
    recorded = {each.json("request")["path"].rpartition("/")[2]: each for each in exchanges}
    for name, sent in story.arrived.items():
        found = recorded.get(name)
        if found is None or "ready" not in found.kinds:
            story.faults.append(f"{name}: the server had a part of it, and the journal has not")
        elif found.content("body") != body_of(name):
            story.faults.append(f"{name}: another body in the journal")
        elif found.json("ready")["sha256"] != hashlib.sha256(body_of(name)).hexdigest():
            story.faults.append(f"{name}: another digest in the journal")
        elif sent not in (b"", body_of(name)) and not body_of(name).startswith(sent):
            story.faults.append(f"{name}: the server had another body")
    for name, each in recorded.items():
        _check_answer(name, each, story)
    story.counts["requests"] = len(story.arrived)


def _check_answer(name: str, recorded: Recorded, story: Story) -> None:
    content, expected = recorded.content("data"), b"".join(answer_of(name))
    if not expected.startswith(content):
        story.faults.append(f"{name}: another answer in the journal: {content!r}")
    ends = [json.loads(record.payload)["reason"] for record in recorded.records if record.kind == "end"]
    # A kill may fall between the last byte of an answer and its end.
    if ends != ["relay-stopped"] and (len(ends) != 1 or (ends == [""]) != (content == expected)):
        story.faults.append(f"{name}: ends with {ends} after {len(content)} of {len(expected)} bytes")
    story.counts["partial answers"] += b"" < content < expected and content != expected
    generation = recorded.records[0].exchange >> 32
    for at, size in story.received.get(name, []):
        if size > len(content) and generation <= len(story.killed_at):
            story.counts["chunks that were younger than the kill"] += 1
            # The client may have read it after the kill: it was on its way then.
            story.oldest_lost = max(story.oldest_lost, story.killed_at[generation - 1] - at)
