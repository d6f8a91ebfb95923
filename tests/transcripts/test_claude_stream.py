"""Streams of Claude Code and the Agent SDK (`--output-format stream-json`), and those that look alike."""

from __future__ import annotations

import json
from typing import Any

import pytest

from stenolog import AssistantMessage, LlmError, ToolResult, UserMessage
from stenolog.errors import UnknownFormatError
from stenolog.importers import recognise
from tests.transcripts.given import SESSION, Import, Json, lines, text, tool_result, tool_use


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


def test_a_run_that_ended_with_an_error_is_an_error(into: Import) -> None:
    end = streamed("result", "u2", subtype="error_max_turns", is_error=True)
    into.records(INIT, said("u1", text("I begin")), end)

    assert isinstance(into.said[-1], LlmError)
    assert into.said[-1].message == "error max turns"


def test_what_stands_in_a_stream_before_its_compaction_is_covered_by_the_summary(into: Import) -> None:
    into.records(
        INIT,
        said("u1", text("A long story")),
        streamed("system", "u2", subtype="compact_boundary", compact_metadata={"trigger": "auto"}),
        told("u3", text("In short"), isSynthetic=True),
        told("u4", text("On")),
    )

    body = str(into.conversation.request("claude").body)
    assert "In short" in body
    assert "A long story" not in body


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
