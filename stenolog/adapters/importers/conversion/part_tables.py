"""Tables that make parts of the blocks of a foreign message, and the makers that most formats share.

A block is a JSON object with a type. A maker gets it and returns its part, a list of parts, or None for a
block that it cannot read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

from stenolog.adapters.importers.door.json_lines import JsonObject
from stenolog.domain.parts import FilePart, ImagePart, ProviderPart, ReasoningPart, TextPart, ToolCall
from stenolog.projections.messages.json_fields import (
    Blobs,
    Json,
    arguments,
    as_dict,
    as_str,
    compact_json,
    keep_base64,
)

ANY_FILE = "application/octet-stream"
P = TypeVar("P")


class BlockContext(NamedTuple):
    """The message that a block is in: who wrote it, where bytes go, and the id of a call without one."""

    blobs: Blobs
    provider: str = ""
    id: str = ""


Maker: TypeAlias = Callable[[JsonObject, BlockContext], P | Sequence[P] | None]


class PartTable(Generic[P]):
    """Makers by the type of a block; one that no maker reads is kept as JSON that only `system` understands.

    `default` is the maker for blocks that are of no type in the table.
    """

    def __init__(self, system: str, makers: Mapping[str, Maker[P]], default: Maker[P] | None = None) -> None:
        self._system = system
        self._makers = makers
        self._default = default

    def parts(
        self,
        content: Json,
        blobs: Blobs | None = None,
        *,
        provider: str = "",
        model: str = "",
        key: str = "",
    ) -> list[P | ProviderPart]:
        """Return the parts of a content; a call without an id has one made of the key and its number."""
        kept: Blobs = {} if blobs is None else blobs
        found: list[P | ProviderPart] = []
        for nth, block in enumerate(blocks_in(content)):
            context = BlockContext(kept, provider, f"{key}-{nth}")
            maker = self._makers.get(as_str(block.get("type")), self._default)
            made = maker(block, context) if maker else None
            if made is None:
                found.append(ProviderPart(provider=self._system, model=model, raw=compact_json(block)))
            elif isinstance(made, Sequence):
                found += made
            else:
                found.append(made)
        return found


def blocks_in(content: Json) -> list[JsonObject]:
    """Return the blocks of a content, which may be a text, a block, or a list of them."""
    found = content if isinstance(content, list) else [content]
    return [
        {"type": "text", "text": each} if isinstance(each, str) else as_dict(each) for each in found if each
    ]


def text_maker(field: str = "text") -> Maker[TextPart]:
    """Return the maker of a text."""
    return lambda block, _: TextPart(text=block[field]) if isinstance(block.get(field), str) else None


def reasoning_maker(**fields: str) -> Maker[ReasoningPart]:
    """Return the maker of reasoning, from its fields to those of a block; the first has to be a text."""
    first = next(iter(fields.values()))

    def make(block: JsonObject, context: BlockContext) -> ReasoningPart | None:
        if not isinstance(block.get(first), str):
            return None
        told: dict[str, Any] = {name: as_str(block.get(field)) for name, field in fields.items()}
        return ReasoningPart(provider=context.provider, **told)

    return make


def call_maker(given: str = "arguments", name: str = "name", id: str = "id") -> Maker[ToolCall]:
    """Return the maker of a tool call, by the fields of its arguments, its name and its id."""

    def make(block: JsonObject, context: BlockContext) -> ToolCall | None:
        if not isinstance(block.get(name), str):
            return None
        own = as_str(block.get(id)) or context.id
        return ToolCall(id=own, name=block[name], arguments=arguments(block.get(given)))

    return make


def media_maker(
    data: str = "data", media_type: str = "mimeType", name: str = "name", default: str = "image/png"
) -> Maker[ImagePart | FilePart]:
    """Return the maker of a picture or a file, by the fields of its base64, its media type and its name."""

    def make(block: JsonObject, context: BlockContext) -> ImagePart | FilePart | None:
        raw = block.get(data)
        blob = keep_base64(raw, context.blobs) if isinstance(raw, str) else None
        told = as_str(block.get(media_type)) or default
        return None if blob is None else media_part(told, as_str(block.get(name)), blob=blob)

    return make


def media_part(media_type: str, name: str = "", *, blob: str = "", url: str = "") -> ImagePart | FilePart:
    """Return a picture or a file by its media type: its bytes, or its URL."""
    if media_type.startswith("image/"):
        return ImagePart(media_type=media_type, blob=blob, url=url)
    return FilePart(name=name, media_type=media_type or ANY_FILE, blob=blob, url=url)
