"""Forks from a page: only where they are allowed, only by a form of these pages, and nothing else changes."""

from __future__ import annotations

import re
from html import unescape

import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

import stenolog
from stenolog import AssistantMessage, UserMessage

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
