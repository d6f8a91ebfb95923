"""The pages' server against clients that mean no good: real sockets, a real process."""

from __future__ import annotations

import resource
import selectors
import socket
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit

import pytest

import stenolog
from stenolog import UserMessage
from stenolog.apps.inspect.app import PAGES
from stenolog.apps.servers.web import web_server
from tests.browser.browsing import inspected


@pytest.fixture
def db(tmp_path: Path) -> Path:
    path = tmp_path / "talks.db"
    with stenolog.open(path) as log:
        log["demo"].append(UserMessage("Which test fails?"))
    return path


class Client:
    """Raw HTTP to a server, as a browser that has opened the printed address."""

    def __init__(self, url: str) -> None:
        found = urlsplit(url)
        self.address = (str(found.hostname), int(found.port or 0))
        self.host, self.cookie, self.place = found.netloc, "", ""
        head = self.ask(f"{found.path}?{found.query}").decode().lower()
        self.cookie = head.partition("set-cookie: ")[2].partition(";")[0]
        self.place = head.partition("location: ")[2].partition("\r\n")[0].rstrip("/")

    def request(self, path: str, method: str = "GET", **headers: str) -> bytes:
        """Return the bytes of a request."""
        given = {"Host": self.host, "Cookie": self.cookie, "Connection": "close", **headers}
        lines = [
            f"{method} {self.place}{path} HTTP/1.1",
            *(f"{name}: {value}" for name, value in given.items() if value),
        ]
        return ("\r\n".join(lines) + "\r\n\r\n").encode()

    def connect(self) -> socket.socket:
        return socket.create_connection(self.address, timeout=60)

    def ask(self, path: str, method: str = "GET", **headers: str) -> bytes:
        """Return a whole answer."""
        with self.connect() as connection:
            connection.sendall(self.request(path, method, **headers))
            return read(connection)


def read(connection: socket.socket) -> bytes:
    """Return everything up to the end of a connection."""
    got = bytearray()
    try:
        while piece := connection.recv(65536):
            got += piece
    except ConnectionResetError:
        pass
    return bytes(got)


def status(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1]) if answer else 0


def test_only_the_right_host_origin_and_token_are_let_in(db: Path) -> None:
    with inspected(db) as url:
        web = Client(url)
        assert status(web.ask("/c/demo")) == 200
        refused = [
            {"Host": "evil.example"},
            {"Host": f"evil.example:{web.address[1]}"},
            {"Host": ""},
            {"Host": "127.0.0.1.evil.example"},
            {"Origin": "http://evil.example"},
            {"Origin": "null"},
            {"Origin": f"http://{web.host}.evil.example"},
            {"Cookie": ""},
            {"Cookie": "stenolog="},
            {"Cookie": web.cookie[:-1]},
            {"Cookie": f"{web.cookie}x"},
            {"Cookie": "stenolog=\u00e4"},
        ]
        for headers in refused:
            answer = web.ask("/c/demo", **headers)
            assert status(answer) in {400, 403}, (headers, answer)
            assert b"Which test" not in answer
        for query in ("token=", "token=wrong", "token=%00", "token=%ff", "token=a&token=b", "x" * 4000):
            assert status(web.ask(f"/c/demo?{query}", Cookie="")) == 403


ADDRESSES = [path.replace("{name:path}", "demo") for page in PAGES for path in (page.path, page.twin_path)]
PATHS = (
    "/static/../app.py",
    "/static/..%2fapp.py",
    "/static/%2e%2e/%2e%2e/app.py",
    "/static/..%5c..%5capp.py",
    "/static//etc/passwd",
    "/static/%2fetc%2fpasswd",
    "/static/style.css%00.py",
    "/static/",
    "/c/../../../../etc/passwd",
    "/c/..%2f..%2f..%2fetc%2fpasswd",
    "/c/%00",
    "/c/%ff%fe",
    "/c/" + "a" * 8000,
    "//evil.example/",
    "/%2f%2fevil.example/",
    "/c/demo?at=-1",
    "/c/demo?at=99999999999999999999",
    "/c/demo?at=%00",
    "/c/demo?at=1&agent=%00",
    "/c/demo?agent=" + "%F0%9F%98%80" * 500,
    "/?q=%00",
    "/?q=%22%22%22",
    "/?q=" + "(" * 5000,
    "/?after=%00",
    "/?after=" + "a" * 5000,
    "/tail/demo?after=-1",
    "/.git/config",
)


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path[:40])
def test_no_path_leads_out_or_fails(web: Client, path: str) -> None:
    answer = web.ask(path)
    assert status(answer) in {200, 303, 400, 404}, answer[:300]
    assert b"root:" not in answer
    assert b"from __future__" not in answer
    assert b"location: //" not in answer.lower()


