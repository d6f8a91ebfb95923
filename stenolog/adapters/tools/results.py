"""Tool values as `ToolOutput` and `ToolResult`, and reading of whole results."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from enum import Enum
from functools import partial
from typing import Any

from pydantic_core import PydanticSerializationError, from_json, to_json, to_jsonable_python

from stenolog.adapters.conversation.queries.outputs import offload_large
from stenolog.adapters.conversation.queries.read_output import read_output_tool, run_read_output
from stenolog.adapters.providers.failures import hide, hide_known
from stenolog.domain.base.model import check_json
from stenolog.domain.errors import StenologError, ToolError
from stenolog.domain.events import ToolResult
from stenolog.domain.parts import FilePart, ImagePart, TextPart, UserPart
from stenolog.domain.redaction import redacted_text
from stenolog.domain.values import CallRef
from stenolog.projections.messages.quoting import note
from stenolog.projections.requests.pipeline.truncation import cut_before

from .base import Attachment, BaseTool, RetrySafety, ToolContext, ToolOutput, in_thread

LONGEST_ERROR = 2_000
"""Characters of an exception that a model is shown."""
_LISTED = 20
_AS_JSON: Any = {"bytes_mode": "base64", "inf_nan_mode": "strings"}
_SIGNATURES = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"%PDF-", "application/pdf"),
)


def outcome_of(value: object) -> ToolOutput:
    """Return the output for the value that a function returned.

    A text stays a text, bytes become a file, None becomes nothing. A list with media becomes its items in
    order. Anything else becomes compact JSON. Raises `ToolError` for what JSON cannot hold.
    """
    match value:
        case ToolOutput():
            return value
        case None:
            return ToolOutput()
        case list() | tuple() if not isinstance(value, Attachment) and any(map(_is_media, value)):
            return ToolOutput(tuple(_item(inner) for inner in value))
        case _:
            return ToolOutput((_item(value),))


def media_of(content: bytes) -> Attachment:
    """Return the bytes as a picture or a PDF if they begin like one, else as a file of unknown type.

    Bytes of text stay a file too.
    """
    if content[:4] == b"RIFF" and content[8:12] == b"WEBP":
        return Attachment(content, "image/webp")
    found = (kind for signature, kind in _SIGNATURES if content.startswith(signature))
    return Attachment(content, next(found, "application/octet-stream"))


def failure(error: BaseException, secrets: Iterable[str] = ()) -> ToolOutput:
    """Return an exception as the model sees it: type and message without secrets, no traceback."""
    return failed(hide(error_text(error), secrets))


def without(outcome: ToolOutput, secrets: Iterable[str]) -> ToolOutput:
    """Return a failure without known secrets; any other outcome unchanged."""
    if not outcome.is_error:
        return outcome
    known = [*secrets]
    return outcome._replace(
        content=tuple(hide_known(item, known) if isinstance(item, str) else item for item in outcome.content)
    )


def redacted_output(outcome: ToolOutput, keys: Collection[str]) -> ToolOutput:
    """Return an output without the values under keys that must not be stored."""
    content = (redacted_text(item, keys) if isinstance(item, str) else item for item in outcome.content)
    return outcome._replace(content=tuple(content))


def error_text(error: BaseException) -> str:
    """Return the message of an exception, or of each in a group."""
    return "\n".join(_one_error_text(leaf) for leaf in leaves(error))


def failed(text: str) -> ToolOutput:
    """Return a failure with this message, up to the limit."""
    return ToolOutput((text if len(text) <= LONGEST_ERROR else f"{text[:LONGEST_ERROR]}…",), is_error=True)


def unknown(name: str, known: Sequence[str]) -> ToolOutput:
    """Return the failure for an unknown tool, with the known ones, the nearest first."""
    names = sorted(set(known))
    nearest = get_close_matches(name[: _LISTED * 5], names, _LISTED, cutoff=0.0)
    more = f" and {len(names) - len(nearest)} more" if len(names) > len(nearest) else ""
    found = f"there are {', '.join(nearest)}{more}" if names else "there are none"
    return failed(f"there is no tool {name!r:.120}; {found}")


def _is_media(value: object) -> bool:
    return isinstance(value, Attachment | bytes | bytearray | memoryview)


def _item(value: object) -> str | Attachment:
    match value:
        case Attachment():
            return value
        case bytes() | bytearray() | memoryview():
            return media_of(bytes(value))
        case str() if not isinstance(value, Enum):
            return str.__str__(value)
        case _:
            return _json(value)


def _json(value: Any) -> str:
    try:
        return to_json(value, **_AS_JSON).decode()
    except (PydanticSerializationError, RecursionError):
        pass
    try:  # halves of surrogate pairs, as file names may have them, are only mended in the whole text
        plain = to_jsonable_python(value, **_AS_JSON)
        return json.dumps(plain, ensure_ascii=False, separators=(",", ":"))
    except (ValueError, TypeError, RecursionError) as error:
        kind = type(value).__name__
        raise ToolError(f"expected a result that can be written as JSON, found a {kind}: {error}") from None


def leaves(error: BaseException) -> Iterator[BaseException]:
    """Yield the exceptions of a group, or the exception itself."""
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from leaves(inner)
    else:
        yield error


def _one_error_text(error: BaseException) -> str:
    try:
        words = str(error)
    except Exception:  # an exception of the tool's own, and so is its `__str__`
        words = ""
    if isinstance(error, ToolError) and words:
        return words
    kind = type(error).__name__
    return f"{kind}: {words}" if words else kind


LARGEST_META = 64_000
"""Bytes of JSON."""
_STEP = 1_000_000
_AHEAD = 32
"""Characters after a cut that say whether it is between two of what a reader sees as one."""


def truncate_output(outcome: ToolOutput, limit: int) -> ToolOutput:
    """Return the outcome with at most `limit` bytes of content, and a note of how much was left out.

    A text is cut between characters; a picture or a file is kept whole or not at all.
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
    """Return the text with `?` for each lone surrogate, which no log can hold."""
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
    """Return the application's data, or why it cannot be stored."""
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


