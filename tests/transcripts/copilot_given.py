"""Sessions of Copilot CLI made up for the tests, and what is read of them."""

from __future__ import annotations

from typing import Any

from tests.transcripts.given import Json

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


def sub_agent(lane: Json) -> list[Json]:
    """Return a session in which a sub-agent works, whose events name their lane in this way."""
    named = {"toolCallId": "call-00000001", "agentName": "explore", "agentDisplayName": "Explore"}
    inside, outside = ({}, lane) if "agentId" in lane else (lane, {})
    events = (answer("Found two.", **inside), answer("", call("c2", command="ls"), **inside))
    return session(
        user("Look."),
        answer("I ask.", call("call-00000001", "task", prompt="Find all tests.")),
        ("subagent.started", {**named, "model": "small-x"}, outside),
        (*user("Find all tests.", **inside), outside),
        *((*event, outside) for event in events),
        (*result("c2", "a.txt", **inside), outside),
        ("subagent.completed", named),
        result("call-00000001", "There are two."),
        answer("Two."),
    )
