"""Forks and dropped files: only where they are allowed, only from these pages, and nothing else changes."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Iterator
from html import unescape

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.testclient import TestClient
from starlette.types import Message

import stenolog
from stenolog import AssistantMessage, UserMessage
from stenolog.apps.inspect import app
from stenolog.apps.inspect.app import Drops, safe_name
from stenolog.apps.inspect.importing import Importing
from tests.transcripts.hostile_files import bombs

from .words import words

HERE = "http://127.0.0.1:8000"
FORM = re.compile(r'<input type="hidden" name="token" value="(\w+)">')


@pytest.fixture
def log(log: stenolog.Log) -> stenolog.Log:
    talk = log["a/demo"]
    talk.append(UserMessage("Which test fails?", to=["coder"]))
    talk.append(AssistantMessage(agent="coder", text="test_dates"))
    talk.append(UserMessage("Then mend it.", to=["coder"]))
    return log


def client(app: Starlette) -> TestClient:
    """Return a browser that has opened the address which was printed."""
    web = TestClient(app, base_url=HERE)
    entered = web.get("/", params={"token": app.state.token})
    assert entered.status_code == 200
    web.base_url = entered.url
    return web


@pytest.fixture
def web(log: stenolog.Log) -> TestClient:
    return client(stenolog.inspector(log, allow_fork=True))


def token(web: TestClient) -> str:
    found = FORM.search(web.get("/whatif/a/demo?at=3").text)
    assert found
    return found[1]


def post(web: TestClient, origin: str | None = HERE, **form: str) -> tuple[int, str]:
    """Send a form; return the status, and where it leads or why it does not."""
    headers = {} if origin is None else {"Origin": origin}
    answer = web.post("/fork/a%2Fdemo", data=form, headers=headers, follow_redirects=False)
    return answer.status_code, answer.headers.get("location", answer.text)


@pytest.mark.parametrize(("side", "shared"), [("after", 3), ("before", 2)])
def test_a_fork_begins_after_or_before_the_entry_and_leads_to_its_page(
    web: TestClient, log: stenolog.Log, side: str, shared: int
) -> None:
    status, there = post(web, token=token(web), at="3", side=side, agent="coder")
    assert (status, there) == (303, f"{web.base_url.path.rstrip('/')}/c/a%2Fdemo~1?agent=coder")
    fork = log["a/demo~1"].settings()
    assert fork.is_fork
    assert fork.parent is not None
    assert (fork.parent.conversation, fork.parent.position) == ("a/demo", shared)
    assert log["a/demo"].position == 4
    assert web.get(f"http://127.0.0.1{there}").status_code == 200


def test_the_buttons_say_in_words_whether_the_entry_is_in_the_fork(web: TestClient) -> None:
    for page in ("/whatif/a/demo?at=3", "/c/a/demo?at=3"):
        text = unescape(web.get(page).text)
        assert "Fork after 3: 3 is in it" in text
        assert "Fork before 3: 3 is not in it" in text
    assert "Fork before" not in web.get("/whatif/a/demo?at=1").text


def test_without_the_option_there_are_no_buttons_and_nothing_is_written(
    log: stenolog.Log, web: TestClient
) -> None:
    right = token(web)
    closed = client(stenolog.inspector(log))
    assert "Fork after" not in closed.get("/whatif/a/demo?at=3").text
    for given in (right, ""):
        assert post(closed, token=given, at="3", side="after")[0] == 403
    assert log.names() == ["a/demo"]


@pytest.mark.parametrize(
    "origin", [None, "null", "http://example.org", "http://127.0.0.1:9", "http://127.0.0.1:8000.example.org"]
)
def test_a_form_of_another_origin_is_refused(web: TestClient, log: stenolog.Log, origin: str | None) -> None:
    assert post(web, origin, token=token(web), at="3", side="after")[0] == 403
    assert log.names() == ["a/demo"]


def test_a_form_without_its_token_or_with_another_one_is_refused(web: TestClient, log: stenolog.Log) -> None:
    of_another = client(stenolog.inspector(log, allow_fork=True))
    for given in ({}, {"token": ""}, {"token": "0" * 64}, {"token": "é"}, {"token": token(of_another)}):
        assert post(web, at="3", side="after", **given)[0] == 403
    assert log.names() == ["a/demo"]


def test_the_token_of_one_conversation_forks_no_other(web: TestClient, log: stenolog.Log) -> None:
    right = token(web)
    log["other"].append(UserMessage("Hello."))
    answer = web.post(
        "/fork/other", data={"token": right, "at": "1", "side": "after"}, headers={"Origin": HERE}
    )
    assert answer.status_code == 403


def test_without_the_cookie_a_form_is_refused(log: stenolog.Log) -> None:
    app = stenolog.inspector(log, allow_fork=True)
    web = client(app)
    right = token(web)
    web.cookies.clear()
    assert post(web, token=right, at="3", side="after")[0] == 403
    assert log.names() == ["a/demo"]


@pytest.mark.parametrize(
    "form",
    [{"at": "5"}, {"at": "0"}, {"at": "x"}, {"at": "-1"}, {"side": "both"}, {"side": ""}, {"at": "9" * 99}],
    ids=str,
)
def test_a_place_that_makes_no_sense_is_refused(
    web: TestClient, log: stenolog.Log, form: dict[str, str]
) -> None:
    assert post(web, token=token(web), **{"at": "3", "side": "after", **form})[0] == 400
    assert log.names() == ["a/demo"]


def test_a_form_of_many_bytes_is_not_read(web: TestClient, log: stenolog.Log) -> None:
    assert post(web, token=token(web), at="3", side="after", more="x" * 100_000)[0] == 403


def test_a_fork_is_no_page_to_be_opened(web: TestClient) -> None:
    assert web.get("/fork/a/demo").status_code == 405


# Files that are dropped on the list.

SAID = b'{"role": "user", "content": "Which test fails?"}\n'
PLACE = re.compile(r'data-token="(\w*)"')


@pytest.fixture(scope="module")
def imports(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Importing]:
    with (
        stenolog.open(tmp_path_factory.mktemp("drops") / "talks.db") as log,
        Importing(log, [], "stenolog inspect", allows_drops=True) as imports,
    ):
        yield imports


@pytest.fixture(scope="module")
def dropping(imports: Importing) -> TestClient:
    return client(stenolog.inspector(imports._log, imports=imports))


def drop(web: TestClient, name: str, content: bytes, token: str | None = None, **headers: str) -> int:
    """Drop a file; return the status of the answer."""
    given = PLACE.findall(web.get("/").text)[0] if token is None else token
    sent = {"Origin": HERE, "X-Stenolog-Token": given, **headers}
    return web.post("/import", params={"name": name}, content=content, headers=sent).status_code


def told(web: TestClient, wanted: str) -> str:
    """Wait until the page says this of the import; return its words."""
    end = time.monotonic() + 60
    while wanted not in (found := words(web.get("/importing").text)):
        assert time.monotonic() < end, found
        time.sleep(0.02)
    return found


def test_a_dropped_file_is_imported_under_its_own_name_and_again_adds_nothing(
    dropping: TestClient, imports: Importing
) -> None:
    for _ in range(2):
        assert drop(dropping, "a bakery.jsonl", SAID) == 202
        told(dropping, "1 file, 1 conversation")
    assert "Which test fails?" in dropping.get("/read/a-bakery").text
    assert dropping.get("/read/a-bakery-2").status_code == 404
    assert [*imports.spool.iterdir()] == []


def test_hostile_files_are_refused_with_a_reason_and_the_next_one_is_imported(dropping: TestClient) -> None:
    hostile = {"deep.json": b"[" * 3_000_000, "<script>.json": b'{"<script>": 1}', **dict(bombs())}
    for name in ("deep.json", "<script>.json", "zeros.jsonl.zst", "sqlite.gz"):
        assert drop(dropping, name, hostile[name]) == 202
    assert drop(dropping, "after.jsonl", SAID.replace(b"test", b"one")) == 202
    shown = told(dropping, "; 4 not recognised")
    assert "script-.json" in shown
    assert "found more" in shown
    told(dropping, "2 conversations")
    assert "<script>" not in dropping.get("/importing").text


@pytest.mark.parametrize(
    "name", ["../../x.jsonl", "..", "", "\\..\\x", "a" * 5_000, "é\u202e" * 200, "a\x00b", "/etc/x"]
)
def test_a_dropped_file_has_a_name_of_one_folder_whatever_it_is_called(name: str) -> None:
    found = safe_name(name)
    assert re.fullmatch(r"\w[\w.-]{0,59}", found), found
    assert len(found.encode()) < 255


@pytest.mark.parametrize(
    ("token", "headers", "status"),
    [
        ("", {}, 403),
        ("0" * 64, {}, 403),
        (None, {"Origin": "http://example.org"}, 403),
        (None, {"Origin": "null"}, 403),
        (None, {"Cookie": "stenolog=0"}, 403),
    ],
)
def test_a_file_from_elsewhere_is_refused(
    dropping: TestClient, token: str | None, headers: dict[str, str], status: int
) -> None:
    assert drop(dropping, "foreign.jsonl", SAID, token, **headers) == status
    assert "foreign" not in dropping.get("/").text


def test_a_file_that_is_too_large_is_not_kept(dropping: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app, "MOST_BYTES", 10)
    assert drop(dropping, "large.jsonl", SAID) == 413


@pytest.mark.parametrize("ends", ["the browser", "the import"])
def test_of_a_file_that_never_arrives_nothing_is_kept(
    imports: Importing, monkeypatch: pytest.MonkeyPatch, ends: str
) -> None:
    def ended(_: object) -> None:
        raise BrokenPipeError

    given = Drops(imports)
    monkeypatch.setattr(imports, "drop", ended)
    last = "http.disconnect" if ends == "the browser" else "http.request"
    sent: list[Message] = [{"type": "http.request", "body": SAID, "more_body": True}, {"type": last}]
    messages = iter(sent)

    async def receive() -> Message:
        return next(messages)

    headers = {"host": "a", "origin": "http://a", "x-stenolog-token": given.token}
    raw = [(name.encode(), value.encode()) for name, value in headers.items()]
    scope = {"type": "http", "method": "POST", "path": "/", "query_string": b"name=x", "headers": raw}
    answer = asyncio.run(given.answer(Request(scope, receive)))

    assert answer.status_code == (413 if ends == "the browser" else 503)
    assert [*imports.spool.iterdir()] == []


def test_without_the_option_a_dropped_file_is_refused_and_the_page_says_how_to_allow_it(
    log: stenolog.Log,
) -> None:
    web = client(stenolog.inspector(log, imports=Importing(log, [], "stenolog inspect")))
    assert "stenolog inspect --allow-import" in web.get("/").text
    assert drop(web, "one.jsonl", SAID) == 403
    assert log.names() == ["a/demo"]
