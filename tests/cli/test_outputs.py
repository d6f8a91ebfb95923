"""`outputs`: what tools gave back, listed, read in pieces, and written as files."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

from stenolog.adapters.log import open as open_log
from stenolog.adapters.queries.outputs import store_large
from stenolog.domain.events import ToolResult

FOURTH = "@state/logs/tool-results/demo-4.json"
EIGHTH = "@state/logs/tool-results/demo-8.json"


def test_outputs_lists_the_aliases_with_entry_and_size(demo: Callable[..., Any]) -> None:
    listed = demo("outputs", "demo", "--json").envelope["data"]

    assert listed == {
        "conversation": "demo",
        "outputs": [
            {"alias": FOURTH, "position": 4, "name": "shell", "bytes": 42},
            {"alias": EIGHTH, "position": 8, "name": "shell", "bytes": 47},
        ],
        "directory": None,
        "written": [],
    }
    assert FOURTH in demo("outputs", "demo").out


def test_output_shows_the_whole_or_a_piece_and_where_to_go_on(demo: Callable[..., Any]) -> None:
    whole = demo("outputs", "demo", FOURTH).out
    piece = demo("outputs", "demo", FOURTH, "--offset", "7", "--length", "10")
    data = demo("outputs", "demo", FOURTH, "--offset", "7", "--length", "10", "--json").envelope["data"]

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

    assert cli("outputs", "talk", "--json").envelope["data"]["outputs"][0]["bytes"] is None
    assert " gone " in cli("outputs", "talk").out
    assert cli("outputs", "talk", "@state/logs/tool-results/large.json").status == 4
