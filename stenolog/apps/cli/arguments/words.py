"""Words of a command that are a conversation's name, or paths: a name goes first, ./WORD is a path."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from stenolog.adapters.importers.detection.folders import matches
from stenolog.adapters.importers.door.files import is_log, regular_file
from stenolog.domain.errors import ConversationNotFoundError, StenologError

from .database import Database
from .lookup import find_conversation, open_log

if TYPE_CHECKING:
    from stenolog.adapters.conversation.log import Log

PATH = re.compile(r"[./~\\]|.*[*?\[]|.*/$")
"""A word that begins or ends so is a path, and no beginning of a name."""


def are_paths(db: Database, words: Sequence[str]) -> bool:
    """Return whether something is at each word. Raises FileNotFoundError if one can be no name."""
    missing = [word for word in words if not matches(_path(word))]
    if isinstance(db, Path) and not db.exists():  # so no word is a name
        _check_is_no_path(missing)
    return not missing


def name_or_paths(log: Log, words: Sequence[str]) -> tuple[str, list[Path]]:
    """Return the conversation that is meant, or the paths.

    Raises FileNotFoundError, `ConversationNotFoundError` and `UsageError`.
    """
    paths: list[Path] = []
    for word in words:
        path, is_name = _path(word), word in log
        if not is_name and matches(path):
            _check_is_no_log(path, word)
            paths.append(path)
            continue
        if not is_name:
            _check_is_no_path([word])
        if len(words) > 1:
            what = "a conversation" if is_name else "no file or folder"
            raise click.UsageError(f"expected one conversation, or files and folders; {word!r} is {what}")
        try:
            return find_conversation(log, word).name, []
        except ConversationNotFoundError as error:
            raise ConversationNotFoundError(f"{error}; nor is it a file or folder") from None
    return "", paths


def name_or_files(db: Database, words: Sequence[str]) -> tuple[str, list[Path]]:
    """Return the conversation that is meant, or what is at the paths, for which no database is needed."""
    if are_paths(db, words) and isinstance(db, Path) and not db.exists():
        name, paths = "", [*map(_path, words)]
    else:
        name, paths = name_or_paths(open_log(db), words)
    return name, [each for path in paths for each in matches(path)]


def _path(word: str) -> Path:
    return Path(os.path.expanduser(word))  # PowerShell and quotes leave a ~ as it is


def _check_is_no_path(words: Sequence[str]) -> None:
    for word in filter(PATH.match, words):
        raise FileNotFoundError(None, "no such file or folder", word)


def _check_is_no_log(path: Path, word: str) -> None:
    with suppress(StenologError, OSError), regular_file(path) as stream:
        if is_log(stream.read(100), stream):
            command = click.get_current_context().command_path.removesuffix(" all")
            raise click.UsageError(f"{word} is a stenolog database: {command} --db {word}")
