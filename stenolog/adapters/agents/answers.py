"""Hearing one answer out, piece by piece."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import aclosing
from functools import partial

from stenolog.adapters.llms.base import Progress, ResponseDelta, StreamItem
from stenolog.domain.errors import ModelError

from .output_parser import OutputParser
from .process import Process

LIMIT = 100_000_000
"""So many bytes of output are heard for one answer."""


async def read_answer(process: Process, ear: OutputParser) -> AsyncGenerator[ResponseDelta | Progress, None]:
    """Yield the process's output until its turn or its output ends. Raises `ModelError`."""
    size, ear.turn.process = 0, process.group
    for piece in ear.turn.pieces():
        yield piece
    while not ear.turn.ended and (data := await process.read()):
        size += len(data)
        if size > LIMIT:
            raise ModelError("invalid_response", f"more than {LIMIT:,} bytes of output for one answer")
        for piece in _pieces(ear, partial(ear.feed, data)):
            yield piece


async def heard_out(process: Process, ear: OutputParser, patience: float) -> AsyncGenerator[StreamItem, None]:
    """Yield the output of a process run for one answer, and then the answer. Raises `ModelError`.

    An answer that marks its own end is whole, whatever the exit code; for any other the code must be 0.
    """
    async with aclosing(read_answer(process, ear)) as pieces:
        async for piece in pieces:
            yield piece
    process.discard_output()
    well = await process.ends(patience) and process.code == 0
    if not ear.turn.ended:
        try:
            for piece in _pieces(ear, ear.close):
                yield piece
        except ModelError as fault:
            if well or fault.category != "invalid_response":
                raise
    if not (well or ear.turn.ended):
        raise ModelError("process_exited", process.end)
    yield ear.turn.answer


def _pieces(ear: OutputParser, take: Callable[[], None]) -> Iterator[ResponseDelta | Progress]:
    """Yield the new pieces after the parser has taken input, including those before a fault."""
    try:
        take()
    except ModelError:
        yield from ear.turn.pieces()
        raise
    yield from ear.turn.pieces()
