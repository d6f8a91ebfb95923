"""Types of a request, from a lane's messages to the finished body and its explanation."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, TypeAlias

from stenolog.domain.errors import InvalidPolicyError, RequestNotSendableError
from stenolog.domain.parts import Part
from stenolog.domain.policy import Policy, policy
from stenolog.domain.state import address
from stenolog.domain.values import Receipt
from stenolog.projections.tool_pairs import CallKey

from .body_digest import MESSAGES, MessageHash, compact, conversation, digest, sections
from .explanation import Disposition, Explanation, Omission, Omitted, RequestPart, tokens_of
from .rules import HAD, REPAIRS
from .tokens import COUNTER

Role: TypeAlias = Literal["system", "user", "assistant", "tool"]
Body: TypeAlias = dict[str, Any]
RequestCode: TypeAlias = Literal[
    "",
    "answered",
    "approval",
    "backoff",
    "left",
    "no-model",
    "nothing-said",
    "over-budget",
    "stopped",
    "tools",
]
"""The reason why a request cannot be sent, in one word; empty where it can."""

PIPELINE = "requests@6"
"""The name and version of the pipeline; raised whenever the same log would give other bytes."""
PIPELINES: Mapping[str, int] = MappingProxyType({"requests@5": 5, PIPELINE: 6})
"""The versions whose requests can be built, each with its number: receipts of older ones stay provable."""


PATCH = "patch"
"""The key of a plan under which the patch of another program's request stands."""
EMPTY_BLOBS: Mapping[str, bytes] = {}

# Ids and types are tokens to a provider, but no words that an agent reads.
UNREAD = frozenset(
    ("model", "role", "type", "id", "call_id", "tool_call_id", "tool_use_id", "media_type", "mimeType")
)
"""The keys of a body whose texts are no words."""
ARGUMENTS = frozenset(("input", "args"))
"""The keys of a call, beside its name, that hold its arguments as an object: all of it is read, keys too."""


PICTURES = frozenset(("image_url", "file", "image", "document", "input_image", "input_file", "input_audio"))
"""Types of the parts of a body that hold a picture or a file."""
DATA = frozenset(("inlineData", "fileData"))
"""Keys of those that have no type."""


def sent_under(receipt: Receipt) -> Policy:
    """Return a receipt's policy with the version that applied it. Raises `InvalidPolicyError`."""
    chosen = policy(receipt.policy)
    earlier = receipt.pipeline in PIPELINES and receipt.pipeline != PIPELINE
    return replace(chosen, pipeline=receipt.pipeline) if earlier else chosen


def known_policy(receipt: Receipt) -> Policy | None:
    """Return `sent_under`; None, the one on the agent's card, if this release does not know the policy."""
    try:
        return sent_under(receipt)
    except InvalidPolicyError:
        return None


class Size(NamedTuple):
    """A size in messages, characters of text, tokens, and bytes of JSON."""

    messages: int = 0
    characters: int = 0
    tokens: int = 0
    bytes: int = 0

    def plus(self, other: Size) -> Size:
        """Return the sum of both."""
        return Size(self[0] + other[0], self[1] + other[1], self[2] + other[2], self[3] + other[3])

    def minus(self, other: Size) -> Size:
        """Return this size minus the other one."""
        return Size(*map(int.__sub__, self, other))

    def fits(self, room: Size) -> bool:
        """Return whether the size is within the room in every measure."""
        return self[0] <= room[0] and self[1] <= room[1] and self[2] <= room[2] and self[3] <= room[3]


def larger(size: Size, other: Size) -> Size:
    """Return the larger of two sizes in each measure."""
    return Size(*map(max, size, other))


def total(sizes: Iterable[Size]) -> Size:
    """Return the sum of all of them."""
    messages = characters = tokens = size = 0
    for each in sizes:
        messages += each[0]
        characters += each[1]
        tokens += each[2]
        size += each[3]
    return Size(messages, characters, tokens, size)


