"""A chat with a tool in 16 lines, over the real SDKs: killed and started again, it goes on."""

from __future__ import annotations

import ast
import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import stenolog
from stenolog.context import Budget
from stenolog.requests import proofs
from tests.forked import python
from tests.llms.conftest import server as server
from tests.llms.server import SILENCE, Reply, Server, failure
from tests.llms.stand_in import ADVICE, completion, environment, message

ROOT = Path(__file__).parent.parent.parent
LINES = 16


class Loop(NamedTuple):
    """An example: its file, an answer that calls the tool, and one in words."""

    file: str
    calls: dict[str, Any]
    says: dict[str, Any]


LOOPS = [
    Loop("own_loop", completion(calls=True), completion(ADVICE)),
    Loop("own_loop_anthropic", message(calls=True), message(ADVICE)),
]
every = pytest.mark.parametrize("loop", LOOPS, ids=lambda loop: loop.file)


@pytest.fixture
def started() -> Iterator[list[subprocess.Popen[str]]]:
    """Return the processes that a test starts; none of them outlives it."""
    processes: list[subprocess.Popen[str]] = []
    yield processes
    for process in processes:
        process.kill()
        process.communicate()


def start(loop: Loop, folder: Path, server: Server) -> subprocess.Popen[str]:
    """Start the example as a person does."""
    return subprocess.Popen(
        python(str(ROOT / "examples" / f"{loop.file}.py")),
        cwd=folder,
        env={**os.environ, **environment(server), "PYTHONPATH": str(ROOT)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@every
def test_it_is_a_program_of_sixteen_lines(loop: Loop) -> None:
    source = (ROOT / "examples" / f"{loop.file}.py").read_text()
    said = ast.get_docstring(ast.parse(source))
    lines = [line for line in source.splitlines() if line.strip()]

    assert said is not None
    assert len(lines) - len(said.splitlines()) <= LINES


def test_the_readme_shows_it_word_for_word() -> None:
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    source = (ROOT / "examples" / "own_loop.py").read_text()

    assert source.partition('"""\n\n')[2] in blocks


def at_the_second_request(loop: Loop, folder: Path, server: Server) -> subprocess.Popen[str]:
    """Start the example, and return it when it waits for the answer behind its tool."""
    server.add(failure(200, loop.calls), SILENCE)
    process = start(loop, folder, server)
    assert process.stdin is not None
    process.stdin.write("Do I need an umbrella in Kyiv?\n")
    process.stdin.flush()
    deadline = time.monotonic() + 60
    while len(server.received) < 2 and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.02)
    return process


@every
def test_killed_at_a_request_and_started_again_it_goes_on(
    loop: Loop, tmp_path: Path, server: Server, started: list[subprocess.Popen[str]]
) -> None:
    started.append(first := at_the_second_request(loop, tmp_path, server))
    first.kill()
    first.communicate()

    server.add(failure(200, loop.says), failure(200, loop.says))
    started.append(again := start(loop, tmp_path, server))
    out, err = again.communicate("Sure?\n", timeout=60)

    assert out.count(ADVICE) == 2
    assert (again.returncode, err) == (0, "")
    with stenolog.open(tmp_path / "chat.db") as log:
        entries = [*log["chat"].entries()]
        assert [entry.event.kind for entry in entries] == [
            "mode_switch",
            "user_message",
            "assistant_message",
            "tool_result",
            "assistant_message",
            "user_message",
            "assistant_message",
        ]
        assert {proof.outcome for proof in proofs(entries)} == {"same"}
    assert server.bodies[1] == server.bodies[2]
    assert len(server.bodies) == 4


@every
def test_stopped_by_a_person_it_ends_without_a_traceback_and_goes_on_when_it_is_started_again(
    loop: Loop, tmp_path: Path, server: Server, started: list[subprocess.Popen[str]]
) -> None:
    started.append(first := at_the_second_request(loop, tmp_path, server))
    first.send_signal(signal.SIGINT)
    out, err = first.communicate(timeout=60)

    assert (first.returncode, err) == (0, "")
    assert out.splitlines() == ["", "> ['weather']"]

    server.add(failure(200, loop.says))
    started.append(again := start(loop, tmp_path, server))
    out, err = again.communicate("", timeout=60)

    assert (again.returncode, out, err) == (0, f"{ADVICE}\n\n> ", "")
    assert server.bodies[1] == server.bodies[2]


@every
def test_a_question_that_cannot_be_sent_is_answered_with_the_reason(
    loop: Loop, tmp_path: Path, server: Server, started: list[subprocess.Popen[str]]
) -> None:
    with stenolog.open(tmp_path / "chat.db") as log:
        log["chat"].join("guide", policy=Budget(tokens=20))
    started.append(process := start(loop, tmp_path, server))
    out, err = process.communicate("Do I need an umbrella in Kyiv?\n", timeout=60)

    assert "over budget (" in out
    assert "position 3 (latest-message" in out
    assert (process.returncode, err, server.bodies) == (0, "", [])


@every
def test_a_server_that_refuses_ends_it_and_the_question_stays(
    loop: Loop, tmp_path: Path, server: Server, started: list[subprocess.Popen[str]]
) -> None:
    server.otherwise = lambda _: Reply([b'{"error": {"message": "no"}}'], status=401)
    started.append(process := start(loop, tmp_path, server))
    _, err = process.communicate("Rain?\n", timeout=60)

    assert "AuthenticationError" in err
    with stenolog.open(tmp_path / "chat.db") as log:
        api = "anthropic" if loop.file.endswith("anthropic") else "openai-chat"
        assert log["chat"].request("guide", api=api).sendable
