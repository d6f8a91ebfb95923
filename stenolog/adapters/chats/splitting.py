"""Cutting a long text into pieces that a chat takes, without tearing a block of code apart."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeAlias

from stenolog.domain.errors import CallerError

Weigh: TypeAlias = Callable[[str], int]
"""A function that returns a text's weight, the sum over its characters."""
LIMIT = 4096
"""The default limit of a piece, in UTF-16 code units."""
LEAST = 200
"""A piece has room for the fence of a block of code and for some of the code."""
FENCE = re.compile(r" {0,3}(`{3,20}(?=[^`]*$)|~{3,20})[ \t]*+(.{0,40}?)[ \t]*")


class Fence(NamedTuple):
    """The opening of a code block: its mark, such as three backticks, and its language."""

    mark: str
    language: str = ""

    @property
    def line(self) -> str:
        """The line that begins a block."""
        return f"{self.mark}{self.language}"

    def ends(self, other: Fence) -> bool:
        """Return whether this fence ends a block that the other one has begun."""
        return not self.language and self.mark.startswith(other.mark)


def fence_of(line: str) -> Fence | None:
    """The fence that a line is; None for any other line."""
    found = FENCE.fullmatch(line)
    return Fence(*found.groups()) if found else None


def in_block(text: str) -> str:
    """A text as a block of code, by a mark that does not stand in it."""
    marks = (mark * number for number in range(3, 21) for mark in "`~")
    mark = next((mark for mark in marks if mark not in text), "```")
    return f"{mark}\n{text}\n{mark}"


def utf16_length(text: str) -> int:
    """Return a text's length in UTF-16 code units, in which many chats count."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def split(text: str, limit: int = LIMIT, weigh: Weigh = utf16_length) -> list[str]:
    """The text in pieces that weigh at most `limit`, cut between lines, else between words, else anywhere.

    A block of code that goes on in the next piece is closed, and begun there again with its language. Blank
    lines at the ends of a piece are left out; a blank text has no pieces. Raises `CallerError` for a limit
    under 200.
    """
    if limit < LEAST:
        raise CallerError(f"limit: expected at least {LEAST}, found {limit}")
    cutter = _Cutter(limit, weigh)
    for line in text.split("\n"):
        cutter.take(line)
    return cutter.end()


class _Cutter:
    """The pieces so far, and the lines of the one that is being filled."""

    def __init__(self, limit: int, weigh: Weigh) -> None:
        self.limit = limit + 1  # every line is weighed with its line break, which the last one has not
        self.weigh = weigh
        self.pieces: list[str] = []
        self.fence: Fence | None = None
        self._lines: list[str] = []
        self._weight = 0
        self._is_bare = False
        """True if a code block has just begun and has no code yet."""

    def take(self, line: str) -> None:
        """The next line of the text."""
        found = fence_of(line)
        if self.fence is None:
            self._begin(found) if found else self._text(line)
        elif found and found.ends(self.fence):
            self._add(self.fence.mark)  # there is always room for it
            self.fence = None
        else:
            self._text(line)

    def end(self) -> list[str]:
        """All pieces. Words behind a last fence, which begins no code, are shown as some."""
        if self.fence and self._is_bare and self.fence.language:
            self._lines[-1:] = [self.fence.mark, self.fence.language]
            self._is_bare = False
        self._flush()
        return self.pieces

    def _begin(self, fence: Fence) -> None:
        if self._line_limit() < self._weighed(fence.line) + self._weighed(fence.mark) + 2:
            self._flush()
        self._open(fence)

    def _text(self, line: str) -> None:
        if self._weighed(line) > self._line_limit() and not self._is_fresh():
            self._flush()
        while self._weighed(line) > self._line_limit():
            begin, line = self._cut(line)
            self._add(begin)
            self._flush()
        self._add(line)

    def _weighed(self, line: str) -> int:
        return self.weigh(line) + 1  # with the line break

    def _line_limit(self) -> int:
        """Return the most that a line may weigh, with room for the end of an open code block."""
        return self.limit - self._weight - (self._weighed(self.fence.mark) if self.fence else 0)

    def _is_fresh(self) -> bool:
        """Return whether the piece is empty apart from an opening fence."""
        return len(self._lines) <= self._is_bare

    def _cut(self, line: str) -> tuple[str, str]:
        """As much of a line as there is room for, cut behind a blank where there is one, and the rest."""
        room, at = self._line_limit() - 1, 0
        for at, char in enumerate(line):  # noqa: B007 - where the room ends
            room -= self.weigh(char)
            if room < 0:
                break
        blank = max(line.rfind(" ", 1, at), line.rfind("\t", 1, at)) + 1
        at = blank if line[:blank].strip() else at
        return line[:at], line[at:]

    def _add(self, line: str) -> None:
        self._lines.append(line)
        self._weight += self._weighed(line)
        self._is_bare = False

    def _open(self, fence: Fence) -> None:
        self.fence = fence
        self._add(fence.line)
        self._is_bare = True

    def _flush(self) -> None:
        """End the piece; within a block of code the next one begins with its fence."""
        lines, fence = self._lines, self.fence
        if fence:
            lines = lines[:-1] if self._is_bare else [*lines, fence.mark]
        self.pieces.extend(_trimmed(lines))
        self._lines, self._weight = [], 0
        if fence:
            self._open(fence)


def _trimmed(lines: list[str]) -> Iterator[str]:
    """The piece without the blank lines at its ends; nothing where there are no others."""
    told = [nth for nth, line in enumerate(lines) if line.strip()]
    if told:
        yield "\n".join(lines[told[0] : told[-1] + 1]).rstrip()
