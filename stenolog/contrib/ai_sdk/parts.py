"""Parts of UI messages of versions 4 to 7 as parts of events."""

from __future__ import annotations

from typing import Any, NamedTuple

from stenolog import importers, parts
from stenolog.importers import (
    Blobs,
    Json,
    JsonObject,
    arguments,
    as_dict,
    as_int,
    as_list,
    as_str,
    compact_json,
)

SYSTEM = "ai-sdk"
STEP = "step-start"
TOOL, DYNAMIC_TOOL, OLD_TOOL = "tool-", "dynamic-tool", "tool-invocation"
RESULTS = ("output-available", "output-error", "output-denied", "result")
"""The states of a call that has its result; the last one is version 4's."""
UNFINISHED = ("input-streaming", "partial-call")
"""The states of a call whose arguments have not all arrived."""
STREAMING = "streaming"
MCP_TYPES = ("text", "image", "audio", "resource", "resource_link")
"""The types of the parts that a tool of an MCP server returns."""
DENIED = "Tool call execution denied."
TYPES = (
    "text",
    "reasoning",
    "file",
    "source",
    "source-url",
    "source-document",
    "custom",
    "reasoning-file",
    STEP,
)


class ToolInvocation(NamedTuple):
    """A call of a tool: its state, and its result if any."""

    id: str
    name: str
    state: str
    arguments: str
    result: Json
    error: str
    part: dict[str, Any]

    @property
    def is_answered(self) -> bool:
        """True if the result is known."""
        is_preliminary = self.part.get("preliminary") is True
        return (self.state in RESULTS and not is_preliminary) or self._is_refused

    @property
    def _is_refused(self) -> bool:
        approval = as_dict(self.part.get("approval"))
        return self.state == "approval-responded" and approval.get("approved") is False

    @property
    def is_unfinished(self) -> bool:
        """True if the arguments have not all arrived."""
        return self.state in UNFINISHED

    @property
    def content(self) -> list[dict[str, Any]]:
        """The parts of a result of an MCP server; empty for any other."""
        raw = as_list(as_dict(self.result).get("content"))
        is_of_mcp = all(as_dict(part).get("type") in MCP_TYPES for part in raw)
        return raw if is_of_mcp and not self.error else []

    @property
    def text(self) -> str:
        """The result as a model reads it: a text, or JSON."""
        if self.error:
            return self.error
        if self.state == "output-denied" or self._is_refused:
            return as_str(as_dict(self.part.get("approval")).get("reason")) or DENIED
        return self.result if isinstance(self.result, str) else compact_json(self.result)

    @property
    def has_failed(self) -> bool:
        """True if the tool raised, or if a person refused the call."""
        is_error = bool(self.content) and as_dict(self.result).get("isError") is True
        return is_error or self.state in ("output-error", "output-denied") or self._is_refused


def is_part(value: Json) -> bool:
    """Return whether a value is a part of a UI message."""
    kind = as_dict(value).get("type")
    return isinstance(kind, str) and (
        kind in TYPES or kind.startswith((TOOL, "data-")) or kind in (DYNAMIC_TOOL, OLD_TOOL)
    )


def call_in(part: dict[str, Any], id: str) -> ToolInvocation | None:
    """Return a part's call, with this id if it has none; None for other parts."""
    kind = as_str(part.get("type"))
    if kind == OLD_TOOL:
        return old_call(as_dict(part.get("toolInvocation")), id)
    if kind != DYNAMIC_TOOL and not kind.startswith(TOOL):
        return None
    name = as_str(part.get("toolName")) if kind == DYNAMIC_TOOL else kind.removeprefix(TOOL)
    raw = part.get("input") if part.get("input") is not None else part.get("rawInput")
    error = as_str(part.get("errorText"))
    return ToolInvocation(
        as_str(part.get("toolCallId")) or id,
        name,
        as_str(part.get("state")),
        arguments(raw),
        part.get("output"),
        error,
        part,
    )


def old_call(raw: dict[str, Any], id: str) -> ToolInvocation:
    """Return a call in the form of version 4."""
    own, name, state = (as_str(raw.get(field)) for field in ("toolCallId", "toolName", "state"))
    return ToolInvocation(own or id, name, state, arguments(raw.get("args")), raw.get("result"), "", raw)


