"""Sessions of Amp, Cline, Cursor, Droid and Kimi made up for the tests, by what is known of their forms."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from tests.transcripts.given import Json, text, tool_result, tool_use

PICTURE = "iVBORw0KGgo="
THOUGHT = {"type": "thinking", "thinking": "I look.", "signature": "c2ln"}
SDK = {"version": 1, "agent": "lead", "sessionId": "s-1", "origin": {"source": "cli", "sessionId": "s-1"}}
CLINE: list[Json] = [
    {
        "id": "u1",
        "role": "user",
        "content": "<user_input>Which loaves are left?</user_input>",
        "ts": 1767323045000,
    },
    {
        "id": "a1",
        "role": "assistant",
        "content": [THOUGHT, text("A moment."), tool_use("t1", "ls", path=".")],
        "modelInfo": {"id": "claude-x", "provider": "anthropic"},
        "metrics": {"inputTokens": 110, "outputTokens": 20, "cacheReadTokens": 100, "cost": 0.00123},
        "ts": 1767323046000,
    },
    {"id": "r1", "role": "user", "content": [{**tool_result("t1", "rye"), "name": "ls"}]},
    {
        "id": "a2",
        "role": "assistant",
        "content": [text("Rye.")],
        "modelInfo": {"id": "gpt-x", "provider": "openai"},
    },
    {
        "id": "u2",
        "role": "user",
        "content": [text("And here?"), {"type": "image", "data": PICTURE, "mediaType": "image/png"}],
    },
]
HISTORY: list[Json] = [
    {"role": "user", "content": [text("<task>\nBake.\n</task>"), text("<environment_details>\n# Time\n")]},
    {
        "role": "assistant",
        "content": [text("I look."), {**tool_use("t1", "ls"), "call_id": "c"}],
        "modelInfo": {"modelId": "claude-x", "providerId": "anthropic", "mode": "act"},
        "metrics": {"tokens": {"prompt": 110, "completion": 20, "cached": 100}, "cost": 0.00123},
    },
    {"role": "user", "content": [tool_result("t1", [text("rye")]), text("<environment_details>\n# Time\n")]},
    {"role": "assistant", "content": [text("Done.")], "modelInfo": {"modelId": "claude-x", "mode": "act"}},
]


def droid(kind: str, id: str, **fields: Any) -> Json:
    """Return a record of a Droid session."""
    return {"type": kind, "id": id, "timestamp": "2026-01-02T03:04:05.678Z", **fields}


def said(id: str, role: str, *content: Json) -> Json:
    return droid("message", id, message={"role": role, "content": list(content)})


DROID = [
    droid("session_start", "s-1", title="Loaves", cwd="/shop"),
    said(
        "u1", "user", text("<system-reminder>\nBe brief.\n</system-reminder>"), text("Which loaves are left?")
    ),
    said("a1", "assistant", THOUGHT, text("A moment."), tool_use("t1", "Execute", command="ls")),
    said("r1", "user", tool_result("t1", "rye", is_error=True)),
    said("a2", "assistant", text("Rye.")),
    droid("compaction_state", "k1", summaryText="They counted.", anchorMessage={"id": "a1"}, removedCount=2),
    said("u2", "user", text("Thanks.")),
]
THREAD = {"v": 3, "id": "T-1", "created": 1767323045000, "title": "Loaves", "agentMode": "smart"}
AMP: list[Json] = [
    {"role": "user", "messageId": 0, "content": [text("Which loaves are left?")]},
    {
        "role": "assistant",
        "messageId": 1,
        "content": [THOUGHT, tool_use("t1", "Bash", cmd="ls")],
        "usage": {"model": "claude-x", "inputTokens": 3, "outputTokens": 20, "cacheReadInputTokens": 100},
        "state": {"type": "complete", "stopReason": "tool_use"},
    },
    {
        "role": "user",
        "messageId": 2,
        "content": [
            {"type": "tool_result", "toolUseID": "t1", "run": {"status": "done", "result": {"output": "rye"}}}
        ],
    },
    {"role": "assistant", "messageId": 3, "content": [text("Rye.")], "state": {"type": "complete"}},
    {"role": "user", "messageId": 4, "content": [text("Thanks.")]},
]


def kimi(kind: str, /, **fields: Any) -> Json:
    """Return a record of a Kimi session."""
    return {"type": kind, "time": 1767323045678, **fields}


def asked(words: str, origin: str = "user") -> Json:
    message = {"role": "user", "content": [text(words)], "toolCalls": [], "origin": {"kind": origin}}
    return kimi("context.append_message", message=message)


def loop(kind: str, step: str = "", /, **fields: Any) -> Json:
    about = {"uuid": step} if kind in ("step.begin", "step.end") else {"stepUuid": step} if step else {}
    return kimi("context.append_loop_event", event={"type": kind, **about, **fields})


def part(step: str, kind: str, words: str) -> Json:
    return loop("content.part", step, part={"type": kind, kind: words})


SPENT = {"inputOther": 3, "output": 20, "inputCacheRead": 100, "inputCacheCreation": 7}
KIMI = [
    kimi("metadata", protocol_version="1.4", created_at=1767323045000),
    kimi("config.update", systemPrompt="Be brief.", modelAlias="moonshot-ai/kimi-x"),
    asked("Which loaves are left?"),
    asked("The list is old.", "injection"),
    loop("step.begin", "s1"),
    kimi("llm.request", kind="loop", provider="kimi", model="kimi-x"),
    part("s1", "think", "I look."),
    part("s1", "text", "A moment."),
    loop("tool.call", "s1", toolCallId="Bash_0", name="Bash", args={"command": "ls"}),
    loop("tool.result", toolCallId="Bash_0", result={"output": "rye", "isError": True}),
    loop("step.end", "s1", usage=SPENT, finishReason="tool_use"),
    loop("step.begin", "s2"),
    part("s2", "text", "Rye."),
    loop("step.end", "s2", usage=SPENT, finishReason="end_turn"),
    asked("Thanks."),
    kimi("context.apply_compaction", summary="They counted.", compactedCount=7, keptUserMessageCount=1),
    asked("And now?"),
]


def bubble(id: str, kind: int, words: str = "", **fields: Any) -> Json:
    """Return a bubble of a Cursor conversation; kind 1 is the user's."""
    return {"bubbleId": id, "type": kind, "text": words, "createdAt": "2026-01-02T03:04:05.678Z", **fields}