class Message(NamedTuple):
    """One thing that the lane is shown: who seems to say it, what, from which entries, by which rule.

    `call` is the call that a tool's message answers; `calls` are those of an assistant's, in order.
    `failed` marks the result of a failed tool. `joins` is the foreign message it is a part of. A message
    with a `speaker` is somebody else's and will be quoted; `by` is what they are. `model` is the one that
    said it; `tool` and `raw_id` name the call of a result as the log has it. `interrupts`: it stopped the
    lane. `unsaid` are parts that this form cannot say.
    """

    role: Role
    parts: tuple[Part, ...]
    positions: tuple[int, ...]
    rule: str
    disposition: Disposition = "kept"
    call: CallKey | None = None
    calls: tuple[CallKey, ...] = ()
    failed: bool = False
    joins: str = ""
    speaker: str = ""
    by: Literal["user", "agent", "tool"] = "user"
    model: str = ""
    tool: str = ""
    raw_id: str = ""
    interrupts: bool = False
    unsaid: tuple[Part, ...] = ()
    stop: str = ""
    """The reason for which the provider ended an own answer, in its word."""
    tokens_in: int = -1
    """The size before the message was reworded, in tokens; -1: its parts are the original."""
    size: Size | None = None
    """The maximum size on any API, if it has been measured."""
    sections: tuple[Section, ...] = ()
    """The sections of a text that several rules made, in order."""


class Section(NamedTuple):
    """A text that stands around the conversation: its rule, and the positions it is from."""

    rule: str
    text: str
    positions: tuple[int, ...] = ()


class Rendered(NamedTuple):
    """The output of an API: the body, the explanation of each part, and the omitted parts."""

    body: Body
    parts: tuple[RequestPart, ...]
    omitted: tuple[Omitted, ...] = ()


class BlobText(str):
    """The base64 text of a blob in a body, behind a prefix; in the digest its sha256 stands for it."""

    hashed: str
    blob: str

    def __new__(cls, prefix: str, text: str, blob: str) -> BlobText:
        made = super().__new__(cls, prefix + text)
        made.blob, made.hashed = blob, f"{prefix}sha256:{blob}"
        return made

    def __getnewargs__(self) -> tuple[str, str, str]:  # type: ignore[override]
        """For a copy, which takes `hashed` over."""
        return str(self), "", self.blob


