"""`outputs`: what tools gave back, listed, read in pieces, and written as files."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import stenolog
from stenolog import AssistantMessage, ToolCall
from stenolog.adapters.conversation.log import open as open_log
from stenolog.adapters.conversation.queries.outputs import store_large
from stenolog.apps.cli.commands.see.outputs import short_aliases
from stenolog.domain.events import ToolResult

FOURTH = "@state/logs/tool-results/demo-4.json"
EIGHTH = "@state/logs/tool-results/demo-8.json"


def test_outputs_lists_the_aliases_with_entry_and_size_and_how_they_begin(demo: Callable[..., Any]) -> None:
    listed = demo("outputs", "demo", "--json").data
    failed, passed = (output.pop("begins") for output in listed["outputs"])

    assert listed == {
        "conversation": "demo",
        "outputs": [
            {"alias": FOURTH, "position": 4, "name": "shell", "bytes": 42},
            {"alias": EIGHTH, "position": 8, "name": "shell", "bytes": 47},
        ],
        "directory": None,
        "written": [],
    }
    assert (failed, passed[-9:]) == ("FAILED test_dates: 23:00 != 00:00\n1 failed", "12 passed")


def test_at_a_terminal_the_list_has_short_aliases_which_the_command_takes(demo: Callable[..., Any]) -> None:
    row = demo("outputs", "demo").out.splitlines()[2]

    assert row.split()[:4] == ["4", "42", "shell", "@demo-4"]
    assert demo("outputs", "demo", "@demo-4").out == demo("outputs", "demo", FOURTH).out
    assert demo("outputs", "demo", "@demo").status == 2
    assert "the beginning of 2 aliases" in demo("outputs", "demo", "@demo").err


def test_in_a_pipe_the_list_has_whole_aliases(
    demo: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COLUMNS")

    assert demo("outputs", "demo").out.splitlines()[1].split() == ["4", "42", "shell", FOURTH]


def test_short_aliases_are_as_long_as_it_takes_to_tell_them_apart() -> None:
    ids = ("0199a213-aaaa", "0199a213-bbbb")
    aliases = [*(f"@state/logs/tool-results/{id}.json" for id in ids), "@state/artifacts/plan"]

    assert [*short_aliases(aliases).values()] == ["@0199a213-a", "@0199a213-b", "@state/artifacts/plan"]


def test_an_output_without_a_name_has_that_of_the_tool_that_was_called(cli: Any, tmp_path: Path) -> None:
    with stenolog.open(tmp_path / "talks.db") as log:
        call = ToolCall(id="c1", name="shell")
        log["x"].extend([AssistantMessage(agent="a", tool_calls=[call]), ToolResult(call_id="c1", text="ok")])

    assert cli("outputs", "x", "--json").data["outputs"][0]["name"] == "shell"


def test_output_shows_the_whole_or_a_piece_and_where_to_go_on(demo: Callable[..., Any]) -> None:
    whole = demo("outputs", "demo", FOURTH).out
    piece = demo("outputs", "demo", FOURTH, "--offset", "7", "--length", "10")
    data = demo("outputs", "demo", FOURTH, "--offset", "7", "--length", "10", "--json").data

    assert whole == "FAILED test_dates: 23:00 != 00:00\n1 failed\n"
    assert piece.out == "test_dates\ncharacters 7 to 17 of 42; go on with --offset 17\n"
    assert (data["text"], data["end"], data["total"], data["next"]) == ("test_dates", 17, 42, 17)


def test_materialise_writes_files_and_says_how_many_are_new(demo: Callable[..., Any], tmp_path: Path) -> None:
    first, again = (demo("outputs", "demo", "--materialise", "work") for _ in range(2))

    assert first.out.splitlines()[-1] == "✓ 2 of 2 written under work"
    assert again.out.splitlines()[-1] == "✓ 0 of 2 written under work"
    assert (tmp_path / "work" / FOURTH).read_text() == "FAILED test_dates: 23:00 != 00:00\n1 failed"


def test_an_output_whose_blob_is_gone_is_listed_as_gone(cli: Callable[..., Any]) -> None:
    with open_log("talks.db") as log:
        log["talk"].append(store_large(log, ToolResult(call_id="c", text="word " * 2_000)), id="large")
    with sqlite3.connect("talks.db") as connection:
        connection.execute("DELETE FROM blobs")
    connection.close()

    assert cli("outputs", "talk", "--json").data["outputs"][0]["bytes"] is None
    assert " gone " in cli("outputs", "talk").out
    assert cli("outputs", "talk", "@state/logs/tool-results/large.json").status == 4
