"""The page of the example of a web service, in a browser: an answer streams in, and a call is approved."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from tests.examples.web_service import whole
from tests.postgres.server import NEWEST, Server
from tests.workers.given import jobs_dropped

from . import browsing

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

SLOWLY = "0.15"
"""Seconds between two pieces of an answer: long enough to look at it while it streams."""
ANSWER = "You said: hello. A worker streams this answer, and any web process shows it as it comes."


@pytest.fixture(scope="module")
def url(postgres: Callable[[str], Server]) -> Iterator[str]:
    """Yield the URL of the whole example."""
    server = postgres(NEWEST)
    with server.schema() as address:
        with whole("--db", address, PAUSE=SLOWLY) as example:
            yield example.url
        jobs_dropped(server, address)


@contextmanager
def talk(browser: Browser, url: str, name: str) -> Iterator[Page]:
    """Open the page of a conversation."""
    with browsing.opened(browser, f"{url}/#{name}", width=700) as (page, _):
        yield page


def test_an_answer_streams_in_and_its_entry_takes_its_place(browser: Browser, url: str) -> None:
    with talk(browser, url, "answer") as page:
        page.get_by_label("Message").fill("hello")
        page.get_by_role("button", name="Send").click()
        page.locator("p.piece").filter(has_text="You said: hello").wait_for()
        growing = page.locator("p.piece").inner_text()
        page.locator("p.assistant_message").wait_for()

        assert growing.removeprefix("helper") != ANSWER
        assert page.locator("p.piece").count() == 0
        assert page.locator("#log p").all_inner_texts() == ["userhello", f"helper{ANSWER}"]


def test_a_page_that_is_opened_again_shows_the_same(browser: Browser, url: str) -> None:
    with talk(browser, url, "answer") as page:
        page.locator("p.assistant_message").wait_for()

        assert page.locator("#log p").all_inner_texts() == ["userhello", f"helper{ANSWER}"]


def test_a_call_is_approved_by_a_click(browser: Browser, url: str) -> None:
    with talk(browser, url, "call") as page:
        page.get_by_label("Message").fill("deploy it")
        page.get_by_role("button", name="Send").click()
        page.get_by_role("button", name="Approve").click()
        page.locator("p.assistant_message").filter(has_text="Done: it is deployed.").wait_for()

        assert page.get_by_role("button", name="Approve").count() == 0


def test_an_answer_is_stopped_by_a_click(browser: Browser, url: str) -> None:
    with talk(browser, url, "stop") as page:
        page.get_by_label("Message").fill("hello " * 50)
        page.get_by_role("button", name="Send").click()
        page.locator("p.piece").wait_for()
        page.get_by_role("button", name="Stop").click()
        page.locator("p.llm_error").wait_for()

        assert page.locator("p.piece, p.assistant_message").count() == 0
