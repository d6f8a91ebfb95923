"""What conversations cost, on pages: sums, the dearest requests, the list sorted and grouped."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from html import unescape
from time import sleep
from typing import Any

import pytest
from starlette.testclient import TestClient

import stenolog
from stenolog import (
    AssistantMessage,
    Event,
    LlmError,
    ModeSwitch,
    NewEntry,
    ToolCall,
    ToolResult,
    UserMessage,
)
from stenolog.adapters.providers.prices import listed, usd
from stenolog.analysis import Prices, price_table
from stenolog.apps.inspect.background import MOST_ITEMS, Later
from stenolog.apps.inspect.pages import cost, costs
from stenolog.apps.views.cost_table import CostTable
from stenolog.apps.views.sorted_list import grouped
from stenolog.events import Usage
from stenolog.projections.analysis.cache.stated import stated_calls

from .words import words

PRICES = price_table({"gpt-5": {"input": 1.0, "cached": 0.1, "output": 10.0}})
START = datetime(2026, 11, 20, tzinfo=UTC)


def fill(talk: stenolog.Conversation, folder: str, tokens: int, model: str = "gpt-5", turns: int = 1) -> None:
    """Write some turns of so many tokens each, a day after one another."""
    talk.append(ModeSwitch(title=talk.name, meta={"codex": {"cwd": folder}}))
    for turn in range(turns):
        call = ToolCall(id=f"c{turn}", name="shell")
        used = Usage(input=tokens, output=5, cache_read=tokens // 2)
        events: list[Event] = [
            UserMessage(f"Turn {turn}", to=["coder"]),
            AssistantMessage(agent="coder", model=model, parts=[call], usage=used),
            ToolResult(call_id=call.id, text="1 failed"),
            AssistantMessage(agent="coder", model=model, text="Done.", usage=used),
        ]
        talk.extend([NewEntry(event, time=START + timedelta(days=turn)) for event in events])


@pytest.fixture
def log(log: stenolog.Log) -> stenolog.Log:
    fill(log["small"], "/code/bakery", 1_000)
    fill(log["large"], "/code/bakery", 90_000, turns=3)
    fill(log["odd"], "/code/shop", 5_000, model="home-made")
    return log


@pytest.fixture
def web(log: stenolog.Log) -> Iterator[TestClient]:
    with TestClient(stenolog.inspector(log, token=""), base_url="http://127.0.0.1") as client:
        while 'role="status"' in client.get("/costs").text:
            pass
        yield client


def test_the_page_of_a_conversation_has_its_sums_by_axis_and_each_dear_request_leads_to_read(
    web: TestClient,
) -> None:
    page = web.get("/cost/large").text
    data = web.get("/cost.json/large").json()["data"]

    assert data["total"]["tokens"]["input"] == 540_000
    assert [row["name"] for row in data["by"]["day"]] == ["2026-11-20", "2026-11-21", "2026-11-22"]
    assert {row["name"]: row["calls"] for row in data["by"]["tool"]} == {"": 3, "shell": 3}
    assert "6 calls · 1 model" in words(page)
    for row in data["dearest"]:
        assert f'href="/read/large?at={row["position"]}"' in page
        assert f'href="/request/large?at={row["at"]}&amp;agent=coder"' in page


def test_a_call_that_names_no_model_is_no_model_and_requests_are_listed_by_entry(log: stenolog.Log) -> None:
    log["large"].append(LlmError(agent="coder", category="overloaded", message="busy"))
    with TestClient(stenolog.inspector(log, token=""), base_url="http://127.0.0.1") as client:
        while 'role="status"' in (page := client.get("/cost/large").text):
            pass
    assert "7 calls · 1 model " in words(page)
    assert "<th>Entry" in page


def test_the_page_of_all_has_the_sums_of_the_pages_of_each(web: TestClient, log: stenolog.Log) -> None:
    data = web.get("/costs.json").json()["data"]
    each = [web.get(f"/cost.json/{name}").json()["data"] for name in log.names()]

    for axis in ("day", "model", "agent", "tool"):
        for row in data["by"][axis]:
            same = [one for of in each for one in of["by"][axis] if one["name"] == row["name"]]
            assert sum(one["calls"] for one in same) == row["calls"]
            assert sum(one["known_cost_micro_usd"] for one in same) == row["known_cost_micro_usd"]
    assert {row["name"]: row["calls"] for row in data["by"]["project"]} == {
        "/code/bakery": 8,
        "/code/shop": 2,
    }
    found = [(row["conversation"], row["position"], row["why"]) for row in data["dearest"]]
    of_each = [row for one in each for row in one["dearest"]]
    of_each.sort(key=lambda row: (-row["known_cost_micro_usd"], -row["tokens"]["input"]))
    assert found == [(row["conversation"], row["position"], row["why"]) for row in of_each][:10]
    assert 'href="/cost/large"' in web.get("/costs").text


def test_a_price_that_is_not_known_is_said(web: TestClient) -> None:
    assert "? USD" in words(web.get("/cost/odd").text)
    page = words(web.get("/costs").text)
    assert "≥" in page
    assert "some answers have no price" in page


def test_a_cache_miss_has_the_tokens_price_and_reason_that_the_analysis_says(
    web: TestClient, log: stenolog.Log
) -> None:
    talk = log["large"]
    for read in (0, 60_000):
        used = Usage(input=95_000, output=1, cache_read=read, cache_verdict="tools_changed")
        talk.append(AssistantMessage(agent="coder", model="gpt-5", text="Hm.", usage=used))
    misses = [call for call in stated_calls([*talk.entries()]) if call.is_miss]

    data = web.get("/cost.json/large").json()["data"]
    page = words(web.get("/cost/large").text)

    assert len(misses) > 2
    assert [(miss["position"], miss["missed"], miss["cost_micro_usd"]) for miss in data["misses"]] == [
        (call.position, call.missed, call.cost(listed())) for call in misses
    ]
    assert data["cache"]["known_cost_micro_usd"] == sum(miss["cost_micro_usd"] for miss in data["misses"])
    for call in misses:
        assert f"{call.position} {call.missed:,} {usd(call.cost(listed()) or 0)} {call.cause.kind}" in page
    assert "tools changed" in page


def test_a_page_that_is_not_done_says_so_and_asks_for_itself_again(
    log: stenolog.Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(costs, "PATIENCE", 0)
    monkeypatch.setattr(cost, "PATIENCE", 0)
    with TestClient(stenolog.inspector(log, token=""), base_url="http://127.0.0.1") as client:
        for path in ("/costs", "/cost/large", "/?sort=-usd"):
            first = client.get(path).text
            assert 'http-equiv="refresh"' in first
            assert "The page goes on by itself." in first


def test_sums_of_a_part_are_dimmed_and_say_how_much_is_counted(
    web: TestClient, log: stenolog.Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    pages = ("/costs", "/?sort=-usd&group=project")
    assert not any("counted so far" in web.get(path).text for path in pages)
    fill(log["new"], "/code/new", 100)
    monkeypatch.setattr(CostTable, "update", lambda table: sleep(1))
    for path in pages:
        page = web.get(path).text
        assert ": 3 of 4 counted so far" in words(page)
        assert 'class="figures dim"' in page or 'class="heading whole dim"' in page


# The table of all conversations, which is kept.


def table_of(log: stenolog.Log) -> CostTable:
    return CostTable(log, PRICES)


def test_the_table_follows_appends_renames_forks_and_deletions(log: stenolog.Log) -> None:
    table = table_of(log).update()

    def changes() -> Iterator[Any]:
        fill(log["new"], "/code/new", 7_000)
        yield
        yield log["small"].append(AssistantMessage(agent="coder", model="gpt-5", usage=Usage(input=10**7)))
        log["large"].rename("largest")
        yield
        fork = log["largest"].fork(5)
        yield fork.append(AssistantMessage(agent="coder", model="gpt-5", usage=Usage(input=3)))
        log["odd"].delete()
        yield
        yield log["new"].erase(2)

    for _ in changes():
        assert table.update().data() == table_of(log).update().data()
    calls = table.data()["total"]["calls"]
    assert calls == 2 + 1 + 6 + 1 + 2, "what the fork shares with its parent counts once"


def test_another_process_reads_the_rows_from_beside_the_log_and_other_prices_are_not_taken_for_these(
    log: stenolog.Log,
) -> None:
    first = table_of(log).update().data()
    with stenolog.open(log.path) as again:
        table = table_of(again).update()
        assert table.data() == first
        assert not table._spendings, "no entry was read"
        free = price_table({"*": {"input": 0}})
        unknown: Prices = (lambda model: None,)
        for prices, is_incomplete in ((unknown, True), ((*free, *unknown), False), (free, False)):
            total = CostTable(again, prices).update().data()["total"]
            assert (total["known_cost_micro_usd"], total["cost_is_incomplete"]) == (0, is_incomplete)
            # Rows of other prices are evicted.
            assert {len(again.checkpoints.latest(key, "costs ")) for key in table.rows} == {1}


def test_a_conversation_that_grows_faster_than_it_is_counted_has_the_sums_of_an_entry_before(
    web: TestClient, log: stenolog.Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cost, "PATIENCE", 10)
    head = len(log["large"])
    assert "up to entry" not in web.get("/cost/large").text
    log["large"].append(AssistantMessage(agent="coder", model="gpt-5", text="More.", usage=Usage(input=9)))
    monkeypatch.setattr(cost, "PATIENCE", 0)
    page = web.get("/cost/large").text

    assert f"These are the sums up to entry {head}." in words(page)
    assert "6 calls · 1 model" in words(page)
    assert 'http-equiv="refresh"' in page


def test_archived_conversations_are_told_apart_where_the_list_has_none(
    web: TestClient, log: stenolog.Log
) -> None:
    assert "archived" not in words(web.get("/costs").text)
    log["odd"].archive()

    assert "in 3 conversations , 1 of them archived" in words(web.get("/costs").text)
    assert web.get("/costs.json").json()["data"]["archived"] == 1
    assert "All 2 conversations" in words(web.get("/?sort=-usd").text)


def test_a_group_counts_what_forks_share_once_in_every_column_and_is_sorted_by_it(log: stenolog.Log) -> None:
    log["small"].append(LlmError(agent="coder", category="timeout"))
    for nth in range(8):
        log["small"].fork(name=f"fork {nth}")
    fill(log["other"], "/code/other", 3_000, turns=2)
    log["large"].delete()
    rows = table_of(log).update().listed()

    for column in ("turns", "tokens", "usd"):
        groups = grouped(rows, f"-{column}", by_project=True)
        assert groups[0].folder == "/code/other", column
    sums = {group.folder: (group.turns, group.errors) for group in groups}
    assert sums["/code/bakery"] == (1, 1)


def test_what_a_cancelled_answer_cost_is_not_known_if_some_of_it_was_said(log: stenolog.Log) -> None:
    talk = log["small"]
    before = table_of(log).spending(talk).total
    for text in ("", "It begins"):
        talk.append(LlmError(agent="coder", category="cancelled", text=text))
    after = table_of(log).spending(talk).total

    assert (after.calls - before.calls, after.unknown - before.unknown) == (2, 1)


def test_sums_that_a_page_holds_stay_when_the_table_reads_more(log: stenolog.Log) -> None:
    table = table_of(log)
    held = table.spending(log["large"])
    before = held.position, held.total, [*held.calls], {axis: {**sums} for axis, sums in held.axes.items()}
    log["large"].append(AssistantMessage(agent="new", model="gpt-5", usage=Usage(input=10)))
    table.update()

    assert before == (held.position, held.total, held.calls, held.axes)
    assert table.spending(log["large"]).position > held.position


def test_work_that_failed_is_done_again_for_the_next_page() -> None:
    later, faults = Later(), [OSError("database is locked")]

    def work() -> int:
        for fault in faults:
            faults.clear()
            raise fault
        return 42

    with pytest.raises(OSError, match="locked"):
        later.get("costs", 7, work, 10)
    assert later.get("costs", 7, work, 10) == 42


def test_values_that_have_too_many_items_are_evicted_the_oldest_first() -> None:
    later = Later()
    for key, number in (("first", 1), ("second", MOST_ITEMS - 1), ("third", 1), ("huge", 2 * MOST_ITEMS)):
        later.get(key, 1, partial(list, range(number)), 10)
        if key == "third":
            assert later.last("first") is None
            assert len(later.last("second")) == MOST_ITEMS - 1

    assert [later.last(key) is None for key in ("second", "third", "huge")] == [True, True, False]


# The list.


def titles(page: str) -> list[str]:
    return re.findall(r'<a href="/read/[^"]*" title="([^"]*)"', page)


@pytest.mark.parametrize(
    ("sort", "first", "last"),
    [
        ("title", "large", "small"),
        ("-title", "small", "large"),
        ("-usd", "large", "odd"),
        ("tokens", "small", "large"),
        ("-turns", "large", "odd"),
        ("-project", "odd", "large"),
        ("models", "large", "odd"),
        ("-last", "large", "odd"),
    ],
)
def test_the_list_is_sorted_by_the_column_that_the_address_names(
    web: TestClient, sort: str, first: str, last: str
) -> None:
    page = web.get("/", params={"sort": sort}).text

    assert titles(page)[0] == first
    assert {*titles(page)} == {"small", "large", "odd"}
    if sort in ("title", "-title", "tokens", "models"):
        assert titles(page)[-1] == last
    assert 'aria-sort="' in page
    assert [row["name"] for row in web.get("/index.json", params={"sort": sort}).json()["data"]] == titles(
        page
    )


def test_the_list_is_grouped_by_project_and_each_group_and_the_whole_have_their_sums(web: TestClient) -> None:
    page = web.get("/?sort=-usd&group=project").text
    shown = words(page)

    assert re.findall(r'class="heading"><td class="title">([\w/]+)', page) == ["code/bakery", "code/shop"]
    assert "code/bakery 2 conversations" in shown
    assert "All 3 conversations" in shown
    total = web.get("/costs.json").json()["data"]["total"]
    assert f"{total['tokens']['input']:,} in, {total['tokens']['output']:,} out" in page
    narrowed = web.get("/?sort=-usd&part=shop").text
    assert titles(narrowed) == ["odd"]
    of_all = web.get("/costs").text
    [link] = {unescape(each) for each in re.findall(r'href="(/[?]project=[^"]*shop[^"]*)"', of_all)}
    assert titles(web.get(link).text) == ["odd"]
    assert titles(web.get(link.replace("shop", "sho")).text) == []
    assert "All 1 conversation" in words(narrowed)


def test_a_column_that_is_not_there_is_refused(web: TestClient) -> None:
    answer = web.get("/?sort=weight")

    assert answer.status_code == 400
    assert "sort: expected one of title, project" in answer.text
