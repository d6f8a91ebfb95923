"""Types of a request, from a lane's messages to the finished body and its explanation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from stenolog.domain.errors import InvalidPolicyError, RequestNotSendableError
from stenolog.domain.lanes.state import address
from stenolog.domain.policy import Policy, policy
from stenolog.domain.values import Receipt
from stenolog.projections.formats.readable import texts
from stenolog.projections.formats.writer import EarlierMessages
from stenolog.projections.messages.body_digest import (
    MESSAGES,
    MessageHash,
    compact,
    conversation,
    digest,
    sections,
)
from stenolog.projections.messages.explanation import Explanation, Omission, RequestPart, at_rate, tokens_of
from stenolog.projections.messages.message import PIPELINE, PIPELINES, Body
from stenolog.projections.messages.rules import HAD, REPAIRS
from stenolog.projections.messages.sizes import COUNTER, LEARNED, PLAIN, Rate, Size

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
"""The reason why a request cannot be sent, in one word; empty if it can."""

OF_BODY = ("bytes", "sha256", "receipt", "size")
"""Fields that a request keeps of its body once it was asked for."""
OF_TOKENS = ("explanation", "size", "tokens")
"""Fields that a request keeps of its tokens once it was asked for."""
PATCH = "patch"
"""The key of a plan that holds the patch of another program's request."""


def sent_under(receipt: Receipt) -> Policy:
    """Return a receipt's policy with the version that applied it. Raises `InvalidPolicyError`."""
    chosen = policy(receipt.policy)
    earlier = receipt.pipeline in PIPELINES and receipt.pipeline != PIPELINE
    return replace(chosen, pipeline=receipt.pipeline) if earlier else chosen


def known_policy(receipt: Receipt) -> Policy | None:
    """Return `sent_under`; None, the card's policy, if this release does not know it."""
    try:
        return sent_under(receipt)
    except InvalidPolicyError:
        return None


