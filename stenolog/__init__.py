"""Stenolog takes a conversation with LLM agents down word for word, and reads it back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .adapters.conversation import Conversation
from .adapters.log import Log, open
from .domain.decide import decide
from .domain.entry import Draft, Entry
from .domain.errors import (
    CallerError,
    ClaimLost,
    ConversationInUse,
    CorruptLog,
    Diverged,
    IdTaken,
    IllegalCommand,
    InvalidEvent,
    InvalidPolicy,
    LaterRelease,
    MachineError,
    MissingBlob,
    MissingExtra,
    ModelFailed,
    NotALog,
    NotATranscript,
    NotSendable,
    ProviderError,
    StaleAppend,
    StenologError,
    StoreBusy,
    StoredDataError,
    StoreFailed,
    TableFailed,
    ToolError,
    UnknownAgent,
    UnknownConversation,
    UnknownPosition,
)
from .domain.events import (
    UNCHANGED,
    AssistantMessage,
    Event,
    LlmError,
    ModeSwitch,
    ToolResult,
    Unknown,
    UserMessage,
)
from .domain.parts import File, Image, Opaque, Reasoning, Refusal, Text, ToolCall
from .domain.settings import Settings
from .domain.state import Decision, Lane, State
from .domain.step import Step, Transition, evolve, step
from .domain.values import CallRef, Card, Control, Link, Receipt, Run, Source, Span, Tool, Turns, Usage
from .projections.base import Fold, fold
from .projections.timeline import Item

if TYPE_CHECKING:
    from .adapters.asynchronous import AsyncConversation, AsyncLog, open_async
    from .adapters.engine.agent import Agent
    from .adapters.engine.happenings import Delta, Recorded
    from .adapters.engine.team import Team
    from .adapters.restoring import restore
    from .projections.requests import Dropped, Explained, Request

__version__ = "0.1.0"

__all__ = [
    "UNCHANGED",
    "Agent",
    "AssistantMessage",
    "AsyncConversation",
    "AsyncLog",
    "CallRef",
    "CallerError",
    "Card",
    "ClaimLost",
    "Control",
    "Conversation",
    "ConversationInUse",
    "CorruptLog",
    "Decision",
    "Delta",
    "Diverged",
    "Draft",
    "Dropped",
    "Entry",
    "Event",
    "Explained",
    "File",
    "Fold",
    "IdTaken",
    "IllegalCommand",
    "Image",
    "InvalidEvent",
    "InvalidPolicy",
    "Item",
    "Lane",
    "LaterRelease",
    "Link",
    "LlmError",
    "Log",
    "MachineError",
    "MissingBlob",
    "MissingExtra",
    "ModeSwitch",
    "ModelFailed",
    "NotALog",
    "NotATranscript",
    "NotSendable",
    "Opaque",
    "ProviderError",
    "Reasoning",
    "Receipt",
    "Recorded",
    "Refusal",
    "Request",
    "Run",
    "Settings",
    "Source",
    "Span",
    "StaleAppend",
    "State",
    "StenologError",
    "Step",
    "StoreBusy",
    "StoreFailed",
    "StoredDataError",
    "TableFailed",
    "Team",
    "Text",
    "Tool",
    "ToolCall",
    "ToolError",
    "ToolResult",
    "Transition",
    "Turns",
    "Unknown",
    "UnknownAgent",
    "UnknownConversation",
    "UnknownPosition",
    "Usage",
    "UserMessage",
    "decide",
    "evolve",
    "fold",
    "open",
    "open_async",
    "restore",
    "step",
]


_LATE = {
    **dict.fromkeys(("AsyncConversation", "AsyncLog", "open_async"), "adapters.asynchronous"),
    **dict.fromkeys(("Dropped", "Explained", "Request"), "projections.requests"),
    "Agent": "adapters.engine.agent",
    **dict.fromkeys(("Delta", "Recorded"), "adapters.engine.happenings"),
    "Team": "adapters.engine.team",
    "restore": "adapters.restoring",
}
"""The names that are imported when they are first asked for: asyncio alone takes some 30 ms."""


def __dir__() -> list[str]:
    return sorted(__all__)


def __getattr__(name: str) -> object:
    if name not in _LATE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f".{_LATE[name]}", __name__), name)
