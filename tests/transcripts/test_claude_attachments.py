"""Attachments of Claude Code: what of them the model was sent, and in which words."""

from __future__ import annotations

from typing import Any

import pytest

from stenolog import AssistantMessage, ToolResult, UserMessage
from stenolog.parts import ImagePart
from stenolog.requests import build, validate
from tests.transcripts.given import (
    Import,
    Json,
    assistant,
    lines,
    record,
    text,
    tool_result,
    tool_use,
    user,
)

FIRST = user("u1", None, "Go")
LISTED: Json = {
    "type": "agent_listing_delta",
    "addedTypes": ["Explore"],
    "addedLines": ["- Explore: looks around"],
    "removedTypes": [],
}
TOOL: Json = {"name": "Bash", "description": "Runs it", "schema": {"type": "object", "properties": {}}}


def attached(uuid: str, data: Json, parent: str = "u1", **fields: Any) -> Json:
    return record("attachment", uuid, parent, attachment=data, **fields)


def hook(event: str, content: Any, kind: str = "hook_success") -> Json:
    return {"type": kind, "hookName": event, "hookEvent": event, "content": content}


def notes(into: Import) -> list[tuple[str, bool]]:
    """Return the words of the system's messages, and whether the model was sent them."""
    said = (event for event in into.said if isinstance(event, UserMessage))
    return [(message.text, message.in_context) for message in said if message.author_kind == "system"]


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (LISTED, "Available agent types for the Agent tool:\n- Explore: looks around"),
        (
            {"type": "deferred_tools_delta", "addedNames": ["A"], "removedNames": ["B"]},
            "The following deferred tools are now available via ToolSearch.\nA\n\n"
            "The following deferred tools are no longer available:\nB",
        ),
        (
            {"type": "mcp_instructions_delta", "addedBlocks": ["## scale\nWeigh"]},
            "# MCP Server Instructions\n\n## scale\nWeigh",
        ),
        (
            {"type": "skill_listing", "content": "- deploy: Deploys"},
            "The following skills are available for use with the Skill tool:\n\n- deploy: Deploys",
        ),
        (hook("SessionStart", "Be brief"), "SessionStart hook success: Be brief"),
        (
            hook("PreToolUse", ["Mind the oven"], "hook_additional_context"),
            "PreToolUse hook additional context: Mind the oven",
        ),
        (
            {
                "type": "file",
                "filename": "/b.txt",
                "content": {"type": "text", "file": {"content": "bee\n", "startLine": 7}},
            },
            'Called the Read tool with the following input: {"file_path":"/b.txt"}\n'
            "Result of calling the Read tool:\n7\tbee\n8\t",
        ),
        (
            {"type": "nested_memory", "path": "/sub/CLAUDE.md", "content": {"content": "Be kind"}},
            "Contents of /sub/CLAUDE.md:\n\nBe kind",
        ),
    ],
    ids=lambda given: given["type"] if isinstance(given, dict) else "",
)
def test_what_the_model_was_sent_is_a_note_in_its_context(into: Import, data: Json, words: str) -> None:
    into.records(FIRST, attached("x1", data))

    assert notes(into) == [(words, True)]
    (note,) = (event for event in into.said[1:] if isinstance(event, UserMessage))
    assert note.meta == {"claude-code": {"attachment": data["type"], "headings": "2.1.197"}}
    assert words.splitlines()[-1] in str(build(into.entries, "claude").body["messages"]).replace("\\t", "\t")


def test_the_words_that_the_file_says_were_sent_are_taken_as_they_are(into: Import) -> None:
    words = "<system-reminder>\nAgents: Explore\n</system-reminder>"
    into.records(FIRST, attached("x1", LISTED, rendered=[{"content": words}]))

    assert notes(into) == [(words, True)]
    (note,) = (event for event in into.said[1:] if isinstance(event, UserMessage))
    assert note.meta == {"claude-code": {"attachment": "agent_listing_delta"}}


