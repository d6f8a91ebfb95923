"""Databases of the OpenAI Agents SDK's sessions, written by the SDK itself."""

from __future__ import annotations

import asyncio
import sqlite3
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from agents import Agent, Runner, SQLiteSession, function_tool, set_tracing_disabled
from agents.extensions.memory import AdvancedSQLiteSession
from agents.testing import ScriptedModel, assistant_message, function_call

import stenolog
from stenolog import AssistantMessage
from stenolog.events import ModeSwitch
from stenolog.frameworks import OpenAIAgentsSession
from stenolog.importers import import_file
from tests.transcripts.acceptance import (
    assert_again_adds_nothing,
)
from tests.transcripts.given import Import

Item = dict[str, Any]
set_tracing_disabled(True)


def answer(phrase: str, id: str = "msg_1") -> Item:
    content = [{"type": "output_text", "text": phrase, "annotations": [], "logprobs": []}]
    return {"id": id, "type": "message", "role": "assistant", "status": "completed", "content": content}


ITEMS: list[Item] = [
    {"role": "developer", "content": "Be brief."},
    {"role": "user", "content": "Which test fails?"},
    {
        "id": "rs_1",
        "type": "reasoning",
        "summary": [{"type": "summary_text", "text": "I run them."}],
        "encrypted_content": "gAAAAAB",
        "provider_data": {"model": "gpt-5.2", "response_id": "resp_1"},
    },
    {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "run", "arguments": '{"all": true}'},
    {"type": "function_call", "id": "fc_2", "call_id": "c2", "name": "look", "arguments": "{}"},
    {
        "type": "function_call_output",
        "call_id": "c2",
        "output": "An error occurred while running the tool. Sorry.",
    },
    {
        "type": "function_call_output",
        "call_id": "c1",
        "output": [{"type": "input_text", "text": "one failed"}],
    },
    answer("The third one."),
    {
        "role": "user",
        "content": [
            {"type": "input_text", "text": "And this?"},
            {"type": "input_image", "image_url": "data:image/png;base64,aGk=", "detail": "auto"},
        ],
    },
    {
        "id": "ws_1",
        "type": "web_search_call",
        "status": "completed",
        "action": {"type": "search", "query": "news"},
    },
    {
        "id": "msg_2",
        "type": "message",
        "role": "assistant",
        "content": [{"type": "refusal", "refusal": "No."}],
    },
]


def add(path: Path, *items: Item, session: str = "s1") -> Path:
    """Add items to a session, as the SDK does."""
    stored = SQLiteSession(session, path)
    asyncio.run(stored.add_items(list(items)))  # type: ignore[arg-type]
    stored.close()
    return path


def events_in(log: stenolog.Log, name: str = "s1") -> list[Any]:
    return [entry.event for entry in log[name] if not isinstance(entry.event, ModeSwitch)]


def test_a_run_of_the_sdk_with_a_tool_that_raises_is_the_conversation_that_it_was(
    into: Import, tmp_path: Path
) -> None:
    @function_tool
    def bake(trays: int) -> str:
        """Bake some trays."""
        raise RuntimeError("the oven is cold")

    script = ScriptedModel(
        [[function_call("bake", {"trays": 2}, call_id="c1")], [assistant_message("It is cold.")]]
    )
    session = SQLiteSession("bread", tmp_path / "a.db")
    asyncio.run(Runner.run(Agent("baker", model=script, tools=[bake]), "Bake two.", session=session))
    items = asyncio.run(session.get_items())
    session.close()
    import_file(into.log, tmp_path / "a.db")
    asked, called, result, answer = events_in(into.log, "bread")

    assert (asked.text, called.tool_calls[0].arguments, answer.text) == (
        "Bake two.",
        '{"trays":2}',
        "It is cold.",
    )
    assert (result.name, result.is_error) == ("bake", True)
    assert asyncio.run(OpenAIAgentsSession(into.log["bread"]).get_items()) == items


def test_items_that_were_popped_are_hidden_and_stay_in_the_log(into: Import, tmp_path: Path) -> None:
    path = add(tmp_path / "sessions.db", *ITEMS[:2], answer("The second one."))
    import_file(into.log, path)
    session = SQLiteSession("s1", path)
    asyncio.run(session.pop_item())
    session.close()
    add(path, answer("The third one.", "msg_9"))
    (found,) = import_file(into.log, path).conversations
    (again,) = import_file(into.log, path).conversations
    conversation = into.log["s1"]

    assert found.decisions == {"taken out of the session": 1}
    assert again.appended == 0
    assert [e.text for e in events_in(into.log)][2:] == ["The second one.", "The third one."]
    assert asyncio.run(OpenAIAgentsSession(conversation).get_items()) == [
        *ITEMS[:2],
        answer("The third one.", "msg_9"),
    ]
    assert "second" not in str(conversation.request("assistant", api="openai-responses").body)


def test_another_database_with_a_session_of_that_id_is_refused(into: Import, tmp_path: Path) -> None:
    import_file(into.log, add(tmp_path / "a.db", *ITEMS[1:4]))
    other = add(tmp_path / "b.db", {"role": "user", "content": "Something else"})
    (found,) = import_file(into.log, other).conversations
    elsewhere = add(tmp_path / "c.db", *ITEMS[1:3])
    with closing(sqlite3.connect(elsewhere)) as connection:
        connection.execute("UPDATE agent_messages SET id = id - 9")
        connection.commit()
    (before,) = import_file(into.log, elsewhere).conversations

    assert "is it another transcript? Then give it another name" in found.failed
    assert "is it another session? Then give it another name" in before.failed
    assert len(events_in(into.log)) == 2


def test_the_sdk_is_not_needed(into: Import, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = add(tmp_path / "a.db", *ITEMS)
    monkeypatch.setitem(sys.modules, "agents", None)

    assert import_file(into.log, path).conversations[0].appended > 0


async def test_branches_and_the_tokens_of_turns_are_told_apart(into: Import, tmp_path: Path) -> None:
    session = AdvancedSQLiteSession(session_id="s1", db_path=tmp_path / "a.db", create_tables=True)
    await session.add_items([{"role": "user", "content": "One"}, answer("First.")])  # type: ignore[list-item]
    await session.add_items([{"role": "user", "content": "Two"}, answer("Second.", "msg_2")])  # type: ignore[list-item]
    await session.create_branch_from_turn(2, "other")
    await session.add_items([{"role": "user", "content": "Other"}, answer("Third.", "msg_3")])  # type: ignore[list-item]
    session.close()
    with closing(sqlite3.connect(tmp_path / "a.db")) as connection:
        connection.execute(
            "INSERT INTO turn_usage (session_id, branch_id, user_turn_number, input_tokens, output_tokens,"
            " input_tokens_details) VALUES ('s1', 'main', 1, 12, 3, '{\"cached_tokens\": 4}')"
        )
        connection.commit()
    report = import_file(into.log, tmp_path / "a.db")
    answers = [event for event in events_in(into.log) if isinstance(event, AssistantMessage)]

    assert [found.name for found in report.conversations] == ["s1", "s1~other"]
    assert [event.text for event in events_in(into.log)] == ["One", "First.", "Two", "Second."]
    assert [event.text for event in events_in(into.log, "s1~other")] == ["One", "First.", "Other", "Third."]
    assert answers[0].usage is not None
    assert (answers[0].usage.input, answers[0].usage.output, answers[0].usage.cache_read) == (12, 3, 4)
    assert_again_adds_nothing(tmp_path / "a.db")
