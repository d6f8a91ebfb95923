"""Parameters and results of the methods for runners: claims, outcomes and drafts; see `messages`."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from . import messages


class Failure(messages.Message):
    """The failure of a model call, as the provider or the connection reported it."""

    category: str = ""
    """One of the log's categories ("timeout", "network", ...); empty: found by status, code and message."""
    message: str = ""
    status: int = 0
    """The HTTP status; 0 if there was none."""
    code: str = ""
    headers: dict[str, str] = Field(default_factory=dict)
    """The response's headers, of which `retry-after` is read. They are not stored."""


class CallOutput(messages.Message):
    """The result of a tool call."""

    text: str = ""
    parts: list[messages.Object] = Field(default_factory=list)
    """Texts, images and files, in the place of `text`."""
    is_error: bool = False
    duration_ms: int | None = None
    meta: messages.Object = Field(default_factory=dict)
    hands_on_to: str = ""
    """The agent that takes over, after a call of a tool that ends the run."""
    message: str = ""
    """The words for that agent."""


class AskedQuestion(messages.Message):
    """A question of a tool to a person."""

    text: str
    choices: list[str] = Field(default_factory=list)
    """The answers to choose from; none: any."""
    expects: messages.Object = Field(default_factory=dict)
    """The JSON Schema of the answer; none: a text."""


class Outcome(messages.Message):
    """The outcome of a model call or a tool call: one of these fields, except that chunks may fail."""

    response: messages.Object | None = None
    """The provider's whole answer, as its JSON."""
    chunks: list[messages.Object] | None = None
    """All events of the provider's stream, in order; with `failure`, those that came before it."""
    failure: Failure | None = None
    output: CallOutput | None = None
    """The output of a tool."""
    question: AskedQuestion | None = None
    """The question of a tool, in place of its output: after the answer, its call is due again."""
    events: list[messages.NewEvent] | None = None
    """The events themselves, if none of the others fits."""


class AnswerParams(messages.InConversation):
    """The outcome of a model call of one's own loop."""

    agent: str
    task: str = ""
    receipt: messages.Object | None = None
    """The receipt of the request that was sent."""
    outcome: Outcome
    id: messages.Name | None = None
    """The id of the first entry, so that the call may be repeated."""
    retry: bool = False
    """True: the engine's retry policy sets the time of the next attempt after a failure."""


class ClaimParams(messages.InConversation):
    """Work that a runner looks for."""

    agents: list[str] = Field(default_factory=list)
    """The agents that it works for; empty: all members."""
    api: str | None = None
    """The form of the requests; null: for each agent the API of its answers."""
    apis: dict[str, str] = Field(default_factory=dict)
    """The form for single agents, if they differ."""
    repeatable: list[str] = Field(default_factory=list)
    """The tools whose calls may run twice. Another one's call that was cut off is closed as unknown."""
    limits: messages.Object | None = None
    """The limits of each lane's work, as `stenolog.engine.Limits` has them; null: its defaults."""
    mentions: bool = False
    """True: an `@name` in an answer hands on, though no turn rule goes by names."""
    limit: Annotated[int, Field(ge=1, le=1_000)] = 16
    wait: Annotated[float, Field(ge=0, le=messages.LONGEST_WAIT, strict=False)] = 0.0
    """The most seconds to wait for work."""
    owner: str = ""
    """A name of the runner, needed over HTTP: its claims lapse when it has not called for `lease` seconds."""
    at_work: list[messages.Number] | None = None
    """The fences that this owner is at. It may have others whose answer was lost: they are claimed anew."""
    lease: Annotated[float, Field(ge=1, le=86_400, strict=False)] = 60.0


class Claimed(messages.Message):
    """An effect that this runner has, until it settles or releases it."""

    fence: int
    lane: str
    agent: str
    task: str
    effect: str
    cause: messages.Position
    attempt: int
    key: str
    """An idempotency key: the same for a tool call that runs again."""
    request: messages.AgentRequest | None
    """The request of a model call."""
    call: messages.Call | None
    """The call of a tool."""


class Work(messages.Message):
    """The claims that were taken."""

    position: messages.Position
    claimed: list[Claimed]
    held: int
    """The number of effects that other runners have claimed."""
    due: float | None
    """The seconds until the next effect is due; null: none is planned."""


class SettleParams(messages.InConversation):
    """The outcome of a claimed effect."""

    fence: messages.Number
    outcome: Outcome
    id: messages.Name | None = None
    """The id of the first entry, so that the call may be repeated after a lost answer."""
    owner: str = ""


class FenceParams(messages.InConversation):
    """A claimed effect."""

    fence: messages.Number
    owner: str = ""


class DraftParams(FenceParams):
    """Text that has streamed since the last draft of this claim; it is in the log if the runner dies."""

    text: str


class RenewParams(messages.Message):
    """A runner that is still at work."""

    owner: str
    lease: Annotated[float, Field(ge=1, le=86_400, strict=False)] = 60.0


class OpenClaim(messages.Message):
    """An effect that some runner is at."""

    conversation: str
    lane: str
    effect: str
    since: str
    host: str
    pid: int
    alive: bool
    owner: str


class ClaimsParams(messages.Message):
    """A conversation; null: all of them."""

    conversation: messages.Name | None = None


class OpenClaims(messages.Message):
    """The effects under way, the oldest first."""

    claims: list[OpenClaim]
