"""Sessions and evaluation sets of Google's ADK, in files and in the databases of all its versions.

The file in `sessions/` was written by google-adk 2.13, and so were the pickles here.
"""

from __future__ import annotations

import base64
import json
import os
import pickle
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from stenolog import AssistantMessage, Conversation, LlmError, ToolResult, UserMessage
from stenolog.events import ModeSwitch, Usage
from stenolog.importers import import_file, recognise
from stenolog.parts import ImagePart, ReasoningPart, TextPart, ToolCall
from tests.requests.judging import SHARED
from tests.transcripts.acceptance import (
    Said,
    assert_accepted,
    assert_again_adds_nothing,
    assert_nothing_lost,
    digests_of,
)
from tests.transcripts.given import Import, Json, lines

SAMPLE = Path(__file__).parent / "sessions" / "adk.json"
FILES = [SAMPLE, *sorted((SHARED / "transcripts" / "adk").glob("*.json"))]
OPENED = 1767322800.0
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
EMPTY = pickle.dumps({})


def walk(value: Any, name: str = "") -> Iterator[Said]:
    """Yield the texts, the names of calls and their arguments anywhere in a file."""
    if isinstance(value, list):
        for each in value:
            yield from walk(each, name)
    elif isinstance(value, dict):
        if name in ("functionCall", "function_call", "tool_uses"):
            yield "name", value["name"]
        if name in ("functionCall", "function_call") and value.get("id"):
            yield "call", value["id"]
        for key, inner in value.items():
            if isinstance(inner, str) and (key == "text" or name in ("args", "response")):
                yield "text", inner
            elif not isinstance(inner, str):
                yield from walk(inner, key)


def event(id: str, author: str, *parts: Json, invocation: str = "i1", **fields: Any) -> Json:
    """Return an event as exports have it."""
    content = {"content": {"parts": list(parts), "role": "user" if author == "user" else "model"}}
    number = int("".join(filter(str.isdigit, id)) or 0)
    about = {"id": id, "author": author, "invocation_id": invocation, "timestamp": OPENED + number}
    return {**about, **(content if parts else {}), **fields}


def session(*events: Json, **fields: Any) -> bytes:
    return json.dumps(
        {"id": "s1", "app_name": "shop", "user_id": "ann", "events": list(events), **fields}
    ).encode()


def call(name: str, id: str | None = None, **args: Any) -> Json:
    return {"function_call": {"id": id, "name": name, "args": args}}


def response(name: str, id: str | None = None, **given: Any) -> Json:
    return {"function_response": {"id": id, "name": name, "response": given}}


def events_in(talk: Conversation) -> list[Any]:
    return [entry.event for entry in talk if not isinstance(entry.event, ModeSwitch)]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name[-40:])
def test_nothing_that_was_said_is_lost_and_a_second_import_adds_nothing(path: Path) -> None:
    assert recognise(path) == "adk"
    assert_nothing_lost(path, walk(json.loads(path.read_bytes())))
    assert_again_adds_nothing(path)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name[-40:])
def test_every_request_on_the_way_is_accepted(path: Path) -> None:
    assert_accepted(path)


def test_a_real_session_is_the_conversation_that_it_was(into: Import) -> None:
    (found,) = import_file(into.log, SAMPLE).conversations
    talk = into.log["day-1"]
    events = events_in(talk)
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
    assert (talk.settings().title, talk.settings().scope) == ("Plan a day in Riga.", "open")
    assert talk.settings().card_of("guide").model == "gemini-3-flash"
    assert getattr(talk[0].event, "meta", None) == {"adk": {"app": "travel", "user": "ann"}}
    assert (found.ignored, found.decisions) == (
        {"actions": 2, "state": 1},
        {"compaction as a summary": 1, "rewound": 1},
    )


def test_a_compaction_and_a_rewind_shape_what_an_agent_is_sent(into: Import) -> None:
    import_file(into.log, SAMPLE)
    body = str(into.log["day-1"].request("planner", api="openai-chat").body)

    said = ("They planned a walk", "Plan a day", "warm", "Oslo", "Tallinn", "old town")
    assert [words in body for words in said] == [True, False, False, False, True, True]
    assert [name for name in into.log if name.startswith("day-1~")]


def test_a_rewind_at_the_end_of_a_session_counts_at_once(into: Import) -> None:
    talk = into.file(
        session(
            event("e1", "user", {"text": "Hi"}),
            event("e2", "user", {"text": "No"}, invocation="i2"),
            event("e3", "user", actions={"rewindBeforeInvocationId": "i2"}),
        )
    ).conversation

    assert [span.first for span in talk.settings().hides] == [3]


