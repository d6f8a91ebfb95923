"""Upper bounds for the size of a message on any API, so that one cut holds for all."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

from stenolog.domain import parts
from stenolog.domain.base.model import construct
from stenolog.domain.card import AgentCard
from stenolog.domain.policy import Budget
from stenolog.domain.values import Tool
from stenolog.projections.messages import sizes
from stenolog.projections.messages.body_digest import compact
from stenolog.projections.messages.identifiers import arguments_longest
from stenolog.projections.messages.message import EMPTY_BLOBS, Message
from stenolog.projections.messages.quoting import TOO_LARGE, note, placeholder, quote

MEDIA = (parts.ImagePart, parts.FilePart)
# Upper bounds for any API: one cut holds for all. A request is some 4 % smaller than its budget (decision 7).
SLACK = 8
"""Tokens that an API may add to a message: a label, a delimiter, a placeholder."""
CHARACTERS = 80
"""Characters that an API may add to a message."""
FRAME, CALL_FRAME = 90, 120
"""Bytes of JSON around a message, and around each of its parts, at most."""
AROUND = 120
"""Characters of JSON around a tool and its parameters, at most."""
WITHHELD = "Not available in this mode: do not call it."
"""The description of a tool that was called before, and that the mode does not have."""
RUNNING = note("no result yet: the call is still running")
UNRECORDED = note("no result was recorded")
INTERRUPTED = note("no result: the call was interrupted")
HIDDEN = note("there was a result; it is not shown here")
LONGEST_PLACEHOLDER = max(RUNNING, UNRECORDED, INTERRUPTED, HIDDEN, key=len)
"""The longest text in the place of a result."""
WRAPPING = 32
"""Tokens of an API's own words around the schema of an answer, at most."""

ONE = sizes.Size(1)


class Measure:
    """A measure of messages in the units that a budget limits, and in messages; others are 0.

    A picture or file is as large as its blob in `blobs`, as its url, and as its placeholder line. `missing`:
    a blob was not there, and may be next time. `in_modes`: some modes lack tools, as their stubs say.
    `placeholder` is the maximum size of a result's placeholder.
    """

    def __init__(
        self,
        budget: Budget | None,
        counter: sizes.Counter,
        blobs: Mapping[str, bytes] = EMPTY_BLOBS,
        *,
        in_modes: bool = False,
    ) -> None:
        self.counter, self.blobs = counter, blobs
        self.missing = False
        self._stubs: dict[str, sizes.Size] = {}
        self._told = WITHHELD if in_modes else ""
        self.tokens = budget is not None and budget.tokens is not None
        # Nothing is billed for signatures. To leave them out of other counts would move cuts of older logs.
        self.signed = counter.id != sizes.LEARNED.id
        self.characters = budget is not None and budget.characters is not None
        self.bytes = budget is not None and budget.bytes is not None
        self.placeholder = self.of(Message("tool", (parts.TextPart(text=LONGEST_PLACEHOLDER),), (), ""))

    def of(self, message: Message) -> sizes.Size:
        """Return the size of a message."""
        if not (self.tokens or self.characters or self.bytes):
            return ONE
        words = said_in(message)
        media = [part for part in message.parts if isinstance(part, MEDIA)]
        return sizes.Size(
            1,
            _characters(words, media) if self.characters else 0,
            self._tokens(said_in(message, signed=self.signed), len(media)) if self.tokens else 0,
            _bytes(message, words) + sum(map(self._sent, media)) if self.bytes else 0,
        )

    def tool(self, tool: Tool) -> sizes.Size:
        """Return a tool's maximum size beside the conversation, on any API."""
        written = compact([tool.name, tool.description, tool.parameters, tool.strict]) + tool.raw
        text = self.of(Message("system", (parts.TextPart(text=written),), (), ""))
        return sizes.Size(0, text.characters + AROUND, text.tokens + AROUND // 4, text.bytes + AROUND)

    def stub(self, name: str) -> sizes.Size:
        """Return the maximum size of a called tool's stub if it is not on the card."""
        if name not in self._stubs:
            self._stubs[name] = self.tool(construct(Tool, name=name, description=self._told))
        return self._stubs[name]

    def _tokens(self, words: list[str], media: int) -> int:
        return sum(map(self.counter.count, words)) + media * sizes.IMAGE_TOKENS + sizes.OVERHEAD + SLACK

    def _sent(self, part: parts.ImagePart | parts.FilePart) -> int:
        """Return a picture's or file's bytes: its blob's base64, or its url."""
        found = self.blobs.get(part.blob) if part.blob else b""
        # The blob may be there by the next time, so a size without it must not be kept.
        self.missing |= found is None
        if found:
            return (len(found) + 2) // 3 * 4
        id = part.id if isinstance(part, parts.FilePart) else ""
        return len(_escaped(part.url or id).encode())


def _characters(words: Iterable[str], media: Iterable[parts.ImagePart | parts.FilePart]) -> int:
    return sum(map(len, words)) + sum(len(part.url) for part in media) + CHARACTERS


def parameters_size(card: AgentCard, counter: sizes.Counter = sizes.ESTIMATE) -> int:
    """Return the maximum tokens of a card's parameters with the schema of an answer; else 0."""
    if not sizes.has_schema(card.parameters):
        return 0
    return sizes.count_json(card.parameters, counter) + WRAPPING + sizes.OVERHEAD


def _bytes(message: Message, words: list[str]) -> int:
    arguments = (_escaped(part.arguments) for part in message.parts if isinstance(part, parts.ToolCall))
    # Arguments are text within JSON on some APIs, and so escaped twice.
    twice = sum(len(_escaped(once)) - len(once) for once in arguments)
    text = sum(len(_escaped(word).encode()) for word in words) + twice
    return text + FRAME + CALL_FRAME * len(message.parts)


def _escaped(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def said_in(message: Message, *, signed: bool = True) -> list[str]:
    """Return the texts of a message as written, with a line for each picture and file.

    The signatures of its reasoning are among them if `signed`.
    """
    words: list[str] = []
    for part in message.parts:
        match part:
            case parts.TextPart(text=text, raw=raw) if raw:
                words += [text, raw]
            case parts.TextPart(text=text) | parts.RefusalPart(text=text):
                words.append(text)
            case parts.ReasoningPart(text=text, signature=signature, encrypted=encrypted):
                words += [word for word in (text, signature if signed else "", encrypted) if word]
            case parts.ToolCall(name=name, arguments=arguments, raw=raw):
                words += [name, arguments_longest(arguments), *([raw] if raw else ())]
            case parts.ProviderPart(raw=raw):
                words.append(raw)
            case parts.ImagePart() | parts.FilePart():
                # where a tool's result can hold none, it points to a message that may have but a line, too
                words += [placeholder(part, TOO_LARGE)] * (2 if message.role == "tool" else 1)
    if message.speaker:
        words = [quote("message", "\n".join(words), sender=message.speaker)] if words else []
    return words
