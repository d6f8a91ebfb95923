"""Parsers of a program's output: plain text up to an end, or JSON lines."""

from __future__ import annotations

import asyncio
import codecs
import json
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import aclosing
from functools import partial
from typing import Any, NamedTuple

from stenolog.adapters.models.base import Progress, StreamItem
from stenolog.domain.errors import ModelError
from stenolog.projections.formats.deltas import ResponseDelta

from .answer_buffer import ResponseBuilder
from .output_formats import Reader
from .process import BEGUN_ESCAPE, ESCAPES, Process

LONGEST_ESCAPE = 4_096
SHOWN = 200
"""So many characters of a line that cannot be read are shown in an error."""


class OutputParser(ABC):
    """Parser that takes in a program's output and builds a turn."""

    turn: ResponseBuilder

    @abstractmethod
    def feed(self, data: bytes) -> None:
        """Take in more output. Raises `ModelError`."""

    @abstractmethod
    def close(self) -> None:
        """End the output. Raises `ModelError` in the middle of a message."""


class TextParser(OutputParser):
    """Parser for which all stdout is the answer; with an `end`, up to that line.

    Invalid UTF-8 becomes U+FFFD; terminal escapes and line breaks at the end are dropped.
    """

    def __init__(self, turn: ResponseBuilder, end: str = "") -> None:
        self.turn = turn
        self._end = end
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._raw = ""  # the beginning of an escape sequence
        self._line = ""  # what may become the line that ends the answer
        self._within = False  # some of the line has been said
        self._breaks = ""  # line breaks that are said when something follows

    def feed(self, data: bytes) -> None:
        if not self.turn.ended:
            self._take(self._raw + self._decoder.decode(data))

    def close(self) -> None:
        self._take(self._raw + self._decoder.decode(b"", final=True) + "\n")

    def _take(self, text: str) -> None:
        begun = BEGUN_ESCAPE.search(text, max(0, len(text) - LONGEST_ESCAPE))
        self._raw = text[begun.start() :] if begun else ""
        text = ESCAPES.sub("", text[: begun.start()] if begun else text)
        if self._end:
            self._lines(text)
        else:
            self._say(text)

    def _lines(self, text: str) -> None:
        *lines, rest = (self._line + text).split("\n")
        for line in lines:
            if not self._within and line.rstrip("\r") == self._end:
                self.turn.finish()
                return
            self._say(line + "\n")
            self._within = False
        if not self._within and self._end.startswith(rest.rstrip("\r")):
            self._line = rest
        else:
            self._line = ""
            self._within = True
            self._say(rest)

    def _say(self, text: str) -> None:
        text = self._breaks + text
        said = text.rstrip("\r\n")
        self._breaks = text[len(said) :]
        if said:
            self.turn.add_text(said)


class LinesParser(OutputParser):
    """Parser of JSON objects, one on each line. See `parsed` for other lines."""

    def __init__(self, turn: ResponseBuilder, read: Reader) -> None:
        self.turn = turn
        self._read = read
        self._rows = JsonRows()
        self._noise = b""
        self._understood = False

    def feed(self, data: bytes) -> None:
        for row in self._rows.take(data):
            self._line(row)

    def close(self) -> None:
        for row in self._rows.take(b"\n"):
            self._line(row)
        if not self._understood:
            found = repr(_preview(self._noise)) if self._noise else "nothing"
            raise ModelError("invalid_response", f"expected JSON lines, found {found}")

    def _line(self, row: bytes) -> None:
        if self.turn.ended:
            return
        line = parsed(row)
        if line is None:
            self._noise = row.strip() or self._noise
            return
        try:
            self._read(line, self.turn)
        except ModelError:
            raise
        except Exception as error:
            what = f"{type(error).__name__}: {error}"
            raise ModelError("invalid_response", f"{what:.200} in the line {_preview(row)!r}") from error
        self._understood = self.turn.alive = True


class JsonRows:
    """Lines of any length from pieces of any length. `held`: the bytes without an end of line yet."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self.held = 0

    def take(self, data: bytes) -> Iterator[bytes]:
        """Yield the lines that are whole now."""
        *ends, rest = data.split(b"\n")
        for end in ends:
            row, self._pieces, self.held = b"".join((*self._pieces, end)), [], 0
            yield row
        self._pieces.append(rest)
        self.held += len(rest)


def parsed(row: bytes) -> dict[str, Any] | None:
    """Return the JSON object of a line.

    A line that does not begin with `{` is noise (a warning, a banner), and gives None. Invalid JSON after `{`
    is an `invalid_response`, since it may have held words.
    """
    line = row.decode("utf-8", "replace")
    line = (ESCAPES.sub("", line) if "\x1b" in line else line).strip()
    if not line.startswith("{"):
        return None
    try:
        found: dict[str, Any] = json.loads(line)
    except (ValueError, RecursionError) as error:
        what = f"expected a JSON object in a line, found {_preview(row)!r} ({type(error).__name__})"
        raise ModelError("invalid_response", what) from None
    return found


def _preview(row: bytes) -> str:
    return row.strip()[:SHOWN].decode("utf-8", "replace")


LIMIT = 100_000_000
"""So many bytes of output are heard for one answer."""


class Silence(NamedTuple):
    """Meaning of `seconds` of silence in the middle of an answer.

    It `ends` the answer; else `warn` is called once, and the answer goes on.
    """

    seconds: float
    ends: bool
    warn: Callable[[], None]

    async def read(self, process: Process, parser: OutputParser) -> bytes:
        """Return more output; empty at the end of the answer. Raises `ModelError`."""
        try:
            async with asyncio.timeout(self.seconds):
                return await process.read()
        except TimeoutError:
            if self.ends:
                parser.close()
                parser.turn.finish()
                return b""
            self.warn()
            return await process.read()


async def read_answer(
    process: Process, parser: OutputParser, silence: Silence | None = None
) -> AsyncGenerator[ResponseDelta | Progress, None]:
    """Yield the process's output until its turn or its output ends. Raises `ModelError`."""
    size, parser.turn.process = 0, process.group
    for piece in parser.turn.pieces():
        yield piece
    while not parser.turn.ended:
        data = await (silence.read(process, parser) if silence and size else process.read())
        if not data:
            break
        size += len(data)
        if size > LIMIT:
            raise ModelError("invalid_response", f"more than {LIMIT:,} bytes of output for one answer")
        for piece in _pieces(parser, partial(parser.feed, data)):
            yield piece
    for piece in parser.turn.pieces():
        yield piece


async def heard_out(
    process: Process, parser: OutputParser, patience: float
) -> AsyncGenerator[StreamItem, None]:
    """Yield the output of a one-shot process, then the answer. Raises `ModelError`.

    An answer that marks its own end is whole, whatever the exit code; else the code must be 0.
    """
    async with aclosing(read_answer(process, parser)) as pieces:
        async for piece in pieces:
            yield piece
    process.discard_output()
    well = await process.ends(patience) and process.code == 0
    if not parser.turn.ended:
        try:
            for piece in _pieces(parser, parser.close):
                yield piece
        except ModelError as fault:
            if well or fault.category != "invalid_response":
                raise
    if not (well or parser.turn.ended):
        raise ModelError("process_exited", process.end)
    yield parser.turn.answer


def _pieces(parser: OutputParser, take: Callable[[], None]) -> Iterator[ResponseDelta | Progress]:
    """Yield the new pieces after the parser has taken input, including those before a fault."""
    try:
        take()
    except ModelError:
        yield from parser.turn.pieces()
        raise
    yield from parser.turn.pieces()
