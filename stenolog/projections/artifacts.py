"""A project's files that stand in a conversation: those whose name is an alias, `@project/artifacts/…`."""

from __future__ import annotations

import re

from stenolog.domain.entry import Entry
from stenolog.domain.events import ToolResult, UserMessage
from stenolog.domain.parts import File

from .base import fold

ARTIFACTS = "@project/artifacts/"
"""What the name of such a file begins with."""
NONE: dict[str, str] = {}
_STEP = r"(?![. ])[^/\\\x00-\x1f\x7f]{1,100}"
_NAME = re.compile(rf"{ARTIFACTS}{_STEP}(?:/{_STEP}){{0,20}}")


def is_artifact(name: str) -> bool:
    """Whether a name can be that of an artifact: no `..`, nothing hidden, nothing that leads elsewhere."""
    return _NAME.fullmatch(name) is not None


def artifacts_of(entry: Entry) -> list[File]:
    """The artifacts that an entry brings; one of a name that was there before is its new version."""
    match entry.event:
        case UserMessage(parts=parts) | ToolResult(parts=parts):
            files = (part for part in parts if isinstance(part, File) and part.blob)
            return [file for file in files if is_artifact(file.name)]
        case _:
            return []


@fold(initial=NONE, name="artifacts")
def artifacts(known: dict[str, str], entry: Entry) -> dict[str, str]:
    """The sha256 of each artifact by its name, after an entry."""
    found = artifacts_of(entry)
    return {**known, **{file.name: file.blob for file in found}} if found else known
