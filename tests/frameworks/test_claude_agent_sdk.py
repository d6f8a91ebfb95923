"""Sessions of the Claude Agent SDK in a log: lines come back equal, and are read as Claude Code's files are.

The SDK's own conformance suite, and a session that goes on on another host, are in `tests/agents`.
"""

from __future__ import annotations

import asyncio
import json
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import stenolog
from stenolog import Conversation, Log, UserMessage
from stenolog.adapters.importers.conversion.steps import Step
from stenolog.adapters.importers.door.json_lines import Record
from stenolog.adapters.programs.claude_code.records import ClaudeCode
from stenolog.errors import CallerError, HeldError
from stenolog.frameworks import ClaudeSessionStore, claude_session_store
from stenolog.importers import import_file
from stenolog.maintenance import hold
from tests.command_line import run
from tests.file_bytes import files_with
from tests.postgres.server import Server
from tests.requests.judging import SHARED
from tests.transcripts.given import assistant, text, tool_result, tool_use, user

EXAMPLE = Path(__file__).parent.parent.parent / "docs" / "examples" / "session.jsonl"
SESSIONS = [EXAMPLE, *sorted((SHARED / "transcripts" / "claude_code_fixtures").glob("*simple*.jsonl"))]
RECORDED = sorted((SHARED / "transcripts" / "claude_code").glob("[14df]*.jsonl"))
KEY = {"project_key": "-work-bread", "session_id": "11111111-2222-3333-4444-555555555555"}
NAME = f"{KEY['project_key']}/{KEY['session_id']}"
SUB = {**KEY, "subpath": "subagents/agent-a1b2c3d4e5"}
TALK = [
    user("u1", None, "Which loaf sold best?"),
    assistant("a1", "u1", tool_use("c1", "Agent", prompt="Count rye.", subagent_type="Explore")),
]
COUNTED = [
    {"type": "agent_metadata", "agentType": "Explore", "toolUseId": "c1"},
    user("s1", None, "Count rye.", isSidechain=True, agentId="a1b2c3d4e5"),
    assistant("s2", "s1", text("Twelve rye."), isSidechain=True, agentId="a1b2c3d4e5"),
]
END = [user("u2", "a1", [tool_result("c1", "Twelve rye.")]), assistant("a2", "u2", text("Rye, twelve."))]
WRITER = """
import asyncio, sys, stenolog
from stenolog.errors import HeldError
from stenolog.frameworks import claude_session_store
async def main(address, mine):
    with stenolog.open(address) as log:
        store = claude_session_store(log)
        for number in range(15):
            said = {"type": "user", "uuid": f"{mine}{number}", "message": {"content": f"{mine} {number}"}}
            await store.append({"project_key": "p", "session_id": "s"}, [said, {"type": "mode", "of": mine}])
asyncio.run(main(*sys.argv[1:]))
"""


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    with stenolog.open(tmp_path / "bread.db") as log:
        yield log
        assert run(["check", "log", "--db", str(tmp_path / "bread.db")]) == 0


def given(store: ClaudeSessionStore) -> None:
    for key, batch in ((KEY, TALK), (SUB, COUNTED), (KEY, END)):
        asyncio.run(store.append(key, batch))


def said(conversation: Conversation) -> list[tuple[str, Any]]:
    """Return what a conversation's messages say, whatever settings are between them."""
    found = ((each.id, getattr(each.event, "parts", None)) for each in conversation.entries())
    return [(id, parts) for id, parts in found if parts is not None]


def read_lines(path: Path) -> list[Any]:
    try:
        return [json.loads(line) for line in path.read_text().splitlines() if line.strip()]
    except ValueError:
        return []  # damaged, which the SDK never hands on


@pytest.mark.parametrize("path", [*SESSIONS, *RECORDED], ids=lambda path: path.stem)
def test_a_session_comes_back_equal_and_reads_as_the_file_that_grew_as_it_did(
    path: Path, tmp_path: Path
) -> None:
    lines, at, file = read_lines(path), 0, tmp_path / "session.jsonl"
    cuts = random.Random(path.stem)
    with stenolog.open(tmp_path / "stored.db") as log, stenolog.open(tmp_path / "files.db") as other:
        stores = [claude_session_store(log) for _ in range(2)]
        while at < len(lines):
            batch = lines[at : at + cuts.randint(1, 40)]
            at += len(batch)
            (store,) = cuts.choices(
                stores, (4, 1)
            )  # the reading goes on, or what another store wrote is read
            asyncio.run(store.append(KEY, batch))
            file.write_text("".join(f"{json.dumps(line)}\n" for line in lines[:at]))
            names = [found.name for found in import_file(other, file).conversations] if at else []

        assert asyncio.run(store.load(KEY)) == (lines or None)
        for name in names:
            assert said(log[NAME]) == said(other[name])
            built = [talk.request("claude", api="anthropic") for talk in (log[NAME], other[name])]
            assert built[0].body == built[1].body


