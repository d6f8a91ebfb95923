"""Hostile texts in every field of every kind of event, in a real browser: it is text, nothing runs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING
from urllib.parse import quote

import pytest

import stenolog
from stenolog import AssistantMessage, UserMessage
from tests.inspect import hostile

from . import browsing

if TYPE_CHECKING:
    from playwright.sync_api import Browser

CODE = """() => [...document.querySelectorAll("*")].filter(each =>
    each.matches("iframe, object, embed, foreignObject, base, meta[http-equiv], style")
    || (each.matches("img") && !/^\\/[0-9a-f]{24}\\/picture\\//.test(each.getAttribute("src")))
    || (each.matches("script") && !(each.type === "module"
        && /^\\/[0-9a-f]{24}\\/static\\/[\\w.]+$/.test(each.getAttribute("src"))))
    || [...each.attributes].some(one => one.name.startsWith("on")
        || (one.name === "style" && !/^(top|height): [\\d.]+px;$/.test(one.value)))
    || (each.matches("[href]") && new URL(each.getAttribute("href"), location).origin !== location.origin)
    || (each.matches("form[action]") && new URL(each.action).origin !== location.origin)
).map(each => each.outerHTML.slice(0, 200))"""


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    db = tmp_path_factory.mktemp("hostile") / "talks.db"
    with stenolog.open(db) as log:
        for text in hostile.TEXTS:
            hostile.write(log, text)
        long = log["long"]
        long.join("coder", model="gpt-5.2", persona=hostile.LONG_LINE[:1_000_000])
        long.append(UserMessage(hostile.LONG_LINE, to=["coder"]))
        long.append(AssistantMessage(agent="coder", text=hostile.LONG_LINE))
    with browsing.inspected(db) as address:
        yield address


@pytest.mark.parametrize("text", hostile.TEXTS, ids=range(len(hostile.TEXTS)))
def test_a_hostile_text_in_every_field_is_text_on_every_screen(browser: Browser, url: str, text: str) -> None:
    name, agent = hostile.name_from(text), hostile.agent_from(text)
    pages = hostile.addresses(name, agent, fragments=False)
    with browsing.opened(browser, url) as (page, _):
        site = browsing.site(page.url)
        for address in (*pages, f"/?q={quote(text)}", f"/?after={quote(name)}"):
            answer = page.goto(site + address)
            assert answer is not None
            assert answer.status == 200, (address, page.inner_text("body")[:500])
            assert page.evaluate(CODE) == [], address
            assert page.url.startswith(site + address.partition("?")[0]), page.url


def test_the_watch_sees_what_no_page_may_do(browser: Browser, url: str) -> None:
    code = """async () => {
        alert(1);
        await fetch("http://evil.example/").catch(() => {});
        document.body.insertAdjacentHTML("beforeend", "<img src=x onerror=alert(1)>");
    }"""
    with pytest.raises(AssertionError) as found, browsing.opened(browser, url) as (page, _):
        page.evaluate(code)
    for problem in ("dialog: 1", "evil.example", "Content Security Policy"):
        assert problem in str(found.value)


def test_the_list_of_hostile_names_is_text_and_its_links_lead_to_the_conversations(
    browser: Browser, url: str
) -> None:
    with browsing.opened(browser, url) as (page, _):
        assert page.evaluate(CODE) == []
        listed = page.inner_text("main")
        for text in hostile.TEXTS:
            assert hostile.name_from(text)[:20] in listed
        links = page.locator("tbody a[href*='/read/']:not([href*='?'])").evaluate_all(
            "all => all.map(each => each.href)"
        )
        assert len(set(links)) == len(hostile.TEXTS) + 1
        for link in dict.fromkeys(links):
            answer = page.request.get(link)
            assert answer.status == 200, link
        site = browsing.site(page.url)
        for path in ("/costs", "/?sort=-usd&group=project"):
            while 'http-equiv="refresh"' in page.request.get(site + path).text():
                pass
            page.goto(site + path)
            assert page.evaluate(CODE) == []


def test_a_line_of_ten_megabytes_is_shown(browser: Browser, url: str) -> None:
    with browsing.opened(browser, url) as (page, _):
        site = browsing.site(page.url)
        for address in hostile.addresses("long", "coder", fragments=False):
            answer = page.goto(site + address.replace(f"at={hostile.SPOKEN}", "at=2"), timeout=60_000)
            assert answer is not None
            assert answer.status == 200, address
            assert page.evaluate("document.documentElement.scrollWidth") <= 1280
