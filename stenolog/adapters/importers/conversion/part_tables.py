"""Tables from types of foreign blocks to makers of parts, and shared makers.

A block is a JSON object with a type. A maker returns its part, a list of parts, or None if it cannot read the
block.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

from stenolog.adapters.importers.door.json_lines import JsonObject
from stenolog.domain.parts import FilePart, ImagePart, ProviderPart, ReasoningPart, TextPart, ToolCall
from stenolog.projections.messages import json_fields

ANY_FILE = "application/octet-stream"
P = TypeVar("P")


class BlockContext(NamedTuple):
    """A block's message: its author, where bytes go, and the id of a call without one."""

    blobs: json_fields.Blobs
    provider: str = ""
    id: str = ""


Maker: TypeAlias = Callable[[JsonObject, BlockContext], P | Sequence[P] | None]


class PartTable(Generic[P]):
    """Makers by a block's type; an unread block is kept as JSON that only `system` understands.

    `default` is for types not in the table.
    """

    def __init__(self, system: str, makers: Mapping[str, Maker[P]], default: Maker[P] | None = None) -> None:
        self._system = system
        self._makers = makers
        self._default = default

    def parts(
        self,
        content: json_fields.Json,
        blobs: json_fields.Blobs | None = None,
        *,
        provider: str = "",
        model: str = "",
        key: str = "",
    ) -> list[P | ProviderPart]:
        kept: json_fields.Blobs = {} if blobs is None else blobs
        found: list[P | ProviderPart] = []
        for nth, block in enumerate(blocks_in(content)):
            context = BlockContext(kept, provider, f"{key}-{nth}")
            maker = self._makers.get(json_fields.as_str(block.get("type")), self._default)
            made = maker(block, context) if maker else None
            if made is None:
                found.append(
                    ProviderPart(provider=self._system, model=model, raw=json_fields.compact_json(block))
                )
            elif isinstance(made, Sequence):
                found += made
            else:
                found.append(made)
        return found


def blocks_in(content: json_fields.Json) -> list[JsonObject]:
    """Return a content's blocks: from a text, a block, or a list."""
    found = content if isinstance(content, list) else [content]
    return [
        {"type": "text", "text": each} if isinstance(each, str) else json_fields.as_dict(each)
        for each in found
        if each
    ]


def text_maker(field: str = "text") -> Maker[TextPart]:
    """Return the maker of a text."""
    return lambda block, _: TextPart(text=block[field]) if isinstance(block.get(field), str) else None


def reasoning_maker(**fields: str) -> Maker[ReasoningPart]:
    """Return the maker of reasoning from its fields to a block's; the first must be a text."""
    first = next(iter(fields.values()))

    def make(block: JsonObject, context: BlockContext) -> ReasoningPart | None:
        if not isinstance(block.get(first), str):
            return None
        read: dict[str, Any] = {name: json_fields.as_str(block.get(field)) for name, field in fields.items()}
        return ReasoningPart(provider=context.provider, **read)

    return make


def call_maker(given: str = "arguments", name: str = "name", id: str = "id") -> Maker[ToolCall]:
    """Return a maker of tool calls, by the fields of arguments, name and id."""

    def make(block: JsonObject, context: BlockContext) -> ToolCall | None:
        if not isinstance(block.get(name), str):
            return None
        own = json_fields.as_str(block.get(id)) or context.id
        return ToolCall(id=own, name=block[name], arguments=json_fields.arguments(block.get(given)))

    return make


def media_maker(
    data: str = "data", media_type: str = "mimeType", name: str = "name", default: str = "image/png"
) -> Maker[ImagePart | FilePart]:
    """Return a maker of pictures and files, by the fields of base64, media type and name."""

    def make(block: JsonObject, context: BlockContext) -> ImagePart | FilePart | None:
        raw = block.get(data)
        blob = json_fields.keep_base64(raw, context.blobs) if isinstance(raw, str) else None
        media = json_fields.as_str(block.get(media_type)) or default
        return None if blob is None else media_part(media, json_fields.as_str(block.get(name)), blob=blob)

    return make


def media_part(media_type: str, name: str = "", *, blob: str = "", url: str = "") -> ImagePart | FilePart:
    """Return a picture or file by media type: its bytes, or its URL."""
    if media_type.startswith("image/"):
        return ImagePart(media_type=media_type, blob=blob, url=url)
    return FilePart(name=name, media_type=media_type or ANY_FILE, blob=blob, url=url)
