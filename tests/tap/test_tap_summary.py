"""The end of `stenolog tap`: what was recorded where, and what to look at next; with --redact, no secret."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import stenolog
from stenolog.requests import proofs
from tests.file_bytes import files_with
from tests.forked import python
from tests.tap.given import Server, read, read_head, server
from tests.tap.running_tap import environment

TOKEN = "ghp_0123456789abcdefghijklmnopqrstuvwxyz"
ANSWER = {
    "id": "chatcmpl-1",
    "model": "gpt-5",
    "choices": [
        {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": f"It is {TOKEN}."}},
        {"index": 1, "finish_reason": "stop", "message": {"role": "assistant", "content": "Is it?"}},
    ],
    "usage": {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5},
}
CLIENT = """
import json, os, urllib.request
body = json.dumps({"model": "gpt-5", "messages": [{"role": "user", "content": "My token is TOKEN"}]})
url = os.environ["OPENAI_BASE_URL"] + "/chat/completions"
request = urllib.request.Request(url, body.encode(), {"content-type": "application/json"})
print(urllib.request.urlopen(request).read().decode())
""".replace("TOKEN", TOKEN)


@pytest.fixture
def received() -> list[bytes]:
    return []


@pytest.fixture
def upstream(received: list[bytes]) -> Iterator[Server]:
    def speak(connection: socket.socket) -> None:
        while head := read_head(connection):
            received.append(
                read(connection, int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0]))
            )
            content = json.dumps(ANSWER).encode()
            head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"
            connection.sendall(b"%scontent-length: %d\r\n\r\n%s" % (head, len(content), content))

    with server(speak) as running:
        yield running


def run(folder: Path, upstream: Server, *words: str, code: str = CLIENT) -> subprocess.CompletedProcess[str]:
    """Run a client in a folder of its own behind a tap that records beside it."""
    url = f"openai=http://127.0.0.1:{upstream.port}/v1"
    command = python("-m", "stenolog", "tap", "--db", str(folder / "log.db"), "--upstream", url)
    (folder / "work").mkdir(exist_ok=True)
    return subprocess.run(
        [*command, *words, "--", sys.executable, "-c", code],
        cwd=folder / "work", env=environment(), capture_output=True, text=True, check=True,
    )  # fmt: skip


def test_the_end_names_what_was_recorded_the_secrets_in_it_and_the_next_command(
    tmp_path: Path, upstream: Server
) -> None:
    ran = run(tmp_path, upstream)

    with stenolog.open(tmp_path / "log.db") as log:
        (name,) = log.names()
    assert json.loads(ran.stdout) == ANSWER
    assert ran.stderr.splitlines() == [
        f"● 1 request in 1 conversation, in {tmp_path / 'log.db'}",
        f"  {name}: 1 request",
        f"! github-token in {name} at 2: `stenolog erase` removes it",
        f"! not recorded of the answer {name}@3: 1 further choice",
        f"next: stenolog timeline {name} --db {tmp_path / 'log.db'}",
    ]


def test_a_command_that_asks_no_model_is_told_so(tmp_path: Path, upstream: Server) -> None:
    ran = run(tmp_path, upstream, code="print('hello')")

    assert (ran.stdout, ran.stderr) == ("hello\n", "! no request asked a model through the tap\n")


def test_a_conversation_knows_the_folder_and_the_branch_that_the_command_worked_in(
    tmp_path: Path, upstream: Server
) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "HEAD").write_text("ref: refs/heads/fix/parser\n")

    run(tmp_path, upstream)
    listed = subprocess.run(
        python("-m", "stenolog", "ls", "--json", "--db", str(tmp_path / "log.db")),
        env=environment(), capture_output=True, text=True, check=True,
    )  # fmt: skip

    (row,) = json.loads(listed.stdout)["data"]
    assert (row["folder"], row["branch"]) == (os.fspath(tmp_path / "work"), "fix/parser")


def test_redacted_secrets_reach_the_provider_and_the_client_and_no_file(
    tmp_path: Path, upstream: Server, received: list[bytes]
) -> None:
    ran = run(tmp_path, upstream, "--redact")

    assert TOKEN in ran.stdout
    assert [TOKEN.encode() in content for content in received] == [True]
    assert files_with(tmp_path, TOKEN[4:20].encode()) == []
    with stenolog.open(tmp_path / "log.db") as log:
        (name,) = log.names()
        said = [getattr(entry.event, "text", "") for entry in log[name].entries()][1:]
        (proof,) = proofs(log[name].entries(), blobs=log.blobs)
    assert said == ["My token is [redacted github-token]", "It is [redacted github-token]."]
    assert (proof.outcome, proof.reason) == ("not-provable", "redacted before it was kept: github-token")


def test_a_request_without_secrets_is_still_proved_under_redact(tmp_path: Path, upstream: Server) -> None:
    run(tmp_path, upstream, "--redact", code=CLIENT.replace(TOKEN, "lost"))

    with stenolog.open(tmp_path / "log.db") as log:
        (name,) = log.names()
        (proof,) = proofs(log[name].entries(), blobs=log.blobs)
    assert proof.outcome == "same"


def test_a_large_body_is_redacted_and_recorded(tmp_path: Path, upstream: Server) -> None:
    code = CLIENT.replace("My token is", '" + 17 * 2**20 * "x" + " My token is')

    run(tmp_path, upstream, "--redact", code=code)

    with stenolog.open(tmp_path / "log.db") as log:
        (name,) = log.names()
        said = [getattr(entry.event, "text", "") for entry in log[name].entries()][1:]
    assert said[0] == 17 * 2**20 * "x" + " My token is [redacted github-token]"


@pytest.mark.skipif(sys.platform == "darwin", reason="file systems of macOS take UTF-8 alone")
def test_a_command_runs_in_a_folder_whose_name_is_not_utf_8(tmp_path: Path, upstream: Server) -> None:
    (folder := tmp_path / os.fsdecode(b"caf\xe9")).mkdir()
    command = python("-m", "stenolog", "tap", "--db", str(tmp_path / "log.db"))
    script = "raise SystemExit(7)"

    ran = subprocess.run(
        [*command, "--", sys.executable, "-c", script],
        cwd=folder, env=environment(), capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert (ran.returncode, ran.stderr) == (7, "! no request asked a model through the tap\n")


MANY = """
import json, os, urllib.request
url = os.environ["OPENAI_BASE_URL"] + "/chat/completions"
for number in range(13):
    body = json.dumps({"model": "gpt-5", "messages": [{"role": "user", "content": f"Question {number}"}]})
    request = urllib.request.Request(url, body.encode(), {"content-type": "application/json"})
    urllib.request.urlopen(request).read()
"""


def test_the_end_counts_the_conversations_that_it_does_not_name(tmp_path: Path, upstream: Server) -> None:
    ran = run(tmp_path, upstream, code=MANY)
    lines = ran.stderr.splitlines()

    assert lines[:2] == [
        f"● 13 requests in 13 conversations, in {tmp_path / 'log.db'}",
        f"  3 earlier ones: stenolog ls --db {tmp_path / 'log.db'}",
    ]
