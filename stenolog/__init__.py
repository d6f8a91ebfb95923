"""Stenolog takes a conversation with LLM agents down word for word, and reads it back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ._version import __version__ as __version__
from .adapters.log import Conversation, Log, open
from .domain.card import AgentCard
from .domain.decide import decide
from .domain.entry import Entry, NewEntry
from .domain.errors import (
    AgentNotFoundError,
    BlobNotFoundError,
    CallerError,
    ClaimLostError,
    ConversationExistsError,
    ConversationNotFoundError,
    CorruptLogError,
    DuplicateIdError,
    IllegalCommandError,
    InvalidEventError,
    InvalidPolicyError,
    MissingExtraError,
    ModelError,
    NotADatabaseError,
    OperationalError,
    PositionNotFoundError,
    ProviderError,
    ReplayMismatchError,
    RequestNotSendableError,
    StenologError,
    StoredDataError,
    StoreError,
    StoreTimeoutError,
    TableError,
    ToolError,
    UnknownFormatError,
    UnsupportedVersionError,
    VersionConflictError,
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
from .domain.parts import FilePart, ImagePart, ProviderPart, ReasoningPart, RefusalPart, TextPart, ToolCall
from .domain.settings import Settings
from .domain.state import Decision, LaneState, State
from .domain.step import StepResult, Transition, evolve, step
from .domain.values import (
    CallRef,
    Control,
    ConversationRef,
    Origin,
    PositionRange,
    Receipt,
    Tool,
    TurnPolicy,
    Usage,
    WorkflowRun,
)
from .projections.fold import Fold, fold
from .projections.timeline import TimelineItem

if TYPE_CHECKING:
    from .adapters.aio import AsyncConversation, AsyncLog, open_async
    from .adapters.engine.agent import Agent
    from .adapters.engine.options import EntryAppended, StreamDelta
    from .adapters.engine.team import Team
    from .adapters.verify.integrity import restore
    from .adapters.verify.salvage import salvage
    from .projections.requests import Omission, Request, RequestPart

__all__ = [
    "UNCHANGED",
    "Agent",
    "AgentCard",
    "AgentNotFoundError",
    "AssistantMessage",
    "AsyncConversation",
    "AsyncLog",
    "BlobNotFoundError",
    "CallRef",
    "CallerError",
    "ClaimLostError",
    "Control",
    "Conversation",
    "ConversationExistsError",
    "ConversationNotFoundError",
    "ConversationRef",
    "CorruptLogError",
    "Decision",
    "DuplicateIdError",
    "Entry",
    "EntryAppended",
    "Event",
    "FilePart",
    "Fold",
    "IllegalCommandError",
    "ImagePart",
    "InvalidEventError",
    "InvalidPolicyError",
    "LaneState",
    "LlmError",
    "Log",
    "MissingExtraError",
    "ModeSwitch",
    "ModelError",
    "NewEntry",
    "NotADatabaseError",
    "Omission",
    "OperationalError",
    "Origin",
    "PositionNotFoundError",
    "PositionRange",
    "ProviderError",
    "ProviderPart",
    "ReasoningPart",
    "Receipt",
    "RefusalPart",
    "ReplayMismatchError",
    "Request",
    "RequestNotSendableError",
    "RequestPart",
    "Settings",
    "State",
    "StenologError",
    "StepResult",
    "StoreError",
    "StoreTimeoutError",
    "StoredDataError",
    "StreamDelta",
    "TableError",
    "Team",
    "TextPart",
    "TimelineItem",
    "Tool",
    "ToolCall",
    "ToolError",
    "ToolResult",
    "Transition",
    "TurnPolicy",
    "Unknown",
    "UnknownFormatError",
    "UnsupportedVersionError",
    "Usage",
    "UserMessage",
    "VersionConflictError",
    "WorkflowRun",
    "decide",
    "evolve",
    "fold",
    "open",
    "open_async",
    "restore",
    "salvage",
    "step",
]


_LATE = {
    **dict.fromkeys(("AsyncConversation", "AsyncLog", "open_async"), "adapters.aio"),
    **dict.fromkeys(("Omission", "Request", "RequestPart"), "projections.requests"),
    "Agent": "adapters.engine.agent",
    **dict.fromkeys(("EntryAppended", "StreamDelta"), "adapters.engine.options"),
    "Team": "adapters.engine.team",
    "restore": "adapters.verify.integrity",
    "salvage": "adapters.verify.salvage",
}
"""The names that are imported when they are first asked for: asyncio alone takes some 30 ms."""


def __dir__() -> list[str]:
    return sorted(__all__)


def __getattr__(name: str) -> object:
    if name not in _LATE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f".{_LATE[name]}", __name__), name)
