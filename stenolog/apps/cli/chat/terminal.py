"""Terminal of a conversation: typed messages, and agents' streaming words and acts.

A terminal shows all as one text. Elsewhere stdout has the agents' words, stderr the rest.

A line that ends with a backslash continues; lines between two of `\"""` are one message.
"""

from __future__ import annotations

import json
import os
import re
import select
import sys
import time
from collections.abc import Callable, Iterable
from contextlib import redirect_stdout, suppress
from datetime import datetime
from functools import partial
from typing import Protocol, TextIO

import click

from stenolog.adapters.conversation.log import Conversation
from stenolog.apps.cli.lines import Piece, counted, in_words, line, styled
from stenolog.apps.cli.terminal import Color, coloured, draw, width
from stenolog.domain.events import AssistantMessage, LlmError, ToolResult
from stenolog.domain.lanes.limits import MICRO_PER_USD
from stenolog.domain.lanes.state import OpenCall
from stenolog.domain.parts import ToolCall
from stenolog.projections.prices import Prices, unpriced
from stenolog.projections.terminal_text import safe, shown_call
from stenolog.projections.views.usage import UsageTotals

TOKEN = re.compile(r"\n|[^\S\n]+|\S+")
LONGEST = 40
"""A word of more cells is not waited for: it may be text without blanks."""
CLEARED = "\r\x1b[2K"


class StreamWrapper:
    """Streaming text, broken between words.

    Terminal codes are spelled out. A word is held back until it is complete.
    """

    def __init__(self, write: Callable[[str], None], room: int | None) -> None:
        self._write = write
        self._room = room
        self._word = self._blank = self._rest = self._made = ""
        self._column = 0

    def add(self, text: str) -> None:
        """Add a little more text."""
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
        """End the text and its last line."""
        self.add("\n") if self._rest else self._put()
        if self._column:
            self._break()
        self._hand_over()

    def _hand_over(self) -> None:
        line, self._made = self._made, ""
        if line:
            self._write(line)

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
    """The terminal or pipe of a conversation.

    `live`: a terminal with a status line. A `plain` terminal is treated as a pipe.
    """

    def __init__(self, color: Color, *, plain: bool = False) -> None:
        self.plain = plain
        self.live = sys.stdout.isatty() and not plain
        self.color: Color = color
        self._status = ""
        self._moves = self.live and os.environ.get("TERM") != "dumb"

    def flow(self, style: str = "", *, aside: bool = False) -> StreamWrapper:
        """Begin a text: an agent's words, or a remark."""
        room = width() if self.live else None
        return StreamWrapper(partial(self._put, style=style, aside=aside), room)

    def text(self, words: str, style: str = "", *, indent: str = "") -> None:
        """Write words that wrap."""
        whole: list[str] = []
        flow = StreamWrapper(whole.append, max(1, (width() or 0) - len(indent)) if self.live else None)
        flow.add(words)
        flow.end()
        rows = "".join(whole).splitlines(keepends=True)
        self._put("".join(f"{indent}{row}" for row in rows), style, aside=True)

    def line(self, *pieces: str | tuple[str, str], aside: bool = True) -> None:
        """Write a line, made safe, and cut if too long."""
        stream, colours = self._target(aside)
        self._send(stream, f"{line(*pieces).rendered(width(), coloured=colours)}\n")

    def drawn(self, drawing: Iterable[Piece]) -> None:
        """Write a command's drawing, without a pager."""
        self.status("")
        with redirect_stdout(sys.stderr if self.plain else sys.stdout):
            draw(drawing, self.color, page=False)

    def status(self, words: str) -> None:
        """Show the status until other text is written; only at a terminal."""
        if not self._moves or words == self._status:
            return
        self._status = words
        shown = safe(words).replace("\n", " ")[: (width() or 1) - 1]
        click.echo(CLEARED + styled(shown, "dim") * bool(words), nl=False, color=coloured(self.color))

    def _put(self, text: str, style: str, aside: bool) -> None:
        stream, colours = self._target(aside)
        self._send(stream, styled(text, style) if colours else text)

    def _target(self, aside: bool) -> tuple[TextIO, bool]:
        stderr = aside and not self.live
        return sys.stderr if stderr else sys.stdout, coloured(self.color, stderr=stderr)

    def _send(self, stream: TextIO, text: str) -> None:
        self.status("")
        stream.write(text)
        stream.flush()


class Stopwatch:
    """A stopwatch for elapsed seconds."""

    def __init__(self) -> None:
        self._begun = time.monotonic()

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._begun


LONGEST_VALUE = 60
RESULT_LINES = 4
LONGEST_CALL = 10_000


def call_words(call: ToolCall) -> str:
    """Return a call with its arguments, shortened: `read_file path=a.py limit=3`."""
    return f"{call.name} {arguments(call.arguments)}".rstrip()


