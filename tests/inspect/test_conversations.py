"""The first page: what it tells of each conversation, what it can be narrowed to, where words were said."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from html import unescape

import pytest
from starlette.testclient import TestClient

import stenolog
from stenolog import AssistantMessage, LlmError, ModeSwitch, UserMessage
from stenolog.apps.inspect.app import PAGES
from stenolog.apps.views.conversations import SCANNED, Selection, selected
from stenolog.domain.entry import NewEntry
from stenolog.domain.events import Event
from stenolog.domain.values import Usage

from .words import words

LONG_AGO = datetime(2026, 3, 1, tzinfo=UTC)


@pytest.fixture
def log(log: stenolog.Log) -> stenolog.Log:
    for number, (agent, model, folder) in enumerate(
        [("coder", "gpt-5.2", "/srv/bakery"), ("writer", "claude-opus-4-5-20251101", "/srv/novel")]
    ):
        usage = Usage(input=41_000, output=900, cost=12_000)
        events: list[Event] = [
            ModeSwitch(joins=[agent], meta={"codex": {"cwd": folder, "branch": "main"}}),
            UserMessage(f"Bake the bread, {agent}"),
            AssistantMessage(agent=agent, text="It is in the oven.", model=model, usage=usage),
        ]
        if agent == "writer":
            events.append(LlmError(agent=agent, category="timeout"))
        at = LONG_AGO + timedelta(days=number)
        log[agent].extend([NewEntry(event, time=at) for event in events])
    return log


def names(page: str) -> list[str]:
    """Return the conversations on a page."""
    return list(dict.fromkeys(re.findall(r'href="/read/([^"?]*)', page)))


def test_a_row_tells_project_branch_agent_model_turns_errors_tokens_and_money(web: TestClient) -> None:
    shown = words(web.get("/").text)
    assert "Bake the bread, coder proof coder bakery main coder gpt-5.2 1 42 k 0.0120 2026-03-01" in shown
    assert (
        "Bake the bread, writer failed proof writer novel main writer opus-4-5 1 1 42 k 0.0120 2026-03-02"
        in shown
    )


@pytest.mark.parametrize(
    ("filters", "found"),
    [
        ("", ["writer", "coder"]),
        ("part=BAKERY", ["coder"]),
        ("agent=writ", ["writer"]),
        ("model=opus", ["writer"]),
        ("errors=1", ["writer"]),
        ("since=2026-03-02", ["writer"]),
        ("until=2026-03-01", ["coder"]),
        ("model=opus&agent=coder", []),
        ("q=oven", ["writer", "coder"]),
        ("q=oven&part=novel", ["writer"]),
        ("q=oven&agent=coder", ["coder"]),
        ("q=oven&until=2026-03-01", ["coder"]),
        ("q=oven&errors=1", ["writer"]),
    ],
)
def test_the_list_and_the_search_can_be_narrowed(web: TestClient, filters: str, found: list[str]) -> None:
    assert names(web.get(f"/?{filters}").text) == found


def test_a_time_that_is_none_is_refused(web: TestClient) -> None:
    answer = web.get("/?since=Tuesday")
    assert (answer.status_code, "expected a day or a time" in answer.text) == (400, True)


def test_a_conversation_that_has_just_grown_is_live(web: TestClient, log: stenolog.Log) -> None:
    assert "live" not in words(web.get("/").text)
    log["coder"].append(UserMessage("Is it done?"))
    assert "Bake the bread, coder live proof coder" in words(web.get("/").text)


def test_hits_are_grouped_by_conversation_with_the_words_marked(web: TestClient, log: stenolog.Log) -> None:
    log["coder"].extend([UserMessage(f"The oven is hot, {number}") for number in range(5)])
    page = web.get("/?q=oven").text
    assert names(page) == ["coder", "writer"]
    assert "The <mark>oven</mark> is hot" in page
    assert '<a href="/read/coder?q=oven">3 more here</a>' in page
    assert "7 entries with “oven” in 2 conversations" in words(page)


def test_a_small_curve_shows_how_full_the_context_was(web: TestClient, log: stenolog.Log) -> None:
    assert 'class="spark"' not in web.get("/").text  # a curve has two points
    usage = Usage(input=52_000, output=10)
    log["coder"].append(AssistantMessage(agent="coder", text="Now it is brown.", usage=usage))
    page = web.get("/").text
    assert 'aria-label="Context: 52k tokens last, 52k at most"' in page
    assert '<a href="/context/coder"><svg' in page


def test_a_row_leads_to_the_proof_where_there_is_such_a_page(web: TestClient) -> None:
    is_there = "proof" in {page.name for page in PAGES}
    assert ('href="/proof/coder"' in web.get("/").text) == is_there


def test_a_fork_is_named_with_its_parent(web: TestClient, log: stenolog.Log) -> None:
    log["coder"].fork(after=2, name="again")
    assert 'href="/read/coder?at=2" title="coder">fork at 2</a>' in web.get("/").text


def test_the_list_goes_on_on_the_next_page_with_the_same_filters(
    web: TestClient, log: stenolog.Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    from stenolog.apps.inspect.pages import conversations

    monkeypatch.setattr(conversations, "PAGE", 1)
    page = web.get("/?part=bread").text
    assert names(page) == ["writer"]
    [following] = re.findall(r'<a rel="next" href="([^"]*)"', page)
    assert names(web.get(unescape(following)).text) == ["coder"]


def test_a_filter_looks_at_so_many_conversations_and_says_where_to_go_on(log: stenolog.Log) -> None:
    for number in range(20):
        log[f"talk-{number}"].append(UserMessage("hello"))
    found = selected(log, Selection(part="bakery"), limit=5)
    assert ([each.name for each in found.found], found.goes_on, found.looked_at) == (["coder"], "", 22)
    assert SCANNED >= 1000
