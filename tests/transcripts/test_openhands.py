"""Runs of OpenHands V0: real ones, and events that the real ones lack."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from stenolog import AssistantMessage, ModeSwitch, ToolResult, UserMessage
from stenolog.errors import UnknownFormatError
from stenolog.events import LlmError, Usage
from stenolog.importers import import_file, recognise
from stenolog.parts import ImagePart, TextPart
from tests.requests.judging import SHARED
from tests.transcripts.acceptance import digests_of
from tests.transcripts.given import Import, Json, lines

REAL = sorted((SHARED / "transcripts" / "openhands").glob("*output.jsonl"))
real = pytest.mark.skipif(not REAL, reason="the transcripts are not beside this checkout")
AT = "2025-04-30T16:32:54.707474"


@real
def test_a_run_that_is_imported_as_it_grows_gives_the_same_requests(tmp_path: Path) -> None:
    run = json.loads(REAL[0].read_text().splitlines()[1])
    whole = digests_of(tmp_path / "run.json", json.dumps(run).encode())

    for cut in range(2, len(run["history"]), 9):
        part = {**run, "history": run["history"][:cut]}
        versions = (json.dumps(part).encode(), json.dumps(run).encode())
        assert digests_of(tmp_path / "run.json", *versions) == whole, f"cut behind event {cut}"


def action(id: int, kind: str, source: str = "agent", **fields: Any) -> Json:
    made: Json = {name: fields.pop(name) for name in ("tool_call_metadata", "llm_metrics") if name in fields}
    return {
        "id": id,
        "timestamp": AT,
        "source": source,
        "message": "",
        "action": kind,
        "args": fields,
        **made,
    }


def observation(id: int, kind: str, content: str, cause: int | None = None, **fields: Any) -> Json:
    base = {"id": id, "timestamp": AT, "source": "environment", "message": "", "observation": kind}
    return {**base, "content": content, "cause": cause, "extras": {}, **fields}


def metadata(response: str, call: str, *calls: str, content: str = "") -> Json:
    """Return what an action says of the model's response that it came of, and of its own call in it."""
    made = [
        {"id": id, "type": "function", "function": {"name": "run", "arguments": f'{{"command": "{id}"}}'}}
        for id in calls or (call,)
    ]
    message = {"role": "assistant", "content": content, "tool_calls": made}
    counted = {"prompt_tokens": 100, "completion_tokens": 9, "prompt_tokens_details": {"cached_tokens": 60}}
    answer = {"id": response, "model": "m-1", "usage": counted}
    return {
        "function_name": "run",
        "tool_call_id": call,
        "model_response": {**answer, "choices": [{"finish_reason": "tool_calls", "message": message}]},
        "total_calls_in_response": len(made),
    }


ASKED = action(1, "message", "user", content="Build it.")


def test_calls_of_one_response_are_one_message_and_each_result_has_its_call(into: Import) -> None:
    twice = {"response": "r1", "content": "I look."}
    into.records(
        action(0, "system", content="You are OpenHands.", tools=[], agent_class="CodeActAgent"),
        ASKED,
        action(2, "run", command="a", tool_call_metadata=metadata("r1", "a", "a", "b", content="I look.")),
        observation(3, "run", "A", 2, tool_call_metadata=metadata("r1", "a", "a", "b"), success=True),
        action(4, "run", command="b", tool_call_metadata=metadata("r1", "b", "a", "b", content="I look.")),
        observation(5, "run", "B", 4, tool_call_metadata=metadata("r1", "b", "a", "b"), success=False),
        action(6, "message", content="Done."),
    )
    first, second = (event for event in into.said if isinstance(event, AssistantMessage))
    results = [event for event in into.said if isinstance(event, ToolResult)]

    assert twice["content"] == first.text
    assert [call.id for call in first.tool_calls] == ["a", "b"]
    assert (first.model, first.usage) == ("m-1", Usage(input=100, output=9, cache_read=60))
    assert [(result.text, result.name, result.is_error) for result in results] == [
        ("A", "run", False),
        ("B", "run", True),
    ]
    assert all(result.call is not None for result in results)
    assert second.text == "Done."
    settings = into.conversation.settings()
    assert settings.card_of("openhands").persona == "You are OpenHands."
    assert settings.title == "Build it."


