"""One difference: every command and page that compares two requests says the same of them."""

from __future__ import annotations

import html
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
from starlette.testclient import TestClient

import stenolog
from stenolog import AgentCard, AssistantMessage, ModeSwitch, Tool, ToolCall, ToolResult, UserMessage
from stenolog.analysis import cache_calls, diff
from stenolog.apps.views.caches import cause_words
from stenolog.events import CallRef, Event, PositionRange, Usage
from stenolog.projections.analysis.budget import budget
from stenolog.projections.views.calls import NOTES
from stenolog.requests import FORMATS
from tests.cli.conftest import Ran
from tests.strategies import asking

WORDS = ["the", "baker", "weighs", "the", "flour", "and", "waits", "for", "the", "dough", "to", "rise"]
SENT = [api for api, format in FORMATS.items() if format.cache]
"""The formats of which it is known in what order their providers read."""


def said(random: Random, words: int = 900) -> str:
    return " ".join(random.choices(WORDS, k=words))


def tool(random: Random, name: str) -> Tool:
    return Tool(name=name, description=said(random, 200), parameters={"type": "object", "properties": {}})


def changed(kind: int, random: Random, card: AgentCard) -> list[Any]:
    """Return what happens between two calls: one change of the prompt, or none."""
    match kind:
        case 0:
            tools = [*(card.tools or ()), tool(random, "zip")]
            return [ModeSwitch(cards={"g": replace(card, tools=tools)})]
        case 1:
            return [ModeSwitch(cards={"g": replace(card, tools=card.tools[1:])})]  # type: ignore[index]
        case 2:
            return [ModeSwitch(cards={"g": replace(card, persona=f"{card.persona} Today.")})]
        case 3:
            return [ModeSwitch(hides=[PositionRange(first=2, last=2)])]
        case 4:
            covers = [PositionRange(first=2, last=3)]
            return [AssistantMessage(agent="g", purpose="summary", text=said(random, 20), covers=covers)]
        case 5:
            return [ModeSwitch(cards={"g": replace(card, parameters={"tool_choice": "required"})})]
        case _:
            return []


@pytest.mark.parametrize(
    ("seed", "api"),
    [
        pytest.param(seed, api, marks=() if n == seed % len(SENT) else pytest.mark.slow)
        for seed in range(7)
        for n, api in enumerate(SENT)
    ],
)
def test_whatever_compares_two_requests_gives_the_same_answer(
    cli: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, api: str, seed: int
) -> None:
    monkeypatch.setenv("COLUMNS", "1000")  # tail cuts its lines to the width
    random = Random(f"{api} {seed}")
    card = AgentCard(
        model=f"{api}-model", persona=said(random, 4_000), tools=[tool(random, n) for n in "abc"]
    )
    with stenolog.open("talks.db") as log:
        talk = log["a"]
        talk.append(ModeSwitch(joins=("g",), cards={"g": card}))
        requests = []
        for change in ([], changed(seed, random, card)):
            talk.extend([*change, UserMessage(said(random, 4_000), to=("g",))], expected=talk.position)
            requests.append(talk.request("g", api=api))
            usage = Usage(input=requests[-1].tokens, output=1)
            talk.append(AssistantMessage(agent="g", text="Yes.", receipt=requests[-1].receipt, usage=usage))
        between = [*talk.entries(requests[0].at, requests[1].at)]
        call = cache_calls(talk.entries(), blobs=log.blobs)[-1]
        told = diff(requests[0], requests[1], between, card, usage)
        (plan,) = budget(talk.entries(), "g", api=api)
        with TestClient(stenolog.inspector(log, token=""), base_url="http://127.0.0.1") as web:
            place = f"a?at={requests[1].at}&agent=g&api={api}&before=call"
            twin = web.get(f"/diff.json/{place}").json()["data"]
            pages = [html.unescape(web.get(f"/{page}/{place}").text) for page in ("diff", "request")]

    asked = ("request", "a", "--agent", "g", "--at", str(requests[1].at), "--api", api, "--diff", "call")
    data = cli(*asked, "--json").data
    row = cli("cost", "a", "--cache", "-v", "--json").data["calls"][-1]
    words = cause_words(call.cause)
    shown = [" ".join(cli(*each).out.split()) for each in (asked, ("cost", "a", "--cache", "-v"))]
    tail = " ".join(cli("tail", "a", "--timeout", "0").out.split())

    assert (told.first or call.cause) == call.cause
    assert (told.first is None) == (call.cause.pointer == "")
    assert told.shared.tokens == pytest.approx(call.same, rel=0.002)
    assert told.again + told.shared.tokens == pytest.approx(call.missed, rel=0.002)
    assert told.shared.tokens == pytest.approx(plan.sent - plan.fresh, rel=0.002)
    assert data == twin
    assert data["call"] == {key: value for key, value in row.items() if key != "conversation"}
    assert data["first"] in (row["cause"], None)
    assert data["shared"]["tokens"] == told.shared.tokens
    assert data["known_cost_micro_usd"] == row["cost_micro_usd"]
    for text in (*shown, *pages, tail):
        assert " ".join(words.split()) in " ".join(text.split())


