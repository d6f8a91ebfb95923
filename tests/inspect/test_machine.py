"""The page of the lifecycle: the state of each lane, what the entry did, and what may come next."""

from __future__ import annotations

from html import unescape

import pytest
from starlette.testclient import TestClient

import stenolog
from stenolog import AssistantMessage, ToolCall, ToolResult, UserMessage
from stenolog.apps.views.states import next_inputs
from stenolog.domain.lanes.lifecycle import TABLE, legal
from stenolog.projections.views.lifecycle_picture import STYLE

from .words import words


@pytest.fixture
def log(log: stenolog.Log) -> stenolog.Log:
    talk = log["demo"]
    talk.join("coder", model="gpt-5.2")
    talk.join("<b>", model="gpt-5.2")
    talk.append(UserMessage("Which test fails?", to=["coder"]))
    calls = [ToolCall(id=f"c{nth}", name="shell", arguments="{}") for nth in range(2)]
    talk.append(AssistantMessage(agent="coder", parts=calls))
    talk.append(ToolResult(call_id="c0", text="1 failed"))
    talk.append(ToolResult(call_id="c1", text="2 failed"))
    talk.append(ToolResult(call_id="none", text="Whose?"))
    return log


@pytest.mark.parametrize(
    ("at", "told"),
    [
        (3, "coder asked idle awaiting_llm call_model"),
        (4, "coder answered awaiting_llm awaiting_tools has_calls run_tools"),
        (5, "coder resulted awaiting_tools awaiting_tools calls_open run_tools"),
        (6, "coder resulted awaiting_tools awaiting_llm call_model"),
    ],
)
def test_the_page_says_what_the_entry_did_to_the_lane(web: TestClient, at: int, told: str) -> None:
    page = web.get(f"/machine/demo?at={at}").text

    assert told in words(page)
    assert 'aria-current="page">Machine</a>' in page
    assert page.count('class="way taken"') == 1


def test_an_entry_that_is_out_of_order_is_told_so(web: TestClient) -> None:
    assert "a result for 'none', which is no open call" in words(web.get("/machine/demo?at=7").text)


def test_every_lane_has_a_picture_of_its_own(web: TestClient) -> None:
    page = web.get("/machine/demo?at=5&agent=%3Cb%3E").text

    assert "Machine of <b> at entry 5" in unescape(page)
    assert "<b>&lt;b&gt;</b> is <b>idle</b>" in page
    assert "coder resulted" in words(page)  # what the entry did to another lane


def test_what_may_come_next_is_what_the_table_of_the_lifecycle_has(web: TestClient) -> None:
    page = words(web.get("/machine/demo?at=5").text)
    next_ones = page.partition("What may come next")[2].partition("All agents")[0]

    for trigger in legal("awaiting_tools"):
        assert trigger in next_ones
    listed = next_inputs("awaiting_tools")
    assert len(listed) == sum(len(rows) for (state, _), rows in TABLE.items() if state == "awaiting_tools")


def test_the_page_loads_the_style_of_the_picture_and_has_none_of_its_own(web: TestClient) -> None:
    page = web.get("/machine/demo").text

    assert 'href="/static/lifecycle.css"' in page
    assert web.get("/static/lifecycle.css").text == STYLE
    assert " style=" not in page
    assert "<style" not in page


def test_a_position_or_an_agent_that_is_not_there_is_not_found(web: TestClient) -> None:
    assert web.get("/machine/demo?at=99").status_code == 404
    assert web.get("/machine/demo?agent=nobody").status_code == 404
