"""Events of Copilot CLI's sessions: signature, sub-agents, content as parts."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from stenolog import importers
from stenolog.events import AuthorKind, ErrorCategory
from stenolog.importers import Blobs, Json, JsonObject, as_dict, as_int, as_list, as_str
from stenolog.parts import AssistantPart, ReasoningPart, TextPart, ToolCall, UserPart

_FAMILIES = frozenset(
    (
        "session",
        "user",
        "assistant",
        "tool",
        "system",
        "hook",
        "subagent",
        "permission",
        "skill",
        "model",
        "abort",
    )
)
"""The first words of the types of events."""
_SHORT = 8
"""Characters of the id of a call by which a sub-agent is named."""


class SessionEvent:
    """A record: key, data, and its agent."""

    def __init__(self, key: str, value: JsonObject, agent: str) -> None:
        self.key = key
        self.kind = as_str(value.get("type"))
        self.data = as_dict(value.get("data"))
        self.agent = agent

    def text(self, *names: str) -> str:
        """Return the first of these fields that is a text; empty if none."""
        return next((text for name in names if (text := as_str(self.data.get(name)))), "")


class SubAgents:
    """Names of sub-agents by their ids and those of the calls that run them.

    A name is the agent's kind and the end of the id by which it is first known.
    """

    def __init__(self) -> None:
        self._names: dict[str, str] = {}
        self.prompts: dict[str, str] = {}
        """The words that a call gives a sub-agent, by the id of the call."""

    def name(self, id: str, kind: str = "") -> str:
        """Return a sub-agent's name; one of unknown kind is an `agent`."""
        return self._names.setdefault(id, importers.agent_called(f"{kind or 'agent'}-{id[-_SHORT:]}"))

    def rename(self, old: str, new: str) -> None:
        """Rename a sub-agent once a record in its lane names its kind."""
        self._names = {id: new if name == old else name for id, name in self._names.items()}

    def ids_of(self, name: str) -> list[str]:
        """Return the ids by which a sub-agent is known."""
        return [id for id, each in self._names.items() if each == name]

    def call(self, request: JsonObject) -> None:
        """Note a tool call that may run a sub-agent."""
        if prompt := as_str(importers.object_in(request.get("arguments")).get("prompt")):
            self.prompts[as_str(request.get("toolCallId"))] = prompt


def is_event(value: Json) -> bool:
    """Return whether a record is one of a session."""
    record: dict[str, Any] = as_dict(value)
    named = {"type", "data", "id", "timestamp", "parentId"} <= record.keys()
    return named and isinstance(record["data"], dict) and as_str(record["type"]).split(".")[0] in _FAMILIES


def session_of(record: JsonObject, has_begun: bool) -> str:
    """Return the session that a record begins; what follows belongs to it."""
    begins = record.get("type") == "session.start" and not has_begun
    return as_str(as_dict(record.get("data")).get("sessionId")) if begins else ""


def name_of(path: Path) -> str:
    """Return the session folder's name, or the file's if it is not the usual one."""
    return path.absolute().parent.name if path.name == "events.jsonl" else path.stem


PROVIDER = "copilot"
"""Copilot's server binds signatures and ciphertexts to its sessions, whichever provider's model it is."""
_CATEGORIES: dict[str, ErrorCategory] = {
    "authentication": "unauthorized",
    "authorization": "unauthorized",
    "quota": "budget",
    "rate_limit": "rate_limited",
    "context_limit": "context_length",
}


class Run(NamedTuple):
    """A part of a message that one kind of author wrote."""

    kind: AuthorKind
    text: str


def runs(data: JsonObject) -> list[Run]:
    """Return what a person typed, and what Copilot put around it for the model."""
    typed, sent = as_str(data.get("content")), as_str(data.get("transformedContent"))
    kind = _author_kind(data)
    before, found, behind = sent.partition(typed) if typed else ("", "", sent)
    if not found:
        before, behind = "", "" if typed and sent else behind
        # Where the words for the model do not repeat the typed ones, the model had no others.
        typed = sent if typed and sent else typed
    around = (Run("system", before), Run(kind, typed), Run("system", behind))
    return [run for run in around if run.text.strip()]


