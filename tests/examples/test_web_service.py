"""The example of a web service: nothing is lost, said twice or held up, over real connections."""

from __future__ import annotations

import asyncio
import os
import random
import re
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from urllib.parse import urlsplit

import httpx
import pytest
import yaml

import stenolog
from examples.web_service.team import team
from stenolog.workers import Worker
from tests.examples import harness
from tests.postgres.server import NEWEST, Server
from tests.workers.given import jobs_dropped

from .web_service import PATIENCE, Event, events, parsed, positions, process, say, up_to, web, whole

COMPOSE = harness.ROOT / "examples" / "web_service" / "compose.yaml"


@pytest.fixture(scope="module")
def address(postgres: Callable[[str], Server]) -> Iterator[str]:
    """Yield the address of a log in PostgreSQL."""
    server = postgres(NEWEST)
    with server.schema() as found:
        yield found
        jobs_dropped(server, found)


@contextmanager
def working(address: str) -> Iterator[None]:
    """Run a worker in a thread, with the answers of the example."""
    with stenolog.open(address) as log:
        worker, loop = Worker(log, team()), asyncio.new_event_loop()
        thread = threading.Thread(target=lambda: loop.run_until_complete(worker.run()))
        thread.start()
        try:
            yield
        finally:
            loop.call_soon_threadsafe(worker.stop)
            thread.join(PATIENCE)
            loop.close()


@pytest.fixture(scope="module")
def url(address: str) -> Iterator[str]:
    """Yield the URL of a web process; another process, this one, has the worker."""
    with web(address) as found, working(address):
        yield found


def test_an_answer_streams_in_and_stands_once_at_its_end(url: str) -> None:
    with closing(events(url, "streams")) as stream:
        assert say(url, "streams", "hello", "m-1") == 2
        found = up_to(stream, "assistant_message")

    assert positions(found) == [1, 2, 3, 4]
    said = "".join(event.data["text"] for event in found if event.kind == "piece")
    assert len(said) > 20
    assert found[-1].data["text"].startswith(said)


def test_a_message_that_is_posted_again_has_the_same_position(url: str) -> None:
    assert [say(url, "again", "hello", "m-1") for _ in range(3)] == [2, 2, 2]
    other = httpx.post(f"{url}/talks/again", json={"text": "another", "id": "m-1"})
    assert (other.status_code, other.json()["error"]) == (409, "DuplicateIdError")


def test_a_stopped_answer_ends_within_half_a_second(url: str) -> None:
    with closing(events(url, "stopped")) as stream:
        say(url, "stopped", "hello " * 100)
        up_to(stream, "piece")
        assert httpx.post(f"{url}/talks/stopped/cancel").status_code == 202
        began = time.monotonic()
        found = up_to(stream, "llm_error")
        # The bound of acceptance, and as much again for processors that others use.
        assert time.monotonic() - began < 1.0

    assert found[-1].data["who"] == "helper"
    assert httpx.post(f"{url}/talks/stopped/cancel").status_code == 409


@pytest.mark.parametrize(("approved", "result"), [(True, "it is deployed"), (False, "refused")])
def test_a_call_waits_for_the_verdict_of_a_person(url: str, approved: bool, result: str) -> None:
    name = f"verdict-{approved}"
    with closing(events(url, name)) as stream:
        say(url, name, "deploy it")
        (call,) = up_to(stream, "assistant_message")[-1].data["calls"]
        path = f"{url}/talks/{name}/calls/{call['entry']}/{call['index']}"
        assert httpx.post(path, json={"approved": approved}).status_code == 202
        found = up_to(stream, "tool_result")

    assert result in found[-1].data["text"]
    assert found[-1].data["call"] == [call["entry"], call["index"]]


def test_a_position_that_was_never_reached_is_refused(url: str) -> None:
    wrong = httpx.get(f"{url}/talks/none/events", headers={"Last-Event-ID": "7"})

    assert (wrong.status_code, wrong.json()["error"]) == (404, "PositionNotFoundError")


def test_a_client_that_does_not_read_holds_up_no_other(url: str) -> None:
    say(url, "slow", "x" * 2_000_000)  # more than the buffers between them hold
    with idle(url, "slow"), closing(events(url, "slow", 2)) as stream:
        said = say(url, "slow", "hello")
        assert said in positions(up_to(stream, "user_message"))


