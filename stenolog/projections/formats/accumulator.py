"""The parts of an answer as they grow out of what streams, for every provider alike."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field

from stenolog.domain.errors import ModelError
from stenolog.domain.model import clean
from stenolog.domain.parts import AssistantPart, ProviderPart, ReasoningPart, RefusalPart, TextPart, ToolCall
from stenolog.domain.values import Usage

from .streaming import Kind, ModelResponse, ResponseDelta

FILTERED = frozenset(
    {
        "content_filter", "refusal",
        "SAFETY", "PROHIBITED_CONTENT", "BLOCKLIST", "SPII", "ESCALATION", "MODEL_ARMOR",
        "IMAGE_SAFETY", "IMAGE_PROHIBITED_CONTENT",
    }
)  # fmt: skip
"""The finish reasons with which providers say that they kept the answer back."""


@dataclass
class _PartialPart:
    """A part that is not whole yet. `half` is the first half of a surrogate pair, whose second is to come."""

    index: int
    kind: Kind | None
    id: str = ""
    name: str = ""
    pieces: list[str] = field(default_factory=list)
    half: str = ""
    put: AssistantPart | None = None

    def more(self, text: str) -> str:
        """Take more of its text, and return the part that can be shown."""
        text = self.half + text
        # A provider may cut an emoji in two: the first half waits for the second, and is not shown alone.
        self.half = text[-1:] if "\ud800" <= text[-1:] <= "\udbff" else ""
        shown = clean(text.removesuffix(self.half))
        self.pieces.append(shown)
        return shown

    @property
    def text(self) -> str:
        return "".join(self.pieces) + clean(self.half)


class PartAccumulator:
    """The parts so far, each under a key that its provider knows it by.

    A part begins, and has its index, with the first of its text (a call with its name). What `add` and `put`
    give is to be streamed on: one `ResponseDelta`, or none.
    """

    def __init__(self, provider: str) -> None:
        self.provider = provider
        self._growing: dict[Hashable, _PartialPart] = {}

    def __contains__(self, key: Hashable) -> bool:
        return key in self._growing

    def add(
        self, key: Hashable, kind: Kind, text: str = "", *, id: str = "", name: str = ""
    ) -> list[ResponseDelta]:
        """Add more of a part: text, or a call's arguments. The first id and name count."""
        begins = key not in self._growing
        # Providers begin parts that stay empty; a call is told at once, since it may have no arguments.
        if begins and kind != "tool_call" and not text:
            return []
        growing = self._part(key, kind)
        # The first one counts: some servers send another id, or the name again, with later pieces.
        growing.id, growing.name = growing.id or clean(id), growing.name or clean(name)
        shown = growing.more(text)
        if begins and kind == "tool_call":
            return [ResponseDelta(growing.index, kind, shown, growing.id, growing.name)]
        return [ResponseDelta(growing.index, kind, shown)] if shown else []

    def put(self, key: Hashable, part: AssistantPart) -> list[ResponseDelta]:
        """Replace the streamed text of a part by the complete part; return the deltas not yet streamed."""
        said: list[ResponseDelta] = []
        match part:
            case (
                TextPart(text="") | RefusalPart(text="") | ReasoningPart(text="", signature="", encrypted="")
            ):
                return said
            case ProviderPart():
                self._part(key, None)
            case ToolCall(id=id, name=name, arguments=arguments):
                said = self.add(key, "tool_call", self._unstreamed(key, arguments), id=id, name=name)
            case _:
                self._part(key, part.type)
                said = self.add(key, part.type, self._unstreamed(key, part.text))
        self._growing[key].put = part
        return said

    def text(self, key: Hashable) -> str:
        """Return the text streamed so far of a part, or of a call's arguments; empty before it has begun."""
        return self._growing[key].text if key in self._growing else ""

    def parts(self) -> tuple[AssistantPart, ...]:
        """Return all parts, in the order in which they began."""
        return tuple(growing.put or self._finished_part(growing) for growing in self._growing.values())

    def answer(self, model: str, finish_reason: str, usage: Usage | None) -> ModelResponse:
        """Return the whole answer. Raises `ModelError` if it is empty: `refused` or `invalid_response`."""
        parts = self.parts()
        # Thoughts alone are no answer.
        if not any(_says(part) for part in parts):
            category = "refused" if finish_reason in FILTERED else "invalid_response"
            reason = clean(finish_reason) or "none"
            raise ModelError(category, f"an answer with nothing in it (finish reason: {reason:.100})")
        return ModelResponse(parts, clean(model), clean(finish_reason), usage)

    def _part(self, key: Hashable, kind: Kind | None) -> _PartialPart:
        if key not in self._growing:
            self._growing[key] = _PartialPart(len(self._growing), kind)
        return self._growing[key]

    def _unstreamed(self, key: Hashable, text: str) -> str:
        """Return the suffix of `text` not streamed yet, or "" if the streamed text is not a prefix of it."""
        streamed = self.text(key)
        return text[len(streamed) :] if text.startswith(streamed) else ""

    def _finished_part(self, growing: _PartialPart) -> AssistantPart:
        text = growing.text
        match growing.kind:
            case "reasoning":
                return ReasoningPart(text=text, provider=self.provider)
            case "refusal":
                return RefusalPart(text=text)
            case "tool_call":
                # A call without arguments is one with an empty object.
                return ToolCall(id=growing.id, name=growing.name, arguments=text or "{}")
            case _:
                return TextPart(text=text)


def _says(part: AssistantPart) -> bool:
    match part:
        case TextPart(text=text) | RefusalPart(text=text):
            return bool(text.strip())
        case _:
            return not isinstance(part, ReasoningPart)
