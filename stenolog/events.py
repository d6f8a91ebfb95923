"""Events, what they are made of, and the entries that they become in a log.

`dump_event` and `load_event` write an event as a log stores it, and read it back. `check_name` says whether a
text can name a conversation or an entry, `check_json` whether a value can be stored as JSON.
"""

from .domain.base.model import check_json
from .domain.card import AgentCard
from .domain.codec import dump_event, load_event
from .domain.entry import EPOCH, LONGEST_NAME, OPENING_ID, Entry, NewEntry, check_name
from .domain.events import (
    UNCHANGED,
    AssistantMessage,
    AuthorKind,
    Damaged,
    ErrorCategory,
    Event,
    Known,
    LlmError,
    ModeSwitch,
    Purpose,
    ToolResult,
    Unknown,
    UserMessage,
)
from .domain.lanes.state import address
from .domain.settings import DEFAULT_MODE
from .domain.values import (
    CallRef,
    Control,
    ConversationRef,
    Origin,
    PositionRange,
    Receipt,
    Tool,
    ToolQuestion,
    TurnPolicy,
    Usage,
    WorkflowRun,
)

__all__ = [
    "DEFAULT_MODE",
    "EPOCH",
    "LONGEST_NAME",
    "OPENING_ID",
    "UNCHANGED",
    "AgentCard",
    "AssistantMessage",
    "AuthorKind",
    "CallRef",
    "Control",
    "ConversationRef",
    "Damaged",
    "Entry",
    "ErrorCategory",
    "Event",
    "Known",
    "LlmError",
    "ModeSwitch",
    "NewEntry",
    "Origin",
    "PositionRange",
    "Purpose",
    "Receipt",
    "Tool",
    "ToolQuestion",
    "ToolResult",
    "TurnPolicy",
    "Unknown",
    "Usage",
    "UserMessage",
    "WorkflowRun",
    "address",
    "check_json",
    "check_name",
    "dump_event",
    "load_event",
]
