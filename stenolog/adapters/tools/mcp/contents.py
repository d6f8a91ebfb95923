"""MCP contents: a server's answer as a `ToolOutput`."""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Collection, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from stenolog.adapters.tools.base import Attachment, ToolOutput
from stenolog.projections.messages.quoting import note

if TYPE_CHECKING:
    from mcp_types import CallToolResult, ContentBlock, EmbeddedResource, ResourceLink


GIVEN = "given as media"
"""The placeholder for base64 data in structured content that the same result has as a media part."""


def outcome_from(result: CallToolResult) -> ToolOutput:
    """Return texts and media in their order.

    Structured content becomes JSON if there is no text, else `meta["mcp"]["structured"]`; without the base64
    of media that are there already.
    """
    content = tuple(_items(result.content))
    structured = result.structured_content
    if structured is None:
        return ToolOutput(content, result.is_error)
    structured = _without(structured, {*_base64(result.content)} - {""})
    if not any(isinstance(item, str) for item in content):
        written = json.dumps(structured, ensure_ascii=False, separators=(",", ":"))
        return ToolOutput((*content, written), result.is_error)
    return ToolOutput(content, result.is_error, {"mcp": {"structured": structured}})


def _base64(blocks: Iterable[ContentBlock]) -> Iterator[str]:
    for block in blocks:
        if block.type in ("image", "audio"):
            yield block.data
        elif block.type == "resource":
            yield getattr(block.resource, "blob", "")


def _without(value: Any, given: Collection[str]) -> Any:
    """Return structured content with a note in place of base64 that is given as media."""
    match value:
        case dict():
            return {key: _without(inner, given) for key, inner in value.items()}
        case list():
            return [_without(inner, given) for inner in value]
        case str() if value in given:
            return GIVEN
        case _:
            return value


def _items(blocks: Iterable[ContentBlock]) -> Iterator[str | Attachment]:
    for block in blocks:
        match block.type:
            case "text":
                yield block.text
            case "image" | "audio":
                yield _media(block.data, block.mime_type)
            case "resource_link":
                yield _link(block)
            case "resource":
                yield from _resource(block)


def _media(data: str, media_type: str | None, name: str = "") -> str | Attachment:
    try:
        return Attachment(b64decode(data, validate=True), media_type or "application/octet-stream", name)
    except ValueError:
        return note(f"expected {media_type} in base64 here, found {len(data):,} characters of something else")


def _link(link: ResourceLink) -> str:
    size = f"{link.size:,} bytes" if link.size is not None else None
    said = (link.title or link.name, link.uri, link.mime_type, size, link.description)
    return note("resource: " + ", ".join(each for each in said if each))


def _resource(block: EmbeddedResource) -> Iterator[str | Attachment]:
    resource: Any = block.resource
    if hasattr(resource, "text"):
        yield note(f"resource: {resource.uri}")
        yield resource.text
    else:
        yield _media(resource.blob, resource.mime_type, resource.uri.rpartition("/")[2])
