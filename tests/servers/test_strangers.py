"""The three servers against strangers: real processes with 1,024 descriptors, and 1,100 half-open sockets."""

from __future__ import annotations

import json
import resource
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

import stenolog
from stenolog import UserMessage

STRANGERS = 1_100
HALF = b"GET / HTTP/1.1\r\nX: "
Json = dict[str, Any]


@dataclass
class Running:
    """A server as a process: its first line, its address, and its stderr."""

    first: Json
    errors: Path
    process: subprocess.Popen[bytes]

    @property
    def url(self) -> str:
        return str(self.first.get("url") or self.first["base_urls"]["test"])

    def ended(self) -> list[str]:
        """End it, and return the lines that it printed for people."""
        self.process.terminate()
        self.process.wait(timeout=30)
        return self.errors.read_text().splitlines()


@contextmanager
def running(folder: Path, *words: str, files: int = 1024) -> Iterator[Running]:
    """Run a command that may open so many files."""
    errors, db = folder / "stderr.txt", str(folder / "talks.db")
    limited = ["sh", "-c", f'ulimit -n {files}; exec "$@"', "sh"]
    command = [*limited, sys.executable, "-m", "stenolog", *words, "--db", db]
    with errors.open("wb") as told:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=told)
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        assert line, errors.read_text()
        yield Running(json.loads(line), errors, process)
    finally:
        process.kill()
        process.wait(timeout=30)
        process.stdout.close()


@contextmanager
def strangers(url: str, sent: bytes, number: int = STRANGERS) -> Iterator[None]:
    """Hold so many connections that have sent a part of a request."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 2 * number:
        pytest.skip(f"this process may open {hard} files")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 2 * number), hard))
    where = urlsplit(url)
    with ExitStack() as stack:
        for _ in range(number):
            with suppress(OSError):  # it was cut off already
                connection = stack.enter_context(
                    socket.create_connection((str(where.hostname), int(where.port or 0)), timeout=20)
                )
                connection.sendall(sent)
        yield


@pytest.fixture(scope="module")
def provider() -> Iterator[str]:
    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"ok")

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Answer) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    with stenolog.open(tmp_path / "talks.db") as log:
        log["demo"].append(UserMessage("Which test fails?"))
    return tmp_path


def about(found: Running) -> int:
    key = {"Authorization": f"Bearer {found.first['token']}"}
    return httpx.post(f"{found.url}/v1/about", json={}, headers=key, timeout=20).status_code


def page(found: Running) -> int:
    return httpx.get(found.url, follow_redirects=True, timeout=20).status_code


def answer(found: Running) -> int:
    return httpx.get(f"{found.url}/v1/models", timeout=20).status_code


SERVERS: list[tuple[list[str], bytes, Callable[[Running], int]]] = [
    (["serve", "--port", "0"], HALF, about),
    (["inspect", "--port", "0"], HALF, page),
    # What could still become the token: whoever has sent another path is refused at once.
    (["tap", "--listen", "127.0.0.1:0", "--upstream", "test={provider}"], b"GET /a", answer),
]


@pytest.mark.slow
@pytest.mark.parametrize(("words", "sent", "ask"), SERVERS, ids=["serve", "inspect", "tap"])
def test_programs_with_the_token_go_on_beside_1100_strangers_and_stderr_has_one_line(
    folder: Path, provider: str, words: list[str], sent: bytes, ask: Callable[[Running], int]
) -> None:
    with running(folder, *(word.format(provider=provider) for word in words)) as found:
        served = [ask(found)]
        with strangers(found.url, sent):
            served += [ask(found) for _ in range(5)]
        served.append(ask(found))
        lines = found.ended()

    assert served == [200] * 7
    assert len([line for line in lines if "have sent no token" in line]) == 1
    assert len(lines) <= 3, lines


def test_descriptors_that_run_out_are_told_in_one_line_and_the_server_goes_on(folder: Path) -> None:
    with running(folder, "serve", "--port", "0", files=48) as found:
        with strangers(found.url, HALF, 200):
            pass
        assert about(found) == 200
        lines = found.ended()

    assert len([line for line in lines if "out of file descriptors" in line]) <= 1
    assert len(lines) <= 3, lines
