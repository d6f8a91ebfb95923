"""A project's files in a conversation: those whose name is an alias, `@project/artifacts/…`."""

from __future__ import annotations

import re
from typing import NamedTuple

from stenolog.domain.entry import Entry
from stenolog.domain.events import ToolResult, UserMessage
from stenolog.domain.parts import FilePart
from stenolog.projections.fold import fold

ARTIFACTS = "@project/artifacts/"
"""Prefix of the name of such a file."""
_STEP = r"(?![. ])[^/\\\x00-\x1f\x7f]{1,100}"
_NAME = re.compile(rf"{ARTIFACTS}{_STEP}(?:/{_STEP}){{0,20}}")


def is_artifact(name: str) -> bool:
    """Return whether an artifact can have this name: no `..`, no hidden file, no path to other places."""
    return _NAME.fullmatch(name) is not None


def artifacts_of(entry: Entry) -> list[FilePart]:
    """Return the artifacts that an entry brings; a known name is a new version."""
    match entry.event:
        case UserMessage(parts=parts) | ToolResult(parts=parts):
            files = (part for part in parts if isinstance(part, FilePart) and part.blob)
            return [file for file in files if is_artifact(file.name)]
        case _:
            return []


class Artifact(NamedTuple):
    """The last version of an artifact: the position of its entry, its type, its sha256."""

    position: int
    media_type: str
    blob: str


NONE: dict[str, Artifact] = {}


@fold(initial=NONE, state=dict[str, Artifact], name="artifacts", kinds=(UserMessage, ToolResult))
def artifacts(known: dict[str, Artifact], entry: Entry) -> dict[str, Artifact]:
    """Return the artifacts by their names, after an entry."""
    new = {file.name: Artifact(entry.position, file.media_type, file.blob) for file in artifacts_of(entry)}
    return {**known, **new} if new else known