def test_a_session_that_grows_gives_the_same_requests(tmp_path: Path) -> None:
    document = json.loads(SAMPLE.read_bytes())
    copy = tmp_path / "session.json"
    versions = [
        json.dumps({**document, "events": document["events"][:count]}).encode()
        for count in range(1, len(document["events"]) + 1)
    ]
    whole = digests_of(copy, versions[-1])

    assert digests_of(copy, *versions) == whole
    for version in versions:
        assert digests_of(copy, version, versions[-1]) == whole


def test_calls_without_ids_find_their_results_by_the_tool(into: Import) -> None:
    said = into.file(
        session(
            event("e1", "user", {"text": "Hi"}),
            event("e2", "root", call("look", a=1), call("look", a=2)),
            event("e3", "root", response("look", result="one"), response("look", result="two")),
        )
    ).said
    answer, first, second = said[1:]

    assert isinstance(answer, AssistantMessage)
    assert [call.arguments for call in answer.tool_calls] == ['{"a":1}', '{"a":2}']
    assert [(e.text, e.call.index) for e in (first, second)] == [  # type: ignore[union-attr]
        ('{"result":"one"}', 0),
        ('{"result":"two"}', 1),
    ]


def test_what_adk_asks_a_person_for_is_in_no_request(into: Import) -> None:
    talk = into.file(
        session(
            event("e1", "user", {"text": "Pay."}),
            event("e2", "root", call("adk_request_confirmation", "c1", hint="sure?")),
            event("e3", "user", response("adk_request_confirmation", "c1", confirmed=True)),
            event("e4", "root", {"text": "Paid."}),
        )
    ).conversation

    assert [e.in_context for e in events_in(talk)] == [True, False, False, True]
    assert "confirmation" not in str(talk.request("root", api="gemini").body["contents"])


def test_fragments_are_passed_over_unless_nothing_completes_them(into: Import) -> None:
    said = into.file(
        session(
            event("e1", "user", {"text": "Hi"}),
            event("e2", "root", {"text": "Hel"}, partial=True),
            event("e3", "root", {"text": "lo"}, partial=True),
            event("e4", "root", {"text": "Hello"}),
            event("e5", "user", {"text": "More"}, invocation="i2"),
            event("e6", "root", {"text": "I wa"}, partial=True, invocation="i2"),
            event("e7", "root", {"text": "s"}, partial=True, invocation="i2"),
            event("e8", "user", {"text": "Stop"}, invocation="i3"),
        )
    ).said
    cut = said[3]

    assert [getattr(e, "text", "") for e in said] == ["Hi", "Hello", "More", "I was", "Stop"]
    assert isinstance(cut, LlmError)
    assert (cut.category, into.report.conversations[0].ignored["partial"]) == ("cancelled", 2)


@pytest.mark.parametrize(
    ("code", "words", "category"),
    [
        ("MALFORMED_FUNCTION_CALL", "", "invalid_response"),
        ("RESOURCE_EXHAUSTED", "quota", "rate_limited"),
        ("429", "too many requests", "rate_limited"),
        ("UNKNOWN_ERROR", "it broke", "other"),
    ],
)
def test_an_error_has_its_category(into: Import, code: str, words: str, category: str) -> None:
    failed = event("e2", "root", error_code=code, error_message=words)
    error = into.file(session(event("e1", "user", {"text": "Hi"}), failed)).said[1]

    assert isinstance(error, LlmError)
    assert (error.category, error.message) == (category, words or code)


def test_speech_a_node_and_a_task_have_their_places(into: Import) -> None:
    heard, answered, output, task = into.file(
        session(
            event("e1", "user", input_transcription={"text": "Good morning", "finished": True}),
            event("e2", "root", outputTranscription={"text": "Good morning!"}),
            event("e3", "root", output={"sum": 3}, node_info={"path": "flow/add@1"}),
            event("e4", "helper", {"text": "Done"}, isolation_scope="c9"),
        )
    ).said

    assert isinstance(heard, UserMessage)
    assert isinstance(answered, AssistantMessage)
    assert isinstance(output, AssistantMessage)
    assert isinstance(task, AssistantMessage)
    assert (heard.text, answered.text) == ("Good morning", "Good morning!")
    assert (output.text, output.node, output.in_context) == ('{"sum":3}', "flow/add@1", False)
    assert (task.agent, task.task) == ("helper", "c9")


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
EVENTS = [
    event("e1", "user", {"text": "Hi"}),
    event("e2", "root", call("look", "c1", at="sea")),
    event("e3", "root", response("look", "c1", result="blue")),
    event("e4", "root", {"text": "It is blue."}),
]


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