def test_an_action_without_the_models_response_is_a_call_all_the_same(into: Import) -> None:
    into.records(
        ASKED,
        action(2, "run", command="ls", thought="I look."),
        observation(3, "run", "a.txt", 2, extras={"metadata": {"exit_code": 0, "suffix": "\n[exit 0]"}}),
        action(4, "finish", outputs={"content": "ok"}, thought="All is built."),
    )
    answer, last = (event for event in into.said if isinstance(event, AssistantMessage))
    (result,) = (event for event in into.said if isinstance(event, ToolResult))

    assert (answer.text, answer.tool_calls[0].name, answer.tool_calls[0].arguments) == (
        "I look.",
        "run",
        '{"command":"ls"}',
    )
    assert (result.text, result.call is not None) == ("a.txt\n[exit 0]", True)
    assert "All is built." in last.text


def test_a_condensation_is_a_summary_of_the_events_that_it_forgets(into: Import) -> None:
    into.records(
        ASKED,
        action(2, "run", command="ls", thought="I look."),
        observation(3, "run", "a.txt", 2),
        action(4, "message", content="One file."),
        action(5, "message", "user", content="Go on."),
        action(
            6,
            "condensation",
            forgotten_events_start_id=2,
            forgotten_events_end_id=4,
            summary="One file was found.",
            summary_offset=1,
        ),
        action(7, "message", "user", content="And now?"),
    )
    body = str(into.conversation.request("openhands", api="anthropic").body)

    words = ("Build it.", "a.txt", "One file.", "One file was found.", "Go on.")
    assert [each in body for each in words] == [True, False, False, True, True]
    assert into.report.conversations[0].decisions == {"condensation as a summary": 1}


def test_a_later_condensation_takes_the_place_of_the_earlier_one(into: Import) -> None:
    def condensed(id: int, first: int, last: int, summary: str) -> Json:
        return action(id, "condensation", forgotten_event_ids=list(range(first, last + 1)), summary=summary)

    into.records(
        ASKED,
        action(2, "message", content="Alpha."),
        action(3, "message", "user", content="Beta."),
        condensed(4, 2, 3, "Greek letters."),
        action(5, "message", content="Gamma."),
        action(6, "message", "user", content="Delta."),
        condensed(7, 5, 6, "Four Greek letters."),
        action(8, "message", "user", content="And?"),
    )
    body = str(into.conversation.request("openhands", api="openai-chat").body)

    assert "Four Greek letters." in body
    assert not any(words in body for words in ("Alpha.", "Beta.", "'Greek letters.", "Gamma.", "Delta."))


def test_a_condensation_without_a_summary_hides_what_it_forgets(into: Import) -> None:
    into.records(
        ASKED,
        action(2, "message", content="Alpha."),
        action(3, "condensation", forgotten_event_ids=[2]),
        action(4, "message", "user", content="And?"),
    )

    assert "Alpha." not in str(into.conversation.request("openhands", api="openai-chat").body)