def _author_kind(data: JsonObject) -> AuthorKind:
    source = as_str(data.get("source"))
    if source.startswith("schedule"):
        return "schedule"
    if source.startswith("agent"):
        return "agent"
    by_person = source in ("", "user") and data.get("isAutopilotContinuation") is not True
    return "person" if by_person else "system"


def media(items: Json, assets: Mapping[str, str], blobs: Blobs) -> list[UserPart]:
    """Return pictures and files whose bytes are in the item or, by id, in `assets`."""
    found = (_medium(as_dict(item), assets, blobs) for item in as_list(items))
    return [part for part in found if part is not None]


def _medium(item: JsonObject, assets: Mapping[str, str], blobs: Blobs) -> UserPart | None:
    data = as_str(item.get("data")) or assets.get(as_str(item.get("assetId")), "")
    media_type = as_str(item.get("mimeType"))
    blob = importers.keep_base64(data, blobs) if data else None
    if blob is None:
        return None
    return importers.media_part(media_type, as_str(item.get("displayName")), blob=blob)


def described(attachments: Json) -> list[dict[str, Any]]:
    """Return the attachments without their bytes."""
    found = [as_dict(item) for item in as_list(attachments)]
    return [{name: value for name, value in item.items() if name != "data"} for item in found if item]


def assistant_parts(data: JsonObject, thought: str, key: str) -> list[AssistantPart]:
    """Return an answer's parts; `thought` came before as its own event."""
    calls = enumerate(map(as_dict, as_list(data.get("toolRequests"))))
    reasoning = _reasoning(data, thought)
    phase = as_str(data.get("phase"))
    text = [TextPart(text=wording, phase=phase)] if (wording := as_str(data.get("content"))) else []
    return [*reasoning, *text, *(_call(each, f"{key}-{nth}") for nth, each in calls if each)]


def _reasoning(data: JsonObject, thought: str) -> list[ReasoningPart]:
    text, opaque = as_str(data.get("reasoningText")), as_str(data.get("reasoningOpaque"))
    earlier = [ReasoningPart(text=thought, provider=PROVIDER)] if thought and thought != text else []
    encrypted = as_str(data.get("encryptedContent"))
    if text or opaque or encrypted:
        part = ReasoningPart(text=text, provider=PROVIDER, signature=opaque, encrypted=encrypted)
        return [*earlier, part]
    return earlier


def _call(request: JsonObject, id: str) -> ToolCall:
    return ToolCall(
        id=as_str(request.get("toolCallId")) or id,
        name=as_str(request.get("name")),
        arguments=importers.arguments(request.get("arguments")),
        form="custom" if request.get("type") == "custom" else "",
    )


def result_parts(data: JsonObject, assets: Mapping[str, str], blobs: Blobs) -> list[UserPart]:
    """Return a tool's output for the model: text, pictures, error."""
    result, error = as_dict(data.get("result")), as_dict(data.get("error"))
    text = as_str(result.get("content")) or as_str(result.get("detailedContent"))
    failure = as_str(error.get("message")) or as_str(data.get("error"))
    pictures = media(result.get("binaryResultsForLlm"), assets, blobs) or media(
        result.get("contents"), assets, blobs
    )
    return [
        *importers.text_parts(text),
        *(importers.text_parts(failure) if failure != text else []),
        *pictures,
    ]


def category_of(data: JsonObject, wording: str) -> ErrorCategory:
    """Return the category of an error."""
    kind = as_str(data.get("errorType"))
    return _CATEGORIES.get(kind) or importers.error_category(wording, as_int(data.get("statusCode")))
