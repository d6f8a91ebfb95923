"""The small frozen values that events are made of.

They are the storage format: strict, no sets, no NaN, defaults left out. New fields have defaults (`codec`).
"""

from dataclasses import field, replace
from typing import Literal, Protocol

from .base.model import FrozenDict, FrozenJson, Integer, Json, Many, Positive, frozen_value


@frozen_value
class Origin:
    """The source of an imported event: the foreign system, and its ids and role there."""

    system: str
    id: str = ""
    role: str = ""
    lines: Many[str] = ()
    """The foreign records this event was made of, so that an import can be taken up again."""


@frozen_value
class PositionRange:
    """The positions `first` to `last`, both included."""

    first: Positive
    last: Positive

    def __contains__(self, position: int) -> bool:
        return self.first <= position <= self.last


@frozen_value
class CallRef:
    """One tool call: the id of the entry that holds it, and its index among that entry's calls."""

    entry: str
    index: Integer = 0


@frozen_value
class ConversationRef:
    """A named link to another conversation: its name then, a position in it, and the digest there."""

    conversation: str
    position: Integer
    digest: str


@frozen_value
class Signature:
    """An Ed25519 signature of a decision about a call.

    `key` is the public key, 64 hexadecimal digits, `value` the signature, 128; `at` is the signed time, in
    microseconds since 1970 (UTC).
    """

    key: str
    value: str
    at: Integer


@frozen_value
class ToolQuestion:
    """A question that a running tool asks a person.

    `choices` are the answers to choose from; empty: any. `expects` is the JSON Schema of the answer; empty: a
    text.
    """

    text: str
    choices: Many[str] = ()
    expects: Json = field(default_factory=dict)


@frozen_value
class Control:
    """A command to the engine: a person's, or a tool's that asks a person.

    `approve` and `refuse` name one call by `call`; `cancel` and `continue` name a lane by `agent` and `task`.
    `ask` has the `question` of a call, `answer` its answer, as JSON. `arguments` of an `approve`, a JSON
    object, replace the model's. `identity` is who decided, in free text, and `signature` theirs.
    """

    action: Literal["approve", "refuse", "cancel", "continue", "ask", "answer"]
    call: CallRef | None = None
    agent: str = ""
    task: str = ""
    arguments: str = ""
    identity: str = ""
    signature: Signature | None = None
    question: ToolQuestion | None = None
    answer: str = ""


@frozen_value
class Usage:
    """Tokens, as the provider counted them. `input` counts what was read from the cache too.

    `cost` is the price of the call in micro-dollars, if the provider or the agent states one.
    `cache_write_hour` is the part of `cache_write` that is kept for an hour; Anthropic bills it higher.
    `cache_verdict` is the provider's own reason for a cache miss, such as `tools_changed`; `cache_missed` are
    the tokens that it names with it.
    """

    input: Integer = 0
    output: Integer = 0
    cache_read: Integer = 0
    cache_write: Integer = 0
    reasoning: Integer = 0
    cost: Integer | None = None
    cache_write_hour: Integer = 0
    cache_verdict: str = ""
    cache_missed: Integer = 0

    def since(self, before: "Usage") -> "Usage":
        """Return what was used since, of a session's total; all of it for a new session."""
        fresh = {name: getattr(self, name) - getattr(before, name) for name in COUNTS}
        return self if any(tokens < 0 for tokens in fresh.values()) else replace(self, **fresh)


COUNTS = ("input", "output", "cache_read", "cache_write", "reasoning", "cache_write_hour")
"""The fields of `Usage` that count tokens of a call, and so add up."""


@frozen_value
class Receipt:
    """The record of a request that an answer or an error carries: enough to build the request again.

    `view` is the position that the request was built at. `policy`, `pipeline`, `api` and `counter` name what
    built it, with versions. `plan` has the runs that were `cut` out of the window, and short digests of the
    body's `sections`. `sha256` is that of the body, as compact UTF-8 JSON in the order sent, blobs by hash.

    `sent` is the sha256 of the bytes that went out, with blobs, and `transport` what the transport changed:
    fields added and removed, style, method, path, headers that change behaviour. Both are empty if the bytes
    are not known: then only the body can be proved.
    """

    view: Integer
    sha256: str
    api: str = ""
    pipeline: str = ""
    counter: str = ""
    policy: Json = field(default_factory=dict)
    plan: Json = field(default_factory=dict)
    sent: str = ""
    transport: Json = field(default_factory=dict)


@frozen_value
class Tool:
    """A tool that an agent may call. `parameters` is its JSON Schema, of type object.

    `raw` is what else its `provider` takes, such as `defer_loading`: a JSON object of those fields, or the
    whole declaration, with its `type`, of a tool of the provider's own. Other providers are not sent it.
    """

    name: str
    description: str = ""
    parameters: Json = field(default_factory=dict)
    approval: bool = False
    """True: a person approves each call before it runs."""
    ends_run: bool = False
    """True: after a result that is no error, the agent's model is not called again."""
    strict: bool | None = None
    """True: the provider holds the model to the schema; None: its default."""
    provider: str = ""
    raw: str = ""


@frozen_value
class WorkflowRun:
    """A workflow run: its id, its directive, and the brief and context of the node it is at."""

    id: str
    directive: str = ""
    node: str = ""
    brief: str = ""
    context: str = ""


@frozen_value
class TurnPolicy:
    """The rule that gives the turn when a message names no agent: its name and its options."""

    rule: str
    options: FrozenJson = field(default_factory=FrozenDict)


class HasTurns(Protocol):
    """A rule of turns, such as `RoundRobin()`, with a form for the log."""

    @property
    def turns(self) -> TurnPolicy:
        """The rule by name, and its options."""
        ...
