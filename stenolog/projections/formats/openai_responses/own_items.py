"""Items of OpenAI's own tools, which go back to it whole or not at all, as a program with its calls."""

from __future__ import annotations

from collections.abc import Mapping, Set

from stenolog.domain.parts import ToolCall
from stenolog.projections.formats.body_builder import provider_form
from stenolog.projections.formats.model_families import goes_back
from stenolog.projections.messages.identifiers import CallIds
from stenolog.projections.messages.message import Body, Message, Preamble

STANDING: Mapping[str, bool] = {
    "code_interpreter_call": True,
    "compaction": False,
    "file_search_call": True,
    "image_generation_call": True,
    "mcp_call": True,
    "mcp_list_tools": True,
    "program": True,
    "program_output": True,
    "web_search_call": False,
}
"""The items of OpenAI's own tools that no output of ours has to follow, and whether they need their id."""
PROGRAMS = frozenset({"program", "program_output"})
"""The items of a program of the model's, which calls tools itself, and of its end."""
NOTES = ("metadata", "internal_chat_message_metadata_passthrough")
"""Fields that Codex adds to items for its own use."""


def has_program(kind: str, id: object, ids: CallIds) -> bool:
    """Return whether the request has the program of an item; a program's id is kept for its calls and end."""
    return ids.keep(id) if kind == "program" else ids.has(id)


def caller_of(
    call: ToolCall, message: Message, preamble: Preamble, ids: CallIds, providers: Set[str]
) -> Body | None:
    """Return the program that made a call, where that is in the request."""
    found = provider_form(call).get("caller") if goes_back(call, message, preamble, providers) else None
    return found if isinstance(found, dict) and ids.has(found.get("caller_id")) else None
