"""Outline of an agent's request in a few lines, for the chat command `/context`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from stenolog.domain.state import address
from stenolog.projections.requests import Omission, Request, RequestPart

SHOWN = 20
"""So many of the last parts are listed."""


def outline(request: Request) -> Iterator[str]:
    """The size of a request, its last parts with the rule that let each in, and what was left out."""
    state = "is ready" if request.sendable else f"would not be sent: {request.reason}"
    lane, size = address(request.agent, request.task), request.size
    yield f"What {lane} sees at {request.at} ({size.messages} messages, {size.tokens} tokens) {state}."
    first = max(0, len(request.parts) - SHOWN)
    if first:
        yield f"… {first} parts before"
    yield from (f"- {_part(part)}" for part in request.parts[first:])
    yield from (f"- left out: {_left_out(run)}" for run in request.dropped)


def _part(part: RequestPart) -> str:
    return f"{_positions(part.positions)} {part.role}, {part.rule}, {part.tokens_out} tokens"


def _left_out(run: Omission) -> str:
    span = f"{run.first}" if run.first == run.last else f"{run.first} to {run.last}"
    return f"{span}, {run.rule}, {run.tokens} tokens"


def _positions(positions: Sequence[int]) -> str:
    return ", ".join(map(str, positions)) or "from the card:"