def test_in_a_file_that_says_what_was_sent_an_attachment_without_it_was_not(into: Import) -> None:
    into.records(
        FIRST,
        attached("x1", LISTED, rendered=[{"content": "Agents: Explore"}]),
        attached("x2", {"type": "model", "text": "You are Opus"}),
    )

    assert notes(into) == [("Agents: Explore", True), ("You are Opus", False)]


@pytest.mark.parametrize(
    "data",
    [hook("PostToolUse", "formatted"), hook("PreToolUse", "3 files", "hook_system_message")],
    ids=["output", "message"],
)
def test_what_a_hook_tells_the_person_alone_is_not_in_the_context(into: Import, data: Json) -> None:
    into.records(FIRST, attached("x1", data))

    assert notes(into) == [(data["content"], False)]


def test_a_reminder_whose_words_are_not_in_the_file_is_counted_as_that(into: Import) -> None:
    into.records(FIRST, attached("x1", {"type": "plan_mode", "reminderType": "full"}))

    assert notes(into) == []
    assert into.report.conversations[0].ignored["attachment/plan_mode (its text is not in the file)"] == 1


def test_a_prompt_snapshot_puts_the_system_prompt_and_the_tools_on_the_card(into: Import) -> None:
    prompt = {"type": "prompt_snapshot", "systemPrompt": ["You are Claude Code.", "Be brief."]}
    into.records(
        attached("x1", {**prompt, "tools": [TOOL]}),
        FIRST,
        assistant("a1", "u1", tool_use("t1")),
        user("r1", "a1", [tool_result("t1", "ok")]),
    )

    card = into.conversation.settings().card_of("claude")
    assert card.persona == "You are Claude Code.\n\nBe brief."
    assert [(tool.name, tool.description) for tool in card.tools or ()] == [("Bash", "Runs it")]
    assert "tool-stub" not in {part.rule for part in build(into.entries, "claude", api="anthropic").parts}
    assert into.conversation.bill("claude").note.count("(") == 0, "nothing is said to be missing"


def test_a_prompt_snapshot_in_a_sub_agents_own_file_is_on_its_card_alone(into: Import) -> None:
    own: dict[str, Any] = {"isSidechain": True, "agentId": "abcdef12"}
    into.records(FIRST, assistant("a1", "u1", text("Yes")))
    spoken = [
        attached("x1", {"type": "prompt_snapshot", "systemPrompt": ["You explore."]}, "", **own),
        user("s1", None, "Look", **own),
        assistant("s2", "s1", text("I look"), **own),
    ]
    for _ in range(2):
        into.file(lines(*spoken), "agent-abcdef12.jsonl")

    settings = into.conversation.settings()
    assert settings.card_of("agent-abcdef12").persona == "You explore."
    assert settings.card_of("agent-abcdef12").model == "claude-x"
    assert settings.card_of("claude").persona == ""
    assert into.report.conversations[0].appended == 0


def test_a_picture_that_was_attached_is_one(into: Import) -> None:
    file = {"base64": "iVBORw0KGgo=", "type": "image/png"}
    into.records(FIRST, attached("x1", {"type": "file", "content": {"type": "image", "file": file}}))

    (note,) = (event for event in into.said[1:] if isinstance(event, UserMessage))
    assert [type(part) for part in note.parts] == [ImagePart]


def test_attachments_that_an_earlier_release_passed_over_do_not_come_behind_later_messages(
    into: Import,
) -> None:
    """The first import stands for one by a release that took in no such attachment."""
    answer, more = assistant("a1", "u1", text("Yes")), user("u2", "a1", "On")
    into.records(FIRST, answer)
    into.records(FIRST, attached("x1", LISTED), answer, more, attached("x2", LISTED, "u2"))

    assert [event.text for event in into.said if isinstance(event, UserMessage)][1:] == [
        "On",
        "Available agent types for the Agent tool:\n- Explore: looks around",
    ]
    assert into.report.conversations[0].ignored["attachment before messages that were imported earlier"] == 1


