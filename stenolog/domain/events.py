"""The five kinds of event that can happen in a conversation with LLM agents.

These classes are the storage format, and know nothing of storage, rendering or providers. There is no sixth
kind: what seems to need one is a field of one of these, or a projection. `text=` and `tool_calls=` are short
for ordered `parts`, and can be read back.
"""

from collections.abc import Mapping, Sequence
from dataclasses import field
from enum import Enum
from types import MappingProxyType
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Literal,
    TypeAlias,
)

from .base.model import Integer, Json, Key, Many, Name, Utc, frozen_value
from .card import AgentCard
from .errors import InvalidEventError
from .parts import AssistantPart, TextPart, ToolCall, UserPart, text_of
from .values import (
    CallRef,
    Control,
    ConversationRef,
    HasTurns,
    Origin,
    PositionRange,
    Receipt,
    TurnPolicy,
    Usage,
    WorkflowRun,
)

ErrorCategory: TypeAlias = Literal[
    "timeout",
    "network",
    "rate_limited",
    "overloaded",
    "context_length",
    "refused",
    "cancelled",
    "process_exited",
    "invalid_response",
    "invalid_request",
    "unauthorized",
    "budget",
    "other",
]
Purpose: TypeAlias = Literal["answer", "summary", "memory", "routing"]
AuthorKind: TypeAlias = Literal["person", "system", "schedule", "agent"]


class Unchanged(Enum):
    """The value of a mode switch's field when the switch does not change that setting."""

    UNCHANGED = "unchanged"

    def __repr__(self) -> str:
        return "UNCHANGED"


UNCHANGED = Unchanged.UNCHANGED


def spoken(fields: dict[str, Any]) -> dict[str, Any]:
    """Return the fields with `parts` for `text` and `tool_calls`. Raises `InvalidEventError` for both."""
    text, calls = fields.get("text", ""), tuple(fields.get("tool_calls", ()))
    rest = {name: given for name, given in fields.items() if name not in ("text", "tool_calls")}
    if not text and not calls:
        return rest
    if rest.get("parts"):
        raise InvalidEventError("give parts=, or text= and tool_calls=, not both")
    return {**rest, "parts": ((TextPart(text=text),) if text else ()) + calls}


def by_rule(fields: dict[str, Any]) -> dict[str, Any]:
    """Return the fields with a rule of turns, such as `RoundRobin()`, in its stored form."""
    policy = getattr(fields.get("turns"), "turns", None)
    return {**fields, "turns": policy} if isinstance(policy, TurnPolicy) else fields


@frozen_value
class Common:
    """Fields that every event has.

    Attributes:
        meta: The application's own data, a JSON object. Its first key is the application's name.
        tags: Words of the application, such as "draft".
        run: The workflow run that the event belongs to.
        node: The node of that run.
        in_context: False: the event is only for the timeline and is never sent to a model.
        source: The record of another program that the event was imported from.
    """

    kind: ClassVar[str]

    meta: Json = field(default_factory=dict)
    tags: Many[str] = ()
    run: str = ""
    node: str = ""
    in_context: bool = True
    source: Origin | None = None


@frozen_value
class Spoken(Common):
    """An event with words in it.

    Attributes:
        text: Short for one text among the `parts`; reading it joins all their texts.
    """

    positional: ClassVar[tuple[str, ...]] = ("text",)
    shorthands: ClassVar[Mapping[str, object]] = MappingProxyType({"text": str})
    if TYPE_CHECKING:
        text: str = field(default="", kw_only=False)
    else:
        from_shorthand = staticmethod(spoken)

        @property
        def text(self) -> str:
            return text_of(self.parts)


@frozen_value
class Calling(Spoken):
    """An event of a model.

    Attributes:
        tool_calls: Short for the calls among the `parts`; reading it returns them in order.
    """

    shorthands = MappingProxyType[str, object]({"text": str, "tool_calls": Sequence[ToolCall]})
    if TYPE_CHECKING:
        tool_calls: Sequence[ToolCall] = ()
    else:

        @property
        def tool_calls(self) -> tuple[ToolCall, ...]:
            return tuple([part for part in self.parts if isinstance(part, ToolCall)])


