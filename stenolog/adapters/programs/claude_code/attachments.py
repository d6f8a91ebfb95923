"""Text of a session's attachments, as the model was sent it.

Later versions of Claude Code write it as `rendered`; an attachment without was not sent. Earlier ones write
only data. Their texts were measured on version 2.1.197, by comparing a session with its requests: here a
heading has its first sentence, without advice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from typing import Any, NamedTuple, TypeAlias

from stenolog.domain.values import Tool
from stenolog.projections.messages.json_fields import as_dict, as_int, as_list, as_str, compact_json

Block: TypeAlias = dict[str, Any]
Data: TypeAlias = Mapping[str, Any]

MEASURED = "2.1.197"
"""The version of Claude Code whose headings are given."""
SNAPSHOT = "prompt_snapshot"
"""The attachment that has the system prompt and the tools."""
_TOLD_TO_THE_MODEL = frozenset({"SessionStart", "UserPromptSubmit"})
"""The events whose hooks' output is for the model; that of other hooks is only for the person."""
_FOR_THE_PERSON = frozenset({"hook_system_message", "hook_non_blocking_error", "hook_cancelled"})
_WORDS_ELSEWHERE = frozenset(
    {"plan_mode", "plan_mode_exit", "plan_mode_reentry", "auto_mode", "task_reminder", "todo_reminder"}
)
"""Attachments that the model is sent in words which the file does not have."""


class Attachment(NamedTuple):
    """Text of an attachment. `is_sent`: the model was sent it. `is_exact`: in these words.

    `lacks_words`: it was sent, but the file lacks its words.
    """

    blocks: list[Block]
    is_sent: bool = True
    is_exact: bool = True
    lacks_words: bool = False


class PromptSnapshot(NamedTuple):
    """A conversation's first system prompt and tools; None for missing tools."""

    persona: str
    tools: tuple[Tool, ...] | None


def attachment(record: Data, *, renders: bool) -> Attachment:
    """Return an attachment record's text.

    `renders`: the file has `rendered` texts, so an attachment without was not sent.
    """
    data = as_dict(record.get("attachment"))
    kind = as_str(data.get("type"))
    if sent := rendered(record):
        return Attachment(sent)
    if words := _worded(kind, data):
        return Attachment(_texts(words), not renders, is_exact=False)
    found = text_of(data)
    is_hook = kind == "hook_success" and as_str(data.get("hookEvent")) not in _TOLD_TO_THE_MODEL
    is_sent = not (renders or is_hook or kind in _FOR_THE_PERSON)
    lacks_words = not found and not renders and kind in _WORDS_ELSEWHERE
    return Attachment(found, is_sent, lacks_words=lacks_words)


def rendered(record: Data) -> list[Block]:
    """Return a record's text as sent, if its file has that."""
    each = (as_dict(one).get("content") for one in as_list(record.get("rendered")))
    return [*chain.from_iterable(_blocks_of(content) for content in each)]


def snapshot(data: Data) -> PromptSnapshot:
    """Return the system prompt and the tools that an attachment has."""
    parts = [data.get("cliPrefix"), *as_list(data.get("systemPrompt"))]
    texts = [as_str(part) or as_str(as_dict(part).get("text")) for part in parts]
    tools = [each for each in map(as_dict, as_list(data.get("tools"))) if as_str(each.get("name"))]
    return PromptSnapshot("\n\n".join(filter(None, texts)), tuple(map(_tool, tools)) if tools else None)


def _tool(data: Data) -> Tool:
    schema: Any = next((data[key] for key in ("schema", "input_schema", "inputSchema") if key in data), {})
    return Tool(
        name=as_str(data["name"]), description=as_str(data.get("description")), parameters=as_dict(schema)
    )


def _texts(words: str) -> list[Block]:
    return [{"type": "text", "text": words}]


def _blocks_of(content: object) -> list[Block]:
    if isinstance(content, str):
        return _texts(content) if content.strip() else []
    return [each for each in as_list(content) if isinstance(each, dict) and each.get("type")]


def _worded(kind: str, data: Data) -> str:
    make = _WORDED.get(kind)
    return "\n\n".join(filter(None, make(data))) if make else ""


def _strings(value: object) -> list[str]:
    return [each for each in as_list(value) if isinstance(each, str) and each]


def _under(heading: str, lines: Iterable[str]) -> str:
    listed = "\n".join(lines)
    return f"{heading}\n{listed}" if listed else ""


def _agents(data: Data) -> Iterator[str]:
    yield _under("Available agent types for the Agent tool:", _strings(data.get("addedLines")))
    removed = (f"- {name}" for name in _strings(data.get("removedTypes")))
    yield _under("The following agent types are no longer available:", removed)


