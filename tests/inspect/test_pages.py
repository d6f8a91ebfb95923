"""The pages of the inspector, without a browser: what they show, what they refuse, what they never run."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html.parser import HTMLParser
from importlib import import_module
from pkgutil import iter_modules
from urllib.parse import quote

import pytest
from starlette.applications import Starlette
from starlette.routing import Mount
from starlette.testclient import TestClient

import stenolog
from stenolog import AssistantMessage, LlmError, ToolCall, ToolResult, UserMessage
from stenolog.apps.inspect import pages
from stenolog.apps.inspect.app import PAGES, TEXTS
from stenolog.context import LastN
from tests.inspect import hostile

from .words import words


@pytest.fixture
def log(log: stenolog.Log) -> stenolog.Log:
    talk = log["demo"]
    talk.join("coder", model="gpt-5.2", persona="You mend what is broken.")
    talk.append(UserMessage("Which test fails?", to=["coder"]))
    call = ToolCall(id="c1", name="shell", arguments='{"cmd": "pytest"}')
    talk.append(AssistantMessage(agent="coder", parts=[call]))
    talk.append(ToolResult(call_id="c1", text="1 failed"))
    talk.append(LlmError(agent="coder", category="timeout", text="test_dates", message="no token"))
    talk.append(UserMessage("continue", to=["coder"]))
    return log


@pytest.fixture
def web(log: stenolog.Log) -> Iterator[TestClient]:
    with TestClient(stenolog.inspector(log, token=""), base_url="http://127.0.0.1:8000") as client:
        yield client


def test_the_first_page_lists_the_conversations_with_the_newest_activity_first(
    web: TestClient, log: stenolog.Log
) -> None:
    log["other"].append(UserMessage("What is new?"))
    page = web.get("/").text
    assert page.index('title="other"') < page.index('title="demo"')
    assert "Which test fails?" in page


def test_a_page_leads_to_the_other_screens_of_the_conversation_at_the_same_place(web: TestClient) -> None:
    for path in ("/c/demo", "/request/demo"):
        page = web.get(f"{path}?at=3&agent=coder").text
        assert 'data-screen="c" href="/c/demo?at=3&amp;agent=coder"' in page
        assert 'data-screen="request" href="/request/demo?at=3&amp;agent=coder"' in page
        linked = {each.name for each in PAGES if each.link}
        assert set(re.findall('data-screen="([^"]*)"', page)) == linked - {"compaction"}
        assert len(re.findall('data-screen="[^"]*" href="[^"]*" aria-current="page"', page)) == 1
    assert "data-screen" not in web.get("/").text


def test_each_module_of_pages_is_served_and_no_list_names_it() -> None:
    modules = [module.name for module in iter_modules(pages.__path__)]

    served = {id(page) for page in (*PAGES, *TEXTS)}
    for name in modules:
        assert served & {id(value) for value in vars(import_module(f"{pages.__name__}.{name}")).values()}


def test_a_search_leads_to_the_entry(web: TestClient) -> None:
    page = web.get("/", params={"q": "fails"}).text
    assert 'href="/read/demo?at=2"' in page


def test_a_conversation_shows_its_entries_and_the_request_with_the_reason_for_each_part(
    web: TestClient, log: stenolog.Log
) -> None:
    shown = words(web.get("/c/demo").text)
    assert "What coder is sent at entry 6" in shown
    assert "the agent's instructions kept by rule persona" in shown
    assert f"sha256 {log['demo'].request('coder').sha256[:12]}" in shown
    assert "why the text before it is cut off added by rule cut-off-error-note 0 → 12 tokens" in shown


def test_another_position_is_another_address_and_what_came_later_is_dimmed(web: TestClient) -> None:
    page = web.get("/c/demo?at=2&agent=coder").text
    assert re.findall(r'id="p(\d+)" data-position="\d+"[^>]* class="[^"]* future"', page) == [
        "3",
        "4",
        "5",
        "6",
    ]
    assert "What coder is sent at entry 2" in words(page)


def test_an_omission_stands_at_its_place_with_its_reason(web: TestClient, log: stenolog.Log) -> None:
    log["demo"].join("coder", policy=LastN(1))
    shown = words(web.get("/request/demo?agent=coder").text)
    assert "left out: it is older than the last messages that the policy asks for" in shown
    assert shown.index("left out") < shown.index("continue")


@pytest.mark.parametrize("name", ["a/b", "ä ö", "x?y#z", "50%", "../etc", "json"])
def test_a_conversation_of_any_name_has_an_address(web: TestClient, log: stenolog.Log, name: str) -> None:
    log[name].append(UserMessage("hello there"))
    [address] = re.findall(r'href="(/read/[^"]*)"', re.sub(r"(?s).*<tbody>", "", web.get("/").text))[:1]
    assert "hello there" in web.get(address).text


@pytest.mark.parametrize(
    ("path", "status", "problem"),
    [
        ("/c/dema", 404, "did you mean 'demo'?"),
        ("/c/demo?at=99", 404, "expected a position from 1 to 6, found 99"),
        ("/c/demo?at=x", 400, "at: expected a position, found 'x'"),
        ("/request/demo?agent=codr", 404, "no agent 'codr'"),
        ("/static/../app.py", 404, "Not Found"),
        ("/static/app.py", 404, "no such file"),
    ],
)
def test_an_address_that_leads_nowhere_says_so(web: TestClient, path: str, status: int, problem: str) -> None:
    answer = web.get(path)
    assert answer.status_code == status
    assert problem in answer.text.replace("&#39;", "'")


class Scripts(HTMLParser):
    """What a page could run or load."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Keep what has to do with code or with other hosts."""
        given = dict(attrs)
        if tag in {"script", "img", "iframe", "object", "style"} or any(
            name.startswith("on")
            or name in {"style", "src"}
            or (name in {"href", "action"} and not str(value).startswith(("/", "#")))
            for name, value in attrs
        ):
            self.found.append((tag, given))


