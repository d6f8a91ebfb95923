"""Stenolog records conversations with LLM agents event by event, and rebuilds what each agent was sent.

Only five kinds of event can happen: `UserMessage`, `AssistantMessage`, `ToolResult`, `LlmError` and
`ModeSwitch`. A `Log` is a file of conversations; a `Conversation` is the sequence of its entries. Everything
else follows from the entries: `conversation.request("coder")` is the exact body that the agent's model is
sent next, `conversation.timeline()` what a person sees, `conversation.state()` what the engine does next. A
`Team` of agents is the loop that does it.

    with stenolog.open("talks.db") as log:
        log["demo"].append(UserMessage("Which test fails?"))

The other public names are in faces: `stenolog.events`, `.parts`, `.errors`, `.context`, `.requests`,
`.importers`, `.analysis`, `.engine`, `.models`, `.tools`, `.tables`, `.chats`, `.frameworks`, `.maintenance`,
`.plugins`, `.serve`, `.workers` and `.testing`. The modules of `stenolog.domain`, `.projections`,
`.adapters` and `.apps` are private and move without notice: import from a face.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING

from ._version import __version__ as __version__
from .adapters.conversation.log import Conversation, Log
from .adapters.conversation.log import open as open
from .adapters.programs import register as _register_programs
from .domain.card import AgentCard
from .domain.entry import Entry, NewEntry
from .domain.errors import StenologError, VersionConflictError
from .domain.events import (
    UNCHANGED,
    AssistantMessage,
    Event,
    LlmError,
    ModeSwitch,
    ToolResult,
    UserMessage,
)
from .domain.lanes.decide import decide
from .domain.lanes.state import State
from .domain.lanes.step import evolve, step
from .domain.parts import TextPart, ToolCall
from .domain.settings import Settings
from .domain.values import Tool
from .projections.fold import Fold, fold

_register_programs()
if TYPE_CHECKING:
    from . import analysis as analysis
    from . import chats as chats
    from . import context as context
    from . import engine as engine
    from . import errors as errors
    from . import events as events
    from . import frameworks as frameworks
    from . import importers as importers
    from . import maintenance as maintenance
    from . import models as models
    from . import parts as parts
    from . import plugins as plugins
    from . import requests as requests
    from . import serve as serve
    from . import tables as tables
    from . import testing as testing
    from . import tools as tools
    from . import workers as workers
    from .adapters.conversation.aio import AsyncConversation, AsyncLog, open_async
    from .adapters.engine.agent import Agent
    from .adapters.engine.team.team import Team
    from .apps.inspect import inspector as inspector
    from .projections.requests import Request

__all__ = [
    "UNCHANGED",
    "Agent",
    "AgentCard",
    "AssistantMessage",
    "AsyncConversation",
    "AsyncLog",
    "Conversation",
    "Entry",
    "Event",
    "Fold",
    "LlmError",
    "Log",
    "ModeSwitch",
    "NewEntry",
    "Request",
    "Settings",
    "State",
    "StenologError",
    "Team",
    "TextPart",
    "Tool",
    "ToolCall",
    "ToolResult",
    "UserMessage",
    "VersionConflictError",
    "decide",
    "evolve",
    "fold",
    "open_async",
    "step",
]
"""The names that `from stenolog import *` gives; `open` is not among them, because it would hide Python's."""

_LATE = {
    **dict.fromkeys(("AsyncConversation", "AsyncLog", "open_async"), "adapters.conversation.aio"),
    "Agent": "adapters.engine.agent",
    "Request": "projections.requests",
    "inspector": "apps.inspect",
    "Team": "adapters.engine.team.team",
}
"""The names that are imported when they are first asked for: asyncio takes some 30 ms."""


_FACES = (
    "analysis",
    "chats",
    "context",
    "engine",
    "errors",
    "events",
    "frameworks",
    "importers",
    "maintenance",
    "models",
    "parts",
    "plugins",
    "requests",
    "serve",
    "tables",
    "testing",
    "tools",
    "workers",
)


def __dir__() -> list[str]:
    return sorted([*__all__, *_FACES, "inspector", "open"])


def _missing(name: str) -> str:
    """Return the error for an unknown name, with the face that has it; empty if none has."""
    # An underscore: tools probe for such names, and no face has one.
    if name.startswith("_"):
        return ""
    found = (face for face in _FACES if name in getattr(import_module(f".{face}", __name__), "__all__", ()))
    face = next(found, "")
    return face and f"no {name!r} in {__name__!r}; did you mean: from {__name__}.{face} import {name}"


if not TYPE_CHECKING:  # a type checker would take any name for an object

    def __getattr__(name: str) -> object:
        if name in _FACES:
            return import_module(f".{name}", __name__)
        if name in _LATE:
            return getattr(import_module(f".{_LATE[name]}", __name__), name)
        missing = _missing(name)
        # For `from stenolog import x` Python first asks here, and then drops the words of an AttributeError.
        if missing and sys._getframe(1).f_code.co_name == "_handle_fromlist":
            raise ImportError(missing, name=__name__)
        raise AttributeError(missing or f"module {__name__!r} has no attribute {name!r}")