@frozen_value
class UserMessage(Spoken):
    """Words that come from outside: from a person, the system, a schedule, or an agent that briefs another.

    Attributes:
        parts: Texts, images and files, in order.
        author: The name of the person or program.
        author_kind: Who the author is: "person", "system", "schedule" or "agent".
        to: The addresses that it is for, `agent` or `agent/task`; empty: for everyone.
        control: A command to the engine, such as an approval.
        cause: The position that led to it, if an agent or a schedule is the author.
        replaces: The position of the message that this one edits.
    """

    kind: ClassVar[str] = "user_message"

    parts: Many[UserPart] = ()
    author: str = ""
    author_kind: AuthorKind = "person"
    to: Many[str] = ()
    control: Control | None = None
    cause: Integer | None = None
    replaces: Integer | None = None


@frozen_value
class AssistantMessage(Calling):
    """An agent's message, part by part.

    Attributes:
        agent: The agent that speaks.
        task: The task that it works on beside others, part of its lane's address; empty for most.
        parts: Texts, reasoning, tool calls and refusals, in the order of the provider's answer.
        cause: The position that it answers.
        purpose: Only an "answer" takes a turn. A "summary" replaces what it `covers`.
        covers: The positions that a summary replaces, for its author's lane and those in `to`: of these,
            it hides what its author was sent.
        to: The addresses that it is for; empty: for everyone. A summary is for its author's lane too, and
            for no others if it names none.
        model: The model that answered, by the provider's name.
        finish_reason: Why the model stopped, in the provider's word.
        usage: The tokens, as the provider counted them.
        duration_ms: Milliseconds from the request to the end of the answer.
        first_token_ms: Milliseconds from the request to the first piece of the answer.
        session: The session id of a backend that keeps the history itself.
        replaces: The position of the answer that this one replaces.
        receipt: The proof of what the model was sent.
    """

    kind: ClassVar[str] = "assistant_message"

    agent: Name
    task: str = ""
    parts: Many[AssistantPart] = ()
    cause: Integer | None = None
    purpose: Purpose = "answer"
    covers: Many[PositionRange] = ()
    to: Many[str] = ()
    model: str = ""
    finish_reason: str = ""
    usage: Usage | None = None
    duration_ms: Integer | None = None
    first_token_ms: Integer | None = None
    session: str = ""
    replaces: Integer | None = None
    receipt: Receipt | None = None


@frozen_value
class ToolResult(Spoken):
    """The result of a tool call.

    Attributes:
        call_id: The provider's id of the call, as it came.
        call: The call itself. None: the nearest call of that id without a result.
        to: The addresses that a result without a call is for; empty: for everyone.
        name: The name of the tool.
        parts: Texts, images and files, in order.
        is_error: True: the tool failed, and the parts say how.
        blob: The sha256 of the whole content, if the parts hold only a preview.
        duration_ms: Milliseconds that the tool took.
    """

    kind: ClassVar[str] = "tool_result"

    call_id: str
    call: CallRef | None = None
    to: Many[str] = ()
    name: str = ""
    parts: Many[UserPart] = ()
    is_error: bool = False
    blob: str = ""
    duration_ms: Integer | None = None


@frozen_value
class LlmError(Calling):
    """A model call that failed, with the parts that had already arrived.

    Attributes:
        agent: The agent whose model was called.
        task: The task that it works on beside others; empty for most.
        category: The kind of failure, such as "timeout" or "rate_limited".
        message: The provider's words, without secrets.
        parts: The parts of the answer that had arrived.
        cause: The position that the call was to answer.
        model: The model that was called.
        attempt: The number of failed calls in a row, with this one. A call that was never made, or that was
            stopped in good order, adds nothing: 0 if there is no other.
        retry_at: When it is tried again, jitter included; None: it is not. With the category "cancelled",
            the program stopped it in good order, and the next run makes the call again.
        usage: The tokens counted before the call failed, at least; None: the provider had counted none.
        duration_ms: Milliseconds from the request to the failure.
        session: The session id of a backend that keeps the history itself.
        receipt: The proof of what the model was sent.
    """

    kind: ClassVar[str] = "llm_error"
    positional = ()  # a text by place would be read as the error's message
    if TYPE_CHECKING:
        text: str = ""

    agent: Name
    task: str = ""
    category: ErrorCategory
    message: str = ""
    parts: Many[AssistantPart] = ()
    cause: Integer | None = None
    model: str = ""
    attempt: Integer = 1
    retry_at: Utc | None = None
    usage: Usage | None = None
    duration_ms: Integer | None = None
    session: str = ""
    receipt: Receipt | None = None


