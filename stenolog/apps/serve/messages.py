"""Parameters and results of the service's methods: the contract with programs in other languages.

Each class is one JSON object, and its JSON Schema is what the clients' types are generated from. An object
takes no field that is not named here, so a slip is refused. A time is ISO 8601 with an offset.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field

from stenolog.adapters.store.contract.values import Order
from stenolog.domain.entry import LONGEST_NAME

Object: TypeAlias = dict[str, Any]
Kind: TypeAlias = Literal["user_message", "assistant_message", "tool_result", "llm_error", "mode_switch"]
Position: TypeAlias = Annotated[int, Field(ge=0, lt=2**53)]
"""A position: from 1, or 0 before the first entry. Below 2**53, so that every language can hold it."""
Number: TypeAlias = Annotated[int, Field(ge=0, lt=2**53)]
Name: TypeAlias = Annotated[str, Field(min_length=1, max_length=LONGEST_NAME)]
"""The name of a conversation, or the id of an entry."""
MOST = 10_000
"""The most entries that one answer holds."""
LONGEST_WAIT = 300.0
"""The most seconds that a call waits."""


class Message(BaseModel):
    """A JSON object with just these fields, of just these types."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, use_attribute_docstrings=True)


class Nothing(Message):
    """An object without fields."""


# What several methods take or give


class NewEvent(Message):
    """An event on its way into the log."""

    kind: Kind
    event: Object
    """The event's fields, as `stenolog db schema` has them; `text` means parts with that one text."""
    id: Name | None = None
    """The entry's id, unique in the conversation. With an id a call may be repeated; it writes once."""
    time: AwareDatetime | None = None


class Entry(Message):
    """An event with its place in the log."""

    conversation: str
    position: Position
    id: str
    time: str
    digest: str
    kind: str
    """The kind of the event; "unknown" if it was erased or is of a later release."""
    topic: str
    event: Object | str
    """The event's fields as they are stored; the payload as text if the kind is unknown."""


class Entries(Message):
    """Entries, and the position read up to."""

    position: Position
    entries: list[Entry]


class WrittenEntries(Message):
    """The entries that were written, now or before under the same ids."""

    position: Position
    """The position of the last of them; if there is none, that of the conversation."""
    entries: list[Entry]


class AnsweredQuestion(Message):
    """A question that a call asked a person, and the answer."""

    question: str
    answer: str
    """The answer as JSON text."""


class Call(Message):
    """A tool call as it is to run."""

    id: str
    name: str
    arguments: str
    """The arguments as JSON text, as the model wrote them or a person changed them."""
    entry: str
    """The id of the entry that holds the call."""
    index: int
    """The call's place among that entry's calls, from 0."""
    position: Position
    answers: list[AnsweredQuestion] = Field(default_factory=list)
    """The answers to the questions that it asked, in order."""


class AgentRequest(Message):
    """An agent's next request."""

    agent: str
    task: str
    at: Position
    api: str
    body: Object
    """The provider's JSON body: send it as it is."""
    sendable: bool
    reason: str
    """The reason why it cannot be sent; empty if it can."""
    obstacle: str
    """The reason, empty also if there is nothing to answer."""
    code: str
    """The reason in one word, such as "answered", "tools", "approval" or "backoff"."""
    sha256: str
    receipt: Object
    """The proof of what was sent: give it back with the answer."""
    text: str | None = None
    """The body as the very JSON text to send, where `with_text` asked for it."""
    explanation: Object | None = None
    """`size`, `parts` and `omissions`, where `with_explanation` asked for them."""


# Parameters


class InConversation(Message):
    """A conversation."""

    conversation: Name


class AppendParams(InConversation):
    """Events to append, all of them or none."""

    events: Annotated[list[NewEvent], Field(min_length=1)]
    expected: Position | None = None
    """The position that the conversation must be at; a mode switch needs it after a first entry."""


class SubmitParams(InConversation):
    """A command, appended if the conversation's state allows it."""

    kind: Kind
    event: Object
    id: Name | None = None
    """The id of the command's entry, so that the call may be repeated."""


class JoinParams(InConversation):
    """An agent's card. What is left out stays as it is."""

    agent: str
    model: str | None = None
    persona: str | None = None
    tools: list[Object] | None = None
    """Tools in the form of OpenAI or Anthropic."""
    parameters: Object | None = None
    policy: Object | None = None


