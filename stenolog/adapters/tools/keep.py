"""Conversion of a tool's output to the `ToolResult` that is appended to the log."""

from __future__ import annotations

from collections.abc import Callable

from stenolog.adapters.queries.outputs import offload_large
from stenolog.domain.events import ToolResult
from stenolog.domain.parts import FilePart, ImagePart, TextPart, UserPart
from stenolog.domain.values import CallRef

from .base import Attachment, ToolOutput

INLINE = 16_000
"""Tokens, about 64 kB, that a text may have to stand in the entry itself."""


def result_of(
    outcome: ToolOutput,
    call_id: str,
    ref: CallRef | None,
    name: str,
    put_blob: Callable[[bytes], str],
    duration_ms: int | None = None,
) -> ToolResult:
    """The `ToolResult` to append. `put_blob` keeps bytes and gives their sha256: those of pictures and files,
    and a text of more than `INLINE` tokens, of which a preview stays in the entry.
    """
    result = ToolResult(
        call_id=call_id,
        call=ref,
        name=name,
        parts=[_part(item, put_blob) for item in outcome.content if item],
        is_error=outcome.is_error,
        duration_ms=duration_ms,
        meta=dict(outcome.meta),
    )
    return offload_large(result, put_blob, INLINE)


def _part(item: str | Attachment, put_blob: Callable[[bytes], str]) -> UserPart:
    if isinstance(item, str):
        return TextPart(text=item)
    blob = put_blob(item.content)
    if item.media_type.startswith("image/"):
        return ImagePart(media_type=item.media_type, blob=blob)
    return FilePart(name=item.name, media_type=item.media_type, blob=blob)
