"""Messages that a lane is shown, the preamble before them, and the body that a format makes of both."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, TypeAlias

from stenolog.domain.card import AgentCard
from stenolog.domain.parts import Part
from stenolog.domain.values import Tool
from stenolog.projections.views.tool_pairs import CallKey

from .explanation import Disposition, Omitted, RequestPart
from .sizes import ESTIMATE, Counter, Size

Role: TypeAlias = Literal["system", "user", "assistant", "tool"]
Body: TypeAlias = dict[str, Any]
PIPELINE = "requests@6"
"""The name and version of the pipeline; raised whenever the same log would give other bytes."""
PIPELINES: Mapping[str, int] = MappingProxyType({"requests@5": 5, PIPELINE: 6})
"""The versions whose requests can be built, each with its number: receipts of older ones stay provable."""


EMPTY_BLOBS: Mapping[str, bytes] = {}


class Message(NamedTuple):
    """One message that the lane is shown: its apparent speaker, its parts, its entries, its rule.

    `call` is the call that a tool's message answers; `calls` are those of an assistant's, in order. `failed`
    marks the result of a failed tool. `joins` is the foreign message it is a part of. A message with a
    `speaker` is another author's and will be quoted; `by` is what they are. `model` is the one that said it;
    `tool` and `raw_id` name the call of a result as the log has it. `interrupts`: it stopped the lane.
    `unsaid` are parts that this form cannot say.
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
    """A text around the conversation: its rule, and the positions it is from."""

    rule: str
    text: str
    positions: tuple[int, ...] = ()


class Rendered(NamedTuple):
    """The output of an API: the body, the explanation of each part, and the omitted parts."""

    body: Body
    parts: tuple[RequestPart, ...]
    omitted: tuple[Omitted, ...] = ()


DEFAULT_MODEL = "unspecified"
"""The model named in a body where neither a card nor an answer names one."""


class Preamble(NamedTuple):
    """The text before the conversation, with the model and the tools.

    `persona` is the text of all its `sections`. `stubs` are those of the tools that were made by rule;
    `set_at` is the position of the mode switch with the card, if there is one. `version` is the pipeline's.
    """

    speaker: str
    model: str
    persona: str
    tools: tuple[Tool, ...]
    stubs: frozenset[str]
    card: AgentCard
    set_at: tuple[int, ...] = ()
    sections: tuple[Section, ...] = ()
    counter: Counter = ESTIMATE
    version: int = PIPELINES[PIPELINE]


class BlobText(str):
    """The base64 text of a blob in a body, after a prefix; digests use its sha256."""

    hashed: str
    blob: str

    def __new__(cls, prefix: str, text: str, blob: str) -> BlobText:
        made = super().__new__(cls, prefix + text)
        made.blob, made.hashed = blob, f"{prefix}sha256:{blob}"
        return made

    def __getnewargs__(self) -> tuple[str, str, str]:  # type: ignore[override]
        """For a copy, which takes `hashed` over."""
        return str(self), "", self.blob
