"""Streams of Claude Code, and attachments of its sessions."""

from __future__ import annotations

import json
from typing import Any

import pytest

from stenolog import AssistantMessage, ToolResult, UserMessage
from stenolog.errors import UnknownFormatError
from stenolog.importers import recognise
from stenolog.requests import build, validate
from tests.transcripts.given import (
    SESSION,
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


def streamed(type: str, uuid: str, **fields: Any) -> Json:
    return {"type": type, "uuid": uuid, "session_id": SESSION, "parent_tool_use_id": None, **fields}


def said(uuid: str, *blocks: Json, **fields: Any) -> Json:
    message = {"id": f"msg_{uuid}", "type": "message", "role": "assistant", "model": "claude-x"}
    return streamed("assistant", uuid, message={**message, "content": list(blocks)}, **fields)


def told(uuid: str, *blocks: Json, **fields: Any) -> Json:
    return streamed("user", uuid, message={"role": "user", "content": list(blocks)}, **fields)


INIT = streamed(
    "system", "u0", subtype="init", cwd="/x", tools=["Task"], model="claude-x", permissionMode="plan"
)
STREAM = [
    INIT,
    said("u1", tool_use("toolu_01AAAAAAAA", "Task", subagent_type="Explore", prompt="find it")),
    said("u2", tool_use("toolu_01BBBBBBBB", "Task", subagent_type="Explore", prompt="and that")),
    told("u3", text("find it"), parent_tool_use_id="toolu_01AAAAAAAA"),
    told("u4", text("and that"), parent_tool_use_id="toolu_01BBBBBBBB"),
    said("u5", tool_use("t1", "Bash", command="ls"), parent_tool_use_id="toolu_01AAAAAAAA"),
    told("u6", tool_result("t1", "secret of a sub-agent"), parent_tool_use_id="toolu_01AAAAAAAA"),
    told("u7", tool_result("toolu_01AAAAAAAA", [text("found")])),
    told("u8", tool_result("toolu_01BBBBBBBB", [text("that")])),
    said("u9", text("Done")),
    streamed("result", "u10", subtype="success", is_error=False, result="Done"),
]


@pytest.mark.parametrize("content", [lines(*STREAM), json.dumps(STREAM).encode()], ids=["lines", "list"])
def test_a_stream_has_each_sub_agent_in_a_lane_of_its_own(into: Import, content: bytes) -> None:
    into.file(content, "output.json")

    assert into.report.format == "claude-stream"
    assert into.report.conversations[0].name == SESSION
    agents = [event.agent for event in into.said if isinstance(event, AssistantMessage)]
    assert agents == ["claude", "claude", "Explore-AAAAAAAA", "claude"]
    briefs = [(m.author, m.to, m.cause) for m in into.said if isinstance(m, UserMessage)]
    assert briefs == [("claude", ("Explore-AAAAAAAA",), 2), ("claude", ("Explore-BBBBBBBB",), 3)]
    assert all(event.call is not None for event in into.said if isinstance(event, ToolResult))
    body = str(into.conversation.request("claude").body)
    assert "found" in body
    assert "secret" not in body


@pytest.mark.parametrize("content", [lines(*STREAM), json.dumps(STREAM).encode()], ids=["lines", "list"])
def test_a_stream_tells_its_folder_mode_and_model_and_comes_in_once(into: Import, content: bytes) -> None:
    into.file(content).file(content)
    renamed = into.file(content, "other.json")

    settings = into.conversation.settings()
    assert (settings.mode, settings.cards["claude"].model) == ("plan", "claude-x")
    assert into.settings[0].meta == {"claude-code": {"cwd": "/x"}}
    assert [found.appended for found in renamed.report.conversations] == [0]


DROID = [
    {"type": "system", "subtype": "init", "cwd": "/x", "session_id": "d", "tools": ["Read"], "model": "m"},
    {"type": "message", "role": "user", "id": "1", "text": "list", "timestamp": 1, "session_id": "d"},
    {"type": "tool_call", "id": "c", "messageId": "2", "toolId": "Execute", "toolName": "Execute"},
    {"type": "completion", "finalText": "done", "numTurns": 1, "session_id": "d"},
]
CURSOR = [
    {"type": "system", "subtype": "init", "cwd": "/x", "session_id": "c", "model": "m"},
    {"type": "user", "message": {"role": "user", "content": [text("list")]}, "session_id": "c"},
    {"type": "tool_call", "subtype": "started", "tool_call": {"lsToolCall": {}}, "session_id": "c"},
]
QWEN = [{**INIT, "qwen_code_version": "0.5.0"}, said("u1", text("Done"))]
GEMINI = [
    {"type": "init", "timestamp": "2026-01-01T00:00:00Z", "session_id": "g", "model": "gemini-x"},
    {"type": "message", "role": "user", "content": "list", "timestamp": "2026-01-01T00:00:00Z"},
]


@pytest.mark.parametrize(
    ("name", "records"),
    [
        ("a Droid stream", DROID),
        ("a Droid stream", DROID[:2]),
        ("a Cursor CLI stream", CURSOR),
        ("a Qwen Code stream", QWEN),
        ("a Gemini CLI stream", GEMINI),
        ("a stream without a message", DROID[:1]),
    ],
)
def test_a_stream_of_another_program_is_refused_by_its_name(name: str, records: list[Json]) -> None:
    with pytest.raises(UnknownFormatError, match=f"found {name}, which has no importer"):
        recognise(lines(*records))


def test_messages_that_name_their_session_stay_messages() -> None:
    assert recognise(lines({"role": "user", "content": "hi", "session_id": "s"})) == "openai-chat"


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
