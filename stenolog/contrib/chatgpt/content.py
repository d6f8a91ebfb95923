"""Contents of ChatGPT's messages as parts: texts, code, thoughts, pictures."""

from __future__ import annotations

import os
import re
from bisect import bisect_left
from functools import cached_property
from hashlib import sha256
from operator import attrgetter
from pathlib import Path

from stenolog import importers
from stenolog.importers import Blobs, Json, JsonObject, as_dict, as_list, as_str
from stenolog.parts import AssistantPart, ProviderPart, ReasoningPart, TextPart, ToolCall, UserPart

LARGEST = 32 * 1024 * 1024
"""Bytes of a picture that is taken in."""
TYPES = {
    ".png": "image/png",
    ".jpg": "image/jpeg",
    ".jpeg": "image/jpeg",
    ".webp": "image/webp",
    ".gif": "image/gif",
}
_FOLDERS = ("dalle-generations", "user-*")
"""The folders of pictures in that of an export."""
_NAME = attrgetter("name")
_FILE_ID = re.compile(r"[a-z-]+://(file[-_][\w-]{4,80})")
_TEXTS = (
    "title",
    "url",
    "text",
    "result",
    "summary",
    "user_profile",
    "user_instructions",
    "model_set_context",
    "content",
)
"""The fields of a content, other than `parts`, that somebody said."""
_BY_PERSON = ("text", "multimodal_text", "code")


class Media:
    """The files in an export's folder, by the ids that messages have for them."""

    def __init__(self, export: Path | None) -> None:
        self._folder = export.parent if export is not None and export.is_file() else None

    @cached_property
    def _pictures(self) -> list[os.DirEntry[str]]:
        """The pictures by name; what is only linked there is none."""
        if self._folder is None:
            return []
        inner = (path for each in _FOLDERS for path in self._folder.glob(each))
        folders = (self._folder, *(path for path in inner if path.is_dir() and not path.is_symlink()))
        return sorted(
            (each for folder in folders for each in os.scandir(folder) if _is_picture(each)), key=_NAME
        )

    def keep(self, pointer: str, blobs: Blobs) -> UserPart | None:
        """Return a picture's part with its bytes among the blobs; None if it is not beside the export."""
        if not (named := _FILE_ID.match(pointer)):
            return None
        at = bisect_left(self._pictures, named[1], key=_NAME)
        for found in self._pictures[at : at + 1]:
            if found.name.startswith(named[1]):
                with importers.regular_file(Path(found.path)) as file:
                    content = file.read()
                blobs[sha := sha256(content).hexdigest()] = content
                return importers.media_part(_media_type(found.name), found.name, blob=sha)
        return None


def _is_picture(file: os.DirEntry[str]) -> bool:
    is_file = bool(_media_type(file.name)) and file.is_file(follow_symlinks=False)
    return is_file and file.stat(follow_symlinks=False).st_size <= LARGEST


def _media_type(name: str) -> str:
    return TYPES.get(Path(name).suffix.lower(), "")


def is_text(content: JsonObject) -> bool:
    """Return whether a content is one that a person writes."""
    return as_str(content.get("content_type")) in ("", *_BY_PERSON)


def user_parts(content: JsonObject, blobs: Blobs, media: Media) -> list[UserPart]:
    """Return the parts of a content by the user or a tool; one in another form is kept as JSON."""
    parts: list[UserPart] = []
    for part in as_list(content.get("parts")):
        pointer = as_str(as_dict(part).get("asset_pointer"))
        picture = media.keep(pointer, blobs) if pointer else None
        parts += [picture] if picture is not None else _part(part)
    return [*parts, *_texts(content)] or [*_unread(content)]


def answer_parts(content: JsonObject) -> list[AssistantPart]:
    """Return the parts of an answer."""
    thoughts = [
        "\n".join(filter(None, (as_str(each.get("summary")), as_str(each.get("content")))))
        for each in map(as_dict, as_list(content.get("thoughts")))
    ]
    if content.get("content_type") == "reasoning_recap":
        thoughts.append(as_str(content.get("content")))
        content = {}
    found: list[AssistantPart] = [ReasoningPart(text=text) for text in thoughts if text.strip()]
    found += [part for each in as_list(content.get("parts")) for part in _part(each)]
    return [*found, *_texts(content)] or ([] if thoughts else [*_unread(content)])


def tool_call(id: str, tool: str, content: JsonObject) -> ToolCall:
    """Return the call in an answer's words: arguments as JSON, or code."""
    texts = [part for part in as_list(content.get("parts")) if isinstance(part, str)]
    words = "\n".join((*texts, *(part.text for part in _texts(content))))
    is_object = bool(importers.object_in(words)) or words.strip() == "{}"
    return ToolCall(
        id=id, name=tool, arguments=words if is_object else importers.compact_json({"input": words})
    )


def _texts(content: JsonObject) -> list[TextPart]:
    return [TextPart(text=text) for name in _TEXTS if (text := as_str(content.get(name))).strip()]


def _part(part: Json) -> list[TextPart | ProviderPart]:
    words = part if isinstance(part, str) else as_str(as_dict(part).get("text"))
    if words.strip():
        return [TextPart(text=words)]
    return [_raw(part)] if part and not isinstance(part, str) else []


def _unread(content: JsonObject) -> list[ProviderPart]:
    """Return a content of which nothing could be read, if it has anything."""
    rest = {
        name for name, value in content.items() if value and name not in ("content_type", "parts", "language")
    }
    return [_raw(content)] if rest else []


def _raw(value: Json) -> ProviderPart:
    return ProviderPart(provider="chatgpt", raw=importers.compact_json(value))
