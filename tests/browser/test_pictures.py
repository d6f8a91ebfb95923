"""The pictures in a browser: their colours in both schemes, and that a click leads to the request."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlsplit

import pytest

import stenolog
from stenolog import AssistantMessage, UserMessage

from . import browsing, sessions
from .browsing import Scheme, path_of
from .conftest import Open, visits

if TYPE_CHECKING:
    from playwright.sync_api import Browser

COLOUR = "(element, name) => getComputedStyle(element)[name]"
CLEAR = "rgba(0, 0, 0, 0)"


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    db = tmp_path_factory.mktemp("pictures") / "talks.db"
    sessions.example(db)
    with browsing.inspected(db) as address:
        yield address


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_lines_of_the_context_have_colours_of_their_own(visit: Open, scheme: Scheme) -> None:
    page = visit("/context/demo?agent=coder", scheme=scheme)

    colours = page.locator(".context-plot path.line.rebuilt").evaluate_all(
        "lines => lines.map(line => getComputedStyle(line).stroke)"
    )
    assert colours
    assert not set(colours) & {"none", "rgb(0, 0, 0)", CLEAR}
    page_ground, plot_ground = (
        page.locator(where).first.evaluate(COLOUR, "backgroundColor") for where in ("body", ".context-plot")
    )
    assert page_ground == plot_ground


def test_a_click_into_the_context_leads_to_the_request_at_that_place(visit: Open) -> None:
    page = visit("/context/demo?agent=coder")
    place = page.locator(".context-plot a .hit").last
    wanted = page.locator(".context-plot a:has(.hit)").last.get_attribute("href")

    place.click()

    page.get_by_text("What coder is sent at").first.wait_for()
    assert parse_qs(urlsplit(page.url).query) == parse_qs(urlsplit(str(wanted)).query)
    assert path_of(page.url) == "/request/demo"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_state_of_a_lane_and_the_way_to_it_stand_out(visit: Open, scheme: Scheme) -> None:
    page = visit("/machine/demo?at=9", scheme=scheme)

    current, others = page.locator(".state.current"), page.locator(".state:not(.current)")
    assert current.count() == 1
    assert current.evaluate(COLOUR, "fill") != others.first.evaluate(COLOUR, "fill")
    taken, usual = page.locator(".way.taken"), page.locator(".way:not(.taken)").first
    assert taken.count() == 1
    assert taken.evaluate(COLOUR, "stroke") != usual.evaluate(COLOUR, "stroke")


def test_each_lane_is_shown_by_its_link(visit: Open) -> None:
    page = visit("/machine/demo?at=9&agent=coder")

    page.get_by_role("navigation", name="Agents").get_by_role("link", name="reviewer").click()

    page.get_by_role("heading", name="Machine of reviewer at entry 9").wait_for()


# The what-if bar in a browser: the request follows each notch, the newest wins, and a fork is a form.


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
def asked_url(db: Path) -> Iterator[str]:
    with browsing.inspected(db, "--allow-fork") as address:
        yield address


@pytest.fixture
def visit_asked(browser: Browser, asked_url: str) -> Iterator[Open]:
    yield from visits(browser, asked_url)


def test_the_request_follows_a_notch_of_the_slider_by_keys_alone(visit_asked: Open) -> None:
    page = visit_asked("/whatif/demo?agent=coder")
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


def test_of_many_changes_the_last_one_stays(visit_asked: Open) -> None:
    page = visit_asked("/whatif/demo?agent=coder")
    page.locator("#whatif .notches").wait_for(state="visible")
    page.locator("#whatif input[name=budget]").press_sequentially("900", delay=70)
    page.wait_for_url("**budget=900*")
    page.locator("#whatif:not(.waiting)").wait_for()
    by_itself = visit_asked("/whatif/demo?agent=coder&budget=900", javascript=False)
    assert page.locator("#whatif-sums").inner_text() == by_itself.locator("#whatif-sums").inner_text()


def test_a_condition_that_makes_no_sense_is_told_beside_the_fields(visit_asked: Open) -> None:
    page = visit_asked("/whatif/demo?agent=coder")
    page.locator("#whatif .notches").wait_for(state="visible")
    page.locator("#whatif input[name=without]").fill("nine")
    page.get_by_text("expected positions such as 91 or 40-44").wait_for()


def test_without_a_script_the_button_shows_the_same(visit_asked: Open) -> None:
    page = visit_asked("/whatif/demo?agent=coder", javascript=False)
    page.locator("#whatif input[name=without]").fill("3-8")
    page.get_by_role("button", name="See it").click()
    assert "hidden" in page.locator("#whatif-sums").inner_text()


@pytest.mark.parametrize("javascript", [True, False])
def test_a_button_begins_a_fork_and_leads_to_it(visit_asked: Open, javascript: bool) -> None:
    page = visit_asked("/whatif/demo?agent=coder&at=9", javascript=javascript)
    page.get_by_role("button", name="Fork before 9: 9 is not in it").click()
    page.wait_for_url("**/c/demo~*")
    assert page.get_by_text("fork of demo, 8").count() == 1


def test_the_page_of_a_request_follows_its_bar(visit_asked: Open) -> None:
    page = visit_asked("/request/demo?agent=coder")
    page.get_by_text("What if it were asked otherwise?").click()
    page.locator("#whatif input[name=without]").fill("4-7")
    page.get_by_text("hidden").first.wait_for()
    page.wait_for_url("**without=4-7*")
    page.locator("#panel .part.left-out").first.wait_for()
