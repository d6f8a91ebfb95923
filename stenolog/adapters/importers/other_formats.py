"""Formats that have no importer, by the keys of their records: a file of one is refused by its name."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from stenolog.projections.messages.json_fields import as_dict

from .claude.stream import other_stream
from .json_lines import Json

Mark = Callable[[dict[str, Json]], bool]
NO_IMPORTER = "which has no importer"
_DIGEST = re.compile(r"[0-9a-f]{64}")


def _has(*keys: str, **values: str) -> Mark:
    """Return a function that checks that a record has these keys, and these values."""
    named = frozenset((*keys, *values))
    return lambda record: named <= record.keys() and all(record[k] == v for k, v in values.items())


OTHERS: tuple[tuple[str, Mark], ...] = (
    ("a stream without a message", _has("type", "subtype", "session_id")),
    ("a Gemini CLI recording", _has("method", "response")),
    ("an OpenHands run without events", _has("instance_id", "history")),
    ("a file of SWE-bench predictions", _has("instance_id", "model_patch")),
    ("a file of SWE-bench predictions", lambda record: bool(record) and all(map(_is_patch, record.values()))),
    ("a file of Multi-SWE-bench predictions", _has("org", "repo", "number", "fix_patch")),
    ("an OpenHands state", _has("agent", "workspace")),
    ("the metadata of an OpenHands conversation", _has("conversation_id", "selected_repository")),
    ("a SWE-agent trajectory without a message", _has("trajectory", "history")),
    ("a SWE-agent demonstration without a message", lambda record: record.keys() == {"history"}),
    ("the results of an ADK evaluation", _has("eval_set_result_id", "eval_case_results")),
    ("the input of an ADK replay", lambda record: record.keys() == {"state", "queries"}),
    ("a recording of API calls", _has("provider", "request", "response")),
    ("a recording of API calls", lambda record: all(map(_DIGEST.fullmatch, record)) and bool(record)),
    ("a call in a log of the first Codex CLI", _has("type", "function", "arguments")),
    ("a Cursor transcript", lambda record: record.keys() == {"role", "message"}),
    ("an Antigravity session", _has("step_index", "source", "type")),
    ("a Grok CLI session", _has("type", "model_fingerprint")),
    ("the summary of a Grok CLI session", _has("session_summary", "num_chat_messages")),
    ("a Kimi CLI session", _has("protocol_version", type="metadata")),
    ("a Droid session", _has("id", "title", type="session_start")),
    ("a Claude Code session without a message", _has("uuid", "parentUuid", "sessionId", "type")),
)

IN_FOLDERS: tuple[tuple[str, Mark], ...] = (
    ("a message of an opencode session", _has("sessionID", "role")),
    ("an opencode session without its messages", _has("projectID", "directory")),
    ("a part of an opencode message", _has("messageID", "type")),
    ("a part of an opencode message", lambda record: record.keys() == {"id", "type", "text", "time"}),
)
"""Files that hold a piece of a conversation, and are imported through the folder of them all."""


def _is_patch(value: Json) -> bool:
    return {"instance_id", "model_patch"} <= as_dict(value).keys()


def name_of_other(*found: Json) -> str:
    """Return the name of the format that one of the records is of; empty where none is known."""
    return next((name for record in found if (name := _name(as_dict(record)))), "")


def _name(record: dict[str, Json]) -> str:
    return other_stream(record) or next((name for name, is_one in OTHERS if is_one(record)), "")


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
    if name := next((name for name, is_one in IN_FOLDERS if is_one(document)), ""):
        return f"{name}, which is imported with the folder `storage` that it is from"
    if name := name_of_other(document, *behind):
        return f"{name}, {NO_IMPORTER}"
    keys = ", ".join(key[:80] for key in list(document)[:6])
    return f"an object with the keys {keys}" if keys else "an empty object"
