"""Parts of a message, in order: text, reasoning, tool calls and the rest."""

import json
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import field
from typing import Annotated, Literal, TypeAlias

from .base.model import frozen_value, tag
from .base.schema import TaggedBy


@frozen_value
class TextPart:
    """Plain text, as it was said.

    `phase` is OpenAI's word for the message that it is of (`commentary`, `final_answer`). `raw` is what else
    its `provider` gave, such as citations: a JSON object of those fields, or the whole block if it has a
    `type`. It goes back only to that provider.
    """

    positional = ("text",)
    type: Literal["text"] = tag("text")
    text: str = field(kw_only=False)
    phase: str = ""
    provider: str = ""
    raw: str = ""


@frozen_value
class ImagePart:
    """A picture: bytes by the sha256 of a blob, or a URL."""

    type: Literal["image"] = tag("image")
    media_type: str = "image/png"
    blob: str = ""
    url: str = ""


@frozen_value
class FilePart:
    """A file: bytes by the sha256 of a blob, a URL, or its id at a provider."""

    type: Literal["file"] = tag("file")
    name: str = ""
    media_type: str = "application/octet-stream"
    blob: str = ""
    url: str = ""
    provider: str = ""
    id: str = ""


@frozen_value
class ReasoningPart:
    """A model's reasoning before its answer.

    `signature` and `encrypted` are the provider's proof and ciphertext: they go back unmodified, and only to
    the provider and model family that made them. If a provider signs the answer and not the reasoning, as
    Gemini does, the reasoning comes directly before the signed part.
    """

    type: Literal["reasoning"] = tag("reasoning")
    text: str = ""
    provider: str = ""
    id: str = ""
    signature: str = ""
    encrypted: str = ""


@frozen_value
class ToolCall:
    """A call of a tool.

    `arguments` is the provider's raw string; an object is dumped compact, in its own order. Ids repeat in
    real logs: the call is known by its entry and index.

    `namespace` separates tools of one name. `form` is the provider's word for a call of no function:
    `custom`, whose input is any text, or `tool_search`. `raw` is what else its `provider` gave, such as the
    program that made the call, as in a `TextPart`.
    """

    type: Literal["tool_call"] = tag("tool_call")
    id: str
    name: str
    arguments: str = "{}"
    namespace: str = ""
    form: str = ""
    provider: str = ""
    raw: str = ""


@frozen_value
class RefusalPart:
    """The model declined, in its provider's own form."""

    type: Literal["refusal"] = tag("refusal")
    text: str


@frozen_value
class ProviderPart:
    """A part that only its provider understands, as raw JSON text.

    It goes back only to the provider and model family that made it.
    """

    type: Literal["opaque"] = tag("opaque")
    provider: str
    model: str = ""
    raw: str


UserPart: TypeAlias = Annotated[TextPart | ImagePart | FilePart | ProviderPart, TaggedBy("type")]
AssistantPart: TypeAlias = Annotated[
    TextPart | ReasoningPart | ToolCall | RefusalPart | ProviderPart, TaggedBy("type")
]
Part: TypeAlias = TextPart | ImagePart | FilePart | ReasoningPart | ToolCall | RefusalPart | ProviderPart


def text_of(parts: tuple[Part, ...]) -> str:
    """Return the text among the parts, one line break between two texts."""
    return "\n".join([part.text for part in parts if isinstance(part, TextPart)])


def says_something(parts: Iterable[Part]) -> bool:
    """Return whether any part is a text that is not blank, or a tool call."""
    return any(
        part.text.strip() if isinstance(part, TextPart | RefusalPart) else isinstance(part, ToolCall)
        for part in parts
    )


def call_text(call: ToolCall) -> str:
    """Return a call as a text without its id, its arguments in the order of their names."""
    given: object = call.arguments
    with suppress(ValueError, RecursionError):
        given = json.loads(call.arguments or "{}")
    return json.dumps([call.namespace, call.name, given], sort_keys=True)
