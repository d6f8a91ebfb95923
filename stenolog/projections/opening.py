"""Opening of a conversation, for lists of them: its first words and its project folder."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from stenolog.domain.entry import Entry
from stenolog.domain.events import ModeSwitch, UserMessage

LONGEST = 100
"""Characters of the first words."""


class Opening(NamedTuple):
    """`words`: the first that a person said, on one line. `folder`: the working folder noted first."""

    words: str = ""
    folder: str = ""


def opening(entries: Iterable[Entry]) -> Opening:
    """Return the opening of a conversation, from its first entries.

    An importer notes the folder in a mode switch, as `{"codex": {"cwd": "/home/user/bakery"}}`.
    """
    words = folder = ""
    for entry in entries:
        match entry.event:
            case UserMessage(author_kind="person", control=None, text=text) if not words and text.strip():
                words = _line(text)
            case ModeSwitch(meta=meta) if not folder:
                noted = (each.get("cwd") for each in meta.values() if isinstance(each, dict))
                folder = next((cwd for cwd in noted if isinstance(cwd, str)), "")
            case _:
                pass
        if words and folder:
            break
    return Opening(words, folder)


def _line(text: str) -> str:
    words = " ".join(text[: 10 * LONGEST].split())
    return words if len(words) <= LONGEST else f"{words[: LONGEST - 1]}…"
