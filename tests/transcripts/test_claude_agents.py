"""Sub-agents, compactions and branches of Claude Code, and notes on sub-agents."""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import stenolog
from stenolog import AssistantMessage, Conversation, Entry, LlmError, Log, ModeSwitch, ToolResult, UserMessage
from stenolog.analysis import blame
from stenolog.events import CallRef
from stenolog.importers import files_in, import_files
from stenolog.requests import build, lanes
from tests.requests.corpus import TRANSCRIPTS, conversations, files
from tests.transcripts.given import (
    SESSION,
    Import,
    Json,
    assistant,
    importing,
    lines,
    record,
    text,
    tool_result,
    tool_use,
    user,
)

STARTED = [
    user("u1", None, "Find it"),
    assistant("a1", "u1", tool_use("t1", "Task", subagent_type="Explore", prompt="Look")),
]


def progress(uuid: str, message: Json, *before: Json) -> Json:
    """Return a sub-agent's progress record, as its session writes it while it runs."""
    data = {
        "type": "agent_progress",
        "agentId": "abcdef1234567",
        "message": message,
        "normalizedMessages": [*before, message],
    }
    return record("progress", uuid, "a1", data=data, parentToolUseID="t1")


def test_the_main_agent_sees_what_its_call_gave_and_not_how(into: Import) -> None:
    into.records(
        *STARTED,
        progress("p1", user("s1", None, "Look")),
        progress("p2", assistant("s2", "s1", text("A secret thought"))),
        user("r1", "a1", [tool_result("t1", "It is there")]),
    )

    body = str(build(into.entries, "claude").body)
    assert "It is there" in body
    assert "secret" not in body


def test_a_reset_of_the_main_agent_leaves_a_sub_agents_history_in_its_request(into: Import) -> None:
    into.records(
        *STARTED,
        progress("p1", user("s1", None, "Look")),
        progress("p2", assistant("s2", "s1", text("I look"))),
        user("r1", "a1", [tool_result("t1", "It is there")]),
        assistant("a2", "r1", text("Found it")),
        record("progress", "h1", None, data={"type": "hook_progress", "hookName": "SessionStart:clear"}),
        user("u9", "h1", "Something else"),
    )

    main, sub = (str(build(into.entries, agent).body) for agent in ("claude", "Explore-abcdef12"))

    assert ("Find it" in main, "Something else" in main) == (False, True)
    assert "I look" in sub
    reset = [switch for switch in into.settings if isinstance(switch.context_from, int)]
    assert [switch.agents for switch in reset] == [("claude",)]


def test_a_result_without_its_call_is_seen_by_the_agent_alone_in_whose_history_it_is(into: Import) -> None:
    into.records(
        user("u0", None, [tool_result("t0", "refused before")]),
        *STARTED,
        progress("p1", user("s1", None, "Look")),
        progress("p2", user("s2", "s1", [tool_result("t8", "of the sub-agent")])),
        progress("p3", assistant("s3", "s2", text("I look"))),
        user("u2", "a1", [tool_result("t7", "refused meanwhile")]),
        user("r1", "a1", [tool_result("t1", "It is there")]),
    )

    main, sub = (str(build(into.entries, agent).body) for agent in ("claude", "Explore-abcdef12"))

    words = ("refused before", "of the sub-agent", "refused meanwhile")
    assert [each in main for each in words] == [True, False, True]
    assert [each in sub for each in words] == [False, True, False]


@pytest.mark.skipif(not TRANSCRIPTS.is_dir(), reason="the recorded sessions are not beside this checkout")
def test_no_sub_agent_of_any_recorded_session_is_shown_more_than_it_was_given() -> None:
    sub_agents = 0
    for file in files("claude_code", "claude_code_fixtures"):
        for talk in conversations(file):
            subs = [lane for lane in lanes(talk.entries) if lane.agent != "claude"]
            sub_agents += len(subs)
            for lane in subs:
                request = build(talk.entries, lane.agent, blobs=talk.blobs)
                shown = {position for part in request.parts for position in part.positions}
                given = given_to(lane.agent, talk.entries)
                assert shown <= given, (file.name, talk.name, lane.agent, sorted(shown - given))
    assert sub_agents


def given_to(agent: str, entries: list[Entry]) -> set[int]:
    """Return the positions of what names an agent, what it said, and the results of its own calls."""
    own: dict[str, int] = {}
    given = set[int]()
    for entry in entries:
        match entry.event:
            case AssistantMessage(agent=speaker) | LlmError(agent=speaker) if speaker == agent:
                own[entry.id] = entry.position
                given.add(entry.position)
            case ToolResult(call=CallRef(entry=called)) if called in own:
                given.add(entry.position)
            case UserMessage(to=to) | ToolResult(call=None, to=to) if agent in to:
                given.add(entry.position)
            case _:
                pass
    return given


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


def sent(conversation: Conversation) -> str:
    return str(conversation.request("claude", api="anthropic").body["messages"])


PARTLY = [
    user("u1", None, "Go"),
    assistant("a1", "u1", tool_use("t1", command="ls")),
    user("u2", "a1", [tool_result("t1", "a file")]),
    assistant("a2", "u2", text("There is a file")),
    user("u3", "a2", "And its size?"),
    assistant("a3", "u3", text("Large")),
]
LATER = [user("u9", "b1", "What was done so far", isCompactSummary=True), user("u4", "a3", "Thanks")]


def boundary(**compaction: Any) -> Json:
    return record("system", "b1", None, subtype="compact_boundary", compactMetadata=compaction)


@pytest.mark.parametrize("told", [{"preservedSegment": {"headUuid": "gone"}}, {"preservedMessages": 3}, {}])
def test_a_compaction_that_names_nothing_in_the_file_covers_all(into: Import, told: Json) -> None:
    into.records(*PARTLY, boundary(**told), *LATER)

    assert "And its size?" not in sent(into.conversation)


def asked(into: Import) -> list[str]:
    """Return the users' messages and the answers that the model is sent, in order."""
    messages = build(into.entries, "claude", api="openai-chat").body["messages"]
    return [message["content"] for message in messages if message["role"] in ("user", "assistant")]


@given(choices=st.lists(st.integers(0, 30), min_size=1, max_size=12), cut=st.integers(0, 30))
def test_whatever_is_gone_back_to_the_way_to_the_last_prompt_is_in_context(
    choices: list[int], cut: int
) -> None:
    """Each prompt goes on from any answer before it, or from the beginning; the file comes in two pieces."""
    records: list[Json] = []
    ways: dict[str | None, list[str]] = {None: []}
    way: list[str] = []
    for number, choice in enumerate(choices):
        parent = list(ways)[choice % len(ways)]
        way = [*ways[parent], f"u{number}"]
        records += [
            user(f"u{number}", parent, f"u{number}"),
            assistant(f"a{number}", f"u{number}", text(f"a{number}")),
        ]
        ways[f"a{number}"] = [*way, f"a{number}"]

    with TemporaryDirectory() as folder, importing(Path(folder)) as into:
        if before := records[: cut % len(records)]:
            into.file(lines(*before))
        into.file(lines(*records[:-1]))
        forks = len(into.log.names()) - 1

        assert asked(into) == way
        assert forks == into.report.conversations[0].decisions["rewound"]
