"""Calls, and what comes of them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence

from stenolog.adapters.tools.perform import perform
from stenolog.adapters.tools.port import Call, Outcome, Runnable


def call(name: str = "f", arguments: object = None, *, raw: str | None = None) -> Call:
    """A call with these arguments, or with this raw text for them."""
    text = json.dumps({} if arguments is None else arguments) if raw is None else raw
    return Call(name, text, key="key-1", lane="coder", conversation="build", id="c1")


def outcome(tool: Runnable, arguments: object = None, *, raw: str | None = None) -> Outcome:
    """What comes of one call of a tool."""
    return asyncio.run(perform(tool, call(tool.spec.name, arguments, raw=raw), [tool.spec.name]))


def text(found: Outcome) -> str:
    """The only text of an outcome."""
    (only,) = found.content
    assert isinstance(only, str)
    return only


def error(tool: Runnable, arguments: object = None, *, raw: str | None = None) -> str:
    """The words of a failure."""
    found = outcome(tool, arguments, raw=raw)
    assert found.is_error
    return text(found)


def texts(found: Outcome) -> Sequence[str]:
    """The texts of an outcome."""
    return [item for item in found.content if isinstance(item, str)]
