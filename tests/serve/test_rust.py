"""`clients/rust`: an agent's own loop in Rust, over a pipe."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Literal

import pytest

import stenolog
from stenolog import LlmError
from tests.llms.server import CUT, JSON, Reply, failure
from tests.serve import rust
from tests.serve.client import Client, RemoteError, said
from tests.serve.fixed import open_fixed
from tests.serve.story import ANSWER, provider, tell

pytestmark = pytest.mark.slow


def export(db: Path) -> str:
    """Return the log of the story as JSONL."""
    with open_fixed(db) as log:
        return log["story"].export("jsonl")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[int, str]:
    """Return how many messages the story takes, and its log, where nobody dies."""
    folder = tmp_path_factory.mktemp("whole")
    never = f"service before 1000 {folder / 'count'}"
    with provider() as server:
        told = tell(rust.agent(), folder / "talks.db", f"{server.url}/v1", DEATHS=never)
    assert told == (0, f"{ANSWER}\n")
    return (folder / "count").stat().st_size, export(folder / "talks.db")


def test_its_own_tests_pass_the_checks_of_the_document_among_them() -> None:
    done = rust.run(rust.crate(), "test", "--offline")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "test result: ok. 7 passed; 0 failed; 1 ignored" in done.stdout


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("side", ["service", "client"])
def test_a_kill_at_any_message_ends_in_the_same_log(
    side: Literal["service", "client"], when: str, whole: tuple[int, str], tmp_path: Path
) -> None:
    messages, log = whole
    assert messages > 10
    for number in range(1, messages + 1):
        db = tmp_path / f"{number}.db"
        deaths = f"{side} {when} {number} {tmp_path / str(number)}"
        with provider() as server:
            codes = [*_codes(db, f"{server.url}/v1", deaths)]
        # A service that died is started again by the program, and a program that died by whoever runs it.
        assert codes == ([0] if side == "service" else [-9, 0]), deaths
        assert export(db) == log, deaths


def _codes(db: Path, base: str, deaths: str) -> Iterator[int]:
    while True:
        code, text = tell(rust.agent(), db, base, DEATHS=deaths)
        yield code
        if code != -9:
            assert text == f"{ANSWER}\n"
            return


def test_a_failure_of_the_provider_is_tried_again_at_its_time(tmp_path: Path) -> None:
    with provider() as server:
        cut = Reply([b'{"choices": [{"mess'], headers=JSON)
        server.add(failure(429, {"error": {"message": "slow down"}}, retry_after="1"), CUT, cut)
        told = tell(rust.agent(), tmp_path / "talks.db", f"{server.url}/v1", STENOLOG=rust.STENOLOG)
        # Each attempt is sent the same, byte for byte.
        assert len({each.content for each in server.received[:4]}) == 1
        assert len(server.received) == 5
    assert told == (0, f"{ANSWER}\n")
    with stenolog.open(tmp_path / "talks.db") as log:
        _, _, first, *more, answer, _, _, _ = log["story"]
        failed = [each.event for each in (first, *more) if isinstance(each.event, LlmError)]
        assert [each.category for each in failed] == ["rate_limited", "network", "network"]
        for error, then in zip(failed, (*more, answer), strict=True):
            assert error.retry_at is not None
            assert error.retry_at <= then.time


def test_a_program_in_rust_and_one_in_python_lose_nothing_of_each_other(tmp_path: Path) -> None:
    db, refusals = tmp_path / "talks.db", list[str]()
    command = ("a_hundred_messages_beside_another_writer", "--", "--ignored", "--exact")
    with Client(db) as client:
        client.call("append", conversation="demo", events=[said("first", "first")])
        running = subprocess.Popen(
            rust.command("test", "--offline", "--test", "document", *command),
            cwd=rust.crate(),
            env=rust.environment(rust.crate(), DATABASE=str(db)),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        number = 0
        while number < 100 or running.poll() is None:
            position = client.call("state", conversation="demo")["position"]
            message = said("Hello from Python", f"python{number}")
            try:
                client.call("append", conversation="demo", events=[message], expected=position)
                number += 1
            except RemoteError as error:
                refusals.append(error.type)
        output, _ = running.communicate()
        assert running.returncode == 0, output.decode()
        entries = client.call("entries", conversation="demo", limit=10_000)["entries"]
    for name, wanted in (("rust", 100), ("python", number)):
        mine = [each["id"] for each in entries if each["id"].startswith(name)]
        assert mine == [f"{name}{each}" for each in range(wanted)]
    assert {*refusals} == {"VersionConflictError"}


def test_two_programs_on_one_conversation_do_its_work_once(tmp_path: Path) -> None:
    wanted = ["question", "answer-2", "result-3-0", "result-3-1", "answer-5"]
    for number in range(6):
        db = tmp_path / f"{number}.db"

        def told(db: Path, base: str) -> tuple[int, str]:
            return tell(rust.agent(), db, base, STENOLOG=rust.STENOLOG)

        with provider() as server, ThreadPoolExecutor(2) as threads:
            both = [threads.submit(told, db, f"{server.url}/v1") for _ in range(2)]
            assert [each.result() for each in both] == [(0, f"{ANSWER}\n")] * 2
        with stenolog.open(db) as log:
            assert [entry.id for entry in log["story"]][1:] == wanted