def whole_call(call: ToolCall) -> str:
    """Return a call with its arguments, cut at `LONGEST_CALL`, with the number of characters left out."""
    words = shown_call(call.name, call.arguments)
    more = len(words) - LONGEST_CALL
    return words if more <= 0 else f"{words[:LONGEST_CALL]} … and {more:,} characters that are not shown here"


def pages_of(call: ToolCall) -> list[str]:
    """Return a whole call page by page, for the person who decides."""
    words = shown_call(call.name, call.arguments)
    return [words[at : at + LONGEST_CALL] for at in range(0, len(words), LONGEST_CALL)]


def arguments(raw: str) -> str:
    """Return a call's arguments in short; unchanged if no object."""
    try:
        given = json.loads(raw)
    except ValueError:
        given = None
    if not isinstance(given, dict):
        return raw
    return " ".join(f"{name}={_value(value)}" for name, value in given.items())


def _value(value: object) -> str:
    words = value if isinstance(value, str) and value else json.dumps(value, ensure_ascii=False)
    return words if len(words) <= LONGEST_VALUE else f"{words[: LONGEST_VALUE - 1]}…"


def result_lines(result: ToolResult) -> list[str]:
    """Return a result's first lines, and how many more there are."""
    rows = in_words(result.parts).strip().splitlines()
    if len(rows) <= RESULT_LINES:
        return rows
    return [*rows[: RESULT_LINES - 1], f"… {counted(len(rows) - RESULT_LINES + 1, 'more line')}"]


def call_of(conversation: Conversation, call: OpenCall) -> ToolCall:
    """Return an open call, with its arguments."""
    entry = next(iter(conversation.entries(call.position - 1, call.position)))
    assert isinstance(entry.event, AssistantMessage), "calls stand in answers"
    return entry.event.tool_calls[call.nth]


def error_words(error: LlmError) -> str:
    """Return an error's category and message."""
    return f"{error.category}: {error.message}" if error.message else error.category


def what_next(error: LlmError, now: datetime) -> str:
    """Describe the retry after an error; empty if a person decides."""
    if error.retry_at is None:
        return ""
    wait = max(0.0, (error.retry_at - now).total_seconds())
    return f"retrying in {wait:.0f} s …" if wait >= 1 else "retrying …"


def minute(time: datetime) -> str:
    """Return a time to the minute, in UTC."""
    return f"{time:%Y-%m-%d %H:%M} UTC"


def used_words(tally: UsageTotals, prices: Prices) -> str:
    """Describe usage: 2 answers · 1,204 tokens in, 32 out · $0.0021."""
    tokens, price = tally.sum, tally.known_cost(prices)
    answers = counted(tally.answers, "answer")
    if tally.untold and not any(tokens):
        return f"{answers} · tokens unknown"
    least = "≥" if unpriced(tally.tokens, prices) else ""
    money = f" · {least}${price / MICRO_PER_USD:,.4f}" if price else ""
    untold = f" (of {tally.untold} unknown)" if tally.untold else ""
    return f"{answers} · {tokens.input:,} tokens in, {tokens.output:,} out{untold}{money}"


BLOCK = '"""'


class Lines(Protocol):
    """A source of messages."""

    asks: bool
    """True if a person is there who can be asked."""

    def line(self, prompt: str) -> str | None:
        """Return the next line, without its end; None at the end."""

    def reply(self, prompt: str) -> str | None:
        """Return the next line typed after the prompt; earlier ones are kept."""


class Keyboard:
    """A person at a terminal, with a history if readline is available."""

    asks = True

    def __init__(self) -> None:
        with suppress(ImportError):
            import readline  # noqa: F401 - input() uses it from now on
        self._ahead: list[str] = []
        """The lines that were typed before a question was shown, which they do not answer."""

    def line(self, prompt: str) -> str | None:
        """Return the next line; Ctrl-D is the end."""
        if self._ahead:
            print(f"{prompt}{self._ahead[0]}")
            return self._ahead.pop(0)
        return self._typed(prompt)

    def reply(self, prompt: str) -> str | None:
        """Return the next line typed from now on."""
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
    """A file or a pipe: nothing is drawn, and nobody can be asked."""

    asks = False

    def line(self, prompt: str) -> str | None:
        """Return the next line."""
        text = sys.stdin.readline()
        return text.rstrip("\r\n") if text else None

    def reply(self, prompt: str) -> str | None:
        """Return None: nobody can be asked."""
        return None


def lines(*, asks: bool = True) -> Lines:
    """Return the terminal, if it can read and write and questions are allowed."""
    return Keyboard() if asks and sys.stdin.isatty() and sys.stdout.isatty() else Piped()


def message(source: Lines, prompt: str, more: str) -> str | None:
    """Return the next message; None at the end."""
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
