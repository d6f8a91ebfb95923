"""Sessions, evaluations and databases of Google's ADK."""

from __future__ import annotations

import base64
import json
import os
import pickle
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from stenolog import AssistantMessage, LlmError, ToolResult
from stenolog.events import Usage
from stenolog.importers import import_file, recognise
from stenolog.parts import ImagePart, ReasoningPart, TextPart, ToolCall
from tests.transcripts.acceptance import assert_accepted, assert_again_adds_nothing
from tests.transcripts.adk_given import EVENTS, call, event, events_in, response
from tests.transcripts.given import Import, Json

SAMPLE = Path(__file__).parent / "sessions" / "adk.json"


def test_a_real_session_is_the_conversation_that_it_was(into: Import) -> None:
    (found,) = import_file(into.log, SAMPLE).conversations
    conversation = into.log["day-1"]
    events = events_in(conversation)
    first, thought = events[:2]
    error = next(event for event in events if isinstance(event, LlmError))

    assert [type(part) for part in first.parts] == [TextPart, ImagePart]
    assert into.log.blobs[first.parts[1].blob] == b"\xff\xfe\xfb123"
    assert thought.parts == (
        ReasoningPart(text="The guide knows Riga.", provider="gemini", signature="//v+"),
        ToolCall(id="c1", name="transfer_to_agent", arguments='{"agent_name":"guide"}'),
    )
    assert (thought.agent, thought.model, thought.finish_reason) == ("planner", "gemini-3-pro", "STOP")
    assert thought.usage == Usage(input=12, output=8, cache_read=4, reasoning=3)
    assert [event.agent for event in events if isinstance(event, AssistantMessage)] == [
        "planner", "guide", "guide", "planner", "planner",
    ]  # fmt: skip
    results = [event for event in events if isinstance(event, ToolResult)]
    assert [(r.name, r.is_error, r.call is not None) for r in results] == [
        ("transfer_to_agent", False, True),
        ("opening_hours", True, True),
        ("weather", False, True),
    ]
    assert (error.category, error.message) == ("refused", "blocked by a filter")
    assert events[4].meta["adk"]["state_delta"] == {"place": "market"}
    assert (conversation.settings().title, conversation.settings().scope) == ("Plan a day in Riga.", "open")
    assert conversation.settings().card_of("guide").model == "gemini-3-flash"
    assert getattr(conversation[0].event, "meta", None) == {"adk": {"app": "travel", "user": "ann"}}
    assert (found.ignored, found.decisions) == (
        {"actions": 2, "state": 1},
        {"compaction as a summary": 1, "rewound": 1},
    )


def test_a_compaction_and_a_rewind_shape_what_an_agent_is_sent(into: Import) -> None:
    import_file(into.log, SAMPLE)
    body = str(into.log["day-1"].request("planner", api="openai-chat").body)

    entries = ("They planned a walk", "Plan a day", "warm", "Oslo", "Tallinn", "old town")
    assert [phrase in body for phrase in entries] == [True, False, False, False, True, True]
    assert [name for name in into.log if name.startswith("day-1~")]


NEW_TURN = {
    "userContent": {"parts": [{"text": "Turn off the lamp."}]},
    "intermediateData": {
        "toolUses": [{"name": "set", "args": {"on": False}}],
        "toolResponses": [{"name": "set", "response": {"output": "off"}}],
        "intermediateResponses": [["helper", [{"text": "On it."}]]],
    },
    "finalResponse": {"parts": [{"text": "It is off."}]},
}
EVENTS_TURN = {
    "app_details": {"agent_details": {"helper": {"name": "helper", "instructions": "Help."}}},
    "user_content": {"parts": [{"text": "Turn off the lamp."}]},
    "intermediate_data": {
        "invocation_events": [
            {"author": "agent", "content": {"parts": [call("set", on=False)]}},
            {"author": "agent", "content": {"parts": [response("set", output="off")]}},
            {"author": "helper", "content": {"parts": [{"text": "On it."}]}},
        ]
    },
    "final_response": {"parts": [{"text": "It is off."}]},
}


