"""The what-if bar in a browser: the request follows each notch, the newest wins, and a fork is a form."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import stenolog
from stenolog import AssistantMessage, UserMessage

from . import browsing
from .conftest import Open


@pytest.fixture(scope="module")
def db(tmp_path_factory: pytest.TempPathFactory) -> Path:
    db = tmp_path_factory.mktemp("whatif") / "talks.db"
    with stenolog.open(db) as log:
        talk = log["demo"]
        talk.join("coder", model="gpt-5.2", persona="You mend what is broken.")
        for number in range(60):
            talk.append(UserMessage(f"Please look at the part {number} of it.", to=["coder"]))
            talk.append(AssistantMessage(agent="coder", text=f"The part {number} is well, and was before."))
        talk.append(UserMessage("And the last one?", to=["coder"]))
    return db


@pytest.fixture(scope="module")
def url(db: Path) -> Iterator[str]:
    with browsing.inspected(db, "--allow-fork") as address:
        yield address


def test_the_request_follows_a_notch_of_the_slider_by_keys_alone(visit: Open) -> None:
    page = visit("/whatif/demo?agent=coder")
    slider = page.locator("#whatif .notches")
    slider.wait_for(state="visible")
    slider.focus()
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowLeft")
    page.get_by_text("over-budget").first.wait_for()
    budget = page.locator("#whatif input[name=budget]").input_value()
    page.wait_for_url(f"**budget={budget}*")
    page.locator("#panel .part.left-out").first.wait_for()
    page.keyboard.press("End")
    page.get_by_text("no model is called").wait_for()
    assert page.locator("#whatif input[name=budget]").input_value() == ""


def test_of_many_changes_the_last_one_stays(visit: Open) -> None:
    page = visit("/whatif/demo?agent=coder")
    page.locator("#whatif .notches").wait_for(state="visible")
    page.locator("#whatif input[name=budget]").press_sequentially("900", delay=70)
    page.wait_for_url("**budget=900*")
    page.locator("#whatif:not(.waiting)").wait_for()
    by_itself = visit("/whatif/demo?agent=coder&budget=900", javascript=False)
    assert page.locator("#whatif-sums").inner_text() == by_itself.locator("#whatif-sums").inner_text()


def test_a_condition_that_makes_no_sense_is_told_beside_the_fields(visit: Open) -> None:
    page = visit("/whatif/demo?agent=coder")
    page.locator("#whatif .notches").wait_for(state="visible")
    page.locator("#whatif input[name=without]").fill("nine")
    page.get_by_text("expected positions such as 91 or 40-44").wait_for()


def test_without_a_script_the_button_shows_the_same(visit: Open) -> None:
    page = visit("/whatif/demo?agent=coder", javascript=False)
    page.locator("#whatif input[name=without]").fill("3-8")
    page.get_by_role("button", name="See it").click()
    assert "hidden" in page.locator("#whatif-sums").inner_text()


@pytest.mark.parametrize("javascript", [True, False])
def test_a_button_begins_a_fork_and_leads_to_it(visit: Open, javascript: bool) -> None:
    page = visit("/whatif/demo?agent=coder&at=9", javascript=javascript)
    page.get_by_role("button", name="Fork before 9: 9 is not in it").click()
    page.wait_for_url("**/c/demo~*")
    assert page.get_by_text("fork of demo, 8").count() == 1


def test_the_page_of_a_request_follows_its_bar(visit: Open) -> None:
    page = visit("/request/demo?agent=coder")
    page.get_by_text("What if it were asked otherwise?").click()
    page.locator("#whatif input[name=without]").fill("4-7")
    page.get_by_text("hidden").first.wait_for()
    page.wait_for_url("**without=4-7*")
    page.locator("#panel .part.left-out").first.wait_for()