def result_parts(call: ToolInvocation, blobs: Blobs) -> list[parts.UserPart]:
    """Return a result: the parts that an MCP server returned, or one text."""
    if not call.content:
        return [parts.TextPart(text=call.text)]
    return INPUTS.parts(call.content, blobs)


def attachment(raw: dict[str, Any]) -> JsonObject:
    """Return an attachment of version 4 as a part of a later one."""
    named = {"filename": raw.get("name"), "mediaType": raw.get("contentType"), "url": raw.get("url")}
    return {"type": "file", **named}


def _file(part: JsonObject, context: importers.BlockContext) -> parts.ImagePart | parts.FilePart | None:
    """Return a picture or file: bytes as a blob, else its URL or its id at a provider."""
    url, name = as_str(part.get("url")), as_str(part.get("filename"))
    media_type = as_str(part.get("mediaType")) or as_str(part.get("mimeType"))
    stored = importers.keep_data_url(url, context.blobs)
    data = as_str(part.get("data"))
    blob = (stored[1] if stored else importers.keep_base64(data, context.blobs) if data else None) or ""
    media_type = media_type or (stored[0] if stored else "")
    if media_type == "image" and (blob or url):
        media_type = stored[0] if stored else "image/png"
    ids = as_dict(part.get("providerReference"))
    provider, id = next(((name, id) for name, id in ids.items() if isinstance(id, str)), ("", ""))
    if id and not blob and not (url and media_type.startswith("image/")):
        return parts.FilePart(
            name=name, media_type=media_type or "application/octet-stream", provider=provider, id=id
        )
    return importers.media_part(media_type, name, blob=blob, url="" if blob else url) if blob or url else None


def _reasoning(
    part: JsonObject, _: importers.BlockContext
) -> parts.ReasoningPart | list[parts.ReasoningPart]:
    if details := as_list(part.get("details")):
        return [_old_reasoning(as_dict(each)) for each in details]
    content = as_str(part.get("text")) or as_str(part.get("reasoning"))
    for provider, about in as_dict(part.get("providerMetadata")).items():
        fields = as_dict(about)
        signature = as_str(fields.get("signature")) or as_str(fields.get("thoughtSignature"))
        encrypted = as_str(fields.get("redactedData")) or as_str(fields.get("reasoningEncryptedContent"))
        named = "gemini" if provider in ("google", "vertex") else provider
        id = as_str(fields.get("itemId"))
        return parts.ReasoningPart(
            text=content, provider=named, id=id, signature=signature, encrypted=encrypted
        )
    return parts.ReasoningPart(text=content, signature=as_str(part.get("signature")))


def _old_reasoning(detail: dict[str, Any]) -> parts.ReasoningPart:
    return parts.ReasoningPart(
        text=as_str(detail.get("text")),
        signature=as_str(detail.get("signature")),
        encrypted=as_str(detail.get("data")),
    )


_media = dict.fromkeys(("file", "image", "audio"), _file)
INPUTS = importers.PartTable[parts.UserPart](SYSTEM, {"text": importers.text_maker(), **_media})
"""Makers of what a user sent, and of what an MCP server returned."""
ANSWERS = importers.PartTable[parts.AssistantPart](
    SYSTEM, {"text": importers.text_maker(), "reasoning": _reasoning}
)
"""Makers of an answer's parts that are no calls."""


def parts_of(message: dict[str, Any]) -> list[dict[str, Any]]:
    """Return an answer's parts in one form; each step begins with its own part.

    Version 4 had calls beside the text, each with its step's number, and the text last.
    """
    if isinstance(message.get("parts"), list):
        return [part for part in message["parts"] if isinstance(part, dict)]
    found: list[dict[str, Any]] = []
    if thought := as_str(message.get("reasoning")):
        found.append({"type": "reasoning", "text": thought})
    calls = [as_dict(each) for each in as_list(message.get("toolInvocations"))]
    for step in sorted(set(map(_step_of, calls))):
        found += [{"type": OLD_TOOL, "toolInvocation": each} for each in calls if _step_of(each) == step]
        found.append({"type": STEP})
    return [*found, *({"type": "text", "text": text} for text in _texts(message.get("content")))]


def _step_of(call: dict[str, Any]) -> int:
    return as_int(call.get("step"))


def _texts(content: Json) -> list[str]:
    if isinstance(content, str):
        return [content] if content else []
    return [as_str(as_dict(part).get("text")) for part in as_list(content) if as_dict(part).get("text")]