# EventActions(state_delta={"k": "v"}) and EventActions(rewind_before_invocation_id="i2")
DELTA = base64.b64decode(
    "gASVywEAAAAAAACMH2dvb2dsZS5hZGsuZXZlbnRzLmV2ZW50X2FjdGlvbnOUjAxFdmVudEFjdGlvbnOUk5QpgZR9lCiMCF9fZGlj"
    "dF9flH2UKIwSc2tpcF9zdW1tYXJpemF0aW9ulE6MC3N0YXRlX2RlbHRhlH2UjAFrlIwBdpRzjA5hcnRpZmFjdF9kZWx0YZR9lIwR"
    "dHJhbnNmZXJfdG9fYWdlbnSUTowPdHJhbnNmZXJfcmVhc29ulE6MCGVzY2FsYXRllE6MFnJlcXVlc3RlZF9hdXRoX2NvbmZpZ3OU"
    "fZSMHHJlcXVlc3RlZF90b29sX2NvbmZpcm1hdGlvbnOUfZSMCmNvbXBhY3Rpb26UTowMZW5kX29mX2FnZW50lE6MC2FnZW50X3N0"
    "YXRllE6MG3Jld2luZF9iZWZvcmVfaW52b2NhdGlvbl9pZJROjAVyb3V0ZZROjBFyZW5kZXJfdWlfd2lkZ2V0c5ROjBJzZXRfbW9k"
    "ZWxfcmVzcG9uc2WUTnWMEl9fcHlkYW50aWNfZXh0cmFfX5ROjBdfX3B5ZGFudGljX2ZpZWxkc19zZXRfX5SPlChoCJCMFF9fcHlk"
    "YW50aWNfcHJpdmF0ZV9flE51Yi4="
)
REWIND = base64.b64decode(
    "gASVxgEAAAAAAACMH2dvb2dsZS5hZGsuZXZlbnRzLmV2ZW50X2FjdGlvbnOUjAxFdmVudEFjdGlvbnOUk5QpgZR9lCiMCF9fZGlj"
    "dF9flH2UKIwSc2tpcF9zdW1tYXJpemF0aW9ulE6MC3N0YXRlX2RlbHRhlH2UjA5hcnRpZmFjdF9kZWx0YZR9lIwRdHJhbnNmZXJf"
    "dG9fYWdlbnSUTowPdHJhbnNmZXJfcmVhc29ulE6MCGVzY2FsYXRllE6MFnJlcXVlc3RlZF9hdXRoX2NvbmZpZ3OUfZSMHHJlcXVl"
    "c3RlZF90b29sX2NvbmZpcm1hdGlvbnOUfZSMCmNvbXBhY3Rpb26UTowMZW5kX29mX2FnZW50lE6MC2FnZW50X3N0YXRllE6MG3Jl"
    "d2luZF9iZWZvcmVfaW52b2NhdGlvbl9pZJSMAmkylIwFcm91dGWUTowRcmVuZGVyX3VpX3dpZGdldHOUTowSc2V0X21vZGVsX3Jl"
    "c3BvbnNllE51jBJfX3B5ZGFudGljX2V4dHJhX1+UTowXX19weWRhbnRpY19maWVsZHNfc2V0X1+Uj5QoaBaQjBRfX3B5ZGFudGlj"
    "X3ByaXZhdGVfX5ROdWIu"
)
V1 = """
CREATE TABLE sessions (app_name VARCHAR(128), user_id VARCHAR(128), id VARCHAR(128), state TEXT,
    create_time DATETIME, update_time DATETIME, PRIMARY KEY (app_name, user_id, id));
CREATE TABLE events (id VARCHAR(128), app_name VARCHAR(128), user_id VARCHAR(128), session_id VARCHAR(128),
    invocation_id VARCHAR(256), timestamp DATETIME, event_data TEXT,
    PRIMARY KEY (id, app_name, user_id, session_id));
"""
V0 = V1.replace(
    "event_data TEXT",
    "author VARCHAR(256), actions BLOB, branch VARCHAR(256), content TEXT, error_code VARCHAR(256),"
    " error_message VARCHAR(1024), partial BOOLEAN, turn_complete BOOLEAN, interrupted BOOLEAN,"
    " usage_metadata TEXT, long_running_tool_ids_json TEXT",
)


