"""Attachments of Claude Code: what of them the model was sent, and in which words."""

from __future__ import annotations

from typing import Any

import pytest

from stenolog import AssistantMessage, UserMessage
from stenolog.requests import build, validate
from tests.transcripts.given import (
    Import,
    Json,
    assistant,
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
