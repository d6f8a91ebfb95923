"""Tool outputs in full, in files; a message has a preview that names its file."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from stenolog.errors import UnknownFormatError
from stenolog.events import Known, ToolResult
from stenolog.importers import regular_file

from .schema import Message

_PATH = r"@(?:state|project)/[\w./~-]*\w"
_ENDING = re.compile(rf"full output: *({_PATH})\s*\Z", re.IGNORECASE)
_MENTIONED = re.compile(_PATH)


class WholeOutput(NamedTuple):
    """A whole output: its alias in a preview, and its content, None without a file.

    `is_named`: the message has the alias already.
    """

    alias: str
    content: bytes | None
    is_named: bool = False


class OutputFiles:
    """The folders `@state` and `@project` below any of `folders`; the first file found counts.

    Links out of them are not followed.
    """

    def __init__(self, *folders: Path) -> None:
        self._folders = folders

    def find_whole(self, preview: str, call_id: str) -> WholeOutput | None:
        """Return the whole output that a preview names; None for other text.

        The file is named by the call's id, or the preview ends with `Full output:` and its path.
        """
        by_call = (
            path for path in _MENTIONED.findall(preview) if path.rpartition("/")[2] == f"{call_id}.json"
        )
        by_ending = _ENDING.search(preview)
        alias = next(by_call, by_ending[1] if by_ending else "")
        return WholeOutput(alias, self.content(alias)) if alias else None

    def content(self, alias: str) -> bytes | None:
        """Return the content of the file that an alias names; None without one."""
        root, _, name = alias.partition("/")
        for folder in self._folders:
            with suppress(OSError, RuntimeError, UnknownFormatError):  # RuntimeError: a circle of links
                base = (folder / root).resolve()
                path = (base / name).resolve()
                if path.is_relative_to(base):
                    with regular_file(path) as file:
                        return file.read()
        return None


class NewFiles(OutputFiles):
    """Files that an export writes: whole outputs, by results' positions."""

    def __init__(self, wholes: Mapping[int, WholeOutput]) -> None:
        super().__init__()
        self._wholes = wholes
        self.contents = {whole.alias: whole.content or b"" for whole in wholes.values()}

    def with_path(self, message: Message, position: int, event: Known) -> Message:
        """Return an event's message: preview and path if the whole is a file."""
        whole = self._wholes.get(position)
        if whole is None or whole.is_named or not isinstance(event, ToolResult):
            return message
        return {**message, "content": f"{event.text}\nFull output: {whole.alias}"}

    def content(self, alias: str) -> bytes | None:
        """Return what is written by that alias."""
        return self.contents.get(alias)


def root_folder(folder: Path, root: str) -> Path:
    """Return the place of `@state` or `@project`: in the conversations' folder (also if new) or beside it."""
    places = (folder / root, folder.parent / root)
    return next((place for place in places if place.is_dir()), places[0])


def there_already(folder: Path, alias: str) -> bytes | None:
    """Return the content of the file that an alias names; None without one."""
    return OutputFiles(folder, folder.parent).content(alias)


NOWHERE = OutputFiles()
"""No files: what a single file of messages has beside it is not looked at."""
