"""The tool `read_output`, by which an agent reads more of an output shown as a preview."""

from __future__ import annotations

import json
from typing import Any, TypeVar

from stenolog.adapters.store.reading.handle import StreamHandle
from stenolog.domain.errors import CallerError, PositionNotFoundError, StenologError
from stenolog.domain.events import ToolResult, UserMessage
from stenolog.domain.parts import ToolCall
from stenolog.domain.values import Tool
from stenolog.projections.requests.pipeline.truncation import LONGEST_READ, READ_OUTPUT, RESULTS
from stenolog.projections.views.artifacts import is_artifact

from .outputs import READ, Output, Outputs
from .visibility import visible_to

T = TypeVar("T")


def read_output_tool() -> Tool:
    """Return the tool for an agent's card that reads the rest of large outputs."""
    return Tool(
        name=READ_OUTPUT,
        description="Read a tool output or an artifact that was shown as a preview, piece by piece.",
        parameters={
            "type": "object",
            "properties": {
                "path": {"type": "string", "description": f"Its alias, such as {RESULTS}….json"},
                "offset": {
                    "type": "integer",
                    "minimum": 0,
                    "description": "The character to begin at; 0 unless given.",
                },
                "limit": {
                    "type": "integer",
                    "minimum": 1,
                    "maximum": LONGEST_READ,
                    "description": f"How many characters to read; {READ:,} unless given.",
                },
            },
            "required": ["path"],
            "additionalProperties": False,
        },
    )


def run_read_output(conversation: StreamHandle, arguments: str, address: str) -> str:
    """Run `read_output` with a call's arguments (raw JSON); return text and how to continue.

    `address` is the asking lane, `agent` or `agent/task`, which may read what it may see. Raises
    `CallerError` for invalid arguments, and as `Outputs.read`.
    """
    given = _arguments(arguments)
    limit = min(_argument(given, "limit", READ), LONGEST_READ)
    path, offset, outputs = _argument(given, "path", ""), _argument(given, "offset", 0), Outputs(conversation)
    if not _may_read(conversation, outputs.find(path), address):
        raise PositionNotFoundError(outputs.no_entry(path))
    read = outputs.read(path, offset, limit)
    ending = f"go on with offset={read.next}" if read.next is not None else "this is the end"
    return f"{read.text}\n[characters {read.offset:,} to {read.end:,} of {read.total:,}; {ending}]"


def _may_read(conversation: StreamHandle, output: Output, address: str) -> bool:
    """Return whether a lane may read an output: what it may see, and files in no request."""
    agent, _, task = address.partition("/")
    entry = conversation.entry(output.position)
    match entry.event:
        case UserMessage(in_context=False, to=to) if is_artifact(output.alias) and agent in (to or [agent]):
            return True
        case _:
            return visible_to(conversation, agent, task)(entry)


def read_output(conversation: StreamHandle, call: ToolCall, address: str) -> ToolResult:
    """Return a `read_output` call's result, ready to append; failures are for the agent.

    `address` is the calling lane, `agent` or `agent/task`.
    """
    try:
        text, failed = run_read_output(conversation, call.arguments, address), False
    except StenologError as error:
        text, failed = str(error), True
    return ToolResult(call_id=call.id, name=READ_OUTPUT, text=text, is_error=failed)


def _arguments(text: str) -> dict[str, Any]:
    try:
        given = json.loads(text)
    except (ValueError, RecursionError):
        given = None
    if not isinstance(given, dict) or not given.keys() <= {"path", "offset", "limit"}:
        raise CallerError(
            f'{READ_OUTPUT}: expected {{"path": …, "offset": …, "limit": …}}, found {text!r:.200}'
        )
    return given


def _argument(given: dict[str, Any], name: str, default: T) -> T:
    value = given.get(name, default)
    if type(value) is not type(default):
        kind = "a text" if isinstance(default, str) else "a whole number"
        raise CallerError(f"{READ_OUTPUT}: {name}: expected {kind}, found {value!r:.100}")
    return value
