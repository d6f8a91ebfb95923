"""`stenolog tap`: one command, which leaves nothing, and whose parts may be killed."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import signal
import socket
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.tap.given import Server, is_closed, read, read_all, read_head, server

SENDING = str(Path(__file__).with_name("sending.py"))
ROOT = Path(__file__).parent.parent.parent
OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"
PATIENCE = 20.0


def answers(connection: socket.socket) -> None:
    """Answer requests, each with its number in the body."""
    while head := read_head(connection):
        read(connection, int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0]))
        connection.sendall(OK)


@pytest.fixture
def upstream() -> Iterator[Server]:
    with server(answers) as running:
        yield running


def command(folder: Path, upstream: Server, *words: str) -> list[str]:
    url = f"openai=http://127.0.0.1:{upstream.port}/v1"
    return [
        sys.executable,
        "-m",
        "stenolog",
        "tap",
        "--db",
        str(folder / "talks.db"),
        "--upstream",
        url,
        *words,
    ]


def environment(**more: str) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT), **more}


def children(pid: int) -> dict[str, int]:
    """Return the processes of a tap by their module."""
    found = {}
    for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        words = Path(f"/proc/{child}/cmdline").read_bytes().split(b"\0")
        found[words[-2].decode() if words[1:3] == [b"-P", b"-c"] else "command"] = int(child)
    return found


def until(condition: Callable[[], object]) -> None:
    """Wait until a condition is true."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, "it never came to that"
        time.sleep(0.01)


def is_gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


@contextmanager
def listening(folder: Path, upstream: Server, **environ: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Run a tap that listens, and yield its process and the base URL of OpenAI's API."""
    with subprocess.Popen(
        command(folder, upstream, "--listen", "127.0.0.1:0"),
        env=environment(**environ),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        try:
            url = json.loads(process.stdout.readline())["base_urls"]["openai"]
            until(lambda: {"relay", "recording"} <= children(process.pid).keys())
            yield process, url
        finally:
            process.kill()


def ask(url: str, count: int = 1, code: int = 0) -> subprocess.CompletedProcess[str]:
    """Ask with a client that does not retry."""
    words = [sys.executable, SENDING, str(count), str(code)]
    return subprocess.run(
        words, env=environment(OPENAI_BASE_URL=url), capture_output=True, text=True, check=False
    )


def test_a_command_runs_behind_a_tap_and_its_exit_code_is_the_tap_s(tmp_path: Path, upstream: Server) -> None:
    words = command(tmp_path, upstream, "--", sys.executable, SENDING, "3", "7")
    ran = subprocess.run(words, env=environment(), capture_output=True, text=True, check=False)

    assert (ran.returncode, ran.stdout) == (7, "0 ok\n1 ok\n2 ok\n")
    assert not (tmp_path / "talks-tap").exists()


def test_a_command_that_a_signal_ended_is_128_and_its_number(tmp_path: Path, upstream: Server) -> None:
    words = command(tmp_path, upstream, "--", sys.executable, "-c", "import os; os.kill(os.getpid(), 9)")

    assert subprocess.run(words, env=environment(), capture_output=True, check=False).returncode == 137


COUNTING = """
import signal, sys, time
signal.signal(2, lambda *_: print("interrupted", flush=True))
signal.signal(15, lambda *_: sys.exit(3))
print("begun", flush=True)
while True:
    time.sleep(60)
"""


def test_each_signal_reaches_the_command_once_from_a_terminal_or_sent_to_the_tap_alone(
    tmp_path: Path, upstream: Server
) -> None:
    words = command(tmp_path, upstream, "--", sys.executable, "-c", COUNTING)
    ours, its = pty.openpty()
    process = subprocess.Popen(
        words, env=environment(), stdin=its, stdout=subprocess.PIPE, text=True,
        start_new_session=True, preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
    )  # fmt: skip
    with process, closing_both(ours, its):
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"
        os.write(ours, b"\x03")
        assert process.stdout.readline() == "interrupted\n"
        # Of two that wait, the kernel keeps one.
        until(lambda: not pending(process.pid, signal.SIGINT))
        process.send_signal(signal.SIGINT)
        assert process.stdout.readline() == "interrupted\n"
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 3
        assert process.stdout.read() == ""


def pending(pid: int, number: int) -> bool:
    """Return whether a signal to a process waits to be taken."""
    status = Path(f"/proc/{pid}/status").read_text()
    masks = re.findall(r"^(?:SigPnd|ShdPnd):\s*(\w+)$", status, re.MULTILINE)
    return any(int(mask, 16) >> (number - 1) & 1 for mask in masks)


@contextmanager
def closing_both(*descriptors: int) -> Iterator[None]:
    """Close file descriptors at the end."""
    try:
        yield
    finally:
        for each in descriptors:
            os.close(each)


@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        ([], 2, "expected either a command"),
        (["--listen", "127.0.0.1:0", "--", "true"], 2, "expected either a command"),
        (["--", "no-such-command-anywhere"], 3, "no such command"),
        (["--upstream", "openai=ftp://x", "--", "true"], 2, "expected an http or https URL"),
    ],
)
def test_what_cannot_be_done_is_refused_and_leaves_nothing(
    tmp_path: Path, upstream: Server, words: list[str], status: int, message: str
) -> None:
    ran = subprocess.run(
        command(tmp_path, upstream, *words), env=environment(), capture_output=True, text=True, check=False
    )

    assert ran.returncode == status
    assert message in ran.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_tap_listens_until_it_is_interrupted(tmp_path: Path, upstream: Server) -> None:
    with listening(tmp_path, upstream, STENOLOG_TOKEN="mine") as (process, url):
        assert url.endswith("/mine/openai")
        assert ask(url, 3).stdout == "0 ok\n1 ok\n2 ok\n"
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE) == 0

    assert not (tmp_path / "talks-tap").exists()


