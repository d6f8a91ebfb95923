"""`stats`: calls and tokens of each agent, and the context of one of them over time."""

from __future__ import annotations

import sqlite3
import xml.etree.ElementTree as ET
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import stenolog
from stenolog import AssistantMessage, ToolResult, UserMessage

Cli = Callable[..., Any]


def test_it_counts_for_each_agent_and_tells_the_largest_request_of_the_busiest(demo: Cli) -> None:
    told = demo("stats", "demo").out

    assert told.splitlines()[0].split() == ["AGENT", "CALLS", "ERRORS", "TOOLS", "INPUT", "CACHED", "OUTPUT"]
    for agent in ("coder", "reviewer"):
        assert agent in told
    assert "coder: its largest request is at" in told
    assert "tokens with the request at" in told


def test_the_picture_is_written_to_a_file(demo: Cli, tmp_path: Path) -> None:
    told = demo("stats", "demo", "--agent", "reviewer", "--plot", str(tmp_path / "context.svg"))

    picture = ET.fromstring((tmp_path / "context.svg").read_text("utf-8"))
    assert "Context of reviewer in demo" in str(picture.get("aria-label"))
    assert f"✓ drawn to {tmp_path / 'context.svg'}" in told.out


def test_a_sample_has_its_request_as_rebuilt_and_as_billed(demo: Cli) -> None:
    data = demo("stats", "demo", "--agent", "coder", "--json").data

    request = demo("request", "demo", "--agent", "coder", "--at", str(data["largest"]["at"]), "--json")
    assert data["largest"]["tokens"] == request.data["size"]["tokens"]
    assert data["samples"][0].keys() == {"position", "at", "tokens", "billed", "cached", "budget", "failed"}


def test_an_agent_that_is_not_there_and_a_conversation_without_answers_are_refused(
    demo: Cli, cli: Cli
) -> None:
    assert demo("stats", "demo", "--agent", "codr").status == 2
    assert "no agent has answered yet" in demo("stats", "demo", "--at", "1").err


@pytest.mark.parametrize("command", ["stats", "state"])
def test_a_damaged_entry_does_not_stop_the_numbers(tmp_path: Path, cli: Cli, command: str) -> None:
    path = tmp_path / "broken.db"
    with stenolog.open(path) as log:
        log["demo"].extend([UserMessage("Hi", to=["a"]), AssistantMessage(agent="a", text="zebra")])
        log["demo"].extend([ToolResult(call_id="1"), AssistantMessage(agent="a", text="Yes")])

    with closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE stored_events SET state = x'00' WHERE originator_version = 2")
        connection.commit()

    told = cli(command, "demo", "--db", str(path))

    assert (told.status, told.err) == (0, "")