@dataclass(frozen=True, repr=False, eq=False)
class Request:
    """The next request to a lane's model, and the explanation of every part.

    `body` is the provider's exact JSON body; consecutive requests share the objects they have in common, so
    copy it before you change it. `sendable` says whether it can be sent as it is; `reason` says why not:

    - the lane has nothing to answer: it got no message, it wrote the last message, or it is idle
    - tool calls of its last answer have no result yet, or a person has to approve them
    - the agent has left
    - the parts that must stay exceed the policy's budget
    - no model is named, neither on the agent's card nor by an answer of its own

    `code` is the reason as one word, `places` are the positions that cause it. With "backoff" the request may
    be sent, but after a failure it should wait until the lane's `retry_at`. `obstacle` is the reason without
    the first of these: "" if all was answered. `ready` is true also if only the name of the model is missing.
    `parts` explains the contents, `omissions` what was left out. `explain` makes both on first access, and
    may read the log again for it. `tool_names` has the card's names of tools that no provider takes, by those
    in the body. `at` is the position of the view. The body has its messages under `messages_key`. `cuts` is
    how often the window was cut, `cut` the runs that it left out. `patch` is the receipt's, if another
    program sent the request in a form of its own (see `as_sent`). Tokens are those that are billed at `rate`
    for the estimated ones.
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
    rate: Rate = PLAIN

    def at_rate(self, rate: Rate) -> Request:
        """Return this request with other tokens for the estimated ones."""
        made = copy(self)
        for name in OF_TOKENS:
            made.__dict__.pop(name, None)
        made.__dict__["rate"] = rate
        return made

    @property
    def counted_by(self) -> str:
        """The counter of its tokens: the policy's, or the learned one if they are as billed."""
        return self.counter if self.rate == PLAIN else LEARNED.id

    def with_body(self, body: Body, encoded: MessageHash | None) -> Request:
        """Return this request with an equal body of its own."""
        made = copy(self)
        # They may be of a body that was changed since.
        for name in OF_BODY:
            made.__dict__.pop(name, None)
        made.__dict__.update(body=body, encoded=encoded)
        return made

    def after(self, earlier: EarlierMessages) -> Request:
        """Return this request with earlier messages in its body, made when asked for."""
        made = copy(self)
        made.__dict__["_behind"] = made.__dict__.pop("body"), earlier
        return made

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            # Only for a name that is not set, as the body of a request behind earlier messages.
            if name != "body" or "_behind" not in self.__dict__:
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            written, earlier = self.__dict__["_behind"]
            key = self.messages_key
            made = self.__dict__["body"] = {**written, key: [*earlier.messages, *written[key]]}
            return made

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Request) and _comparable(self) == _comparable(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        where = address(self.agent, self.task)
        return f"<Request of {where} at {self.at} · {self.api} · {self.reason or 'sendable'}>"

    def _repr_html_(self) -> str:
        from .part_texts import request_table  # late: few programs show one

        tokens, digest = f"{self.size.tokens:,} tokens", f"sha256 {self.sha256[:12]}…"
        return request_table(self, f"{repr(self)[1:-1]}, {tokens}, {digest}")

    def check(self) -> Request:
        """Return the request if it may be sent, or raise `RequestNotSendableError` with the reason."""
        if not self.sendable:
            where = address(self.agent, self.task)
            raise RequestNotSendableError(f"the request of {where} at position {self.at}: {self.reason}")
        return self

    @cached_property
    def estimated(self) -> Explanation:
        """The explanation with tokens as estimated, or as the policy's counter counts them."""
        return self.explain()

    @cached_property
    def explanation(self) -> Explanation:
        """The `parts` and the `omissions`."""
        return self.estimated if self.rate == PLAIN else at_rate(self.estimated, self.rate)

    @property
    def parts(self) -> tuple[RequestPart, ...]:
        return self.explanation.parts

    @property
    def omissions(self) -> tuple[Omission, ...]:
        return self.explanation.omissions

    @property
    def held_runs(self) -> tuple[Omission, ...]:
        """The omissions that the provider or the backend still holds, so the model has them."""
        return tuple(run for run in self.omissions if run.rule in HAD)

    @property
    def read(self) -> frozenset[int]:
        """The positions whose words were read to make the request; never a hidden one."""
        return self.explanation.read

    @cached_property
    def bytes(self) -> bytes:
        """The body as compact UTF-8 JSON, in the sent order."""
        if "body" not in self.__dict__:
            written, earlier = self.__dict__["_behind"]
            return _joined(written, self.messages_key, earlier.texts)
        return compact(self.body).encode()

    @cached_property
    def sha256(self) -> str:
        """The sha256 of the compact body, each blob's content replaced by `sha256:` and its hash."""
        return digest(self.body, self.messages_key, self._encoded)

    @cached_property
    def receipt(self) -> Receipt:
        """The receipt for the answer to this request, to rebuild and prove it."""
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
        """The runs that the window left out, and the body sections' digests."""
        cut = {"cut": [list(run) for run in self.cut]} if self.cut else {}
        patch = {} if self.patch is None else {PATCH: self.patch}
        return {**cut, **patch, "sections": sections(self.body, self.messages_key, self._encoded)}

    @property
    def _encoded(self) -> MessageHash | None:
        """Its messages for digests, if most are known from an earlier request."""
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
        return self.rate.of(tokens_of(self.estimated.parts))

    @property
    def repairs(self) -> tuple[RequestPart | Omission, ...]:
        """The parts that were repaired, added or left out so that a provider accepts the request."""
        everything: list[RequestPart | Omission] = [*self.parts, *self.omissions]
        return tuple(part for part in everything if part.rule in REPAIRS)


def _joined(body: Body, under: str, earlier: Sequence[bytes]) -> bytes:
    """Return a body as compact JSON, with earlier messages, which are texts, before its own."""
    parts: list[bytes] = []
    for key, value in body.items():
        text = compact(value).encode()
        parts += (b"," if parts else b"{", compact(key).encode(), b":")
        if key == under:
            before = b"["
            for each in earlier:
                parts += (before, each)
                before = b","
            text = (b"," if value else b"") + text[1:]
        parts.append(text)
    # Joined once, since they may be megabytes.
    return b"".join((*parts, b"}"))


UNTOLD = ("explain", "encoded")
"""Fields of a request that concern only how it was made."""


def _comparable(request: Request) -> tuple[object, ...]:
    values = {each.name: getattr(request, each.name) for each in fields(request) if each.name not in UNTOLD}
    return values, request.explanation
