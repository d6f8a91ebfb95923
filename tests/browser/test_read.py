"""A long conversation that is read in a browser: by keyboard, by turns, and by selected words."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import stenolog
from stenolog import AssistantMessage, LlmError, ToolCall, ToolResult, UserMessage
from tests.inspect.hostile import LONG_LINE, TEXTS

from . import browsing
from .conftest import Open
from .test_hostile import CODE

if TYPE_CHECKING:
    from playwright.sync_api import Browser

TURNS = 500
EVIL = (*TEXTS, LONG_LINE[:1_000_000])
CURRENT = ".item[aria-current=true][data-position='{}']"
SELECT = """words => {
    const walker = document.createTreeWalker(document.getElementById("text"), NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
        const node = walker.currentNode, start = node.data.indexOf(words);
        if (start >= 0) return getSelection().setBaseAndExtent(node, start, node, start + words.length);
    }
}"""


@pytest.fixture(scope="module")
def db(tmp_path_factory: pytest.TempPathFactory) -> Path:
    db = tmp_path_factory.mktemp("read") / "talks.db"
    with stenolog.open(db) as log:
        talk = log["long"]
        talk.join("coder", persona="You mend what is broken.")
        events: list[stenolog.Event] = []
        for turn in range(1, TURNS + 1):
            call = ToolCall(id=f"c{turn}", name="shell", arguments=json.dumps({"command": "pytest -q"}))
            events.append(UserMessage(f"Please mend the number {turn} of all.", to=["coder"]))
            events.append(AssistantMessage(agent="coder", parts=[call]))
            events.append(ToolResult(call_id=call.id, text=f"{turn} failed", is_error=turn % 100 == 0))
            events.append(AssistantMessage(agent="coder", text=f"I mend **the number {turn}** now."))
        talk.extend([*events, LlmError(agent="coder", category="timeout")], expected=talk.position)
        parent = log["parent"]
        brief = "Look for every caller of parse in this folder."
        call = ToolCall(id="t", name="Task", arguments=json.dumps({"prompt": brief}))
        parent.extend(
            [
                UserMessage("Who calls parse?", to=["coder"]),
                AssistantMessage(agent="coder", parts=[call]),
                UserMessage(brief, author="coder", author_kind="agent", to=["scout"]),
                AssistantMessage(agent="scout", text="Only cron does."),
                ToolResult(call_id="t", text="Only cron does."),
            ],
            expected=0,
        )
        log["settings"].join("coder", persona="You mend what is broken.")
        log["nobody"].append(UserMessage("Is anybody there?"))
        evil = log["evil"]
        evil.join("coder", persona="p")
        for text in EVIL:
            given = json.dumps({"file_path": text, "old_string": text, "new_string": f"```{text}\n{text}"})
            evil.append(
                UserMessage(
                    f"{text}\n\n```{text}\n{text}\n```\n\n[{text}]({text}) <{text}>\n\n![{text}]({text})"
                )
            )
            evil.append(AssistantMessage(agent="coder", parts=[ToolCall(id="c", name=text, arguments=given)]))
            evil.append(ToolResult(call_id="c", text=f"diff --git {text}\n+{text}\n-{text}"))
    return db


@pytest.fixture(scope="module")
def url(db: Path) -> Iterator[str]:
    with browsing.inspected(db) as address:
        yield address


def test_pieces_come_as_one_scrolls_and_the_page_stays_small(visit: Open) -> None:
    page = visit("/read/long?turn=1")
    page.locator(CURRENT.format(2)).wait_for()
    for _ in range(30):
        page.locator("#text").hover()
        page.mouse.wheel(0, 1500)
        page.wait_for_timeout(40)
    page.wait_for_function("+document.querySelector('#text .item:last-child').dataset.position > 150")
    assert page.evaluate("document.querySelectorAll('#text .item').length") < 120
    assert page.evaluate("document.querySelectorAll('*').length") < 4000
    page.keyboard.press("g")
    page.locator(CURRENT.format(2)).wait_for()


def test_turns_and_errors_are_reached_by_keys_and_back_leads_back(visit: Open) -> None:
    page = visit("/read/long?turn=3")
    page.locator(CURRENT.format(10)).wait_for()
    for key, at in (("]", 14), ("[", 10), ("j", 11), ("k", 10)):
        page.keyboard.press(key)
        page.locator(CURRENT.format(at)).wait_for()
    page.keyboard.press("j")
    page.get_by_text("What coder is sent at entry 10").wait_for()
    page.keyboard.press("G")
    page.locator(CURRENT.format(4 * TURNS + 2)).wait_for()
    page.locator("#outline").get_by_text(f"{TURNS} Please mend").wait_for()
    page.go_back()
    page.locator(CURRENT.format(11)).wait_for()
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.name") == "q"
    page.keyboard.type("number 321")
    page.keyboard.press("Enter")
    page.get_by_text("found").first.wait_for()
    hit = page.locator(".hits a").last
    found = hit.get_attribute("data-entry")
    hit.click()
    page.locator(CURRENT.format(found)).get_by_text("the number 321").wait_for()


def test_errors_are_reached_by_keys_at_the_calls_whose_results_they_are(visit: Open) -> None:
    page = visit("/read/long?turn=99")
    page.locator(CURRENT.format(4 * 99 - 2)).wait_for()
    for key, turn in (("e", 100), ("e", 200), ("e", 300), ("E", 200), ("E", 100)):
        page.locator(f"#marks .error [data-entry='{4 * turn - 1}']").wait_for()
        page.keyboard.press(key)
        page.locator(CURRENT.format(4 * turn - 1)).wait_for()


def test_selected_words_lead_to_the_entry_that_put_them_into_the_request(visit: Open) -> None:
    page = visit("/read/long?at=17")
    page.get_by_text("What coder is sent at entry 16").wait_for()
    page.evaluate(SELECT, "the number 4")
    page.keyboard.press("w")
    page.locator(".origin").get_by_role("link", name="entry 14").click()
    page.locator(".item.shown[data-position='14']").wait_for()
    assert page.evaluate("[...CSS.highlights.get('origin')].map(String)") == ["the number 4"]
    page.get_by_text("What coder is sent at entry 16").wait_for()


def test_words_of_a_result_a_person_and_a_model_are_told_apart(visit: Open) -> None:
    for path, words, found in (
        ("/read/parent?at=3", "Only cron does.", "was in entry 6"),
        ("/read/parent?of=scout&at=4", "Only cron does.", "not in this request: the model's own words"),
        ("/read/long?at=10", "number 4 of", "was in entry 14"),
    ):
        page = visit(path)
        page.locator("#text").get_by_text(words).first.wait_for()
        page.evaluate(SELECT, words)
        page.keyboard.press("w")
        page.locator("#origins").get_by_text(found).wait_for()


def test_an_error_of_the_server_is_shown_as_its_words(browser: Browser, url: str) -> None:
    with browsing.opened(browser, url) as (page, watch):
        page.goto(browsing.site(page.url) + "/read/nobody")
        page.locator("#ask input[type=text]").fill("zebra")
        page.keyboard.press("Enter")
        page.locator("#origins").get_by_text("no agent has a request here").wait_for()
        assert page.locator("#origins *").count() == 1
        assert ["status of 400" in problem for problem in watch.problems] == [True]
        watch.problems.clear()


def test_a_turn_is_chosen_by_a_click_and_the_list_follows(visit: Open) -> None:
    page = visit("/read/long?turn=250")
    page.locator("#outline").get_by_text("250 Please mend").wait_for()
    page.locator("#outline").get_by_text("255 Please mend").click()
    page.locator(CURRENT.format(254 * 4 + 2)).wait_for()
    assert page.locator("#outline [aria-current]").inner_text().startswith("255")
    assert f"at={254 * 4 + 2}" in page.url


def test_the_work_of_a_sub_agent_is_opened_by_a_key_where_it_was_called(visit: Open) -> None:
    page = visit("/read/parent?at=3")
    assert page.get_by_text("Only cron does.").count() == 1
    page.keyboard.press("o")
    page.locator("details.agent .item").get_by_text("Only cron does.").wait_for()


def test_a_click_in_the_work_of_a_sub_agent_shows_its_request_and_keeps_the_page(visit: Open) -> None:
    page = visit("/read/parent?at=3")
    page.locator("#text > .piece > .item").nth(1).wait_for()
    page.keyboard.press("o")
    page.locator("details.agent .item .prose").get_by_text("Only cron does.").click()
    page.get_by_text("What scout is sent at entry 4").wait_for()
    assert page.locator("#text > .piece > .item").count() == 2
    page.locator(CURRENT.format(3)).wait_for()


def test_the_keyboard_stays_at_a_mark_and_goes_with_the_chosen_entry(visit: Open) -> None:
    page = visit("/read/long?turn=1")
    page.locator(CURRENT.format(2)).wait_for()
    page.keyboard.press("j")
    page.locator(CURRENT.format(3)).wait_for()
    assert page.evaluate("document.activeElement.dataset.position") == "3"
    with page.expect_response(lambda answer: "/marks/" in answer.url) as answer:
        page.get_by_label("The next error").press("Enter")
    answer.value.finished()
    page.wait_for_timeout(100)
    assert page.evaluate("document.activeElement.ariaLabel") == "The next error"


def test_the_first_words_of_a_conversation_come_by_themselves(visit: Open, db: Path) -> None:
    page = visit("/read/settings")
    page.get_by_text("Nothing was said here yet.").wait_for()
    with stenolog.open(db) as log:
        log["settings"].join("reviewer", persona="You review.")
        log["settings"].append(UserMessage("Are you there?", to=["coder"]))
    page.locator(".item").get_by_text("Are you there?").wait_for()
    page.get_by_text("What coder is sent").wait_for()
    assert page.get_by_text("Nothing was said here yet.").count() == 0


def test_who_reads_the_end_sees_what_comes_and_others_a_button_that_leads_there(
    visit: Open, db: Path
) -> None:
    at_end, before = visit("/read/parent"), visit("/read/long?turn=1")
    at_end.locator(".item").first.wait_for()
    before.locator(CURRENT.format(2)).wait_for()
    with stenolog.open(db) as log:
        log["parent"].append(AssistantMessage(agent="coder", text="So it is **cron** alone."))
        at_end.get_by_text("So it is cron alone.").wait_for()
        log["long"].append(UserMessage("The last of all."))
        before.get_by_role("button", name="new: up to").click()
        before.get_by_text("The last of all.").first.wait_for()


@pytest.mark.parametrize("width", [1280, 700])
def test_hostile_markdown_code_and_differences_are_text(visit: Open, width: int) -> None:
    page = visit("/read/evil?at=2", width=width)
    page.locator(".item").first.wait_for()
    for at in range(2, 3 * len(EVIL) + 2, 7):
        page.goto(page.url.partition("?")[0] + f"?at={at}")
        page.locator(f".item[data-position='{at}'], .item").first.wait_for()
        assert page.evaluate(CODE) == []
        assert page.evaluate("document.documentElement.scrollWidth") <= width
