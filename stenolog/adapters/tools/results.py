"""Conversion of a function's return value or failure to a `ToolOutput`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from difflib import get_close_matches
from enum import Enum
from typing import Any

from pydantic_core import PydanticSerializationError, to_json, to_jsonable_python

from stenolog.adapters.providers.redaction import hide, hide_known
from stenolog.domain.errors import ToolError

from .base import Attachment, ToolOutput

LONGEST_ERROR = 2_000
"""Characters that a model is told of an exception."""
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

    A text stays as it is, bytes become a file, and None becomes nothing. A list with media in it becomes its
    items in their order. Anything else becomes compact JSON.

    Raises `ToolError` for what cannot be written as JSON.
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
    """The bytes as a picture or a PDF where they begin as one, else as a file of no known type.

    Bytes that happen to be text stay a file too: whoever means text gives text.
    """
    if content[:4] == b"RIFF" and content[8:12] == b"WEBP":
        return Attachment(content, "image/webp")
    found = (kind for signature, kind in _SIGNATURES if content.startswith(signature))
    return Attachment(content, next(found, "application/octet-stream"))


def failure(error: BaseException, secrets: Iterable[str] = ()) -> ToolOutput:
    """An exception as the model is told it: its type and its words without secrets, no traceback."""
    return failed(hide(error_text(error), secrets))


def without(outcome: ToolOutput, secrets: Iterable[str]) -> ToolOutput:
    """A failure in a tool's own words, without known secrets; any other outcome as it is."""
    if not outcome.is_error:
        return outcome
    known = [*secrets]
    return outcome._replace(
        content=tuple(hide_known(item, known) if isinstance(item, str) else item for item in outcome.content)
    )


def error_text(error: BaseException) -> str:
    """The words of an exception; of each, where they come in groups."""
    return "\n".join(_one_error_text(leaf) for leaf in leaves(error))


def failed(text: str) -> ToolOutput:
    """A failure in these words, of which a bounded part is kept."""
    return ToolOutput((text if len(text) <= LONGEST_ERROR else f"{text[:LONGEST_ERROR]}…",), is_error=True)


def unknown(name: str, known: Sequence[str]) -> ToolOutput:
    """There is no such tool; those that there are, the nearest first."""
    names = sorted(set(known))
    nearest = get_close_matches(name[: _LISTED * 5], names, _LISTED, cutoff=0.0)
    more = f" and {len(names) - len(nearest)} more" if len(names) > len(nearest) else ""
    there = f"there are {', '.join(nearest)}{more}" if names else "there are none"
    return failed(f"there is no tool {name!r:.120}; {there}")


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
    """The exceptions themselves, where they come in groups."""
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