INLINE = 16_000
"""Tokens, about 64 kB, that a text in the entry itself may have."""


def result_of(
    outcome: ToolOutput,
    call_id: str,
    ref: CallRef | None,
    name: str,
    put_blob: Callable[[bytes], str],
    duration_ms: int | None = None,
) -> ToolResult:
    """Return the `ToolResult` to append.

    `put_blob` stores bytes and returns their sha256: of pictures, files, and a text of more than `INLINE`
    tokens, of which the entry keeps a preview.
    """
    result = ToolResult(
        call_id=call_id,
        call=ref,
        name=name,
        parts=[part_of(item, put_blob) for item in outcome.content if item],
        is_error=outcome.is_error,
        duration_ms=duration_ms,
        meta=dict(outcome.meta),
    )
    return offload_large(result, put_blob, INLINE)


def part_of(item: str | Attachment, put_blob: Callable[[bytes], str]) -> UserPart:
    """Return a text, or stored bytes, as a part."""
    if isinstance(item, str):
        return TextPart(text=item)
    blob = put_blob(item.content)
    if item.media_type.startswith("image/"):
        return ImagePart(media_type=item.media_type, blob=blob)
    return FilePart(name=item.name, media_type=item.media_type, blob=blob)


class ReadOutput(BaseTool):
    """Tool `read_output`, for the conversation that it is called in."""

    repeat: RetrySafety = "safe"
    stops = False

    def __init__(self) -> None:
        self.spec = read_output_tool()

    async def run(self, call: ToolContext) -> ToolOutput:
        return ToolOutput((await in_thread(partial(_read, call), "tool read_output"),))


def _read(call: ToolContext) -> str:
    if call.conversation is None:
        raise ToolError("read_output: expected a call in a conversation, found one without")
    try:
        return run_read_output(call.conversation, call.arguments, call.lane)
    except StenologError as error:
        raise ToolError(str(error)) from None
