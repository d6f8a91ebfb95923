"""Sessions and evaluation sets of Google's ADK, in files and in the databases of all its versions.

The file in `sessions/` was written by google-adk 2.13.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from stenolog import AssistantMessage, LlmError, ToolResult, UserMessage
from stenolog.errors import UnknownFormatError
from stenolog.events import Usage
from stenolog.importers import import_file, recognise
from stenolog.parts import ImagePart, ReasoningPart, TextPart, ToolCall
from tests.transcripts.acceptance import (
    assert_again_adds_nothing,
)
from tests.transcripts.adk_given import EVENTS, call, event, events_in, response, session
from tests.transcripts.given import Import, lines

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


def test_a_rewind_at_the_end_of_a_session_counts_at_once(into: Import) -> None:
    conversation = into.file(
        session(
            event("e1", "user", {"text": "Hi"}),
            event("e2", "user", {"text": "No"}, invocation="i2"),
            event("e3", "user", actions={"rewindBeforeInvocationId": "i2"}),
        )
    ).conversation

    assert [span.first for span in conversation.settings().hides] == [3]


def test_calls_without_ids_find_their_results_by_the_tool(into: Import) -> None:
    entries = into.file(
        session(
            event("e1", "user", {"text": "Hi"}),
            event("e2", "root", call("look", a=1), call("look", a=2)),
            event("e3", "root", response("look", result="one"), response("look", result="two")),
        )
    ).said
    answer, first, second = entries[1:]

    assert isinstance(answer, AssistantMessage)
    assert [call.arguments for call in answer.tool_calls] == ['{"a":1}', '{"a":2}']
    assert [(e.text, e.call.index) for e in (first, second)] == [  # type: ignore[union-attr]
        ('{"result":"one"}', 0),
        ('{"result":"two"}', 1),
    ]


def test_what_adk_asks_a_person_for_is_in_no_request(into: Import) -> None:
    conversation = into.file(
        session(
            event("e1", "user", {"text": "Pay."}),
            event("e2", "root", call("adk_request_confirmation", "c1", hint="sure?")),
            event("e3", "user", response("adk_request_confirmation", "c1", confirmed=True)),
            event("e4", "root", {"text": "Paid."}),
        )
    ).conversation

    assert [e.in_context for e in events_in(conversation)] == [True, False, False, True]
    assert "confirmation" not in str(conversation.request("root", api="gemini").body["contents"])


def test_fragments_are_passed_over_unless_nothing_completes_them(into: Import) -> None:
    entries = into.file(
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
    cut = entries[3]

    assert [getattr(e, "text", "") for e in entries] == ["Hi", "Hello", "More", "I was", "Stop"]
    assert isinstance(cut, LlmError)
    assert (cut.category, into.report.conversations[0].ignored["partial"]) == ("cancelled", 2)


@pytest.mark.parametrize(
    ("code", "phrase", "category"),
    [
        ("MALFORMED_FUNCTION_CALL", "", "invalid_response"),
        ("RESOURCE_EXHAUSTED", "quota", "rate_limited"),
        ("429", "too many requests", "rate_limited"),
        ("UNKNOWN_ERROR", "it broke", "other"),
    ],
)
def test_an_error_has_its_category(into: Import, code: str, phrase: str, category: str) -> None:
    failed = event("e2", "root", error_code=code, error_message=phrase)
    error = into.file(session(event("e1", "user", {"text": "Hi"}), failed)).said[1]

    assert isinstance(error, LlmError)
    assert (error.category, error.message) == (category, phrase or code)


def test_speech_a_node_and_a_task_have_their_places(into: Import) -> None:
    speech, answered, output, task = into.file(
        session(
            event("e1", "user", input_transcription={"text": "Good morning", "finished": True}),
            event("e2", "root", outputTranscription={"text": "Good morning!"}),
            event("e3", "root", output={"sum": 3}, node_info={"path": "flow/add@1"}),
            event("e4", "helper", {"text": "Done"}, isolation_scope="c9"),
        )
    ).said

    assert isinstance(speech, UserMessage)
    assert isinstance(answered, AssistantMessage)
    assert isinstance(output, AssistantMessage)
    assert isinstance(task, AssistantMessage)
    assert (speech.text, answered.text) == ("Good morning", "Good morning!")
    assert (output.text, output.node, output.in_context) == ('{"sum":3}', "flow/add@1", False)
    assert (task.agent, task.task) == ("helper", "c9")


def test_requests_that_were_logged_beside_the_events_tell_of_the_agent(into: Import) -> None:
    schema = {"type": "OBJECT", "properties": {"type": {"any_of": [{"type": "STRING"}, {"type": "NULL"}]}}}
    look = {"name": "look", "description": "Look.", "parameters": schema}
    config = {"system_instruction": "Be brief.", "tools": [{"function_declarations": [look, {"name": "go"}]}]}
    answer = {
        "candidates": [{"finish_reason": "STOP"}],
        "usage_metadata": {"prompt_token_count": 9, "candidates_token_count": 2},
    }
    request = {"model": "gemini-1.5-flash", "config": config}
    logs = [{"event_id": "e2", "model_request": request, "model_response": answer}]
    first, second = event("e1", "user", {"text": "Hi"}), event("e2", "root", {"text": "Ho"})
    conversation = into.file(session(first, second, event_logs=logs, past_events=[])).conversation
    card, entries = conversation.settings().card_of("root"), events_in(conversation)[1]

    assert (card.persona, card.model) == ("Be brief.", "gemini-1.5-flash")
    assert [tool.name for tool in card.tools or ()] == ["look", "go"]
    assert (card.tools or ())[0].parameters == {
        "type": "object",
        "properties": {"type": {"anyOf": [{"type": "string"}, {"type": "null"}]}},
    }
    assert (entries.usage, entries.finish_reason) == (Usage(input=9, output=2), "STOP")


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


def test_other_questions_with_answers_are_no_evaluation_set(tmp_path: Path) -> None:
    path = tmp_path / "answers.json"
    path.write_text(json.dumps([{"query": "How warm?", "reference": "21", "score": 1}]))

    with pytest.raises(UnknownFormatError):
        recognise(path)


def test_an_evaluation_set_tells_of_the_agents(into: Import) -> None:
    cases = {"eval_set_id": "e", "eval_cases": [{"eval_id": "lamp", "conversation": [EVENTS_TURN]}]}
    conversation = into.file(json.dumps(cases).encode()).conversation

    assert conversation.settings().card_of("helper").persona == "Help."


def test_a_case_without_a_conversation_is_refused_by_its_reason(into: Import) -> None:
    cases = [{"eval_id": "played", "conversation_scenario": {"starting_prompt": "Hi"}}]
    report = into.file(json.dumps({"eval_set_id": "e", "eval_cases": cases}).encode()).report

    assert [(found.name, found.failed) for found in report.conversations] == [
        ("played", "expected a conversation, found a scenario that a model is to play")
    ]


def test_another_session_or_case_under_the_same_name_is_refused(into: Import) -> None:
    into.file(session(*EVENTS), "a.json")
    other = session(event("x1", "user", {"text": "Something else"}))
    (session_failed,) = into.file(other, "b.json").report.conversations
    into.file(json.dumps(OLD_TURNS).encode(), "lamp.test.json")
    turns = [{**OLD_TURNS[0], "query": "Turn on the lamp."}]
    (case_failed,) = into.file(json.dumps(turns).encode(), "lamp.test.json").report.conversations

    assert "is it another session? Then give it another name" in session_failed.failed
    assert "is it another transcript? Then give it another name" in case_failed.failed


def test_sessions_in_a_list_and_on_lines_are_conversations_each(into: Import) -> None:
    sessions = [json.loads(session(*EVENTS)) | {"id": id} for id in "abcd"]
    in_list = into.file(json.dumps(sessions[:2]).encode(), "list.json").report
    on_lines = into.file(lines(*sessions[2:]), "lines.jsonl").report

    assert [(found.name, found.appended) for found in in_list.conversations] == [("a", 6), ("b", 6)]
    assert [(found.name, found.appended) for found in on_lines.conversations] == [("c", 6), ("d", 6)]
