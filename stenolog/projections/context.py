"""What is in context at a position, whoever looks: resets, rewinds, edits and summaries."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from stenolog.domain.entry import Entry
from stenolog.domain.events import AssistantMessage, UserMessage
from stenolog.domain.settings import Settings, settings
from stenolog.domain.values import Span

from .pairing import CallKey, Pairing, pair


class Summary(NamedTuple):
    """A summary that holds: where it stands, and the spans whose place it takes."""

    position: int
    agent: str
    spans: tuple[Span, ...]

    @property
    def last(self) -> int:
        """The last position that it covers."""
        return max(span.last for span in self.spans)

    def covers(self, position: int) -> bool:
        """Whether it takes the place of that position."""
        return any(position in span for span in self.spans)


class Context(NamedTuple):
    """The settings, which entry is left out by which rule, what replaces what, and the summaries.

    `out` maps a position to (rule, the position that is the reason for it).
    """

    settings: Settings
    pairing: Pairing
    out: dict[int, tuple[str, int]]
    replaced_by: dict[int, int]
    summaries: tuple[Summary, ...]


def context(log: Sequence[Entry]) -> Context:
    """Read the context off the whole log."""
    now = settings(log)
    pairing = pair(log)
    out: dict[int, tuple[str, int]] = {}
    for entry in log:
        if entry.position < now.context_from:
            out[entry.position] = ("reset", now.context_from)
        elif any(entry.position in span for span in now.hides):
            out[entry.position] = ("hidden", entry.position)
    replaced: dict[int, int] = {}
    for entry in log:
        match entry.event:
            case UserMessage(replaces=int(old)) | AssistantMessage(replaces=int(old)):
                if entry.position not in out and old < entry.position:
                    replaced[old] = entry.position
            case _:
                pass
    for old, new in replaced.items():
        out.setdefault(old, ("replaced", new))
    return Context(now, pairing, out, replaced, _summaries(log, out, pairing))


def _summaries(
    log: Sequence[Entry], out: dict[int, tuple[str, int]], pairing: Pairing
) -> tuple[Summary, ...]:
    """The summaries that hold: a larger one wins, and none swallows an open call or half of another."""
    held: list[Summary] = []
    calls = _calls(log)
    for entry in log:
        match entry.event:
            case AssistantMessage(agent=agent, covers=spans) if spans and entry.position not in out:
                made = Summary(entry.position, agent, tuple(spans))
                if made.last >= entry.position or _swallows(made, calls, pairing):
                    continue
                if any(_overlaps_partly(made, other) for other in held):
                    continue
                held = [other for other in held if not _holds(made, other)] + [made]
            case _:
                pass
    return tuple(held)


def _calls(log: Sequence[Entry]) -> list[CallKey]:
    return [
        CallKey(entry.position, nth)
        for entry in log
        if isinstance(entry.event, AssistantMessage)
        for nth in range(len(entry.event.tool_calls))
    ]


def _swallows(summary: Summary, calls: list[CallKey], pairing: Pairing) -> bool:
    """Whether it covers a call whose result it does not cover: the call was open when it was made."""
    covered = (key for key in calls if summary.covers(key.position))
    return any(not summary.covers(pairing.results.get(key, 0)) for key in covered)


def _holds(larger: Summary, smaller: Summary) -> bool:
    return all(
        any(outer.first <= span.first and span.last <= outer.last for outer in larger.spans)
        for span in smaller.spans
    )


def _overlaps_partly(one: Summary, other: Summary) -> bool:
    touches = any(a.first <= b.last and b.first <= a.last for a in one.spans for b in other.spans)
    return touches and not _holds(one, other)