def database(path: Path, schema: str, *events: Json, actions: bytes = DELTA, sessions: int = 1) -> Path:
    """Write a database of a session service; each of several sessions has the same id and events."""
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(schema)
        for nth in range(sessions):
            owner = ("shop", f"user{nth}", "s1")
            times = (f"2026-01-02 03:0{nth}:00", "2026-01-02 04:00:00")
            connection.execute("INSERT INTO sessions VALUES (?, ?, ?, ?, ?, ?)", (*owner, "{}", *times))
            for each in events:
                row = {"id": each["id"], "app_name": owner[0], "user_id": owner[1], "session_id": owner[2]}
                row |= {
                    "invocation_id": each["invocation_id"],
                    "timestamp": f"2026-01-02 03:00:0{each['id'][1]}",
                }
                if schema is V1:
                    row["event_data"] = each if isinstance(each, str) else json.dumps(each)
                else:
                    row |= {
                        "author": each["author"],
                        "actions": actions,
                        "content": json.dumps(each.get("content")),
                    }
                names = ", ".join(row)
                holes = ", ".join("?" * len(row))
                connection.execute(f"INSERT INTO events ({names}) VALUES ({holes})", tuple(row.values()))
        connection.commit()
    return path


@pytest.mark.parametrize("schema", [V1, V0], ids=["events as JSON", "a column for each field"])
def test_a_database_gives_what_an_export_gives(into: Import, tmp_path: Path, schema: str) -> None:
    path = database(tmp_path / "adk.db", schema, *EVENTS)
    before = path.read_bytes()
    (found,) = import_file(into.log, path).conversations
    texts = [getattr(event, "text", "") for event in events_in(into.log["s1"])]

    assert recognise(path) == "adk"
    assert (found.name, found.skipped) == ("s1", [])
    assert texts == ["Hi", "", '{"result":"blue"}', "It is blue."]
    assert path.read_bytes() == before
    assert_again_adds_nothing(path)
    assert_accepted(path)


def test_pickled_actions_count_and_run_nothing(into: Import, tmp_path: Path) -> None:
    class Harm:
        def __reduce__(self) -> tuple[Any, tuple[str]]:
            return os.mkdir, (str(tmp_path / "harm"),)

    import_file(into.log, database(tmp_path / "a.db", V0, *EVENTS), name="delta")
    import_file(into.log, database(tmp_path / "b.db", V0, *EVENTS, actions=pickle.dumps(Harm())), name="harm")
    second = [event("e1", "user", {"text": "Hi"}, invocation="i2"), event("e2", "user")]
    import_file(into.log, database(tmp_path / "c.db", V0, *second, actions=REWIND), name="rewind")

    assert events_in(into.log["delta"])[0].meta["adk"]["state_delta"] == {"k": "v"}
    assert events_in(into.log["harm"])[0].meta["adk"] == {"invocation": "i1"}
    assert not (tmp_path / "harm").exists()
    assert [span.first for span in into.log["rewind"].settings().hides] == [2]


@pytest.mark.parametrize(
    "data", [b"", b"\x80\x05X", DELTA[:100], pickle.dumps([1]), pickle.dumps({"a": {1, 2}})]
)
def test_a_pickle_that_is_none_is_passed_over(into: Import, tmp_path: Path, data: bytes) -> None:
    (found,) = import_file(into.log, database(tmp_path / "adk.db", V0, *EVENTS, actions=data)).conversations

    assert (found.failed, len(events_in(into.log["s1"]))) == ("", 4)
