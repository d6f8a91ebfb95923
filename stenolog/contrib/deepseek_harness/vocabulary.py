"""Constants of dsh's session format: versions, event types, speakers in a user's name."""

from __future__ import annotations

from stenolog.events import AuthorKind
from stenolog.importers import JsonObject, as_dict, as_str

VERSIONS = range(5)
"""The versions of the format that are known."""
PACKED = ("text-chunks", "reasoning-chunks", "tool-call-chunks")
"""The types of rows that hold several chunks, as versions 0 and 1 write them."""
LOG_ONLY = frozenset(
    (
        "agent-preset/selected",
        "approval/asked",
        "approval/decided",
        "approval/policy",
        "compaction/end",
        "compaction/prune",
        "compaction/start",
        "compaction/summary",
        "feedback/message-delete",
        "feedback/message-put",
        "goal/change",
        "hook/invoked",
        "hook/result",
        "llm/retry-started",
        "permission/preset",
        "sandbox/mode",
        "schedule/change",
        "session-log-deepseek/delivery-accepted",
        "session/end-seed",
        "session/title-llm-request",
        "step/start",
        "subagent/catalog",
        "subagent/model-selection-policy",
        "team/member",
        "team/message/delivered",
        "team/message/queued",
        "team/task",
        "todo/write",
        "tool-workflow/agent-end",
        "tool-workflow/agent-start",
        "tool-workflow/run-end",
        "tool-workflow/run-start",
        "tool/call",
        "turn/start",
        "web/deepseek-search-llm-request",
    )
)
"""The types of events that no model sees and that say nothing: they are counted."""
COMPACTING = frozenset(("compact", "dsh-compaction-basic", "compact-checkpoint", "compact-basic"))
"""The sources of a message that replaces a span of the conversation."""
_KINDS: dict[str, AuthorKind] = {
    "": "person",
    "user": "person",
    "schedule": "schedule",
    "agent": "agent",
    "agent-message": "agent",
    "coordinator": "agent",
    "subagent-report": "agent",
    "subagent-settled": "agent",
    "team-message": "agent",
}


def source_name(source: JsonObject) -> str:
    """Return the name of a message's source: up to version 3 a plugin's, then a kind."""
    kind = as_str(source.get("kind"))
    return as_str(source.get("plugin")) or kind if kind == "plugin" else kind.removeprefix("plugin:")


def author_kind(name: str) -> AuthorKind:
    """Return the author of a message from that source; unknown ones are the program's."""
    return _KINDS.get(name, "system")


def is_header(record: JsonObject) -> bool:
    """Return whether a record is a session's head; other programs' heads have a text as time."""
    created = record.get("createdAt")
    is_time = isinstance(created, int) and not isinstance(created, bool)
    return record.get("type") == "session" and "id" in record and is_time


def is_event(record: JsonObject) -> bool:
    """Return whether a record has the type and frame of a session's event."""
    kind = as_str(record.get("type"))
    if kind in PACKED:
        return {"seq0", "time0", "data"} <= record.keys()
    return "/" in kind and isinstance(record.get("seq"), int) and {"time", "data"} <= record.keys()


def message_in(data: JsonObject) -> JsonObject:
    """Return an event's message; the earliest releases had it in the event itself."""
    return as_dict(data.get("message")) or data