def test_sessions_of_several_users_with_one_id_are_conversations_of_their_own(
    into: Import, tmp_path: Path
) -> None:
    report = import_file(into.log, database(tmp_path / "adk.db", V1, *EVENTS, sessions=2))

    assert [found.name for found in report.conversations] == ["s1", "s1 (shop, user1)"]


def test_a_damaged_row_is_skipped_and_reported(into: Import, tmp_path: Path) -> None:
    path = database(tmp_path / "adk.db", V1, *EVENTS)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE events SET event_data = '{\"author\": ' WHERE id = 'e4'")
        connection.execute(
            'UPDATE events SET event_data = \'{"author": "root", "content": 7}\' WHERE id = \'e3\''
        )
        connection.commit()
    report = import_file(into.log, path)

    assert [(line.line, line.unit) for line in report.skipped] == [(4, "row")]
    assert [getattr(event, "text", "") for event in events_in(into.log["s1"])] == ["Hi", ""]


OLD_TURNS = [
    {
        "query": "Turn off the lamp.",
        "expected_tool_use": [{"tool_name": "set", "tool_input": {"on": False}, "mock_tool_output": "off"}],
        "expected_intermediate_agent_responses": [{"author": "helper", "text": "On it."}],
        "reference": "It is off.",
    }
]
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


@pytest.mark.parametrize(
    "document",
    [
        OLD_TURNS,
        [{"name": "lamp", "data": OLD_TURNS, "initial_session": {}}],
        {"evalSetId": "e", "evalCases": [{"evalId": "lamp", "conversation": [NEW_TURN]}]},
        {"eval_set_id": "e", "eval_cases": [{"eval_id": "lamp", "conversation": [EVENTS_TURN]}]},
    ],
    ids=["turns", "cases", "camelCase", "events"],
)
def test_an_evaluation_set_of_any_release_is_the_conversation_that_it_expects(
    into: Import, tmp_path: Path, document: Any
) -> None:
    path = tmp_path / "lamp.test.json"
    path.write_text(json.dumps(document))
    (found,) = import_file(into.log, path).conversations
    events = events_in(into.log[found.name])

    assert [getattr(event, "text", "") for event in events] == [
        "Turn off the lamp.", "", "off", "On it.", "It is off.",
    ]  # fmt: skip
    assert [getattr(event, "agent", "") for event in events] == ["", "agent", "", "helper", "agent"]
    assert events[2].call is not None
    assert_again_adds_nothing(path)


def test_a_case_without_a_conversation_is_refused_by_its_reason(into: Import) -> None:
    cases = [{"eval_id": "played", "conversation_scenario": {"starting_prompt": "Hi"}}]
    report = into.file(json.dumps({"eval_set_id": "e", "eval_cases": cases}).encode()).report

    assert [(found.name, found.failed) for found in report.conversations] == [
        ("played", "expected a conversation, found a scenario that a model is to play")
    ]


def test_sessions_in_a_list_and_on_lines_are_conversations_each(into: Import) -> None:
    sessions = [json.loads(session(*EVENTS)) | {"id": id} for id in "abcd"]
    in_list = into.file(json.dumps(sessions[:2]).encode(), "list.json").report
    on_lines = into.file(lines(*sessions[2:]), "lines.jsonl").report

    assert [(found.name, found.appended) for found in in_list.conversations] == [("a", 6), ("b", 6)]
    assert [(found.name, found.appended) for found in on_lines.conversations] == [("c", 6), ("d", 6)]


@pytest.mark.parametrize(
    "broken",
    [
        {"content": "text"},
        {"content": {"parts": [None, 1, {"text": 3}, {}]}},
        {"content": {"parts": [{"function_call": {"name": 1, "args": "x"}}, {"function_call": 3}]}},
        {
            "content": {
                "parts": [{"inline_data": {"data": 3}}, {"inline_data": {"data": "!", "mime_type": "a/b"}}]
            }
        },
        {
            "actions": {
                "compaction": {"compacted_content": {"parts": [{"text": "x"}]}, "start_timestamp": "a"}
            }
        },
        {"timestamp": "never", "usage_metadata": [1], "author": 7, "invocation_id": None},
        {"error_code": 5, "error_message": {"a": 1}, "custom_metadata": {"\ud800": "\ud800"}},
    ],
)
def test_a_broken_event_costs_itself_at_most(into: Import, broken: Json) -> None:
    first, *rest = EVENTS
    found = into.file(session(first, event("e9", "root") | broken, 7, *rest)).report.conversations[0]  # type: ignore[arg-type]

    assert (found.failed, found.ignored["not an object"]) == ("", 1)
    assert [words for e in into.said if (words := getattr(e, "text", ""))][-1] == "It is blue."