def test_a_relay_that_is_killed_starts_again_at_the_same_port(tmp_path: Path, upstream: Server) -> None:
    with listening(tmp_path, upstream) as (process, url):
        for _ in range(3):
            assert ask(url).stdout == "0 ok\n"
            relay = children(process.pid)["relay"]
            os.kill(relay, signal.SIGKILL)
            # The socket is the supervisor's: a client that comes now only waits.
            assert ask(url).stdout == "0 ok\n"
            assert children(process.pid)["relay"] != relay
        process.terminate()
        assert process.wait(PATIENCE) == 128 + signal.SIGTERM

    assert not (tmp_path / "talks-tap").exists()


def test_a_recorder_that_is_killed_starts_again_and_finishes(tmp_path: Path, upstream: Server) -> None:
    with listening(tmp_path, upstream) as (process, url):
        for _ in range(2):
            recorder = children(process.pid)["recording"]
            os.kill(recorder, signal.SIGKILL)
            assert ask(url, 3).returncode == 0
            until(lambda: children(process.pid).get("recording", recorder) != recorder)  # noqa: B023
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE) == 0

    assert not (tmp_path / "talks-tap").exists()


def test_relay_and_recorder_end_with_a_supervisor_that_was_killed_and_finish_the_journal(
    tmp_path: Path, upstream: Server
) -> None:
    with listening(tmp_path, upstream) as (process, url):
        assert ask(url, 5).returncode == 0
        pids = children(process.pid)
        process.kill()
        until(lambda: all(is_gone(pid) for pid in pids.values()))

    assert sorted(pids) == ["recording", "relay"]
    assert not list((tmp_path / "talks-tap").glob("*/*"))


def test_a_journal_that_nobody_has_recorded_is_recorded_by_the_next_tap(
    tmp_path: Path, upstream: Server
) -> None:
    with listening(tmp_path, upstream) as (process, url):
        assert ask(url, 2).returncode == 0
        pids = children(process.pid)
        os.kill(process.pid, signal.SIGSTOP)
        for name in ("recording", "relay"):
            os.kill(pids[name], signal.SIGKILL)
        process.kill()
    (left,) = (tmp_path / "talks-tap").iterdir()
    assert list(left.iterdir())
    words = command(tmp_path, upstream, "--", sys.executable, "-c", "")
    assert subprocess.run(words, env=environment(), check=False).returncode == 0

    assert not (tmp_path / "talks-tap").exists()


def test_two_taps_of_one_database_do_not_touch_each_other_s_journals(
    tmp_path: Path, upstream: Server
) -> None:
    with listening(tmp_path, upstream) as (one, url), listening(tmp_path, upstream) as (other, other_url):
        assert ask(url).returncode == ask(other_url).returncode == 0
        other.send_signal(signal.SIGINT)
        assert other.wait(PATIENCE) == 0
        assert ask(url).stdout == "0 ok\n"
        assert len(list((tmp_path / "talks-tap").iterdir())) == 1
        one.send_signal(signal.SIGINT)
        assert one.wait(PATIENCE) == 0

    assert not (tmp_path / "talks-tap").exists()


def test_neither_the_token_nor_a_password_is_in_the_list_of_processes(
    tmp_path: Path, upstream: Server
) -> None:
    environ = {"STENOLOG_TOKEN": "a-token", "ANTHROPIC_BASE_URL": "http://u:pass@127.0.0.1:1"}
    with listening(tmp_path, upstream, **environ) as (process, url):
        assert ask(url).returncode == 0
        pids = [process.pid, *children(process.pid).values()]
        listed = b" ".join(Path(f"/proc/{pid}/cmdline").read_bytes() for pid in pids)

    assert b"a-token" not in listed
    assert b"pass" not in listed


def test_a_client_whose_answer_was_cut_by_the_end_of_the_tap_sees_it_closed(tmp_path: Path) -> None:
    def hang(connection: socket.socket) -> None:
        read_head(connection)
        connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\npart")
        is_closed(connection)

    with server(hang) as upstream, listening(tmp_path, upstream) as (process, url):
        host, port = url.split("/")[2].split(":")
        with socket.create_connection((host, int(port))) as client:
            client.settimeout(PATIENCE)
            path = "/".join(["", *url.split("/")[3:]])
            client.sendall(f"GET {path}/a HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n".encode())
            assert read(client, 42).endswith(b"part")
            process.send_signal(signal.SIGINT)
            assert process.wait(PATIENCE) == 0
            assert read_all(client) == b""


def test_a_tap_at_a_socket_that_is_a_file_serves_its_user_alone(tmp_path: Path, upstream: Server) -> None:
    path = tmp_path / "socket"
    words = command(tmp_path, upstream, "--listen", f"unix:{path}")
    with subprocess.Popen(words, env=environment(), stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        first = json.loads(process.stdout.readline())
        base = first["base_urls"]["openai"].removeprefix("http://localhost")
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(PATIENCE)
            client.connect(first["socket"])
            head = (
                f"POST {base}/x HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: 2\r\n\r\n"
            )
            client.sendall(f"{head}{{}}".encode())
            assert read(client, len(OK)) == OK
        assert path.stat().st_mode & 0o777 == 0o600
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE) == 0
    assert not path.exists()
