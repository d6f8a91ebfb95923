"""Input of a person at the terminal or from a pipe, message by message: a line, or several.

A line that ends with a backslash goes on on the next one; lines between two of `\"\"\"` are one message.
"""

from __future__ import annotations

import os
import select
import sys
from contextlib import suppress
from typing import Protocol

BLOCK = '"""'


class Lines(Protocol):
    """A source of messages."""

    asks: bool
    """True if a person is there who can be asked."""

    def line(self, prompt: str) -> str | None:
        """The next line, without its end; None where there is none any more."""

    def reply(self, prompt: str) -> str | None:
        """Return the next line that is typed once the prompt is shown; lines typed before it are kept."""


class Keyboard:
    """A person at a terminal, with a history where readline is there."""

    asks = True

    def __init__(self) -> None:
        with suppress(ImportError):
            import readline  # noqa: F401 - input() uses it from now on
        self._ahead: list[str] = []
        """The lines that were typed before a question was shown, which they do not answer."""

    def line(self, prompt: str) -> str | None:
        """The next line; Ctrl-D is the end."""
        if self._ahead:
            print(f"{prompt}{self._ahead[0]}")
            return self._ahead.pop(0)
        return self._typed(prompt)

    def reply(self, prompt: str) -> str | None:
        """The next line that is typed from now on."""
        while select.select([sys.stdin], [], [], 0)[0]:
            read = os.read(sys.stdin.fileno(), 65536).decode(errors="replace")
            self._ahead += read.splitlines()
            if not read:  # Ctrl-D
                break
        return self._typed(prompt)

    def _typed(self, prompt: str) -> str | None:
        try:
            return input(prompt)
        except EOFError:
            print()
            return None


class Piped:
    """A file or a pipe: nothing is drawn for it, and nobody can be asked."""

    asks = False

    def line(self, prompt: str) -> str | None:
        """The next line."""
        text = sys.stdin.readline()
        return text.rstrip("\r\n") if text else None

    def reply(self, prompt: str) -> str | None:
        """None: nobody is asked."""
        return None


def lines(*, asks: bool = True) -> Lines:
    """The terminal, where there is one to read from and to write on, and somebody may be asked."""
    return Keyboard() if asks and sys.stdin.isatty() and sys.stdout.isatty() else Piped()


def message(source: Lines, prompt: str, more: str) -> str | None:
    """The next message; None at the end. An empty one is empty."""
    first = source.line(prompt)
    if first is None:
        return None
    if first.strip().startswith(BLOCK):
        return _block(source, first.strip().removeprefix(BLOCK), more)
    rows = [first]
    while rows[-1].endswith("\\"):
        rows[-1] = rows[-1].removesuffix("\\")
        following = source.line(more)
        if following is None:
            break
        rows.append(following)
    return "\n".join(rows)


def _block(source: Lines, first: str, more: str) -> str:
    rows, row = [], first
    while not row.rstrip().endswith(BLOCK):
        rows.append(row)
        following = source.line(more)
        if following is None:
            return "\n".join(rows).strip("\n")
        row = following
    return "\n".join([*rows, row.rstrip().removesuffix(BLOCK)]).strip("\n")