def _deferred_tools(data: Data) -> Iterator[str]:
    added = _strings(data.get("addedLines")) or _strings(data.get("addedNames"))
    yield _under(
        "The following deferred tools are now available via ToolSearch.",
        dict.fromkeys([*added, *_strings(data.get("readdedNames"))]),
    )
    yield _under("The following deferred tools are no longer available:", _strings(data.get("removedNames")))
    waiting = _strings(data.get("pendingMcpServers"))
    yield _under("The following MCP servers are still connecting:", waiting)


def _mcp(data: Data) -> Iterator[str]:
    added = "\n\n".join(_strings(data.get("addedBlocks")))
    yield f"# MCP Server Instructions\n\n{added}" if added else ""
    yield _under("The following MCP servers have disconnected.", _strings(data.get("removedNames")))


def _skills(data: Data) -> Iterator[str]:
    listed = as_str(data.get("content"))
    yield f"The following skills are available for use with the Skill tool:\n\n{listed}" if listed else ""


def _hook_output(data: Data) -> Iterator[str]:
    words = as_str(data.get("content"))
    if words.strip() and as_str(data.get("hookEvent")) in _TOLD_TO_THE_MODEL:
        yield f"{as_str(data.get('hookName'))} hook success: {words}"


def _hook_context(data: Data) -> Iterator[str]:
    words = "\n".join(_strings(data.get("content"))) or as_str(data.get("content"))
    yield f"{as_str(data.get('hookName'))} hook additional context: {words}" if words.strip() else ""


def _hook_error(data: Data) -> Iterator[str]:
    error = data.get("blockingError")
    words = as_str(as_dict(error).get("blockingError")) or as_str(error)
    yield f"{as_str(data.get('hookName'))} hook blocking error: {words}" if words.strip() else ""


def _file(data: Data) -> Iterator[str]:
    file = as_dict(as_dict(data.get("content")).get("file"))
    content = file.get("content")
    if isinstance(content, str) and as_dict(data.get("content")).get("type") == "text":
        first = as_int(file.get("startLine")) or 1
        numbered = (f"{nth}\t{line}" for nth, line in enumerate(content.split("\n"), first))
        asked = compact_json({"file_path": as_str(data.get("filename"))})
        yield _under(
            f"Called the Read tool with the following input: {asked}\nResult of calling the Read tool:",
            numbered,
        )


def _memory(data: Data) -> Iterator[str]:
    content = as_dict(data.get("content"))
    yield _contents(as_str(data.get("path")) or as_str(content.get("path")), content.get("content"))


def _instructions(data: Data) -> Iterator[str]:
    for file in map(as_dict, as_list(data.get("files"))):
        yield _contents(as_str(file.get("path")), file.get("content"))


def _contents(path: str, content: object) -> str:
    words = as_str(content)
    return f"Contents of {path}:\n\n{words}" if words else ""


def _edited(data: Data) -> Iterator[str]:
    snippet = as_str(data.get("snippet"))
    yield f"{as_str(data.get('filename'))} has changed:\n{snippet}" if snippet else ""


_WORDED: dict[str, Callable[[Data], Iterator[str]]] = {
    "agent_listing_delta": _agents,
    "deferred_tools_delta": _deferred_tools,
    "mcp_instructions_delta": _mcp,
    "skill_listing": _skills,
    "hook_success": _hook_output,
    "hook_additional_context": _hook_context,
    "hook_blocking_error": _hook_error,
    "file": _file,
    "nested_memory": _memory,
    "instructions": _instructions,
    "edited_text_file": _edited,
}


def text_of(data: Data) -> list[Block]:
    """Return another attachment's text, under any key."""
    content = data.get("content")
    if picture := _picture(as_dict(content)):
        return [picture]
    found = [content, as_dict(as_dict(content).get("file")).get("content"), as_dict(content).get("content")]
    for value in (*found, *(data.get(name) for name in ("prompt", "text", "message", "snippet"))):
        if isinstance(value, str) and value.strip():
            return _texts(value)
        if isinstance(value, list) and value and all(isinstance(item, str) for item in value):
            return _texts("\n".join(value))
        if isinstance(value, list) and value and all(as_dict(item).get("type") for item in value):
            return value
    return []


def _picture(content: Data) -> Block:
    file = as_dict(content.get("file"))
    data, kind = as_str(file.get("base64")), as_str(file.get("type"))
    if content.get("type") != "image" or not data:
        return {}
    return {"type": "image", "source": {"type": "base64", "media_type": kind or "image/png", "data": data}}
