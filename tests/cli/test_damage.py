"""The commands for a damaged log, and for words that must go."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

import stenolog
from stenolog import AssistantMessage, UserMessage
from tests.cli.conftest import Ran

CLI = Callable[..., Ran]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "talks.db"
    with stenolog.open(path) as log:
        log["demo"].append(UserMessage(text="Tell me.", author="boss", to=["a"]))
        log["demo"].append(AssistantMessage(agent="a", text="The zebra flies."))
        log["demo"].append(UserMessage(text="Thanks."))
    return path


def damage(path: Path, position: int) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE stored_events SET state = x'00' WHERE originator_version = ?", (position,))
        connection.commit()


def test_salvage_tells_what_is_lost(cli: CLI, path: Path) -> None:
    damage(path, 3)
    told = cli("db", "salvage", "talks.db", "-o", "new.db")
    assert told.status == 1
    assert "demo: 3 entries kept, 1 lost; digests are the same up to 2, and new behind it" in told.out
    assert "'demo' at 3: lost: its row is damaged" in told.err
    told = cli("db", "salvage", "talks.db", "-o", "newer.db", "--json")
    assert told.data["conversations"][0]["lost"][0]["position"] == 3
    assert [note["code"] for note in told.envelope["diagnostics"]] == ["lost"]
    assert cli("check", "log", "--db", "new.db").status == 0
    assert "lost before a salvage: its row is damaged" in cli("log", "--db", "new.db").out


def test_every_view_shows_a_damaged_entry_and_what_stands_around_it(cli: CLI, path: Path) -> None:
    damage(path, 3)
    for command in ("log", "timeline"):
        told = cli(command)
        assert told.status == 0, told.err
        assert "Tell me." in told.out
        assert "Thanks." in told.out
        assert "its digest is not that of its bytes" in told.out
    assert cli("log", "--json").data
    for command in ("log", "requests"):
        told = cli("check", command)
        assert told.status == 1
        assert "3" in told.err
    told = cli("request", "demo")
    assert told.status == 4
    assert "position 3 is damaged" in told.err


def test_erase_says_who_and_why_and_trace_value_where_the_words_are(cli: CLI, path: Path) -> None:
    told = cli("explain", "value", "zebra")
    assert told.status == 0
    assert "3  entry" in told.out
    told = cli("erase", "demo", "3", "4", "--yes", "--reason", "on request", "--by", "boss")
    assert told.out == "✓ demo: erased: entries 3, 4\n· recorded: demo at 6\n"
    told = cli("check", "log")
    assert told.status == 0
    assert "'demo' at position 6: boss erased 3, 4: on request" in told.err
    assert "nowhere" in cli("explain", "value", "zebra").out
    assert "Entries 3, 4 erased: on request" in cli("timeline").out


def test_erase_takes_ranges_and_names_the_entries_that_still_quote_the_words(cli: CLI, path: Path) -> None:
    with stenolog.open(path) as log:
        log["demo"].append(AssistantMessage(agent="a", text="So far: The zebra flies. Thanks was said."))
    told = cli("erase", "demo", "2-3,4", "--yes", "--json").envelope
    assert (told["data"]["positions"], told["data"]["quoted_at"]) == ([2, 3, 4], [5])
    with stenolog.open(path) as log:
        log["demo"].append(UserMessage(text="Once more: So far: The zebra flies. Thanks was said."))
    told = cli("erase", "demo", "5", "--yes").err
    assert told == "! the same words still stand in 1 other entry: 7\n"
    assert cli("erase", "demo", "7", "--yes").err == ""


def test_a_wrong_position_to_erase_is_told_before_the_question(cli: CLI, path: Path) -> None:
    assert "found '2to3'" in cli("erase", "demo", "2to3").err
    assert "add --yes" in cli("erase", "demo", "2-3").err
