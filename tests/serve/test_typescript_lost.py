"""The client in TypeScript where a service or a program dies, or others write: nothing is lost or doubled."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

import stenolog
from stenolog import AssistantMessage, LlmError, ToolCall, ToolResult, UserMessage
from tests.llms.server import failure

from .fixed import open_fixed
from .story import ANSWER, provider, tell, tell_in_python
from .typescript import COMMAND, agent, environment, program, served


def test_a_service_that_cannot_start_or_dies_each_time_is_a_typed_error(tmp_path: Path) -> None:
    command = program(tmp_path, "await log.about().catch((error) => print([error.type, error.message]));")
    starts = tmp_path / "starts"
    dying = tmp_path / "dying"
    dying.write_text(f"#!/bin/sh\necho start >> {starts}\necho no disk >&2\nexit 3\n")
    dying.chmod(0o755)
    for service, words in (
        ("/no/such/program", "ENOENT"),
        (str(dying), "the service ended with exit code 3"),
    ):
        env = environment(tmp_path / "talks.db") | {"STENOLOG": service}
        done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60)
        type, message = json.loads(done.stdout)
        assert (done.returncode, type) == (0, "ConnectionError")
        assert words in message
    assert len(starts.read_text().split()) == 5
    assert "no disk" in done.stderr, "the words of the service are passed through"


def test_what_a_program_around_the_service_prints_goes_to_stderr(tmp_path: Path) -> None:
    command = program(tmp_path, "print((await log.about()).protocol);")
    wrapper = tmp_path / "wrapper"
    wrapper.write_text(f'#!/bin/sh\necho "[welcome]"\necho\nexec {COMMAND} "$@"\n')
    wrapper.chmod(0o755)
    env = environment(tmp_path / "talks.db") | {"STENOLOG": str(wrapper)}
    done = subprocess.run(command, env=env, capture_output=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"1\n", b"[welcome]\n\n")


def test_a_failed_model_call_is_tried_again_when_the_log_says_so(tmp_path: Path) -> None:
    with provider() as server:
        server.add(failure(503, {"error": {"message": "busy"}}, retry_after="0"))
        code, output = tell(agent(), tmp_path / "talks.db", f"{server.url}/v1", STENOLOG=COMMAND)
        assert (code, output) == (0, f"{ANSWER}\n")
        assert len(server.received) == 3
        assert server.received[0].content == server.received[1].content
    with stenolog.open(tmp_path / "talks.db") as log:
        kinds = [entry.event.kind for entry in log["story"]]
    assert kinds[:4] == ["mode_switch", "user_message", "llm_error", "assistant_message"]


@pytest.mark.slow
def test_calls_in_flight_survive_kills_of_the_service_and_are_written_once(tmp_path: Path) -> None:
    db = tmp_path / "talks.db"
    text = """
      for (let round = 0; round < 3; round++) {
        await log.about();
        print("kill");
        const events = (n) => [said(`${n}`), said(`${n}`, `m${round}-${n}`)];
        const sent = Array.from({ length: 20 }, (_, n) => log.append({ conversation, events: events(n) }));
        print((await Promise.all(sent)).length);
        await killed.next();
      }
    """
    command = program(tmp_path, f"const killed = process.stdin[Symbol.asyncIterator]();{text}")
    # Each round ends with the kill, also where the calls were faster: the service stays for it.
    with subprocess.Popen(
        command, env=environment(db), stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as node:
        assert node.stdin is not None
        assert node.stdout is not None
        for wait in (0.0, 0.01, 0.1):
            assert json.loads(node.stdout.readline()) == "kill"
            time.sleep(wait)
            os.kill(child_of(node.pid), signal.SIGKILL)
            assert json.loads(node.stdout.readline()) == 20
            node.stdin.write(b"killed\n")
            node.stdin.flush()
        node.stdin.close()
        assert node.wait(timeout=60) == 0
    with stenolog.open(db) as log:
        texts = [entry.event.text for entry in log["demo"] if isinstance(entry.event, UserMessage)]
    assert sorted(texts) == sorted(f"{number}" for number in range(20) for _ in range(6))


@pytest.mark.slow
def test_calls_over_http_are_sent_again_when_the_service_comes_back_and_are_written_once(
    tmp_path: Path,
) -> None:
    db = tmp_path / "talks.db"
    text = """
      const write = (n) => log.append({ conversation, events: [said(`${n}`), said(`${n}`, `m${n}`)] });
      await write("first");
      const sent = Array.from({ length: 40 }, (_, n) => write(n));
      await sent[5];
      print("kill");
      print((await Promise.all(sent)).length);
    """
    with ExitStack() as stack:
        process, url = stack.enter_context(served(db))
        command = program(tmp_path, text)
        node = stack.enter_context(
            subprocess.Popen(command, env=environment(db, url), stdout=subprocess.PIPE)
        )
        assert next_line(node) == "kill"
        process.kill()
        process.wait()
        stack.enter_context(served(db, int(url.rpartition(":")[2])))
        assert next_line(node) == 40
        assert node.wait(timeout=60) == 0
    with stenolog.open(db) as log:
        texts = [entry.event.text for entry in log["demo"] if isinstance(entry.event, UserMessage)]
    assert sorted(texts) == sorted(2 * ["first", *map(str, range(40))])


def child_of(pid: int) -> int:
    """Return the process id of a process's only child."""
    [child] = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return int(child)