TOOL = {"toolCallId": "t1", "name": "read_file_v2", "rawArgs": '{"path":"a.txt"}', "result": "rye"}
CURSOR = [
    bubble("b1", 1, "Which loaves are left?"),
    bubble("b2", 2, thinking={"text": "I look.", "signature": "c2ln"}),
    bubble("b3", 2, "A moment.", tokenCount={"inputTokens": 110, "outputTokens": 20}),
    bubble("b4", 2, toolFormerData={**TOOL, "status": "completed"}),
    bubble("b5", 2, "Rye.", codeBlocks=[{"content": "rye = 1", "languageId": "python"}]),
    bubble("b6", 1, "Thanks."),
]
COMPOSER = {
    "composerId": "c-1",
    "name": "Loaves",
    "createdAt": 1767323045000,
    "modelConfig": {"modelName": "gpt-x"},
}


def run(id: str, call: str) -> Json:
    """Return a bubble of Cursor that runs a sub-agent."""
    return bubble(id, 2, toolFormerData={"toolCallId": call, "name": "task_v2", "params": "{}"})


def write_cursor(folder: Path, bubbles: list[Any], more: dict[str, Json] | None = None) -> Path:
    """Write a database with one conversation, and `more` rows by key.

    The bubbles are its own rows, each under its id or number.
    """
    given = [each.get("bubbleId") if isinstance(each, dict) else None for each in bubbles]
    ids = [f"n{n}" if id in given[:n] or not str(id).isalnum() else str(id) for n, id in enumerate(given)]
    head = {**COMPOSER, "fullConversationHeadersOnly": [{"bubbleId": id} for id in ids]}
    rows = {"composerData:c-1": head, **dict(zip((f"bubbleId:c-1:{id}" for id in ids), bubbles, strict=True))}
    rows |= more or {}
    with closing(sqlite3.connect(path := folder / "state.db")) as connection:
        connection.execute("CREATE TABLE cursorDiskKV (key TEXT UNIQUE ON CONFLICT REPLACE, value BLOB)")
        values = ((key, json.dumps(value)) for key, value in rows.items())
        connection.executemany("INSERT INTO cursorDiskKV VALUES (?, ?)", values)
        connection.commit()
    return path


TRANSCRIPT: list[Json] = [
    {"role": "user", "message": {"content": [text("<user_query>\nWhich loaves?\n</user_query>")]}},
    {
        "role": "assistant",
        "message": {"content": [text("I look."), {"type": "tool_use", "name": "LS", "input": {}}]},
    },
    {"role": "user", "message": {"content": [tool_result("", [text("rye")])]}},
    {"role": "assistant", "message": {"content": [text("Rye.")]}},
]
