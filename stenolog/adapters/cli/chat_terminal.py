"""Terminal output of a conversation: agents' words as they stream, and lines beside them.

On a terminal all of it is one text. Elsewhere stdout has what the agents say, and stderr the rest.
"""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Callable, Iterable
from contextlib import redirect_stdout
from functools import partial
from typing import TextIO

import click

from stenolog.projections.terminal_text import safe

from .lines import Piece, line, styled
from .terminal import Color, coloured, draw, width

TOKEN = re.compile(r"\n|[^\S\n]+|\S+")
LONGEST = 40
"""A word of more cells is not waited for: it may be text without blanks."""
CLEARED = "\r\x1b[2K"


class StreamWrapper:
    """Text as it streams, broken between words where a line would be too long.

    What a terminal would obey is spelled out. A word is held back until it is whole.
    """

    def __init__(self, write: Callable[[str], None], room: int | None) -> None:
        self._write = write
        self._room = room
        self._word = self._blank = self._rest = self._made = ""
        self._column = 0

    def add(self, text: str) -> None:
        """A little more text."""
        text, self._rest = self._rest + text, ""
        if text.endswith("\r"):  # perhaps the half of a line break
            text, self._rest = text[:-1], "\r"
        for token in TOKEN.findall(safe(text).expandtabs(4)):
            if token == "\n":
                self._put()
                self._break()
            elif token.isspace():
                self._put()
                self._blank += token
            else:
                self._word += token
                if self._room is None or len(self._word) > LONGEST:
                    self._put()
        self._hand_over()

    def end(self) -> None:
        """The text is whole: its last line ends."""
        self.add("\n") if self._rest else self._put()
        if self._column:
            self._break()
        self._hand_over()

    def _hand_over(self) -> None:
        made, self._made = self._made, ""
        if made:
            self._write(made)

    def _put(self) -> None:
        if not self._word:
            return
        from rich.cells import cell_len

        size = cell_len(self._word)
        if self._room is not None and self._column and self._column + len(self._blank) + size > self._room:
            self._break()
        self._made += self._blank + self._word
        self._column += len(self._blank) + size
        self._word = self._blank = ""

    def _break(self) -> None:
        self._made += "\n"
        self._column, self._blank = 0, ""


class TerminalWriter:
    """The terminal or pipe that a conversation is written to.

    `live`: it is a terminal, with a status line that comes and goes. A `plain` terminal is treated as a
    pipe.
    """

    def __init__(self, color: Color, *, plain: bool = False) -> None:
        self.plain = plain
        self.live = sys.stdout.isatty() and not plain
        self.color: Color = color
        self._status = ""
        self._moves = self.live and os.environ.get("TERM") != "dumb"

    def flow(self, style: str = "", *, aside: bool = False) -> StreamWrapper:
        """Begin a text: the words of an agent, or what stands beside them."""
        room = width() if self.live else None
        return StreamWrapper(partial(self._put, style=style, aside=aside), room)

    def text(self, words: str, style: str = "", *, indent: str = "") -> None:
        """Words that go on on the next line where they are too long for one."""
        whole: list[str] = []
        flow = StreamWrapper(whole.append, max(1, (width() or 0) - len(indent)) if self.live else None)
        flow.add(words)
        flow.end()
        rows = "".join(whole).splitlines(keepends=True)
        self._put("".join(f"{indent}{row}" for row in rows), style, aside=True)

    def line(self, *pieces: str | tuple[str, str], aside: bool = True) -> None:
        """A line, made safe, and cut where it is too long."""
        stream, colours = self._target(aside)
        self._send(stream, f"{line(*pieces).rendered(width(), coloured=colours)}\n")

    def drawn(self, drawing: Iterable[Piece]) -> None:
        """The drawing of a command, which stands in the conversation: it is not paged."""
        self.status("")
        with redirect_stdout(sys.stderr if self.plain else sys.stdout):
            draw(drawing, self.color, page=False)

    def status(self, words: str) -> None:
        """Show the current status until other text is written; on a terminal only."""
        if not self._moves or words == self._status:
            return
        self._status = words
        shown = safe(words).replace("\n", " ")[: (width() or 1) - 1]
        click.echo(CLEARED + styled(shown, "dim") * bool(words), nl=False, color=coloured(self.color))

    def _put(self, text: str, style: str, aside: bool) -> None:
        stream, colours = self._target(aside)
        self._send(stream, styled(text, style) if colours else text)

    def _target(self, aside: bool) -> tuple[TextIO, bool]:
        """Return the stream to write to, and whether to write in colours."""
        stderr = aside and not self.live
        return sys.stderr if stderr else sys.stdout, coloured(self.color, stderr=stderr)

    def _send(self, stream: TextIO, text: str) -> None:
        self.status("")
        stream.write(text)
        stream.flush()


def lasted(seconds: float) -> str:
    """A time in few characters: 12 ms, 1.3 s, 2 min 5 s."""
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 60:
        return f"{seconds:.1f} s"
    return f"{seconds // 60:.0f} min {seconds % 60:.0f} s"


class Stopwatch:
    """A stopwatch for elapsed seconds."""

    def __init__(self) -> None:
        self._begun = time.monotonic()

    @property
    def seconds(self) -> float:
        """So many seconds by now."""
        return time.monotonic() - self._begun
