"""The page of a long conversation in a browser: rows come and go, it grows, Back leads back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import stenolog
from stenolog import AssistantMessage, LlmError, UserMessage

from . import browsing
from .conftest import Open

if TYPE_CHECKING:
    from playwright.sync_api import Page

ENTRIES = 3001
SHOWN = "[aria-current=true][data-position='{}']"
ROW_HIT = """() => {
  const box = document.getElementById("list").getBoundingClientRect();
  const hit = document.elementFromPoint(box.left + box.width / 2, box.top + box.height / 2);
  return +hit.closest(".row").dataset.position;
}"""


@pytest.fixture(scope="module")
def db(tmp_path_factory: pytest.TempPathFactory) -> Path:
    db = tmp_path_factory.mktemp("long") / "talks.db"
    with stenolog.open(db) as log:
        talk = log["long"]
        talk.join("coder", persona="You mend what is broken.")
        while len(talk) < ENTRIES - 1:
            talk.extend(
                [
                    UserMessage(f"Question {len(talk)}", to=["coder"]),
                    AssistantMessage(agent="coder", text="Let me think about it, word by word."),
                    LlmError(agent="coder", category="timeout"),
                ]
            )
    return db


@pytest.fixture(scope="module")
def url(db: Path) -> Iterator[str]:
    with browsing.inspected(db) as address:
        yield address


def number_at(page: Page) -> int:
    """Return the position that the address names."""
    return int(page.evaluate("new URL(location).searchParams.get('at')"))


def test_rows_come_and_go_and_the_page_stays_small(visit: Open) -> None:
    page = visit("/c/long?at=1500&agent=coder")
    page.locator(SHOWN.format(1500)).wait_for()
    for place in (0, 40_000, 70_000, 20_000):
        page.evaluate("top => { document.getElementById('list').scrollTop = top; }", place)
        page.locator(f".row[data-index='{place // 26 + 5}']").wait_for()
        assert page.evaluate("document.querySelectorAll('.row').length") < 120
        assert page.evaluate("document.querySelectorAll('*').length") < 2000


def test_a_click_shows_the_row_that_was_hit_and_nothing_moves(visit: Open) -> None:
    page = visit("/c/long?at=1500&agent=coder")
    page.locator(SHOWN.format(1500)).wait_for()
    page.evaluate("document.getElementById('list').scrollTop = 30000")
    page.locator(f".row[data-index='{30000 // 26 + 15}']").wait_for()
    hit = page.evaluate(ROW_HIT)
    before = page.evaluate("document.getElementById('list').scrollTop")
    page.locator(f"#p{hit}").click()
    page.locator(SHOWN.format(hit)).wait_for()
    page.get_by_text(f"What coder is sent at entry {hit}").wait_for()
    assert number_at(page) == hit
    assert page.evaluate("document.getElementById('list').scrollTop") == before
    assert page.evaluate(ROW_HIT) == hit


def test_back_leads_to_the_place_before_a_jump_and_not_through_every_step(visit: Open) -> None:
    page = visit("/c/long?at=1500&agent=coder")
    for _ in range(3):
        page.keyboard.press("j")
    page.locator(SHOWN.format(1503)).wait_for()
    page.keyboard.press("G")
    page.locator(SHOWN.format(ENTRIES)).wait_for()
    page.go_back()
    page.locator(SHOWN.format(1503)).wait_for()
    assert number_at(page) == 1503
    page.go_forward()
    page.locator(SHOWN.format(ENTRIES)).wait_for()


def test_keys_lead_to_errors_to_the_search_and_to_the_keys(visit: Open) -> None:
    page = visit("/c/long?at=1500&agent=coder")
    page.keyboard.press("e")
    page.locator(SHOWN.format(1501)).wait_for()
    page.keyboard.press("E")
    page.locator(SHOWN.format(1498)).wait_for()
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.name") == "q"
    page.keyboard.press("Escape")
    page.keyboard.press("?")
    page.get_by_role("dialog").get_by_text("next error").wait_for()
    page.keyboard.press("Escape")
    assert page.get_by_role("dialog").count() == 0


def test_a_filter_stays_in_the_address_and_steps_go_from_row_to_row(visit: Open) -> None:
    page = visit("/c/long?at=1501&agent=coder")
    page.get_by_label("Kind of entries").select_option("errors")
    page.wait_for_url("**only=errors**")
    page.locator(SHOWN.format(1501)).wait_for()
    page.keyboard.press("j")
    page.locator(SHOWN.format(1504)).wait_for()
    assert "only=errors" in page.url
    assert page.get_by_text("1000 of").count() == 1


def test_the_page_follows_at_the_end_pauses_when_one_scrolls_away_and_goes_on(visit: Open, db: Path) -> None:
    page = visit("/c/long?agent=coder")
    page.get_by_text("● live").wait_for()
    with stenolog.open(db) as log:
        talk = log["long"]
        talk.append(UserMessage("A new question"))
        page.locator(SHOWN.format(len(talk))).wait_for()
        page.locator("#list").hover()
        page.mouse.wheel(0, -5000)
        page.get_by_text("paused").wait_for()
        talk.append(UserMessage("Another one"))
        page.get_by_text("paused, 1 new").wait_for()
        assert number_at(page) == len(talk) - 1
        page.locator("#live").click()
        page.locator(SHOWN.format(len(talk))).wait_for()
        page.get_by_text("● live").wait_for()
        talk.append(UserMessage("And one more"))
        page.locator(SHOWN.format(len(talk))).wait_for()


def test_without_scripts_links_lead_through_the_whole_conversation(visit: Open) -> None:
    page = visit("/c/long?at=1500&agent=coder", javascript=False)
    page.get_by_role("link", name="Earlier entries").click()
    assert number_at(page) < 1500
    page.get_by_role("link", name="The next error (e)").click()
    assert page.locator("[aria-current=true] .kind").inner_text() == "error"


def test_a_link_of_an_entry_leads_to_its_page(visit: Open) -> None:
    page = visit("/c/long?at=1500&agent=coder")
    page.locator(SHOWN.format(1500)).wait_for()
    page.get_by_role("link", name="Where it went", exact=True).click()
    page.get_by_role("heading", name="Where it went").wait_for()
    assert number_at(page) == 1500
    page.wait_for_load_state()  # the page is sent while it is worked out
