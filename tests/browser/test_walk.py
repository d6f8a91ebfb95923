"""A walk over every screen, by mouse and by keyboard alone; and what axe-core finds there."""

from __future__ import annotations

import json
import re
import shutil
import threading
from collections.abc import Iterator
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, urlsplit
from uuid import UUID, uuid5

import pytest

from tests.requests.judging import SHARED

from . import browsing, sessions
from .browsing import FINDINGS, Scheme
from .conftest import Open
from .screens import AT, SCREENS, Screen

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

MOST_TABS = 80
LINKED = {name: screen for name, screen in SCREENS.items() if screen.link}
SIZES: list[tuple[Scheme, int]] = [(scheme, width) for scheme in ("light", "dark") for width in (1280, 700)]


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    db = tmp_path_factory.mktemp("walk") / "talks.db"
    sessions.example(db)
    with browsing.inspected(db) as address:
        yield address


def address(page: Page) -> tuple[str, dict[str, str]]:
    """Return the path and the query of a page."""
    parts = urlsplit(page.url)
    return browsing.path_of(page.url), dict(parse_qsl(parts.query))


def is_at(page: Page, screen: Screen) -> bool:
    """Return whether a page is a screen; its address may say more than the screen's."""
    parts = urlsplit(screen.path)
    path, query = address(page)
    return path == parts.path and dict(parse_qsl(parts.query)).items() <= query.items()


def test_every_page_has_a_row_in_the_table_of_screens() -> None:
    from stenolog.apps.inspect.app import PAGES

    walked = {screen.path.split("?")[0].split("/")[1] for screen in SCREENS.values()}
    assert {page.name for page in PAGES if page.twin is not None} <= walked


@pytest.mark.parametrize("name", SCREENS)
def test_every_screen_shows_what_it_is_for_with_and_without_scripts(visit: Open, name: str) -> None:
    screen = SCREENS[name]
    for javascript in (True, False):
        page = visit(screen.path, javascript=javascript)
        assert screen.shows in page.inner_text("body")
        assert page.title()
        assert page.locator("h1").count() == 1


@pytest.mark.parametrize("name", LINKED)
def test_every_screen_is_reached_by_mouse(visit: Open, name: str) -> None:
    screen = LINKED[name]
    page = visit(screen.start)
    if screen.is_folded:
        page.get_by_text("More", exact=True).click()
    page.get_by_role("link", name=screen.link, exact=True).first.click()
    page.get_by_text(screen.shows).first.wait_for()
    assert is_at(page, screen)


@pytest.mark.parametrize("name", LINKED)
def test_every_screen_is_reached_by_keyboard_alone(visit: Open, name: str) -> None:
    screen = LINKED[name]
    page = visit(screen.start)
    wanted = page.get_by_role("link", name=screen.link, exact=True).first
    for _ in range(MOST_TABS):
        page.keyboard.press("Tab")
        if screen.is_folded and page.evaluate("document.activeElement.textContent") == "More":
            page.keyboard.press("Enter")
        elif wanted.count() and wanted.evaluate("link => link === document.activeElement"):
            break
    else:
        pytest.fail(f"{screen.link!r} is not reached by {MOST_TABS} times Tab")
    outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert outline != "none", "the focus is invisible"
    page.keyboard.press("Enter")
    page.get_by_text(screen.shows).first.wait_for()
    assert is_at(page, screen)


@pytest.mark.parametrize("name", SCREENS)
def test_axe_finds_nothing_serious_and_nothing_is_wider_than_the_window(
    visit: Open, axe: str, name: str
) -> None:
    page = visit(SCREENS[name].path)
    page.evaluate(axe)
    for scheme, width in SIZES:
        page.emulate_media(color_scheme=scheme)
        page.set_viewport_size({"width": width, "height": 900})
        assert page.evaluate(FINDINGS) == [], (scheme, width)
        assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_keys_move_through_a_conversation_and_the_address_follows(visit: Open) -> None:
    page = visit(f"/c/demo?at={AT}&agent=coder")
    last = int(page.locator("#slider").get_attribute("max") or 0)
    for key, at in (("j", AT + 1), ("k", AT), ("]", AT + 10), ("[", AT), ("g", 1), ("G", last), ("e", 4)):
        page.keyboard.press(key)
        page.wait_for_function("at => new URL(location).searchParams.get('at') == at", arg=str(at))
        page.locator(f"[aria-current=true][data-position='{at}']").wait_for()
        page.get_by_text(f"What coder is sent at entry {at}").wait_for()


def test_the_slider_moves_by_arrow_keys(visit: Open) -> None:
    page = visit("/c/demo?at=9&agent=coder")
    page.locator("#slider").focus()
    page.keyboard.press("ArrowRight")
    page.get_by_text("What coder is sent at entry 10").wait_for()
    assert address(page)[1]["at"] == "10"