@frozen_value
class ModeSwitch(Common):
    """A change of settings: a field left out is unchanged, None clears it; settings are a fold of these.

    Attributes:
        agents: The agents that `mode`, `scope`, `handoff` and `context_from` are for; empty: all.
        mode: "chat", "agent", "run", or an application's own word.
        cards: The configuration of agents by name; None withdraws a card.
        joins: Agents that take part from here on.
        leaves: Agents that no longer take part.
        scope: "addressed": an agent sees its own lane, what names it, and what names no agent.
        active_run: The workflow run that the conversation is at.
        handoff: The agent that takes over.
        turns: Whose turn it is when a message names no agent: a rule, such as `RoundRobin()`.
        title: The conversation's title.
        context_from: The first position in context; nothing before it is sent.
        hides: All positions that are out of context (a rewind, a pop).
        parent: The conversation that this one was forked from, or begun by.
        fork: True in the opening of a fork: the positions up to the parent's are the parent's own.
    """

    kind: ClassVar[str] = "mode_switch"
    from_shorthand = staticmethod(by_rule)

    agents: Many[str] = ()
    mode: str | Literal[Unchanged.UNCHANGED] | None = UNCHANGED
    cards: dict[Key, AgentCard | None] = field(default_factory=dict)
    joins: Many[str] = ()
    leaves: Many[str] = ()
    scope: Literal["open", "addressed"] | Literal[Unchanged.UNCHANGED] | None = UNCHANGED
    active_run: WorkflowRun | Literal[Unchanged.UNCHANGED] | None = UNCHANGED
    handoff: str | Literal[Unchanged.UNCHANGED] | None = UNCHANGED
    if TYPE_CHECKING:
        turns: TurnPolicy | HasTurns | Literal[Unchanged.UNCHANGED] | None = UNCHANGED
    else:
        turns: TurnPolicy | Literal[Unchanged.UNCHANGED] | None = UNCHANGED
    title: str | Literal[Unchanged.UNCHANGED] | None = UNCHANGED
    context_from: Integer | Literal[Unchanged.UNCHANGED] | None = UNCHANGED
    hides: Many[PositionRange] | Literal[Unchanged.UNCHANGED] | None = UNCHANGED
    parent: ConversationRef | Literal[Unchanged.UNCHANGED] | None = UNCHANGED
    fork: bool = False


@frozen_value
class Unknown:
    """An event of a kind or version that this release does not know, kept byte for byte.

    Unless it says that it is `ignorable`, nothing may be decided or sent after it; `needs` is the
    release that wrote it, if it says so.
    """

    kind: ClassVar[str] = "unknown"

    topic: str
    payload: bytes
    ignorable: bool = False
    needs: str = ""


@frozen_value
class Damaged(Unknown):
    """An entry that cannot be read, or is not as it was written.

    It is never stored. `reason` says what is wrong. Nothing may be decided or sent after it.
    """

    kind: ClassVar[str] = "damaged"

    topic: str = "damaged"
    payload: bytes = b""
    reason: str = ""


LATE = "late"
"""The tag of a result whose call was closed before it came: no other is expected."""
Known: TypeAlias = UserMessage | AssistantMessage | ToolResult | LlmError | ModeSwitch
Event: TypeAlias = Known | Unknown


def was_stopped(event: Event) -> bool:
    """Return whether an event is a model call that its program stopped, which the next run makes again."""
    return isinstance(event, LlmError) and event.category == "cancelled" and event.retry_at is not None


__all__ = [
    "UNCHANGED",
    "AssistantMessage",
    "AuthorKind",
    "Damaged",
    "ErrorCategory",
    "Event",
    "Known",
    "LlmError",
    "ModeSwitch",
    "Purpose",
    "ToolResult",
    "Unchanged",
    "Unknown",
    "UserMessage",
    "was_stopped",
]
