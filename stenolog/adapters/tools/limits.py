"""Results as large and as clean as a log takes them: so many bytes, whole characters, meta that is JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic_core import PydanticSerializationError, from_json, to_json

from stenolog.domain.json_types import check_json
from stenolog.projections.requests.pipeline.graphemes import cut_before
from stenolog.projections.requests.pipeline.quoting import note

from .base import Attachment, ToolOutput

LARGEST_META = 64_000
"""Bytes of JSON."""
_STEP = 1_000_000
_AHEAD = 32
"""Characters behind a cut that say whether it is between two of what a reader sees as one."""


def truncate_output(outcome: ToolOutput, limit: int) -> ToolOutput:
    """The outcome with at most `limit` bytes of content: what is over is left out, and a note says how much.

    A text is cut between two characters; a picture or a file is there as a whole or not at all.
    """
    kept: list[str | Attachment] = []
    room, total = limit, 0
    for item in outcome.content:
        size = _size(item)
        total += size
        fits = item if size <= room else _cut(item, room) if isinstance(item, str) else ""
        if fits:
            kept.append(_clean(fits))
            room -= size if fits is item else _size(fits)
    left_out = total - (limit - room)
    if left_out:
        what = f"{left_out:,} of {total:,} bytes of this result were left out"
        kept.append(note(f"{what}; at most {limit:,} are kept"))
    return ToolOutput(tuple(kept), outcome.is_error, _meta(outcome.meta))


def mended(text: str) -> str:
    """The text with `?` for each half of a surrogate pair, which no log can hold."""
    return text if text.isascii() else text.encode(errors="replace").decode()


def _clean(item: str | Attachment) -> str | Attachment:
    if isinstance(item, str):
        return mended(item)
    return Attachment(item.content, mended(item.media_type), mended(item.name))


def _size(item: str | Attachment) -> int:
    if isinstance(item, Attachment):
        return len(item.content)
    if item.isascii():
        return len(item)
    return sum(len(item[at : at + _STEP].encode(errors="replace")) for at in range(0, len(item), _STEP))


def _cut(text: str, room: int) -> str:
    beginning = mended(text[: room + _AHEAD])
    fits = beginning.encode()[:room].decode(errors="ignore")
    return beginning[: cut_before(beginning, len(fits))]


def _meta(meta: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the application's own data, or a remark that says why it cannot be stored."""
    if not meta:
        return {}
    try:
        written = to_json(dict(meta), inf_nan_mode="constants")
        if len(written) > LARGEST_META:
            return _remark(f"expected at most {LARGEST_META:,} bytes, found {len(written):,}")
        read: dict[str, Any] = check_json(from_json(written))
        return read
    except (ValueError, TypeError, RecursionError, PydanticSerializationError) as error:
        return _remark(f"{error}")


def _remark(what: str) -> Mapping[str, Any]:
    return {"stenolog": {"meta left out": mended(what)[:200]}}