def test_every_other_method_is_refused_on_every_page(web: Client) -> None:
    for path in (
        "/",
        "/c/demo",
        "/rows/demo",
        "/request/demo",
        "/entry/demo",
        "/tail/demo",
        "/static/style.css",
    ):
        for method in ("POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "NONSENSE"):
            assert status(web.ask(path, method)) in {404, 405}, (path, method)


def test_nonsense_is_no_request(web: Client) -> None:
    for nonsense in (
        b"\x00" * 100,
        b"\x16\x03\x01\x02\x00\x01",
        b"GET / HTTP/9.9\r\n\r\n",
        b"\r\n\r\n\r\n",
        b"GET /" + b"a" * 300_000,
    ):
        with web.connect() as connection:
            with suppress(OSError):
                connection.sendall(nonsense)
                connection.shutdown(socket.SHUT_WR)
            assert status(read(connection)) in {0, 400, 403}
    assert status(web.ask("/")) == 200


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    path = tmp_path_factory.mktemp("attacks") / "talks.db"
    with stenolog.open(path) as log:
        log["demo"].append(UserMessage("Which test fails?"))
    with inspected(path) as url:
        yield Client(url)


def ask_all_at_once(web: Client, path: str, number: int) -> Counter[int]:
    """Open connections with a request over each, and then read; return how often each status came."""
    with ExitStack() as stack:
        connections = []
        for _ in range(number):
            connections.append(connection := stack.enter_context(web.connect()))
            with suppress(OSError):  # one that was refused is closed already
                connection.sendall(web.request(path))
        return Counter(status(read(connection)) for connection in connections)


@pytest.mark.slow
def test_a_thousand_at_once_are_served(web: Client) -> None:
    enough = resource.getrlimit(resource.RLIMIT_NOFILE)[1] > 3000
    assert ask_all_at_once(web, "/c/demo", 1000 if enough else 400) == {200: 1000 if enough else 400}


@pytest.mark.slow
def test_where_files_are_few_some_are_refused_and_none_fails(db: Path) -> None:
    with inspected(db, before=("sh", "-c", 'ulimit -n 1024; exec "$@"', "sh")) as url:
        found = ask_all_at_once(Client(url), "/c/demo", 1000)
        assert set(found) <= {200, 503, 0}
        assert found[200] > 0
        assert status(Client(url).ask("/c/demo")) == 200


@contextmanager
def served(db: Path, patience: float = 30.0) -> Iterator[str]:
    """Serve the pages in a thread. A client of the test is cut off, too, if it is slower than `patience`."""
    with stenolog.open(db) as log, socket.create_server(("127.0.0.1", 0)) as bound:
        app = stenolog.inspector(log)
        server = web_server(app, patience)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]})
        thread.start()
        try:
            yield f"http://127.0.0.1:{bound.getsockname()[1]}/?token={app.state.token}"
        finally:
            server.should_exit = True
            thread.join()


def test_slow_clients_are_cut_off_and_keep_nobody_waiting(db: Path) -> None:
    with served(db, patience=2.0) as url, ExitStack() as stack:
        web = Client(url)
        slow = [stack.enter_context(web.connect()) for _ in range(200)]
        ended = 0
        waiting = selectors.DefaultSelector()
        for connection in slow:
            waiting.register(connection, selectors.EVENT_READ)
        sent = iter(web.request("/"))
        until = time.monotonic() + 60
        while ended < len(slow) and time.monotonic() < until:
            letter = bytes([next(sent)])
            for connection in slow:
                with suppress(OSError):
                    connection.send(letter)
            assert status(web.ask("/c/demo")) == 200
            for key, _ in waiting.select(0.05):
                assert isinstance(key.fileobj, socket.socket)
                if not read(key.fileobj):
                    waiting.unregister(key.fileobj)
                    ended += 1
        assert ended == len(slow)


def test_a_client_that_does_not_read_keeps_nobody_waiting(db: Path) -> None:
    with stenolog.open(db) as log:
        log["long"].append(UserMessage("x" * 5_000_000))
    with served(db) as url, ExitStack() as stack:
        web = Client(url)
        for _ in range(50):
            stack.enter_context(web.connect()).sendall(web.request("/entry/long?at=1"))
        assert status(web.ask("/c/demo")) == 200


def test_streams_that_are_left_open_keep_nobody_waiting(db: Path) -> None:
    with served(db) as url, ExitStack() as stack:
        web = Client(url)
        streams = [stack.enter_context(web.connect()) for _ in range(100)]
        for stream in streams:
            stream.sendall(web.request("/tail/demo?after=1"))
        for stream in streams:
            assert status(stream.recv(1000)) == 200
        for _ in range(3):
            assert status(web.ask("/c/demo")) == 200