def test_what_runs_had_read_before_they_part_has_the_entries_of_both(
    cli: Callable[..., Any],
) -> None:
    with stenolog.open("talks.db") as log:
        for name, words in (("one", "Wait."), ("two", "")):
            talk = log[name]
            talk.join("coder", model="gpt-5")
            talk.append(UserMessage("Ship it.", to=["coder"]))
            call = ToolCall(id=f"{name}-call", name="look")
            talk.append(AssistantMessage(agent="coder", tool_calls=[call]))
            talk.append(ToolResult(call_id=call.id, name="look", text="green"))
            meta: dict[str, Any] = {"stenolog": {"child": {"conversation": f"worker of {name}"}}}
            asked = AssistantMessage(agent="coder", tool_calls=[ToolCall(id="c", name="ask")])
            log[f"{name} asks"].append(asked)
            log[f"{name} asks"].append(ToolResult(call_id="c", text=f"done by {name}", meta=meta))
            if words:
                talk.append(AssistantMessage(agent="reviewer", text=words))
            talk.append(AssistantMessage(agent="coder", text=words or "Shipped."))
            if not words:
                talk.append(AssistantMessage(agent="reviewer", text="Wait."))
        with TestClient(stenolog.inspector(log, token=""), base_url="http://127.0.0.1") as web:
            page = web.get("/compare?run=one&run=two").text

    data = cli("compare", "one", "two", "--json").data
    workers = cli("compare", "one asks", "two asks", "--json").data
    drawn = cli("compare", "one", "two", "--exit-code")

    assert (data["first"]["before"], data["first"]["after"]) == (6, 5)
    assert [(each["sign"], each["first"]) for each in data["requests"]["changes"]] == [("-", 5)]
    assert workers["inside"] == ["worker of one", "worker of two"]
    assert drawn.status == 1
    for text in (drawn.out, page):
        assert "Shipped." in text
        assert "gone: attributed" in text
    assert '/c/one?at=5"' in page


def test_the_requests_of_runs_on_two_apis_are_compared_on_one(cli: Callable[..., Any]) -> None:
    with stenolog.open("talks.db") as log:
        for name, api in (("one", "anthropic"), ("two", "openai-chat")):
            talk = log[name]
            talk.join("coder", model="some-model")
            talk.append(UserMessage("Ship it.", to=["coder"]))
            receipt = talk.request("coder", api=api).receipt
            talk.append(AssistantMessage(agent="coder", text=f"Shipped by {name}.", receipt=receipt))

    assert cli("compare", "one", "two", "--json").data["requests"]["equal"]
    assert "the same was read" in cli("compare", "one", "two").out


# One wording: every command, page and file that shows a tool call says the same of what came of it.


DRAWN = {
    "running": ("timeline", "timeline --json", "show", "card", "markdown", "html"),
    "awaiting approval": ("timeline", "timeline --json", "show", "card", "markdown", "html"),
    "awaiting an answer": ("timeline", "timeline --json", "show", "card", "markdown", "html"),
    "no result": ("timeline", "timeline --json", "show", "card", "rows", "markdown", "html"),
    "late": ("timeline", "timeline --json", "show", "card", "rows", "markdown", "html"),
    "orphan": ("timeline", "timeline --json", "show", "card", "rows", "markdown", "html"),
    "duplicate": ("timeline", "timeline --json", "show", "card", "rows", "markdown", "html"),
}
"""Those that show each outcome: a call that may still be answered is no fault in a list."""


def log_of(outcome: str) -> list[Event]:
    """Return a log whose last call or result has this outcome, and nothing else out of the ordinary."""
    called = AssistantMessage(agent="a", tool_calls=[ToolCall(id="c", name="look", arguments="{}")])
    said = AssistantMessage(agent="a", text="I go on.")
    ref = CallRef(entry="e2", index=0)
    logs: dict[str, list[Event]] = {
        "running": [called],
        "awaiting approval": [called],
        "awaiting an answer": [called, asking("a", ref)],
        "no result": [called, said],
        "late": [called, said, ToolResult(call_id="c", call=ref, text="7", tags=["late"])],
        "orphan": [ToolResult(call_id="c", name="look", text="7")],
        "duplicate": [called, *(ToolResult(call_id="c", name="look", text="7") for _ in "ab")],
    }
    return logs[outcome]


@pytest.fixture
def drawn(cli: Callable[..., Ran], tmp_path: Path) -> Callable[[str], dict[str, str]]:
    """Return a function that draws the log of an outcome in all ways, of the entry that has it."""

    def draw(outcome: str) -> dict[str, str]:
        events = log_of(outcome)
        card = AgentCard(tools=[Tool(name="look", approval=outcome == "awaiting approval")])
        with stenolog.open(tmp_path / "talks.db") as log:
            for nth, event in enumerate([ModeSwitch(cards={"a": card}), *events], 1):
                log["x"].append(event, id=f"e{nth}")
            at = 2 if outcome in ("no result", "awaiting an answer") else len(events) + 1
            with TestClient(stenolog.inspector(log, token=""), base_url="http://127.0.0.1") as web:
                pages = {name: web.get(f"/{name}/x?at={at}").text for name in ("card", "rows")}
        return {
            **pages,
            "timeline": cli("timeline", "x").out,
            "timeline --json": cli("timeline", "x", "--json").out,
            "show": cli("show", "x", str(at)).out,
            "markdown": cli("export", "x", "--as", "markdown").out,
            "html": cli("export", "x", "--as", "html").out,
        }

    return draw


@pytest.mark.parametrize("outcome", NOTES)
def test_all_that_show_a_call_word_what_came_of_it_alike(
    drawn: Callable[[str], dict[str, str]], outcome: str
) -> None:
    texts = {name: html.unescape(text) for name, text in drawn(outcome).items()}

    assert [name for name in DRAWN[outcome] if NOTES[outcome] not in texts[name]] == []
    others = [note for other, note in NOTES.items() if other != outcome]
    assert [(name, note) for name, text in texts.items() for note in others if note in text] == []