class Joined(Message):
    """The mode switch that was appended; null if the agent had that card already."""

    entry: Entry | None


class EntriesParams(InConversation):
    """The entries after `after`, up to `at`."""

    after: Position = 0
    at: Position | None = None
    limit: Annotated[int, Field(ge=1, le=MOST)] = 1_000


class TailParams(InConversation):
    """The entries after `after`; if there are none yet, those that come within `wait` seconds."""

    after: Position
    wait: Annotated[float, Field(ge=0, le=LONGEST_WAIT, strict=False)] = 30.0
    limit: Annotated[int, Field(ge=1, le=MOST)] = 1_000


class RequestParams(InConversation):
    """An agent, a position, and the form of a provider."""

    agent: str
    task: str = ""
    at: Position | None = None
    api: str | None = None
    """openai-chat, openai-responses, cohere, anthropic, gemini or plain; null: the API of its answers."""
    policy: Object | None = None
    """A policy as its JSON; null: the one on the agent's card."""
    with_text: bool = False
    with_explanation: bool = False


class AtParams(InConversation):
    """A conversation at a position; null: now."""

    at: Position | None = None


class State(Message):
    """The state of a conversation, its settings, and the effects that are due."""

    conversation: str
    position: Position
    state: Object
    settings: Object
    decisions: dict[str, Object]
    """Each lane's next step, by its address: `do` is call_model, run_tools, ask_approval, wait or stop."""
    effects: list[Effect]
    """The model calls and tool calls among them, one by one, as they can be claimed."""


class Effect(Message):
    """A model call or a tool call that the log asks for."""

    lane: str
    """`agent`, or `agent/task`."""
    effect: str
    """"model", or "tool" with the position of the answer and the call's place in it."""
    cause: Position
    attempt: int
    not_before: str | None
    """The time of a retry; null: now."""
    due: float
    """The seconds until then, by the clock of the log; 0: now."""
    call: Call | None
    """The call of a tool; null for a model."""


class Timeline(Message):
    """The items that a user interface shows."""

    conversation: str
    position: Position
    items: list[Object]


class TransitionsParams(AtParams):
    """The steps of the entries after `after`."""

    after: Position = 0


class Transitions(Message):
    """The engine's steps: for each entry the lanes that it changed, from which status to which."""

    conversation: str
    transitions: list[Object]


class SearchParams(Message):
    """Words to look for; see the command `search`."""

    query: str
    conversation: Name | None = None
    agent: str | None = None
    kinds: list[Kind] = Field(default_factory=list)
    since: AwareDatetime | None = None
    until: AwareDatetime | None = None
    limit: Annotated[int, Field(ge=1, le=1_000)] = 20
    newest: bool = False


class Hit(Message):
    """An entry that contains the words."""

    conversation: str
    position: Position
    time: str
    kind: str
    who: str
    snippet: str
    marks: list[tuple[int, int]]
    """The ranges of the words in the snippet: first character, and the one after the last."""


class Hits(Message):
    """The entries found, the best first."""

    hits: list[Hit]


class ConversationsParams(Message):
    """Some of the conversations."""

    prefix: str = ""
    archived: bool = False
    limit: Annotated[int, Field(ge=1, le=MOST)] = 1_000
    order: Order = "oldest"


class Conversations(Message):
    """The names of conversations."""

    names: list[str]


class OutputParams(InConversation):
    """A part of a large output."""

    alias: str
    """The name that requests give it, such as `@state/logs/...`."""
    offset: Number = 0
    limit: Annotated[int, Field(ge=1, lt=2**53)] = 100_000


class OutputText(Message):
    """Some characters of a text, from `offset` up to `end`, of `total`."""

    text: str
    offset: int
    end: int
    total: int
    next: int | None
    """The offset to go on at; null: that was all."""


class ForkParams(InConversation):
    """A position to fork at, and a name."""

    after: Position | None = None
    """The last shared position; null: all."""
    name: Name | None = None
    pending: Literal["close", "keep"] = "close"


class Forked(Message):
    """The new conversation."""

    conversation: str
    position: Position


class BlobParams(Message):
    """A blob."""

    sha256: str


class Blob(Message):
    """A blob's bytes."""

    base64: str


class About(Message):
    """The service: its version, and that of this protocol."""

    stenolog: str
    protocol: int
    """Raised when a method or a field goes or changes its meaning, and not when one is added."""
    methods: list[str]


State.model_rebuild()