def test_a_search_by_keyboard_leads_to_the_entry(visit: Open) -> None:
    page = visit("/")
    page.get_by_role("searchbox").focus()
    page.keyboard.type("parser")
    page.keyboard.press("Enter")
    page.get_by_text("The parser reads local time.").first.wait_for()
    assert address(page) == ("/", {"q": "parser"})


def test_another_server_of_this_machine_is_sent_neither_the_cookie_nor_the_place(
    browser: Browser, url: str
) -> None:
    asked: list[str] = []

    class Elsewhere(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(f"{self.path} {self.headers}")
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    context = browser.new_context()
    with ThreadingHTTPServer(("127.0.0.1", 0), Elsewhere) as server, closing(context):
        threading.Thread(target=server.serve_forever, daemon=True).start()
        page = context.new_page()
        page.goto(url)
        place = browsing.site(page.url).rpartition("/")[2]
        (cookie,) = context.cookies(page.url)
        page.evaluate("there => { location.href = there }", f"http://127.0.0.1:{server.server_port}/")
        page.wait_for_url(f"http://127.0.0.1:{server.server_port}/")
        page.goto(url)
        assert page.locator("h1").count() == 1
        server.shutdown()

    assert asked
    for secret in (place, str(cookie["value"]), urlsplit(url).query):
        assert not [each for each in asked if secret in each]


# A stranger with a folder of sessions, and one command.

SESSIONS = 300
IMPORT_MS = 120_000
BAKERY = Path(__file__).parents[2] / "docs" / "examples" / "session.jsonl"
TRANSCRIPTS = SHARED / "transcripts"
MOST_COPIED = 250_000
ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
DONE = re.compile(r"30\d files, \d+ conversations in them; 1 not recognised")
QUESTION = "How many loaves does oven.py bake at most?"
NEW = "Is this one new?"
DROP = """([name, text]) => {
    const data = new DataTransfer();
    data.items.add(new File([text], name));
    for (const type of ["dragover", "drop"]) document.body.dispatchEvent(
        new DragEvent(type, { dataTransfer: data, bubbles: true, cancelable: true }));
}"""


def message(words: str) -> str:
    return json.dumps({"role": "user", "content": words}) + "\n"


def copied(source: Path, number: int) -> str:
    """Return another session of the same words: its ids are new."""
    return ID.sub(lambda found: str(uuid5(UUID(found.group()), str(number))), source.read_text())


@pytest.fixture(scope="module")
def sessions_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the real sessions that are here, the example, and copies of the small ones."""
    folder = tmp_path_factory.mktemp("sessions")
    found = [path for name in ("claude_code", "codex") for path in (TRANSCRIPTS / name).glob("*.jsonl")]
    originals = [BAKERY, *sorted(found)]
    small = [path for path in originals if path.stat().st_size < MOST_COPIED]
    for path in originals:
        shutil.copy(path, folder)
    for number in range(SESSIONS - len(originals) - 1):
        (folder / f"{number:03}.jsonl").write_text(copied(small[number % len(small)], number))
    (folder / "note.json").write_text("{}")
    return folder


@pytest.fixture(scope="module")
def stranger(sessions_folder: Path) -> Iterator[str]:
    db = sessions_folder.with_name("stranger.db")
    with browsing.inspected(db, str(sessions_folder), "--allow-import") as address:
        yield address


def tab_to(page: Page, wanted: str, key: str = "Tab") -> None:
    """Press Tab until an element has the focus, which must be seen."""
    for _ in range(MOST_TABS):
        page.keyboard.press(key)
        if page.evaluate("wanted => document.activeElement.matches(wanted)", wanted):
            break
    else:
        pytest.fail(f"{wanted} is not reached by {MOST_TABS} times Tab")
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") != "none"


def go_to(page: Page, wanted: str, shows: str, key: str = "Tab") -> None:
    """Reach a link by Tab, follow it, and wait for the page."""
    tab_to(page, wanted, key)
    page.keyboard.press("Enter")
    page.get_by_text(shows).first.wait_for()


def press_until(page: Page, key: str, wanted: str) -> str:
    """Press a key until the chosen entry of Read has this in it; return its words."""
    found = page.locator(f".item[aria-current=true] {wanted}")
    for _ in range(MOST_TABS):
        if found.count():
            return found.first.inner_text()
        page.keyboard.press(key)
        page.wait_for_timeout(200)
    pytest.fail(f"{wanted} is not reached by {key}")


def test_the_list_says_how_far_an_import_is_without_a_reload_and_can_be_used_meanwhile(
    browser: Browser, stranger: str, sessions_folder: Path
) -> None:
    with browsing.opened(browser, stranger) as (page, _):
        page.evaluate("window.isSame = true")
        page.get_by_role("searchbox").fill("what")
        page.get_by_text(DONE).first.wait_for(timeout=IMPORT_MS)
        page.get_by_text("Not imported, and why").click()
        page.get_by_text("note.json").wait_for()
        new = copied(BAKERY, SESSIONS).replace(QUESTION, NEW).replace("2026-11-20", "2026-11-21")
        (sessions_folder / "new.jsonl").write_text(new)
        page.get_by_text(NEW).wait_for()
        assert page.get_by_role("searchbox").input_value() == "what"
        assert page.locator("#importing details").get_attribute("open") is not None
        assert page.evaluate("window.isSame")


@pytest.mark.parametrize(("scheme", "width"), SIZES)
def test_by_keyboard_alone_a_stranger_reads_a_session_and_finds_the_dearest_request_and_who_asked_for_a_call(
    browser: Browser, stranger: str, axe: str, tmp_path: Path, scheme: Scheme, width: int
) -> None:
    def looked(step: str) -> None:
        page.screenshot(path=tmp_path / f"{step}-{width}-{scheme}.png")
        page.evaluate(axe)
        assert page.evaluate(FINDINGS) == [], step
        assert page.evaluate("document.documentElement.scrollWidth") <= width

    with browsing.opened(browser, stranger, scheme=scheme, width=width) as (page, _):
        page.get_by_text(DONE).first.wait_for(timeout=IMPORT_MS)
        page.locator("#found tbody tr").first.wait_for()
        looked("1-list")
        page.keyboard.press("Tab")
        page.keyboard.press("Enter")  # past the form
        tab_to(page, "#found a[href*='/read/']")
        page.keyboard.press("Enter")
        page.locator(".item[aria-current=true][data-turn='1']").wait_for()
        page.keyboard.press("j")
        page.locator("#panel").get_by_text("is sent at entry").wait_for()
        looked("2-read")
        go_to(page, "header .home", "Cost of all", "Shift+Tab")
        go_to(page, "#found a[href$='/costs']", "The dearest requests")
        # Requests are counted and compared while one looks.
        page.locator("main [role=status]").wait_for(state="detached", timeout=IMPORT_MS)
        why = page.locator("main table tbody tr:first-child td:last-child").first
        why.filter(has_text=re.compile(r"\w")).wait_for(timeout=IMPORT_MS)
        looked("3-dearest")
        go_to(page, "main table a[href*='/read/']", "cache missed")
        assert "tokens read anew" in press_until(page, "k", ".miss")
        looked("4-why")
        # The words of a call: which entry had them before the model?
        call = press_until(page, "k", ".gist:not(:empty)")
        page.keyboard.press("w")
        page.keyboard.type(max(call.split(), key=len))
        page.keyboard.press("Enter")
        page.locator("#origins").get_by_text("was in entry").first.wait_for()
        looked("5-who-asked")


def test_a_dropped_file_is_imported_after_a_yes_and_a_hostile_name_is_text(
    browser: Browser, stranger: str
) -> None:
    with browsing.opened(browser, stranger) as (page, _):
        page.evaluate(DROP, ["<img src=x onerror=alert(1)>.jsonl", message("Dropped, was I?")])
        page.get_by_role("heading", name="Import these files?").wait_for()
        page.get_by_text("<img src=x onerror=alert(1)>.jsonl").wait_for()
        page.keyboard.press("Escape")
        page.get_by_role("dialog").wait_for(state="hidden")
        assert page.get_by_text("Dropped, was I?").count() == 0
        page.evaluate(DROP, ["dropped.jsonl", message("Dropped, was I?")])
        page.get_by_role("button", name="Import", exact=True).click()
        page.locator("#text").get_by_text("Dropped, was I?").wait_for()


def test_one_file_is_opened_once_it_is_imported_and_the_list_is_a_step_back(
    browser: Browser, tmp_path: Path
) -> None:
    for _ in ("imported now", "known by now"):
        with (
            browsing.inspected(tmp_path / "talks.db", str(BAKERY)) as url,
            browsing.opened(browser, url) as (page, _),
        ):
            page.locator("#text").get_by_text(QUESTION).wait_for(timeout=IMPORT_MS)
            page.go_back()
            page.get_by_role("link", name=QUESTION).wait_for()
            page.wait_for_timeout(1_500)
            assert page.locator("#text").count() == 0


def test_without_the_option_the_page_says_how_a_dropped_file_is_imported(visit: Open) -> None:
    page = visit("/")
    page.evaluate(DROP, ["dropped.jsonl", message("Dropped, was I?")])
    page.get_by_text("--allow-import").wait_for()
    page.get_by_role("button", name="Close").click()