# The last one has its percent signs decoded twice by Starlette's client; in a browser it is looked at, too.
@pytest.mark.parametrize(
    "text",
    [
        pytest.param(each, marks=pytest.mark.slow if n % 4 else ())
        for n, each in enumerate(hostile.TEXTS[:-1])
    ],
)
def test_a_hostile_text_in_any_place_is_text(log: stenolog.Log, web: TestClient, text: str) -> None:
    name, agent = hostile.write(log, text), hostile.agent_from(text)
    lists = ("/", f"/?q={quote(text)}", "/?sort=-usd&group=project", "/costs")
    compared = f"/compare?run={quote(name)}&run=demo"
    for path in (*lists, compared, *hostile.addresses(name, agent)):
        answer = web.get(path)
        assert answer.status_code == 200, answer.text
        scripts = Scripts()
        scripts.feed(answer.text)
        for tag, given in scripts.found:
            assert tag == "script"
            assert given["type"] == "module"
            assert re.fullmatch(r"/static/[a-z_]+\.js", str(given["src"]))


def test_nobody_reads_without_the_token_or_by_another_host_name_or_from_another_page(
    log: stenolog.Log,
) -> None:
    app = stenolog.inspector(log)
    with TestClient(app, base_url="http://127.0.0.1:8000") as client:
        for path in ("/", "/c/demo", "/c.json/demo", "/tail/demo", "/static/style.css", "/?token=wrong"):
            refused = client.get(path)
            assert refused.status_code == 403
            assert "Which test" not in refused.text
        right = {"token": app.state.token}
        assert client.get("/", params=right, headers={"Host": "evil.example"}).status_code == 403
        assert client.get("/", params=right, headers={"Origin": "http://evil.example"}).status_code == 403
        entered = client.get("/c/demo", params={**right, "at": "2"}, follow_redirects=False)
        place = entered.headers["location"].removesuffix("/c/demo?at=2")
        assert (entered.status_code, len(place)) == (303, 25)
        for asked, there in (("/c/a%2Fb%3Fc", "/c/a%2Fb%3Fc"), ("//evil.example/x", "/evil.example/x")):
            client.cookies.clear()
            address = f"http://127.0.0.1:8000{asked}"
            assert (
                client.get(address, params=right, follow_redirects=False).headers["location"] == place + there
            )
        assert {"HttpOnly", "SameSite=strict", f"Path={place}"} <= set(
            entered.headers["set-cookie"].split("; ")
        )
        assert client.get(f"{place}/c/demo").status_code == 200