def test_a_session_with_a_sub_agent_is_one_conversation_that_requests_follow_from(log: Log) -> None:
    given(claude_session_store(log))

    assert log.names() == [NAME]
    assert [*log[NAME].state().lanes] == ["claude", "Explore-a1b2c3d4"]
    assert "Twelve rye." in json.dumps(log[NAME].request("claude", at=log[NAME].position).body)
    assert "Which loaf" not in json.dumps(log[NAME].request("Explore-a1b2c3d4", api="anthropic").body)


def test_the_file_of_a_stored_session_adds_nothing_to_the_log(log: Log, tmp_path: Path) -> None:
    given(claude_session_store(log))
    file = tmp_path / f"{KEY['session_id']}.jsonl"
    file.write_text("".join(f"{json.dumps(line)}\n" for line in [*TALK, *END]))

    assert [found.appended for found in import_file(log, file).conversations] == [0]
    assert log.names() == [NAME]


def test_a_batch_that_is_given_again_is_stored_once_but_lines_without_an_id_each_time(log: Log) -> None:
    store, mode = claude_session_store(log), {"type": "mode", "mode": "normal"}
    for _ in range(2):
        asyncio.run(store.append(KEY, [*TALK, mode]))

    assert asyncio.run(store.load(KEY)) == [*TALK, mode, mode]
    assert [id for id, _ in said(log[NAME])] == ["u1", "a1"]