@dataclass(frozen=True, repr=False, eq=False)
class Request:
    """The next request to a lane's model, and the explanation of every part.

    `body` is the provider's exact JSON body; consecutive requests share the objects they have in common,
    so copy it before you change it. `sendable` says whether it can be sent as it is; `reason` says why not:

    - the lane has nothing to answer: it got no message, it wrote the last message, or it is idle
    - tool calls of its last answer have no result yet, or a person has to approve them
    - the agent has left
    - the parts that must stay exceed the policy's budget
    - no model is named, neither on the agent's card nor by an answer of its own

    `code` is the reason as one word, `places` are the positions that keep it from being sent. With
    "backoff" the request may be sent, but after a failure it should wait until the lane's `retry_at`.
    `obstacle` is the reason without the first of these: empty if all was answered. `ready` is true also if
    only the name of the model is missing. `parts` explains the contents,
    `omissions` what was left out. `explain` makes both on first access, and may read the log again for it.
    `tool_names` has the card's names of tools that no provider takes, by those in the body. `at` is the
    position of the view. The body has its messages under `messages_key`. `cuts` is how often the
    window has been cut so far, `cut` are the runs of positions that it left out. `patch` is the receipt's,
    where another program sent the request in a form of its own (see `as_sent`).
    """

    agent: str
    task: str
    at: int
    api: str
    body: Body
    sendable: bool
    reason: str
    obstacle: str = ""
    explain: Callable[[], Explanation] = Explanation
    pipeline: str = PIPELINE
    policy: Policy = field(default_factory=Policy)
    counter: str = COUNTER
    cuts: int = 0
    cut: tuple[tuple[int, int], ...] = ()
    ready: bool = True
    encoded: MessageHash | None = None
    messages_key: str = MESSAGES
    tool_names: Mapping[str, str] = field(default_factory=dict)
    patch: Mapping[str, Any] | None = None
    code: RequestCode = ""
    places: tuple[int, ...] = ()

    def __eq__(self, other: object) -> bool:
        """Return whether the requests are equal in everything, including the explanation."""
        return isinstance(other, Request) and _comparable(self) == _comparable(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        where = address(self.agent, self.task)
        return f"<Request of {where} at {self.at} · {self.api} · {self.reason or 'sendable'}>"

    def _repr_html_(self) -> str:
        """Return the parts and the omissions as a table, for a notebook."""
        from .notebook import request_table  # late: few programs show one

        tokens, digest = f"{self.size.tokens:,} tokens", f"sha256 {self.sha256[:12]}…"
        return request_table(self, f"{repr(self)[1:-1]}, {tokens}, {digest}")

    def check(self) -> Request:
        """Return the request itself, if it may be sent. Raises `RequestNotSendableError`, with the reason."""
        if not self.sendable:
            where = address(self.agent, self.task)
            raise RequestNotSendableError(f"the request of {where} at position {self.at}: {self.reason}")
        return self

    @cached_property
    def explanation(self) -> Explanation:
        """The `parts` and the `omissions`."""
        return self.explain()

    @property
    def parts(self) -> tuple[RequestPart, ...]:
        """The source of each part of the request."""
        return self.explanation.parts

    @property
    def omissions(self) -> tuple[Omission, ...]:
        """The omissions of the request."""
        return self.explanation.omissions

    @property
    def held_runs(self) -> tuple[Omission, ...]:
        """The omissions that the model has all the same: its provider, or its backend, holds them."""
        return tuple(run for run in self.omissions if run.rule in HAD)

    @property
    def read(self) -> frozenset[int]:
        """The positions whose words were read to make the request; never one that is hidden from the lane."""
        return self.explanation.read

    @cached_property
    def bytes(self) -> bytes:
        """The body as compact UTF-8 JSON, in the order that it is sent in."""
        return compact(self.body).encode()

    @cached_property
    def sha256(self) -> str:
        """The sha256 of the compact body, each blob's content replaced by `sha256:` and its hash."""
        return digest(self.body, self.messages_key, self._encoded)

    @cached_property
    def receipt(self) -> Receipt:
        """The receipt for the answer to this request, by which the request can be rebuilt and proved."""
        return Receipt(
            view=self.at,
            sha256=self.sha256,
            api=self.api,
            pipeline=self.pipeline,
            counter=self.counter,
            policy=self.policy.json,
            plan=self.plan,
        )

    @property
    def plan(self) -> dict[str, Any]:
        """The choices it was built by: the runs that the window left out, and digests of its sections."""
        cut = {"cut": [list(run) for run in self.cut]} if self.cut else {}
        patch = {} if self.patch is None else {PATCH: self.patch}
        return {**cut, **patch, "sections": sections(self.body, self.messages_key, self._encoded)}

    @property
    def _encoded(self) -> MessageHash | None:
        """Its messages as digests are made of them, where most of them are known from an earlier request."""
        # A copy of the request may have another body: then its messages are hashed anew.
        messages = conversation(self.body, self.messages_key)
        return self.encoded if self.encoded is not None and self.encoded.messages is messages else None

    @cached_property
    def size(self) -> Size:
        """The size of the request: messages, characters of text, tokens, bytes of the body."""
        written = max((part.message for part in self.parts), default=-1) + 1
        continued = sum(part.continues for part in self.parts)
        return Size(
            messages=written - continued,
            characters=sum(map(len, texts(self.body))),
            tokens=self.tokens,
            bytes=len(self.bytes),
        )

    @cached_property
    def tokens(self) -> int:
        """The tokens of the request, as a budget counts them."""
        return tokens_of(self.parts)

    @property
    def repairs(self) -> tuple[RequestPart | Omission, ...]:
        """The parts that were repaired, added or left out so that a provider accepts the request."""
        everything: list[RequestPart | Omission] = [*self.parts, *self.omissions]
        return tuple(part for part in everything if part.rule in REPAIRS)


UNTOLD = ("explain", "encoded")
"""Fields of a request that concern only how it was made."""


def _comparable(request: Request) -> tuple[object, ...]:
    """Return the values that requests are compared by."""
    said = {each.name: getattr(request, each.name) for each in fields(request) if each.name not in UNTOLD}
    return said, request.explanation


def texts(value: object) -> Iterator[str]:
    """Yield every text in a body that a model reads, without ids, pictures and files. Arguments are JSON."""
    if isinstance(value, str) and not isinstance(value, BlobText):
        yield value
    elif isinstance(value, dict) and not _is_picture(value):
        for key, inner in value.items():
            if key in ARGUMENTS and isinstance(inner, dict) and isinstance(value.get("name"), str):
                yield compact(inner)
            elif key not in UNREAD:
                yield from texts(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from texts(inner)


def _is_picture(value: Mapping[str, object]) -> bool:
    kind = value.get("type")
    return (isinstance(kind, str) and kind in PICTURES) or not DATA.isdisjoint(value)


def pictures(value: object) -> int:
    """Count the pictures and files in a body."""
    if isinstance(value, dict):
        if _is_picture(value):
            return 1
        # Arguments of calls and schemas of tools may look so, and hold no picture.
        if value.get("type") == "tool_use":
            return 0
        return sum(pictures(inner) for key, inner in value.items() if key not in ("tools", "functionCall"))
    return sum(map(pictures, value)) if isinstance(value, list) else 0
