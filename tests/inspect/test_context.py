"""The page of the context over time: the picture, its links, and the tables for those who cannot see it."""

from __future__ import annotations

import pytest
from starlette.testclient import TestClient

import stenolog
from stenolog import AgentCard, AssistantMessage, ModeSwitch, UserMessage
from stenolog.apps.inspect.pages import context, conversations
from stenolog.context import Budget
from stenolog.events import Usage
from stenolog.projections.context_curve.plot import STYLE

HOSTILE = 'a"><script>alert(1)'


@pytest.fixture
def log(log: stenolog.Log) -> stenolog.Log:
    talk = log["demo"]
    card = AgentCard(model="gpt-5.2", policy=Budget(tokens=400))
    talk.append(ModeSwitch(cards={HOSTILE: card}, joins=[HOSTILE]))
    for nth in range(1, 31):
        talk.append(UserMessage("What now? " * 12, to=[HOSTILE]))
        used = Usage(input=100 * nth, output=9, cache_read=90)
        talk.append(AssistantMessage(agent=HOSTILE, text="This.", usage=used))
    return log


def test_the_page_draws_the_context_and_links_each_place_to_its_request(web: TestClient) -> None:
    page = web.get("/context/demo").text

    assert '<svg xmlns="http://www.w3.org/2000/svg" class="context-plot"' in page
    assert 'href="/request/demo?agent=a%22%3E%3Cscript%3Ealert%281%29&amp;at=60"' in page
    assert "30 requests" in page
    assert "a budget of 400 tokens" in page
    assert web.get("/request/demo", params={"agent": HOSTILE, "at": 60}).status_code == 200


def test_the_tables_say_the_steps_and_the_cuts(web: TestClient) -> None:
    page = web.get("/context/demo").text

    assert ">+100<" in page.replace("\n", "<")
    assert "the oldest messages left the window" in page


def test_nothing_of_the_log_is_markup_and_nothing_has_a_style_of_its_own(web: TestClient) -> None:
    page = web.get("/context/demo?at=5").text

    assert "<script>alert" not in page
    assert " style=" not in page
    assert "<style" not in page


def test_a_page_that_is_not_done_asks_for_itself_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(context, "PATIENCE", 0)
    with stenolog.open(":memory:") as log:
        talk = log["long"]
        talk.join("a", model="gpt-5.2")
        for _ in range(100):
            talk.extend([UserMessage("Hi", to=["a"]), AssistantMessage(agent="a", text="Hi")])
        with TestClient(stenolog.inspector(log, token=""), base_url="http://127.0.0.1") as client:
            first = client.get("/context/long").text
            assert 'http-equiv="refresh"' in first
            assert "of 100. The page goes on by itself." in first
            for _ in range(9):
                last = client.get("/context/long").text
            assert 'http-equiv="refresh"' not in last


def test_the_page_loads_the_style_of_the_picture(web: TestClient) -> None:
    assert 'href="/static/context_plot.css"' in web.get("/context/demo").text
    assert web.get("/static/context_plot.css").text == STYLE


def test_an_agent_that_is_not_there_is_not_found(web: TestClient) -> None:
    assert web.get("/context/demo?agent=nobody").status_code == 404
    assert web.get("/context/nothing").status_code == 404


def test_the_list_of_conversations_has_a_small_curve_that_leads_to_the_page(web: TestClient) -> None:
    page = web.get("/").text

    assert '<a href="/context/demo"><svg' in page
    assert "Context: 3k tokens last, 3k at most" in page


def test_a_list_that_would_read_too_much_for_its_curves_has_the_others_at_the_next_look(
    web: TestClient, log: stenolog.Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conversations, "MOST_READ", 1)
    log["another"].extend([entry.event for entry in log["demo"]])

    assert [web.get("/").text.count("<svg") for _ in range(2)] == [1, 2]


def test_all_agents_stand_below_with_their_small_curves(web: TestClient, log: stenolog.Log) -> None:
    log["demo"].append(AssistantMessage(agent="other", text="Hi", usage=Usage(input=7)))
    log["demo"].append(AssistantMessage(agent="other", text="Hi", usage=Usage(input=9)))
    page = web.get("/context/demo?agent=other").text

    assert page.count('class="spark"') == 2
    assert "Context of other over time" in page


def test_an_agent_that_was_asked_and_has_not_answered_has_a_page(web: TestClient, log: stenolog.Log) -> None:
    log["new"].append(UserMessage("Hello?", to=["a"]))

    page = web.get("/context/new")

    assert page.status_code == 200
    assert "The model of a has not been called yet." in page.text
