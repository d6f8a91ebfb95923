"""What a request is made of, from the pieces said to the finished body and its explanation."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from typing import Any, Literal, NamedTuple, TypeAlias

from stenolog.domain.parts import Part
from stenolog.domain.values import Receipt
from stenolog.projections.pairing import CallKey

from .rules import REPAIRS
from .tokens import COUNTER

Role: TypeAlias = Literal["system", "user", "assistant", "tool"]
Disposition: TypeAlias = Literal["kept", "reworded", "added"]
Body: TypeAlias = dict[str, Any]

PIPELINE = "requests@1"
"""The name and version of the pipeline; raised whenever the same log would give other bytes."""


class Piece(NamedTuple):
    """One thing that the lane is shown: who seems to say it, what, from which entries, by which rule.

    `call` is the call that a tool's piece answers; `calls` are those of an assistant's, in order.
    `failed` marks the result of a failed tool. `joins` is the foreign message it is a part of. A piece
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
    tokens_in: int = -1
    """What it was before it was reworded, in tokens; -1: its parts are what was said."""


class Explained(NamedTuple):
    """Where one part of the request came from: the positions, what was done by which rule, its size.

    `message` is its index in the body's messages, -1 for what stands before them (system text, tools).
    """

    positions: tuple[int, ...]
    disposition: Disposition
    rule: str
    tokens_in: int
    tokens_out: int
    message: int
    role: str


class Dropped(NamedTuple):
    """A run of positions that were left out, the rule that did it, and the tokens they would have cost.

    `what` names what it was, where the rule and the positions do not say it.
    """

    first: int
    last: int
    rule: str
    tokens: int
    what: str = ""


class Omitted(NamedTuple):
    """Something a wire cannot carry: the positions, the rule, the tokens it would have cost, its name."""

    positions: tuple[int, ...]
    rule: str
    tokens: int
    what: str = ""


class Rendered(NamedTuple):
    """What a wire makes of the pieces: the body, the explanation of each part, and what it left out."""

    body: Body
    parts: tuple[Explained, ...]
    omitted: tuple[Omitted, ...] = ()


class BlobText(str):
    """The base64 text of a blob in a body, behind a prefix; in the digest its sha256 stands for it."""

    hashed: str
    blob: str

    def __new__(cls, prefix: str, text: str, blob: str) -> BlobText:
        made = super().__new__(cls, prefix + text)
        made.blob, made.hashed = blob, f"{prefix}sha256:{blob}"
        return made


@dataclass(frozen=True)
class Request:
    """What a lane's model is sent next, and the explanation of every part.

    `body` is the provider's exact JSON body. `sendable` says whether anyone would send it here;
    `reason` says why not. `parts` explains what is in it, `dropped` what is not. `upto` is the position
    of the view.
    """

    agent: str
    task: str
    upto: int
    wire: str
    body: Body
    sendable: bool
    reason: str
    parts: tuple[Explained, ...]
    dropped: tuple[Dropped, ...]
    pipeline: str = PIPELINE
    policy: Mapping[str, Any] = field(default_factory=lambda: {"history": "full"})

    @cached_property
    def bytes(self) -> bytes:
        """The body as compact UTF-8 JSON, in the order that it is sent in."""
        return compact(self.body).encode()

    @cached_property
    def sha256(self) -> str:
        """The sha256 of the compact body, each blob's content replaced by `sha256:` and its hash."""
        return sha256(compact(_by_hash(self.body)).encode()).hexdigest()

    @property
    def receipt(self) -> Receipt:
        """What the answer to this request keeps of it, so that it can be built and proved again."""
        return Receipt(
            view=self.upto,
            sha256=self.sha256,
            wire=self.wire,
            pipeline=self.pipeline,
            counter=COUNTER,
            policy=dict(self.policy),
        )

    @property
    def repairs(self) -> tuple[Explained | Dropped, ...]:
        """What had to be mended, made up or left out for a provider to take it."""
        everything: list[Explained | Dropped] = [*self.parts, *self.dropped]
        return tuple(part for part in everything if part.rule in REPAIRS)


def compact(body: object) -> str:
    """JSON without blanks, in the order given, in UTF-8's own characters."""
    return json.dumps(body, ensure_ascii=False, separators=(",", ":"))


def _by_hash(value: object) -> object:
    if isinstance(value, BlobText):
        return value.hashed
    if isinstance(value, dict):
        return {key: _by_hash(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_by_hash(inner) for inner in value]
    return value
