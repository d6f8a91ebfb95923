"""Notes beside the files of sub-agents: their types, their tasks, and the calls that started them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import stenolog
from stenolog import Log, ModeSwitch, UserMessage
from stenolog.analysis import blame
from stenolog.importers import files_in, import_file, import_files
from tests.requests.judging import SHARED
from tests.transcripts.given import SESSION, Json, assistant, lines, tool_result, tool_use, user

FIXTURES = SHARED / "transcripts" / "agent_sessions_fixtures"
CHILD, NESTED = "b1d2c3e4f5a6", "a9d8c7b6e5f4"
MAIN = [
    user("u1", None, "Bake it"),
    assistant("a1", "u1", tool_use("t1", "Agent", description="look", prompt="Look around")),
    user("r1", "a1", [tool_result("t1", "found")]),
]
SPOKEN: list[tuple[str, str, Json]] = [
    # Not the words of the call: by these no call is found.
    (CHILD, "The task: look around", tool_use("t2", "Agent", description="deeper", prompt="Go deeper")),
    (NESTED, "The task: go deeper", tool_use("t3", "Read")),
]
NOTES: dict[str, Json] = {
    CHILD: {"agentType": "Explore", "description": "look", "toolUseId": "t1", "spawnDepth": 1},
    NESTED: {"agentType": "Plan", "description": "deeper", "toolUseId": "t2", "spawnDepth": 2},
}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Return a folder with a session, two of its sub-agents, and the notes on them."""
    (tmp_path / f"{SESSION}.jsonl").write_bytes(lines(*MAIN))
    agents = tmp_path / SESSION / "subagents"
    agents.mkdir(parents=True)
    for id, words, call in SPOKEN:
        of: dict[str, Any] = {"isSidechain": True, "agentId": id}
        spoken = [user(f"{id}-1", None, words, **of), assistant(f"{id}-2", f"{id}-1", call, **of)]
        (agents / f"agent-{id}.jsonl").write_bytes(lines(*spoken))
        (agents / f"agent-{id}.meta.json").write_text(json.dumps(NOTES[id]))
    return tmp_path


def brought(log: Log, *paths: Path) -> list[int]:
    """Return the number of entries that the import of each file appended."""
    reports = import_files(log, (file for path in paths for file in files_in(path)))
    return [one.appended for report in reports for one in getattr(report, "conversations", [])]


def test_a_note_names_the_sub_agent_and_the_call_that_started_it(project: Path) -> None:
    with stenolog.open(":memory:") as log:
        brought(log, project)
        entries = list(log[SESSION].entries())

    briefs = [
        (entry.event.to, entry.event.author, entry.event.cause)
        for entry in entries
        if isinstance(entry.event, UserMessage) and entry.event.author_kind == "agent"
    ]
    made = {entry.id: entry.position for entry in entries}
    assert briefs == [
        (("Explore-b1d2c3e4",), "claude", made["a1"]),
        (("Plan-a9d8c7b6",), "Explore-b1d2c3e4", made[f"{CHILD}-2"]),
    ]
    told: list[Any] = [
        entry.event.meta.get("claude-code") or {} for entry in entries if isinstance(entry.event, ModeSwitch)
    ]
    assert {name: each for one in told for name, each in one.get("agents", {}).items()} == {
        "Explore-b1d2c3e4": NOTES[CHILD],
        "Plan-a9d8c7b6": NOTES[NESTED],
    }


def test_a_call_of_an_agent_that_an_agent_started_leads_back_to_the_person(project: Path) -> None:
    with stenolog.open(":memory:") as log:
        brought(log, project)
        found = blame(log[SESSION].entries(), log[SESSION].position)

    assert (found.gap, [link.who for link in found.links if link.kind == "assistant_message"]) == (
        "",
        ["Plan-a9d8c7b6", "Explore-b1d2c3e4", "claude"],
    )
    assert found.links[-1].text == "Bake it"


def test_a_second_import_adds_nothing(project: Path) -> None:
    with stenolog.open(":memory:") as log:
        brought(log, project)
        for file in project.rglob("*.jsonl"):
            file.write_bytes(file.read_bytes() + b"\n")  # not known by its bytes any more

        assert brought(log, project) == [0, 0, 0]


def test_a_note_is_neither_passed_over_nor_a_file_of_its_own(project: Path) -> None:
    passed: list[Path] = []

    found = list(files_in(project, passed_over=passed.append))
    assert [file.name.startswith("agent-") for file in found] == [False, True, True]
    assert passed == []
    assert list(files_in(found[1].with_suffix(".meta.json"))) == [found[1]]


@pytest.mark.parametrize("content", ["{", "[]", '{"agentType": 3, "spawnDepth": "x"}', "\ud800"])
def test_a_note_that_cannot_be_read_stops_nothing(project: Path, content: str) -> None:
    for note in project.rglob("*.meta.json"):
        note.write_text(content, encoding="utf-8", errors="surrogatepass")
    with stenolog.open(":memory:") as log:
        assert len(brought(log, project)) == 3
        assert "agent-b1d2c3e4" in log[SESSION].settings().cards


@pytest.mark.parametrize("note", [{"agentType": "Explore", "spawnDepth": 1}, NOTES[CHILD]])
def test_a_note_alone_is_not_refused_and_holds_no_conversation(tmp_path: Path, note: Json) -> None:
    path = tmp_path / "agent-x.meta.json"
    path.write_text(json.dumps(note))
    with stenolog.open(":memory:") as log:
        report = import_file(log, path)

    assert (report.conversations, report.holds_a_conversation) == ([], False)


@pytest.mark.skipif(not FIXTURES.is_dir(), reason="the recorded sessions are not beside this checkout")
def test_the_recorded_note_is_taken() -> None:
    with stenolog.open(":memory:") as log:
        reports = [import_file(log, path) for path in FIXTURES.glob("*.meta.json")]

    assert [report.format for report in reports] == ["claude-code-note"]