def test_an_attachment_at_the_end_of_a_file_that_was_cut_off_is_followed_by_the_rest(into: Import) -> None:
    whole = [FIRST, attached("x1", LISTED), assistant("a1", "u1", text("Yes")), user("u2", "a1", "On")]
    for end in range(1, 5):
        into.records(*whole[:end])

    assert [event.kind for event in into.said] == [
        "user_message",
        "user_message",
        "assistant_message",
        "user_message",
    ]


@pytest.mark.parametrize(
    ("fields", "meta"),
    [({}, {}), ({"is_error": True}, {}), ({"is_error": False}, {"claude-code": {"is_error": False}})],
)
def test_a_result_that_says_it_is_no_error_says_so_in_the_log(into: Import, fields: Json, meta: Json) -> None:
    into.records(
        FIRST, assistant("a1", "u1", tool_use("t1")), user("r1", "a1", [tool_result("t1", **fields)])
    )

    result = into.said[-1]
    assert isinstance(result, ToolResult)
    assert (result.is_error, result.meta, result.name) == (fields.get("is_error", False), meta, "Bash")


def test_a_command_that_was_queued_and_dequeued_at_once_appears_once(into: Import) -> None:
    queued = {"type": "queue-operation", "sessionId": FIRST["sessionId"]}
    command = "<command-name>/deploy</command-name>\n<command-args>now</command-args>"
    into.records(
        {**queued, "operation": "enqueue", "content": "/deploy now"},
        {**queued, "operation": "dequeue"},
        user("u1", None, command),
    )

    assert [event.text for event in into.said if isinstance(event, UserMessage)] == [command]


def test_a_prompt_that_was_dequeued_appears_once_behind_what_claude_code_inserts(into: Import) -> None:
    """So does `claude -p -c` write it."""
    queued = {"type": "queue-operation", "sessionId": FIRST["sessionId"]}
    synthetic = assistant("a1", "u1", text("No response requested."))
    synthetic["message"]["model"] = "<synthetic>"
    into.records(
        {**queued, "operation": "enqueue", "content": "On"},
        {**queued, "operation": "dequeue"},
        user("u1", None, "Continue from where you left off.", isMeta=True),
        synthetic,
        user("u2", "a1", "On"),
    )

    said = [event.text for event in into.said if isinstance(event, UserMessage)]
    assert said == ["Continue from where you left off.", "No response requested.", "On"]


@pytest.mark.parametrize(
    "fields",
    [
        {"attachment": None},
        {"attachment": [1]},
        {"attachment": {"type": 3, "content": {"file": 3}}},
        {"attachment": {"type": "agent_listing_delta", "addedLines": "x", "removedTypes": [None, 3]}},
        {"attachment": {"type": "deferred_tools_delta", "addedNames": {"a": 1}, "pendingMcpServers": 3}},
        {"attachment": {"type": "file", "content": {"type": "text", "file": {"content": 3}}}},
        {"attachment": {"type": "file", "content": {"type": "image", "file": {"base64": "?"}}}},
        {"attachment": {"type": "nested_memory", "path": 3, "content": "\ud800"}},
        {"attachment": {"type": "instructions", "files": [3, {"content": ["x"]}]}},
        {"attachment": {"type": "prompt_snapshot", "systemPrompt": 3, "tools": [3, {"name": ""}]}},
        {"attachment": {"type": "prompt_snapshot", "tools": [{"name": "A", "schema": 3}] * 2}},
        {"attachment": LISTED, "rendered": 3},
        {"attachment": LISTED, "rendered": [3, {"content": 3}, {"content": [{"type": "image"}, 3]}]},
        {"attachment": hook("SessionStart", {"a": 1})},
        {"attachment": hook("Stop", None, "hook_blocking_error")},
    ],
    ids=str,
)
def test_an_attachment_of_another_shape_stops_nothing(into: Import, fields: Json) -> None:
    into.records(FIRST, record("attachment", "x1", "u1", **fields), assistant("a1", "x1", text("Yes")))

    assert into.report.conversations[0].failed == ""
    assert [event.text for event in into.said if isinstance(event, AssistantMessage)] == ["Yes"]
    assert validate("anthropic", into.conversation.request("claude", api="anthropic").body) == []
