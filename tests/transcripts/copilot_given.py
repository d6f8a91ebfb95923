"""Sessions of Copilot CLI made up for the tests, and what is read of them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.transcripts.acceptance import (
    Said,
)
from tests.transcripts.given import Import, Json
from tests.transcripts.soundness import assert_sound

START = {
    "sessionId": "s-1",
    "copilotVersion": "1.0.64",
    "selectedModel": "gpt-x",
    "context": {"cwd": "/home/user/shop", "branch": "main", "headCommit": "abc", "repository": "me/shop"},
}


def session(*events: tuple[str, Json] | tuple[str, Json, Json]) -> list[Json]:
    """Return the records of a session: types and data, each with an id of its number, `e1` first."""
    found = [("session.start", START), *events]
    return [
        {
            "type": kind,
            "data": data,
            "id": f"e{nth}",
            "timestamp": f"2026-01-02T03:04:{nth:02}.000Z",
            "parentId": f"e{nth - 1}" if nth else None,
            **(more[0] if more else {}),
        }
        for nth, (kind, data, *more) in enumerate(found)
    ]


def user(words: str, **fields: Any) -> tuple[str, Json]:
    return "user.message", {"content": words, **fields}


def answer(words: str, *calls: Json, **fields: Any) -> tuple[str, Json]:
    return "assistant.message", {"content": words, "toolRequests": list(calls), "model": "gpt-x", **fields}


def call(id: str, name: str = "bash", **given: Any) -> Json:
    return {"toolCallId": id, "name": name, "arguments": given, "type": "function"}


def result(id: str, words: str = "done", **fields: Any) -> tuple[str, Json]:
    return "tool.execution_complete", {
        "toolCallId": id,
        "success": True,
        "result": {"content": words},
        **fields,
    }


def said_in_copilot(path: Path) -> Iterator[Said]:
    """Yield all that a person, the program, a model or a tool said in a session."""
    for record in map(json.loads, path.read_text(encoding="utf-8").splitlines()):
        data: Json = record["data"]
        if record["type"] in ("user.message", "system.message", "assistant.message", "system.notification"):
            yield record["type"], data.get("content") or ""
            yield from (
                (name, data.get(name) or "") for name in ("transformedContent",) if not data["content"]
            )
            for name in ("reasoningText", "reasoningOpaque", "encryptedContent"):
                yield name, data.get(name) or ""
            for request in data.get("toolRequests") or ():
                yield "call", request["toolCallId"]
                given = request["arguments"]
                values = given.values() if isinstance(given, dict) else [given]
                yield from (("argument", each) for each in values if isinstance(each, str))
        if record["type"] == "tool.execution_complete":
            yield "result", (data.get("result") or {}).get("content") or ""
            yield "error", (data.get("error") or {}).get("message") or ""
        if record["type"] == "session.error":
            yield "error", data["message"]


def shown(into: Import, *words: str) -> list[bool]:
    """Return which of the words the agent is shown at the end."""
    assert_sound(into.log)
    text = str(into.conversation.request("copilot", api="anthropic").body)
    return [each in text for each in words]
