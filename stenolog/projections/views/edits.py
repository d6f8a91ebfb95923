"""Edits of files: the lines that calls put in and took out, by file.

>>> changed_files([]).in_words
''
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from stenolog.domain.entry import Entry
from stenolog.domain.events import AssistantMessage, LlmError

from .blocks import Block, CallBlock, blocks, called
from .timeline import TimelineItem

PATCHED = re.compile(
    r"(?:\*\*\* (?:Update|Add|Delete) File: |diff --git a/|(?:---|\+\+\+) (?:[ab]/)?(?!/dev/null))"
    r"(.+?)(?:\t| b/|$)"
)
"""The line of a patch that names a file."""


class Edit(NamedTuple):
    """A change of a file: its call's entry, the call's index there, and the lines put in and taken out.

    `nth` is -1 for an act that ended well.
    """

    position: int
    nth: int
    path: str
    added: int
    removed: int


class ChangedFile(NamedTuple):
    """A file with its edits: their entries, and the lines put in and taken out."""

    path: str
    positions: tuple[int, ...]
    added: int
    removed: int


class ChangedFiles(NamedTuple):
    """Files that calls changed, by their first edits."""

    files: tuple[ChangedFile, ...] = ()

    @property
    def added(self) -> int:
        """The lines put in."""
        return sum(each.added for each in self.files)

    @property
    def removed(self) -> int:
        """The lines taken out."""
        return sum(each.removed for each in self.files)

    @property
    def in_words(self) -> str:
        """The sum in words; empty if no file was changed."""
        return f"{len(self.files)} changed, +{self.added:,} -{self.removed:,}" if self.files else ""


def edits(entry: Entry) -> Iterator[Edit]:
    """Yield the edits of an answer's calls. All lines of a file that is written whole count as put in."""
    event = entry.event
    if not isinstance(event, AssistantMessage | LlmError):
        return
    for one in blocks(event.parts):
        if isinstance(one, CallBlock) and (one.act is None or one.act.status == "ok"):
            for block in one.blocks:
                yield from (Edit(entry.position, one.nth, *found) for found in _counted(block))


def _counted(block: Block) -> Iterator[tuple[str, int, int]]:
    if block.kind == "code" and block.name:
        yield block.name, len(block.text.splitlines()), 0
    if block.kind != "diff":
        return
    path, counts = block.name, {"+": 0, "-": 0}
    for sign, text in block.lines:
        named = PATCHED.match(text) if sign == "@" and not block.name else None
        if named and (found := named[1]) != path:
            if path:
                yield path, counts["+"], counts["-"]
            path, counts = found, {"+": 0, "-": 0}
        elif sign in counts:
            counts[sign] += 1
    if path:
        yield path, counts["+"], counts["-"]


def changed_files(found: Iterable[Edit]) -> ChangedFiles:
    """Return the files of some edits."""
    files: dict[str, ChangedFile] = {}
    for position, _, path, added, removed in found:
        before = files.get(path, ChangedFile(path, (), 0, 0))
        positions = tuple(dict.fromkeys((*before.positions, position)))
        files[path] = ChangedFile(path, positions, before.added + added, before.removed + removed)
    return ChangedFiles(tuple(files.values()))


def files_of(items: Iterable[TimelineItem]) -> ChangedFiles:
    """Return the files that the calls of a timeline changed which ended well."""
    well = ((item.position, item.call) for item in items if item.status == "ok" and item.call)
    found = ((at, block) for at, call in well for block in called(call)[1])
    return changed_files(Edit(at, 0, *each) for at, block in found for each in _counted(block))
