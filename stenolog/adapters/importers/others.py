"""Formats that have no importer, by name, so that a refusal says what was found."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from stenolog.adapters.providers.json_fields import Json, as_dict

from .claude.stream import other_stream

Mark = Callable[[dict[str, Json]], bool]
_DIGEST = re.compile(r"[0-9a-f]{64}")


def _has(*keys: str, **values: str) -> Mark:
    """Return a function that checks that a record has these keys, and these values."""
    named = frozenset((*keys, *values))
    return lambda record: named <= record.keys() and all(record[k] == v for k, v in values.items())


_OTHERS: tuple[tuple[str, Mark], ...] = (
    ("a stream without a message", _has("type", "subtype", "session_id")),
    ("a Gemini CLI chat", _has("sessionId", "projectHash")),
    ("a Gemini CLI recording", _has("method", "response")),
    ("an OpenHands run", _has("instance_id", "history")),
    ("a file of SWE-bench predictions", _has("instance_id", "model_patch")),
    ("an OpenHands state", _has("agent", "workspace")),
    ("an OpenHands event", _has("kind", "source", "timestamp")),
    ("a SWE-agent trajectory", _has("trajectory", "history")),
    ("a SWE-agent demonstration", lambda record: record.keys() == {"history"}),
    ("an ATIF trajectory", _has("schema_version", "steps")),
    ("an ADK evaluation set", _has("eval_cases")),
    ("an ADK session", lambda record: {"events", "id"} <= record.keys() and _is_of_adk(record)),
    ("a Copilot CLI session", _has("type", "data", "id", "parentId")),
    ("an OpenCode record", _has("sessionID")),
    ("an OpenCode session", _has("projectID", "directory")),
    ("a part of an OpenCode message", _has("messageID", "type")),
    ("a part of an OpenCode message", lambda record: record.keys() == {"id", "type", "text", "time"}),
    ("a recording of API calls", _has("provider", "request", "response")),
    ("a recording of API calls", lambda record: all(map(_DIGEST.fullmatch, record)) and bool(record)),
    (
        "a Qwen Code session",
        lambda record: "sessionId" in record and "parts" in as_dict(record.get("message")),
    ),
    ("a Burr log", _has("type", "action", "sequence_id")),
    ("a Cursor transcript", lambda record: record.keys() == {"role", "message"}),
    ("an Antigravity session", _has("step_index", "source", "type")),
    ("a Grok CLI session", _has("type", "model_fingerprint")),
    ("the summary of a Grok CLI session", _has("session_summary", "num_chat_messages")),
    ("a Kimi CLI session", _has("protocol_version", type="metadata")),
    ("a Droid session", _has("id", "title", type="session_start")),
    ("a pi session", _has("id", "provider", "modelId", type="session")),
    ("a pi or OpenClaw session", _has("id", "version", "cwd", type="session")),
    ("a note of Claude Code on a sub-agent", _has("agentType", "spawnDepth")),
    ("a Claude Code session without a message", _has("uuid", "parentUuid", "sessionId", "type")),
)


def _is_of_adk(record: dict[str, Json]) -> bool:
    return not record.keys().isdisjoint(
        {"app_name", "appName", "user_id", "userId", "context", "last_update_time"}
    )


def name_of_other(*found: Json) -> str:
    """The name of the format that one of the records is of; empty where none is known."""
    return next((name for record in found if (name := _name(as_dict(record)))), "")


def _name(record: dict[str, Json]) -> str:
    return other_stream(record) or next((name for name, is_one in _OTHERS if is_one(record)), "")


def described(document: Json, behind: Iterable[Json] = ()) -> str:
    """Describe a file that is no transcript: another format by name, or the keys.

    `behind` are the records that follow.
    """
    if isinstance(document, list):
        is_of_objects = bool(document) and isinstance(document[0], dict)
        inside = f", the first of them {described(document[0])}" if is_of_objects else ""
        return f"a list of {len(document)} items{inside}"
    if not isinstance(document, dict):
        return f"a JSON {type(document).__name__}"
    if name := name_of_other(document, *behind):
        return f"{name}, which has no importer"
    keys = ", ".join(key[:80] for key in list(document)[:6])
    return f"an object with the keys {keys}" if keys else "an empty object"
