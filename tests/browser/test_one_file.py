"""A conversation as one HTML file, opened from disk without a network."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import stenolog
from stenolog import AssistantMessage, LlmError, ModeSwitch, ToolCall, ToolResult, UserMessage
from stenolog.apps.cli.commands.see.demo import record_all
from stenolog.apps.inspect.one_file.page import write_page
from tests.inspect import hostile
from tests.one_file.stories import long_story

from .browsing import FINDINGS, Scheme

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Dialog, Page

CODE = """() => [...document.querySelectorAll("body *")].filter(each =>
    each.matches("iframe, object, embed, base, meta, style, img, svg, #content script")
    || [...each.attributes].some(one => one.name.startsWith("on"))
    || ["href", "action"].some(one => !/^(#.*)?$/.test(each.getAttribute(one) ?? ""))
).map(each => each.outerHTML.slice(0, 200))"""
HOSTILE = (
    "</script><script>alert(1)</script>",
    "<!--<script>alert(1)</script>",
    "--><img src=x onerror=alert(1)>",
    '"><svg onload=alert(1)>',
    "javascript:alert(1)",
    "</style><style>@import url(http://example.org/x.css);</style>",
    "![x](http://example.org/x.png)",
    "{{7*7}}",
    "a\x00b\u2028c\u2029d",
    "\u202eevil\u202c \u2066x\u2069",
    "\x1b[31mred\x1b[0m",
    "]]>&lt;b&gt;",
)


@contextmanager
def from_disk(
    browser: Browser, file: Path, *, scheme: Scheme = "light", javascript: bool = True, at: str = ""
) -> Iterator[Page]:
    """Open a file with the network off. Raises `AssertionError` for what it asks for or runs."""
    context = browser.new_context(
        color_scheme=scheme, viewport={"width": 1280, "height": 900}, java_script_enabled=javascript
    )
    context.set_offline(True)
    context.set_default_timeout(20_000)
    did: list[str] = []
    context.on("request", lambda request: did.append(f"asks for {request.url}"))

    def dismissed(dialog: Dialog) -> None:
        did.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    context.on("dialog", dismissed)
    context.on("console", lambda message: did.append(f"console: {message.text}"))
    context.on("weberror", lambda error: did.append(f"error: {error.error}"))
    page = context.new_page()
    page.on("popup", lambda popup: did.append(f"popup: {popup.url}"))
    address = file.as_uri() + at
    try:
        page.goto(address)
        if javascript:
            page.wait_for_selector(".item[aria-current]")
        yield page
        assert page.url.partition("#")[0] == file.as_uri()
    finally:
        context.close()
    assert {*did} == {f"asks for {file.as_uri()}"}


def written(conversation: stenolog.Conversation, file: Path) -> Path:
    with file.open("w", encoding="utf-8") as stream:
        write_page(conversation, stream)
    return file


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    with stenolog.open(":memory:") as log:
        return written(record_all(log), tmp_path_factory.mktemp("file") / "demo.html")


def test_the_request_of_the_last_call_is_shown_with_reasons_and_omissions(
    browser: Browser, demo: Path
) -> None:
    with from_disk(browser, demo, at="#at=35") as page:
        page.get_by_text("What coder was sent at entry 34").wait_for()
        shown = page.inner_text("#side")

        assert "answered at entry 35" in shown
        assert "the same as was sent" in shown
        assert "left out: a summary replaces it" in shown
        assert "left out: it is older than what the budget has room for" in shown
        assert "left out: there is no room for it beside what must stay" in shown
        assert '<message sender="reviewer">' in shown
        assert page.locator("#panel li.left-out").count() == 5
        page.locator("#panel .part a").first.click()
        page.locator(".item.shown").wait_for()


def test_keys_turns_and_addresses_lead_through_the_entries(browser: Browser, demo: Path) -> None:
    with from_disk(browser, demo) as page:

        def at(position: int) -> None:
            page.locator(f".item[aria-current][data-position='{position}']").wait_for()

        page.keyboard.press("G")
        at(36)
        mark = page.locator("#marks [aria-label='The error before'][data-entry]")
        error = int(mark.get_attribute("data-entry") or 0)
        for key, position in (("E", error), ("g", 2), ("j", 3), ("k", 2)):
            page.keyboard.press(key)
            at(position)
        page.locator("#outline .row").nth(1).click()
        chosen = page.get_attribute("#outline [aria-current]", "data-position")
        at(int(chosen or 0))
        page.wait_for_function(f"location.hash === '#at={chosen}'")
        page.keyboard.press("/")
        page.keyboard.type("no token")
        page.keyboard.press("Enter")
        at(5)
        page.evaluate("location.hash = '#at=35'")
        at(35)


def test_the_work_of_a_sub_agent_is_read_in_its_place_and_by_itself(browser: Browser, tmp_path: Path) -> None:
    brief = "Look for every caller of parse in this folder."
    call = ToolCall(id="t", name="Task", arguments=f'{{"prompt": "{brief}"}}')
    with stenolog.open(":memory:") as log:
        events = (
            UserMessage("Who calls parse?", to=["coder"]),
            AssistantMessage(agent="coder", parts=[call]),
            UserMessage(brief, author="coder", author_kind="agent", to=["scout"]),
            AssistantMessage(agent="scout", text="Only cron does."),
            ToolResult(call_id="t", text="It is cron."),
        )
        log["x"].extend(events, expected=0)
        file = written(log["x"], tmp_path / "sub.html")
    with from_disk(browser, file) as page:
        page.locator("summary").get_by_text("sub-agent scout").click()
        page.locator("details.agent .item").get_by_text("Only cron does.").wait_for()
        page.get_by_role("link", name="Read what scout did").click()
        page.get_by_text("this is scout").wait_for()
        page.locator("#text > .piece > .item").get_by_text("Only cron does.").wait_for()
        page.get_by_role("link", name="Back to the whole conversation").click()
        page.locator("#text > .piece > .item").get_by_text("Who calls parse?").wait_for()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious_and_nothing_is_wider_than_the_window(
    browser: Browser, demo: Path, axe: str, scheme: Scheme
) -> None:
    with from_disk(browser, demo, scheme=scheme, at="#at=28") as page:
        page.evaluate(axe)
        for width in (1280, 700):
            page.set_viewport_size({"width": width, "height": 900})
            assert page.evaluate(FINDINGS) == [], width
            assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_without_javascript_the_first_entries_are_there(browser: Browser, demo: Path) -> None:
    with from_disk(browser, demo, javascript=False) as page:
        shown = page.inner_text("body")
        assert "Which test fails, and why?" in shown
        assert "Thanks! What did we change in all?" in shown


def test_hostile_texts_in_every_field_run_nothing(browser: Browser, tmp_path: Path) -> None:
    with stenolog.open(":memory:") as log:
        talk = log["</title><script>alert(1)</script>"]
        for text in HOSTILE:
            visible = text.replace("\x00", "").replace("/", "")
            talk.join(visible, model=visible, persona=text)
            talk.append(ModeSwitch(mode=text, title=text), expected=len(talk))
            talk.append(UserMessage(text, author=text, to=[visible]))
            call = ToolCall(id=visible, name=visible, arguments=text)
            talk.append(AssistantMessage(agent=visible, text=text, tool_calls=[call], model=text))
            talk.append(ToolResult(call_id=visible, name=text, text=text))
            talk.append(LlmError(agent=visible, category="other", message=text, text=text))
        count, file = len(talk), written(talk, tmp_path / "hostile.html")

    with from_disk(browser, file) as page:
        for at in range(1, count + 1):
            page.evaluate(f"location.hash = '#at={at}'")
            page.locator("#panel h2, #panel p").first.wait_for()
            assert page.locator("main script, img, svg, main style, iframe").count() == 0
        assert "</script><script>alert(1)</script>" in page.evaluate("document.body.textContent")
    with from_disk(browser, file, javascript=False) as page:
        assert page.locator("img, svg, main script").count() == 0


@pytest.mark.parametrize("text", hostile.TEXTS, ids=range(len(hostile.TEXTS)))
def test_a_hostile_text_in_every_field_of_every_event_is_text(
    browser: Browser, tmp_path: Path, text: str
) -> None:
    with stenolog.open(":memory:") as log:
        talk = log[hostile.write(log, text)]
        file, count = written(talk, tmp_path / "hostile.html"), len(talk)
    with from_disk(browser, file) as page:
        for at in (*range(1, count + 1, 4), count):
            page.evaluate(f"location.hash = '#at={at}'")
            page.locator("#panel h2, #panel p").first.wait_for()
            assert page.evaluate(CODE) == []


def test_a_long_log_has_only_the_rows_that_are_seen(browser: Browser, tmp_path: Path) -> None:
    with stenolog.open(":memory:") as log:
        log["long"].extend(list(long_story(5_000)))
        count, file = len(log["long"]), written(log["long"], tmp_path / "long.html")

    with from_disk(browser, file, at=f"#at={count}") as page:
        assert page.locator(f".item[data-position='{count}']").is_visible()
        for key in ("g", "G", "["):
            page.keyboard.press(key)
            assert page.locator("*").count() < 4_000
        took = page.evaluate(
            """async () => {
              const begin = performance.now();
              location.hash = "#at=2500";
              while (!document.querySelector(".item[aria-current][data-position^='2']")) {
                await new Promise(requestAnimationFrame);
              }
              return performance.now() - begin;
            }"""
        )
        assert took < 250  # 50 ms on an idle machine
