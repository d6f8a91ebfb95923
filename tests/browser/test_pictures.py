"""The pictures in a browser: their colours in both schemes, and that a click leads to the request."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import parse_qs, urlsplit

import pytest

from . import browsing, sessions
from .browsing import Scheme, path_of
from .conftest import Open

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

    page.get_by_role("navigation", name="Lanes").get_by_role("link", name="reviewer").click()

    page.get_by_role("heading", name="Machine of reviewer at 9").wait_for()
