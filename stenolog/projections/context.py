"""What is in context at a position, whoever looks: resets, rewinds, edits and summaries."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from stenolog.domain.entry import Entry
from stenolog.domain.events import AssistantMessage, UserMessage
from stenolog.domain.settings import Settings, settings
from stenolog.domain.step import INITIAL, evolve
from stenolog.domain.summaries import Summary as Summary
from stenolog.domain.summaries import fault, joined

from .pairing import Pairing, pair


class Context(NamedTuple):
    """The settings, which entry is left out by which rule, what replaces what, and the summaries.

    `out` maps a position to (rule, the position that is the reason for it). `replaced_by` maps the first
    of a row of edits, and each edit but the last, to the last; `edits` maps each edit to the first.
    """

    settings: Settings
    pairing: Pairing
    out: dict[int, tuple[str, int]]
    replaced_by: dict[int, int]
    edits: dict[int, int]
    summaries: tuple[Summary, ...]


def context(log: Sequence[Entry]) -> Context:
    """Read the context off the whole log."""
    now = settings(log)
    pairing = pair(log)
    out: dict[int, tuple[str, int]] = {}
    hidden = bytearray(log[-1].position + 1 if log else 0)
    for span in now.hides:
        last = min(span.last, len(hidden) - 1)
        hidden[span.first : last + 1] = b"\x01" * (last + 1 - span.first)
    for entry in log:
        if entry.position < now.context_from:
            out[entry.position] = ("reset", now.context_from)
        elif hidden[entry.position]:
            out[entry.position] = ("hidden", entry.position)
    edits = _edits(log, out)
    latest = {first: edit for edit, first in edits.items()}
    replaced = {position: latest[first] for position, first in edits.items() if position != latest[first]}
    replaced |= latest
    for old, new in replaced.items():
        out.setdefault(old, ("replaced", new))
    return Context(now, pairing, out, replaced, edits, _summaries(log, out, pairing))


def _edits(log: Sequence[Entry], out: dict[int, tuple[str, int]]) -> dict[int, int]:
    """Each edit that is in context, with the message that it edits; of an edit's edit, the first one."""
    edits: dict[int, int] = {}
    for entry in log:
        match entry.event:
            case UserMessage(replaces=int(old)) | AssistantMessage(replaces=int(old)):
                if entry.position not in out and old < entry.position:
                    edits[entry.position] = edits.get(old, old)
            case _:
                pass
    return edits


def _summaries(
    log: Sequence[Entry], out: dict[int, tuple[str, int]], pairing: Pairing
) -> tuple[Summary, ...]:
    """The summaries that hold: a larger one wins, and none swallows an open call or half of another."""
    made = {summary.position: summary for summary in _made(log) if summary.position not in out}
    held: tuple[Summary, ...] = ()
    state = INITIAL
    for entry in log if made else ():
        if entry.position in made:
            summary = made[entry.position]
            open_calls = [call.position for _, call in state.open_calls()]
            if not fault(summary, held, [*open_calls, *_halved(summary, pairing)]):
                held = joined(held, summary)
        state = evolve(state, entry)
    return held


def _made(log: Sequence[Entry]) -> Iterator[Summary]:
    for entry in log:
        match entry.event:
            case AssistantMessage(agent=agent, covers=spans) if spans:
                yield Summary(entry.position, agent, tuple(spans))
            case _:
                pass


def _halved(summary: Summary, pairing: Pairing) -> Iterator[int]:
    """The calls or results that the summary covers without the other half, where both were there."""
    for key, result in pairing.results.items():
        if result < summary.position and summary.covers(key.position) is not summary.covers(result):
            yield key.position if summary.covers(key.position) else result
