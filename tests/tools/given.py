"""Calls, and what comes of them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence

from stenolog.adapters.tools.base import BaseTool, ToolContext, ToolOutput
from stenolog.adapters.tools.execute import execute


def call(name: str = "f", arguments: object = None, *, raw: str | None = None) -> ToolContext:
    """Return a call with these arguments, or with this raw text for them."""
    text = json.dumps({} if arguments is None else arguments) if raw is None else raw
    return ToolContext(name, text, key="key-1", lane="coder", conversation_name="build", id="c1")


def outcome(tool: BaseTool, arguments: object = None, *, raw: str | None = None) -> ToolOutput:
    """Return the outcome of one call of a tool."""
    return asyncio.run(execute(tool, call(tool.spec.name, arguments, raw=raw), [tool.spec.name]))


def text(found: ToolOutput) -> str:
    """Return the only text of an outcome."""
    (only,) = found.content
    assert isinstance(only, str)
    return only


def error(tool: BaseTool, arguments: object = None, *, raw: str | None = None) -> str:
    """Return the words of a failure."""
    found = outcome(tool, arguments, raw=raw)
    assert found.is_error
    return text(found)


def texts(found: ToolOutput) -> Sequence[str]:
    """Return the texts of an outcome."""
    return [item for item in found.content if isinstance(item, str)]
