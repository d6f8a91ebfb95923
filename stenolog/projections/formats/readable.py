"""Texts, pictures and files that a model reads in a body of any API."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from stenolog.projections.messages.body_digest import compact
from stenolog.projections.messages.message import BlobText

# Ids and types are tokens to a provider, but no words that an agent reads.
UNREAD = frozenset(
    ("model", "role", "type", "id", "call_id", "tool_call_id", "tool_use_id", "media_type", "mimeType")
)
"""The keys of a body whose texts are no words."""
ARGUMENTS = frozenset(("input", "args"))
"""The keys of a call, beside its name, that hold its arguments as an object: all of it is read, keys too."""


PICTURES = frozenset(("image_url", "file", "image", "document", "input_image", "input_file", "input_audio"))
"""Types of the parts of a body that hold a picture or a file."""
DATA = frozenset(("inlineData", "fileData"))
"""Keys of those that have no type."""


def texts(value: object) -> Iterator[str]:
    """Yield every text in a body that a model reads, without ids, pictures and files. Arguments are JSON."""
    if isinstance(value, str) and not isinstance(value, BlobText):
        yield value
    elif isinstance(value, dict) and not _is_picture(value):
        for key, inner in value.items():
            if key in ARGUMENTS and isinstance(inner, dict) and isinstance(value.get("name"), str):
                yield compact(inner)
            elif key not in UNREAD:
                yield from texts(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from texts(inner)


def _is_picture(value: Mapping[str, object]) -> bool:
    kind = value.get("type")
    return (isinstance(kind, str) and kind in PICTURES) or not DATA.isdisjoint(value)


def pictures(value: object) -> int:
    """Count the pictures and files in a body."""
    if isinstance(value, dict):
        if _is_picture(value):
            return 1
        # Arguments of calls and schemas of tools may look so, and hold no picture.
        if value.get("type") == "tool_use":
            return 0
        return sum(pictures(inner) for key, inner in value.items() if key not in ("tools", "functionCall"))
    return sum(map(pictures, value)) if isinstance(value, list) else 0