def test_a_delegate_is_an_agent_of_its_own_whose_brief_names_the_call(into: Import) -> None:
    into.records(
        ASKED,
        action(2, "delegate", agent="BrowsingAgent", inputs={"task": "Look it up."}, thought="I ask."),
        action(3, "message", "user", content="TASK: Look it up."),
        action(4, "message", content="It is 42."),
        observation(5, "delegate", "", 2, extras={"outputs": {"content": "42"}}),
        action(6, "message", content="Thanks."),
    )
    brief = next(
        event for event in into.said if isinstance(event, UserMessage) and event.author_kind == "agent"
    )
    answers = [(event.agent, event.text) for event in into.said if isinstance(event, AssistantMessage)]
    call = next(entry for entry in into.entries if isinstance(entry.event, AssistantMessage))

    assert (brief.text, brief.author, brief.cause) == ("TASK: Look it up.", "openhands", call.position)
    assert [agent for agent, _ in answers] == ["openhands", "BrowsingAgent-event-2", "openhands"]
    assert brief.to == ("BrowsingAgent-event-2",)
    assert "42" in next(event.text for event in into.said if isinstance(event, ToolResult))
    assert not any(into.conversation.state().open_calls())


def test_failures_are_errors_with_their_categories(into: Import) -> None:
    into.records(
        ASKED,
        observation(2, "error", "Parameter 'command' is expected to be one of ['view']."),
        observation(3, "agent_state_changed", "", extras={"agent_state": "rate_limited"}),
        observation(4, "agent_state_changed", "", extras={"agent_state": "error", "reason": "Unauthorized"}),
        observation(5, "agent_state_changed", "", extras={"agent_state": "running"}),
        action(6, "recall", "user", query="Build it."),
    )
    errors = [event for event in into.said if isinstance(event, LlmError)]

    assert [error.category for error in errors] == ["invalid_response", "rate_limited", "unauthorized"]
    assert into.report.conversations[0].ignored == {"observation agent_state_changed": 1, "action recall": 1}


def test_instructions_that_openhands_adds_are_messages_by_the_system(into: Import) -> None:
    skill = {"name": "github", "trigger": "git", "content": "Use the API."}
    facts = {
        "recall_type": "workspace_context",
        "repo_name": "a/b",
        "repo_branch": "main",
        "date": "2025-04-30",
    }
    into.records(
        ASKED,
        observation(
            2, "recall", "Added workspace context", extras={**facts, "microagent_knowledge": [skill]}
        ),
        action(3, "run", "user", command="git status"),
        observation(4, "run", "clean", 3),
        action(5, "message", content="Fine."),
    )
    messages = [event for event in into.said if isinstance(event, UserMessage)]

    assert [message.author_kind for message in messages] == ["person", "system", "person", "system"]
    assert "repo_name: a/b" in messages[1].text
    assert "Use the API." in messages[1].text
    assert "git status" in messages[2].text
    about = [event.meta["openhands"] for event in into.settings if "openhands" in event.meta]
    assert {"branch": "main", "repository": "a/b"} in about


def test_a_picture_in_a_message_is_a_blob(into: Import) -> None:
    into.records(action(1, "message", "user", content="See.", image_urls=["data:image/png;base64,aGk="]))
    (message,) = into.said

    assert isinstance(message, UserMessage)
    assert [type(part) for part in message.parts] == [TextPart, ImagePart]


def test_a_run_has_its_instruction_and_its_error_where_no_event_tells_them(into: Import) -> None:
    run = {
        "instance_id": "a__b-1",
        "instruction": "Fix it.",
        "history": [],
        "error": "AgentStuckInLoopError: x",
    }
    into.file(lines(run, {**run, "instance_id": "a__b-2", "error": None}, {"instance_id": "a__b-3"}))

    assert [found.name for found in into.report.conversations] == ["a__b-1", "a__b-2"]
    assert [event.kind for event in into.said] == ["user_message", "llm_error"]
    assert [(skipped.line, skipped.reason) for skipped in into.report.skipped] == [
        (3, "holds no run with a history")
    ]


def test_pairs_of_an_action_and_its_observation_are_events_one_after_the_other(into: Import) -> None:
    pairs = [
        [action(1, "message", "user", content="Hi"), observation(2, "null", "")],
        [action(3, "message", content="Ho")],
    ]
    into.file(json.dumps({"instance_id": "old", "history": pairs}).encode())

    assert [getattr(event, "text", "") for event in into.said] == ["Hi", "Ho"]


