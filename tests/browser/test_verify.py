"""The page that checks an evidence pack, opened from disk without a network."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from random import Random
from typing import TYPE_CHECKING

import pytest

from tests.evidence.packs import PUBLIC, SCRIPT, random_pack, small
from tests.inspect.hostile import TEXTS

from .browsing import FINDINGS, Scheme

if TYPE_CHECKING:
    from playwright.sync_api import Browser, FilePayload, Page

PAGE = SCRIPT.with_name("verify.html")
FILES = {SCRIPT.with_name(name).as_uri() for name in ("verify.html", "verify.css", "verify.js", "page.js")}
TICKS = "ticks = 0, setInterval(() => ticks += !document.getElementById('busy').hidden, 1)"


@contextmanager
def opened(browser: Browser, *, scheme: Scheme = "light", width: int = 1100) -> Iterator[Page]:
    """Open the page. Raises `AssertionError` if it asks for more than its files, or logs an error."""
    context = browser.new_context(color_scheme=scheme, viewport={"width": width, "height": 900})
    context.set_offline(True)
    context.set_default_timeout(20_000)
    asked: set[str] = set()
    did: list[str] = []
    context.on("request", lambda request: asked.add(request.url))
    context.on("console", lambda message: did.append(message.text))
    context.on("weberror", lambda error: did.append(str(error.error)))
    context.on("dialog", lambda dialog: did.append(dialog.message))
    page = context.new_page()
    try:
        page.goto(PAGE.as_uri())
        yield page
    finally:
        context.close()
    assert (asked, did) == (FILES, [])


def choose(page: Page, pack: bytes) -> str:
    """Give a file to the page, and return the verdict that it shows."""
    file: FilePayload = {"name": "demo.evidence", "mimeType": "", "buffer": pack}
    page.set_input_files("#file", file)
    page.wait_for_selector("#verdict strong")
    return page.inner_text("#verdict strong")


def test_a_person_sees_what_is_in_a_pack_with_the_keyboard_alone(browser: Browser) -> None:
    with opened(browser) as page:
        assert choose(page, small()) == "✓ Verified"
        facts = page.inner_text("dl")
        assert all(words in facts for words in ("demo", PUBLIC[0], "“signer 0 ü”", "https://a.example"))
        page.focus("#file")
        for _ in range(2):
            page.keyboard.press("Tab")
        page.keyboard.press("Enter")
        page.locator(".items pre").first.wait_for()
        assert "messages" in page.inner_text(".items pre >> nth=0")
        page.focus("form summary")
        page.keyboard.press("Enter")
        page.keyboard.press("Tab")
        page.keyboard.press("Tab")
        page.keyboard.type(PUBLIC[1].upper())
        page.keyboard.press("Enter")
        page.get_by_text("Check “key”, line 9").wait_for()
        assert page.inner_text("#result") == ""


def test_other_files_are_refused_by_name(browser: Browser) -> None:
    with opened(browser) as page:
        assert choose(page, b"{}") == "✗ Not a pack"
        assert choose(page, small().replace(b"POST", b"GET")) == "✗ Refused"
        assert "Check “request”, line 4" in page.inner_text("#verdict")


@pytest.mark.parametrize(("scheme", "width"), [("light", 1100), ("dark", 1100), ("light", 360)])
def test_axe_finds_nothing_serious_and_nothing_is_wider_than_the_window(
    browser: Browser, axe: str, scheme: Scheme, width: int
) -> None:
    pack = max((random_pack(Random(seed), (0,)) for seed in range(20)), key=len)
    with opened(browser, scheme=scheme, width=width) as page:
        page.evaluate(axe)
        # It would fetch the style sheet, which the page forbids.
        findings = FINDINGS.replace("axe.run({", "axe.run({ preload: false,")
        for each in (pack, small(), pack[:-1], b""):
            choose(page, each)
            for summary in page.locator("summary").all():
                summary.click()
            assert page.evaluate(findings) == []
            assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_no_text_of_a_pack_is_run(browser: Browser) -> None:
    with opened(browser) as page:
        for text in TEXTS:
            assert choose(page, small(text)) == "✓ Verified"
            page.locator("summary").last.click()
            page.locator(".items pre").last.wait_for()
            assert page.locator("main :is(img, svg, iframe, a, style, script)").count() == 0


def test_the_page_can_be_used_while_it_checks_a_large_file(browser: Browser) -> None:
    with opened(browser) as page:
        page.evaluate(TICKS)
        assert choose(page, random_pack(Random(1), entries=4_000)) == "✓ Verified"
        assert page.evaluate("ticks") > 3
        page.get_by_role("button", name="Later").last.click()
        page.get_by_text("101 to 200 of 4,000").wait_for()
