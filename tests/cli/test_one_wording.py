"""One wording: every command, page and file that shows a tool call says the same of what came of it."""

from __future__ import annotations

import html
from collections.abc import Callable
from pathlib import Path

import pytest
from starlette.testclient import TestClient

import stenolog
from stenolog import AgentCard, AssistantMessage, ModeSwitch, Tool, ToolCall, ToolResult
from stenolog.events import CallRef, Event
from stenolog.projections.views.calls import NOTES
from tests.cli.conftest import Ran
from tests.one_file.reading import data_of

DRAWN = {
    "running": ("timeline", "timeline --json", "show", "card", "markdown", "html"),
    "awaiting approval": ("timeline", "timeline --json", "show", "card", "markdown", "html"),
    "no result": ("timeline", "timeline --json", "show", "card", "rows", "markdown", "html"),
    "late": ("timeline", "timeline --json", "show", "card", "rows", "markdown", "html", "script"),
    "orphan": ("timeline", "timeline --json", "show", "card", "rows", "markdown", "html", "script"),
    "duplicate": ("timeline", "timeline --json", "show", "card", "rows", "markdown", "html", "script"),
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
            at = 2 if outcome == "no result" else len(events) + 1
            with TestClient(stenolog.inspector(log, token=""), base_url="http://127.0.0.1") as web:
                pages = {name: web.get(f"/{name}/x?at={at}").text for name in ("card", "rows")}
        page = cli("export", "x", "--as", "html").out
        return {
            **pages,
            "timeline": cli("timeline", "x").out,
            "timeline --json": cli("timeline", "x", "--json").out,
            "show": cli("show", "x", str(at)).out,
            "markdown": cli("export", "x", "--as", "markdown").out,
            "html": page,
            "script": str(data_of(page)["entries"]["head"]),
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