def test_a_line_is_read_about_once_however_long_its_session_is(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, take = list[Record](), ClaudeCode.take

    def counted(self: ClaudeCode, record: Record) -> list[Step]:
        read.append(record)
        return take(self, record)

    monkeypatch.setattr(ClaudeCode, "take", counted)
    lines = [user(f"u{n}", f"u{n - 1}" if n else None, f"{n}?") for n in range(120)]
    for key in (KEY, {**KEY, "session_id": "another"}):
        store = claude_session_store(log)
        for at in range(0, len(lines), 4):
            asyncio.run(store.append(key, lines[at : at + 4]))

        assert asyncio.run(store.load(key)) == lines
    assert len(read) <= 2 * 2 * len(lines)


def test_a_result_after_a_person_went_on_is_read_as_by_a_store_that_begins_anew(tmp_path: Path) -> None:
    late = user("u3", "a1", [tool_result("c1", "Twelve rye.")])
    found = []
    for is_anew in (False, True):
        with stenolog.open(tmp_path / f"{is_anew}.db") as log:
            store = claude_session_store(log)
            for batch in (TALK, [user("u2", "a1", "Go on.")], [late], END[1:]):
                asyncio.run((claude_session_store(log) if is_anew else store).append(KEY, batch))
            found.append([each.event for each in log[NAME] if getattr(each.event, "source", None)])

    assert found[0] == found[1]


def test_of_lines_with_one_id_the_first_is_stored(log: Log) -> None:
    store = claude_session_store(log)
    for words in ("Bake rye.", "Bake spelt."):
        asyncio.run(store.append(KEY, [user("u1", None, words)]))

    assert asyncio.run(store.load(KEY)) == [user("u1", None, "Bake rye.")]


@pytest.mark.parametrize("line", [5, None, ["uuid"], {"uuid": "u", "n": 10**5000}, {"uuid": "u", "n": {1}}])
def test_a_batch_with_what_is_no_line_is_refused_whole(log: Log, line: Any) -> None:
    store = claude_session_store(log)
    with pytest.raises(CallerError, match="expected"):
        asyncio.run(store.append(KEY, [*TALK, line]))

    assert log.names() == []


@pytest.mark.parametrize(
    "line",
    [
        {"type": "user", "uuid": "x", "message": {"content": "half \ud83d of a pair"}},
        {"type": "user", "uuid": "x", "message": {"content": [None, 7, {"type": []}]}},
        {"type": "user", "uuid": 7, "message": []},
        {"type": ["user"], "attachment": {"type": {}}},
        {"type": "assistant", "message": {"content": "é", "usage": {"input_tokens": 1e300}}},
    ],
)
def test_a_line_that_cannot_be_read_is_kept_all_the_same(log: Log, line: Any) -> None:
    store = claude_session_store(log)
    for batch in (TALK, [line], END):
        asyncio.run(store.append(KEY, batch))

    assert asyncio.run(store.load(KEY)) == [*TALK, line, *END]


@pytest.mark.parametrize("where", ["sqlite", "postgresql"])
def test_two_processes_append_to_one_session_and_no_line_is_lost(
    where: str, tmp_path: Path, postgres: Callable[[str], Server]
) -> None:
    if where == "sqlite":
        both_write(str(tmp_path / "shared.db"))
    else:
        with postgres("postgres 15").schema() as address:
            both_write(address)


def both_write(address: str) -> None:
    """Let two processes write to a session of the log at an address, and look at what is there."""
    running = [subprocess.Popen([sys.executable, "-c", WRITER, address, mine]) for mine in "ab"]
    assert [process.wait() for process in running] == [0, 0]
    with stenolog.open(address) as log:
        lines = asyncio.run(claude_session_store(log).load({"project_key": "p", "session_id": "s"})) or []
        for mine in "ab":
            assert [line["uuid"] for line in lines if line.get("uuid", "").startswith(mine)] == [
                f"{mine}{number}" for number in range(15)
            ]
            assert sum(line.get("of") == mine for line in lines) == 15
        entries = [each.id for each in log["p/s"] if isinstance(each.event, UserMessage)]
        assert sorted(entries) == sorted(f"{mine}{number}" for mine in "ab" for number in range(15))
        assert [*log["p/s"].entries(strict=True)]


def test_a_session_is_found_after_a_rename_and_begins_anew_after_its_deletion(log: Log) -> None:
    store = claude_session_store(log)
    given(store)
    log[NAME].fork(2)
    log[NAME].rename("bread")

    assert asyncio.run(store.load(KEY)) == [*TALK, *END]
    asyncio.run(store.delete(KEY))
    assert log.names() == []
    assert asyncio.run(store.load(KEY)) is None
    asyncio.run(store.append(KEY, TALK))
    assert asyncio.run(store.load(KEY)) == TALK


def test_a_deleted_sub_agent_is_gone_with_its_words_and_the_session_stays(tmp_path: Path) -> None:
    with stenolog.open(tmp_path / "bread.db") as log:
        store = claude_session_store(log)
        given(store)
        asyncio.run(store.delete(SUB))

        assert asyncio.run(store.list_subkeys(KEY)) == []
        assert asyncio.run(store.load(SUB)) is None
        assert asyncio.run(store.load(KEY)) == [*TALK, *END]
        assert [parts for id, parts in said(log[NAME]) if id in ("s1", "s2")] == []


def test_erased_words_are_in_no_line_and_in_no_file(tmp_path: Path) -> None:
    secret = "The oven's code is 7421."
    placed = user("u3", "a2", secret, cwd="/oven")  # settings come of this line too
    lines = [*TALK, *END, placed, {"type": "last-prompt", "lastPrompt": secret}]
    with stenolog.open(tmp_path / "bread.db") as log:
        store = claude_session_store(log)
        asyncio.run(store.append(KEY, lines))
        (position,) = (each.position for each in log[NAME] if each.id == "u3")
        log[NAME].erase(position)

        assert asyncio.run(store.load(KEY)) == [*TALK, *END]
        asyncio.run(store.append(KEY, [*lines[:4], assistant("a3", "a2", text("Good night."))]))
        assert "7421" not in json.dumps(log[NAME].request("claude", at=log[NAME].position - 1).body)
    assert files_with(tmp_path, b"7421") == []


def test_the_words_of_a_subject_are_in_no_line_and_other_batches_stay(tmp_path: Path) -> None:
    with stenolog.open(tmp_path / "bread.db") as log:
        store = claude_session_store(log)
        given(store)
        title = {"type": "ai-title", "aiTitle": "What Zoe Quux sold"}
        asyncio.run(store.append(KEY, [user("u3", "a2", "I am Zoe Quux."), title]))
    assert run(["erase", "--subject", "zoe quux", "--yes", "--db", str(tmp_path / "bread.db")]) == 0
    with stenolog.open(tmp_path / "bread.db") as log:
        assert asyncio.run(claude_session_store(log).load(KEY)) == [*TALK, *END]
    assert files_with(tmp_path, b"Quux") == []


def test_a_session_under_hold_stays_whole(log: Log) -> None:
    store = claude_session_store(log)
    given(store)
    log[NAME].fork(2)
    hold(log, NAME, reason="a trial")
    for key in (KEY, SUB):
        with pytest.raises(HeldError):
            asyncio.run(store.delete(key))

    assert len(log.names()) == 2
    assert asyncio.run(store.load(SUB)) == COUNTED


@pytest.mark.parametrize("project", ["a/b", "a", "x" * 300, " \t", "a-b"])
def test_sessions_of_any_project_are_kept_apart(log: Log, project: str) -> None:
    store = claude_session_store(log)
    keys = [
        {"project_key": each, "session_id": id} for each in (project, f"{project}x") for id in ("b/c", "c")
    ]
    for number, key in enumerate(keys):
        asyncio.run(store.append(key, [{"type": "mode", "number": number}]))

    found = [asyncio.run(store.load(key)) for key in keys]
    listed = [asyncio.run(store.list_sessions(key["project_key"])) for key in keys[::2]]

    assert found == [[{"type": "mode", "number": number}] for number in range(4)]
    assert [[each["session_id"] for each in some] for some in listed] == [["b/c", "c"]] * 2