TAIL = """
  const seen = [];
  for await (const entry of log.tail(conversation)) {
    seen.push(entry.position);
    print(entry.id);
    if (seen.length === 6) break;
  }
  print(seen);
"""


@pytest.mark.slow
def test_a_tail_over_http_goes_on_behind_what_it_has_seen_when_the_service_comes_back(tmp_path: Path) -> None:
    db = tmp_path / "talks.db"
    with ExitStack() as stack:
        first = stack.enter_context(served(db))
        port = int(first[1].rpartition(":")[2])
        node = stack.enter_context(tailing(tmp_path, environment(db, first[1])))
        log = stack.enter_context(stenolog.open(db))
        say(log, node, "m1", "m2", begun=True)
        first[0].kill()
        first[0].wait()
        log["demo"].append(UserMessage("while it was away"), id="m3")
        stack.enter_context(served(db, port))
        assert next_line(node) == "m3"
        say(log, node, "m4", "m5")
        assert next_line(node) == [1, 2, 3, 4, 5, 6]
        assert node.wait(timeout=30) == 0


@pytest.mark.slow
def test_a_tail_over_standard_input_goes_on_when_its_service_is_killed(tmp_path: Path) -> None:
    db = tmp_path / "talks.db"
    with tailing(tmp_path, environment(db)) as node, stenolog.open(db) as log:
        say(log, node, "m1", "m2", begun=True)
        os.kill(child_of(node.pid), signal.SIGKILL)
        log["demo"].append(UserMessage("while it was away"), id="m3")
        assert next_line(node) == "m3"
        say(log, node, "m4", "m5")
        assert next_line(node) == [1, 2, 3, 4, 5, 6]
        assert node.wait(timeout=30) == 0