@pytest.mark.parametrize("wrap", [list, lambda events: {"trajectory": events}], ids=["list", "object"])
def test_events_in_one_document_are_the_conversation_that_they_are_on_lines(into: Import, wrap: Any) -> None:
    into.file(
        json.dumps(wrap([ASKED, action(2, "message", content="Done.")]), indent=1).encode(), "talk.json"
    )

    assert into.report.format == "openhands"
    assert [getattr(event, "text", "") for event in into.said] == ["Build it.", "Done."]


BASE = [
    action(0, "system", content="P", tools=[{"type": "function", "function": {"name": "f"}}]),
    ASKED,
    action(2, "run", command="ls", tool_call_metadata=metadata("r1", "a")),
    observation(3, "run", "A", 2, tool_call_metadata=metadata("r1", "a"), extras={"metadata": {}}),
    action(4, "condensation", forgotten_event_ids=[2, 3], summary="S"),
    action(5, "delegate", agent="B", inputs={"task": "t"}),
    observation(6, "recall", "R", extras={"microagent_knowledge": [{"name": "n", "content": "c"}]}),
]


def test_a_repeated_event_is_stored_once_and_another_one_of_its_id_is_not_lost(into: Import) -> None:
    into.records(ASKED, ASKED, action(1, "message", "user", content="Else."))

    assert [getattr(event, "text", "") for event in into.said] == ["Build it.", "Else."]
    assert into.report.conversations[0].ignored == {"repeated event": 1}


def test_what_is_no_conversation_of_openhands_is_refused_by_its_name() -> None:
    state = {"id": "1", "agent": {"llm": {}}, "workspace": {}, "execution_status": "idle"}
    about = {"conversation_id": "1", "selected_repository": None, "title": "t"}
    with pytest.raises(UnknownFormatError, match="found an OpenHands state"):
        recognise(json.dumps(state).encode())
    with pytest.raises(UnknownFormatError, match="found the metadata of an OpenHands conversation"):
        recognise(json.dumps(about).encode())


def test_the_settings_of_a_run_are_in_its_opening_without_its_keys(into: Import) -> None:
    config = {"agent_class": "CodeActAgent", "llm_config": {"model": "m-1", "api_key": "sk-secret"}}
    run = {"instance_id": "a__b-1", "metadata": config, "instance": {"repo": "a/b"}, "history": [ASKED]}
    into.file(lines(run))
    opening = into.entries[0].event

    assert isinstance(opening, ModeSwitch)
    assert opening.meta["openhands"] == {"model": "m-1", "agent_class": "CodeActAgent", "repository": "a/b"}
    assert "sk-secret" not in str(into.entries)


def test_another_run_of_the_same_instance_is_refused_and_can_have_a_name_of_its_own(
    into: Import, tmp_path: Path
) -> None:
    later = {**action(1, "message", "user", content="Build it."), "timestamp": "2025-05-01T00:00:00"}
    into.file(lines({"instance_id": "a__b-1", "history": [ASKED]}))
    into.file(lines({"instance_id": "a__b-1", "history": [later]}), "other.jsonl")
    failed = into.report.conversations[0].failed
    into.report = import_file(into.log, tmp_path / "other.jsonl", name="other")

    assert "found one that began at 2025-05-01T00:00:00+00:00: give it another name" in failed
    assert [(found.name, found.failed) for found in into.report.conversations] == [("other", "")]


def test_a_file_of_many_runs_is_read_line_by_line(into: Import, tmp_path: Path) -> None:
    file = tmp_path / "output.jsonl"
    file.write_bytes(lines(*({"instance_id": f"r{n}", "history": [ASKED]} for n in range(30))))
    report = import_file(into.log, file)

    assert [found.name for found in report.conversations] == [f"r{n}" for n in range(30)]