def test_neither_the_cookie_nor_the_address_of_a_page_is_enough_alone(log: stenolog.Log) -> None:
    app = stenolog.inspector(log)
    with TestClient(app, base_url="http://127.0.0.1:8000") as client:
        page = client.get("/c/demo", params={"token": app.state.token}).url.path
        # Another server of this machine may have set one of the same name.
        kept = client.cookies["stenolog"]
        cookie = f"stenolog=forged; stenolog={kept}"
        client.cookies.clear()

        assert app.state.token not in cookie + page
        assert client.get(page, headers={"Cookie": cookie}).status_code == 200
        assert client.get(page).status_code == 403
        for path in ("/c/demo", "/", f"{page[:25]}x/c/demo", page[:25]):
            assert client.get(path, headers={"Cookie": cookie}).status_code == 403
        for token in (kept, page.split("/")[1]):
            assert client.get("/c/demo", params={"token": token}).status_code == 403


def test_every_answer_forbids_what_a_page_does_not_need(web: TestClient) -> None:
    for path in ("/", "/c/demo", "/c/nobody", "/index.json", "/static/inspector.js"):
        headers = web.get(path).headers
        assert headers["content-security-policy"].startswith("default-src 'none'; script-src 'self'")
        assert headers["x-content-type-options"] == "nosniff"


def test_nothing_can_be_written_through_a_page(web: TestClient, log: stenolog.Log) -> None:
    before = len(log["demo"])
    for method in ("POST", "PUT", "PATCH", "DELETE"):
        assert web.request(method, "/c/demo").status_code == 405
    assert len(log["demo"]) == before


def test_the_pages_can_be_mounted_in_another_application(log: stenolog.Log) -> None:
    app = Starlette(routes=[Mount("/log", stenolog.inspector(log, token=""))])
    with TestClient(app, base_url="http://example.org") as client:
        page = client.get("/log/c/demo").text
        assert 'src="/log/static/inspector.js"' in page
        assert client.get("/log/static/inspector.js").status_code == 200


def test_rows_come_in_pieces(web: TestClient, log: stenolog.Log) -> None:
    log["demo"].extend([UserMessage(f"{number}") for number in range(500)])
    page = web.get("/rows/demo?first=300&count=50").text
    positions = [int(each) for each in re.findall(r'data-position="(\d+)"', page)]
    assert positions == [*range(300, 350)]
    assert len(re.findall("<li", web.get("/c/demo?at=400").text)) < 1500


def test_a_conversation_is_saved_as_one_file(web: TestClient, log: stenolog.Log) -> None:
    assert 'href="/export/demo" download' in web.get("/c/demo").text

    saved = web.get("/export/demo")
    assert saved.headers["content-disposition"].startswith('attachment; filename="demo.html"')
    assert saved.text == log["demo"].export("html")
    assert web.get("/export/dema").status_code == 404


@pytest.mark.parametrize("name", ['a"; b/../c', ".hidden", "会議", "x" * 200])
def test_no_name_of_a_conversation_names_another_file(web: TestClient, log: stenolog.Log, name: str) -> None:
    log[name].append(UserMessage("Hello."))

    told = web.get(f"/export/{quote(name, safe='')}").headers["content-disposition"]
    assert re.fullmatch(
        r"attachment; filename=\"[\w~-]+\.html\"; filename\*=UTF-8''[\w%~-][\w%~.-]*\.html", told
    )
    assert "%2F" not in told