@contextmanager
def tailing(folder: Path, env: dict[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    """Run a program that tells what comes into a conversation."""
    with subprocess.Popen(program(folder, TAIL), env=env, stdout=subprocess.PIPE) as node:
        try:
            yield node
        finally:
            node.kill()


def next_line(node: subprocess.Popen[bytes]) -> Any:
    """Return the next value that a program prints."""
    assert node.stdout is not None
    return json.loads(node.stdout.readline())


def say(log: stenolog.Log, node: subprocess.Popen[bytes], *ids: str, begun: bool = False) -> None:
    """Append messages, each when the program has seen the one before."""
    for number, id in enumerate(ids):
        log["demo"].append(UserMessage(id), id=id)
        if begun and not number:
            next_line(node)  # the opening entry
        assert next_line(node) == id


@pytest.mark.slow
def test_node_and_python_write_at_once_and_lose_nothing(tmp_path: Path) -> None:
    db = tmp_path / "talks.db"
    text = """
      for (let n = 0; n < 100; n++) await log.append({ conversation, events: [said(`${n}`, `node${n}`)] });
    """

    def write() -> None:
        with stenolog.open(db) as log:
            for number in range(100):
                log["demo"].append(UserMessage(f"{number}"), id=f"python{number}")

    writer = threading.Thread(target=write)
    writer.start()
    subprocess.run(program(tmp_path, text), env=environment(db), check=True, timeout=60)
    writer.join()
    with stenolog.open(db) as log:
        ids = [entry.id for entry in log["demo"]][1:]
    for name in ("node", "python"):
        assert [id for id in ids if id.startswith(name)] == [f"{name}{number}" for number in range(100)]
    assert len(ids) == 200


@pytest.mark.slow
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("side", ["service", "client"])
def test_killed_at_any_message_the_program_goes_on_and_the_log_has_the_same_bytes(
    side: str, when: str, tmp_path: Path
) -> None:
    with provider() as server, open_fixed(tmp_path / "python.db") as log:
        tell_in_python(log, f"{server.url}/v1")
        expected, requests = log["story"].export("jsonl"), [each.content for each in server.received]
    number, is_over = 0, False
    while not is_over:
        number += 1
        db, counted = tmp_path / f"{number}.db", tmp_path / f"{number}.count"
        with provider() as server:
            codes: list[int] = []
            while not codes or codes[-1] != 0:
                assert len(codes) < 3, f"message {number}: {codes}"
                deaths = f"{side} {when} {number} {counted}"
                code, output = tell(agent(), db, f"{server.url}/v1", DEATHS=deaths)
                codes.append(code)
            assert output == f"{ANSWER}\n"
            sent = [each.content for each in server.received]
        is_over = counted.stat().st_size < number
        assert codes == ([0] if side == "service" or is_over else [-signal.SIGKILL, 0])
        with open_fixed(db) as log:
            assert log["story"].export("jsonl") == expected, f"message {number}"
        # A request whose answer was not written is sent again, byte for byte.
        assert list(dict.fromkeys(sent)) == requests
        assert len(sent) <= 3
    assert number > 12


DRAFT = """
  await log.join({ conversation, agent: "coder", model: "gpt-5.2" });
  await log.append({ conversation, events: [said("讲个故事", "m1")] });
  for await (const job of log.work({ conversation })) {
    await job.draft("从前有");
    await job.draft("一只猫🐈");
    print(job.claimed.fence);
    await new Promise(() => {});
  }
"""
GO_ON = """
  for await (const job of log.work({ conversation })) {
    print(job.claimed.attempt);
    const chunk = (delta) => ({ object: "chat.completion.chunk", choices: [{ delta }] });
    const chunks = ["从前有", "一只狗🐕"].map((content) => chunk({ content }));
    await job.settle({ chunks, failure: { status: 401, message: "the key has expired" } });
  }
  await log.append({ conversation, events: [said("继续", "m2")] });
  const { body } = await log.request({ conversation, agent: "coder" });
  print(body.messages.map((message) => message.content).join("|"));
"""


@pytest.mark.slow
def test_what_had_streamed_is_in_the_log_after_a_kill_and_in_the_next_request_after_a_failure(
    tmp_path: Path,
) -> None:
    db = tmp_path / "talks.db"
    with subprocess.Popen(program(tmp_path, DRAFT), env=environment(db), stdout=subprocess.PIPE) as node:
        next_line(node)
        node.kill()
    command = program(tmp_path, GO_ON)
    done = subprocess.run(command, env=environment(db), capture_output=True, timeout=60, check=True)
    attempt, messages = map(json.loads, done.stdout.decode().splitlines())
    # The call that was cut off by the kill is made again by itself, and the one that failed is not.
    assert attempt == 2
    assert "从前有一只猫" not in messages
    assert re.search("讲个故事.*从前有一只狗🐕.*继续", messages)
    with stenolog.open(db) as log:
        errors = [entry.event for entry in log["demo"] if isinstance(entry.event, LlmError)]
    assert [(each.text, each.category) for each in errors] == [
        ("从前有一只猫🐈", "process_exited"),
        ("从前有一只狗🐕", "unauthorized"),
    ]


@pytest.mark.slow
def test_an_outcome_is_settled_though_the_service_was_killed_while_the_tool_ran(tmp_path: Path) -> None:
    db = tmp_path / "talks.db"
    with stenolog.open(db) as log:
        call = ToolCall(id="c1", name="look", arguments="{}")
        log["demo"].join("coder", model="gpt-5.2")
        log["demo"].append(UserMessage("look"))
        log["demo"].append(AssistantMessage(agent="coder", parts=[call]))
    text = """
      for await (const job of log.work({ conversation }, AbortSignal.timeout(3000))) {
        if (!job.claimed.call) break;
        print("kill");
        await new Promise((resolve) => process.stdin.once("data", resolve));
        process.stdin.pause();
        await job.settle({ output: { text: "a cat" } });
      }
    """
    command = program(tmp_path, text)
    with subprocess.Popen(
        command, env=environment(db), stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as node:
        assert next_line(node) == "kill"
        os.kill(child_of(node.pid), signal.SIGKILL)
        assert node.stdin is not None
        node.stdin.write(b"go on\n")
        node.stdin.close()
        assert node.wait(timeout=60) == 0
    with stenolog.open(db) as log:
        results = [entry.event.text for entry in log["demo"] if isinstance(entry.event, ToolResult)]
    assert results == ["a cat"]