@contextmanager
def idle(url: str, name: str) -> Iterator[None]:
    """Ask for the stream of a conversation, and read nothing of it."""
    with socket.create_connection((urlsplit(url).hostname, urlsplit(url).port)) as connection:
        connection.sendall(f"GET /talks/{name}/events HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        yield


async def cut_at_random(url: str, name: str, end: int, chance: random.Random) -> tuple[list[int], int]:
    """Follow up to a position over connections that are cut anywhere; return the positions, and the cuts."""
    found: list[int] = []
    for cuts in range(10_000):
        read = await part(f"{url}/talks/{name}/events", found[-1] if found else 0, end, chance)
        found += positions([*parsed(iter(read.splitlines()))])
        if found and found[-1] >= end:
            return found, cuts
    raise AssertionError(f"at {found[-1:]} after 10,000 connections")


async def part(url: str, after: int, end: int, chance: random.Random) -> str:
    """Return the events of a stream up to a position, or until it is cut after some bytes."""
    asked, got, left = urlsplit(url), b"", chance.randrange(1, 3_000)
    reader, writer = await asyncio.open_connection(asked.hostname, asked.port)
    last = f"Last-Event-ID: {after}\r\n" if after else ""
    writer.write(f"GET {asked.path} HTTP/1.0\r\nHost: x\r\n{last}\r\n".encode())
    try:
        is_end = re.compile(rb"^id: %d\n(.+\n)+\n" % end, re.MULTILINE)
        while left > 0 and not is_end.search(got) and (piece := await reader.read(left)):
            left, got = left - len(piece), got + piece
        # An event that was cut is none.
        return got.rpartition(b"\n\n")[0].decode() + "\n\n"
    finally:
        # Without a word to the server, as where a network is gone.
        writer.transport.abort()


async def reconnecting(url: str, address: str, connections: int, entries: int) -> int:
    """Have so many connections at once, cut again and again, while their conversations grow.

    Compare what came with the log, and return the number of cuts.
    """
    async with stenolog.open_async(address) as log:
        names = [f"cut-{connections}-{number}" for number in range(max(2, connections // 20))]
        async with asyncio.TaskGroup() as group:
            followers = [
                group.create_task(
                    cut_at_random(url, names[number % len(names)], entries + 1, random.Random(number))
                )
                for number in range(connections)
            ]
            for number in range(entries):
                for name in names:
                    await log[name].append(stenolog.UserMessage(f"{number} " + "x" * (number % 7) * 20))
    found = [follower.result() for follower in followers]
    assert [each for each, _ in found] == [[*range(1, entries + 2)]] * connections
    return sum(cuts for _, cuts in found)


def test_streams_that_are_cut_anywhere_go_on_exactly(url: str, address: str) -> None:
    assert asyncio.run(reconnecting(url, address, 10, 60)) > 20


@pytest.mark.slow
def test_a_thousand_streams_that_are_cut_anywhere_go_on_exactly(url: str, address: str) -> None:
    assert asyncio.run(reconnecting(url, address, 1_000, 30)) > 1_000


@pytest.mark.slow
def test_the_whole_example_answers_from_any_of_its_processes(address: str) -> None:
    with whole("--db", address) as example:
        for number in range(8):
            with closing(events(example.url, f"whole-{number}")) as stream:
                say(example.url, f"whole-{number}", "hello")
                found: list[Event] = up_to(stream, "assistant_message")
            assert positions(found) == [1, 2, 3, 4]


@pytest.mark.slow
def test_a_message_is_answered_though_all_workers_are_killed_in_the_middle(address: str) -> None:
    with whole("--db", address, PAUSE="0.2") as example, closing(events(example.url, "killed")) as stream:
        say(example.url, "killed", "hello")
        begun = up_to(stream, "piece")
        killed = example.workers
        assert len(killed) == 2
        for pid in killed:
            os.kill(pid, signal.SIGKILL)
        found = begun + up_to(stream, "assistant_message")

    assert positions(found) == [*range(1, len(positions(found)) + 1)]
    assert [event.data["kind"] for event in found if event.id].count("assistant_message") == 1
    assert found[-1].data["text"].startswith("You said: hello.")


@pytest.mark.slow
def test_the_commands_of_the_compose_file_run(address: str) -> None:
    services = yaml.safe_load(COMPOSE.read_text())["services"]
    assert set(services) == {"db", "web", "worker"}
    for name in ("web", "worker"):
        python, module, *command = services[name]["command"]
        assert (python, module) == ("python", "-m")
        assert services[name]["environment"]["STENOLOG_DB"] == "postgresql://talks:talks@db/talks"
        command = [word.replace("0.0.0.0", "127.0.0.1").replace("8000", "0") for word in command]
        with process(*command, STENOLOG_DB=address) as running, pytest.raises(subprocess.TimeoutExpired):
            running.wait(8)
