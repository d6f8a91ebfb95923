"""Omissions of a request, as runs: neighbours left out by one rule are one line."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence

from stenolog.domain.entry import Entry
from stenolog.domain.events import AssistantMessage, Event, LlmError, ToolResult, UserMessage
from stenolog.domain.parts import Part, ProviderPart
from stenolog.projections.messages.explanation import Omission, Omitted
from stenolog.projections.messages.message import Message
from stenolog.projections.messages.rules import CUTS, NOT_CARRIED
from stenolog.projections.messages.sizes import Counter, count_part, count_parts
from stenolog.projections.views.lines import was_retried

SPOKEN = (UserMessage, AssistantMessage, ToolResult, LlmError)


def said_by(event: Event) -> tuple[Part, ...]:
    """Return an event's parts, if any."""
    return tuple(event.parts) if isinstance(event, SPOKEN) else ()


def runs(positions: Iterable[int]) -> Iterator[tuple[int, int]]:
    """Yield runs of neighbouring positions, each as first and last."""
    first = last = 0
    for position in positions:
        if last and position == last + 1:
            last = position
            continue
        if last:
            yield first, last
        first = last = position
    if last:
        yield first, last


def merge_runs(runs: Iterable[Omission]) -> list[Omission]:
    """Return runs in order, merging neighbours of one rule."""
    merged: list[Omission] = []
    for run in sorted(runs):
        last = merged[-1] if merged else None
        if last is not None and last.rule == run.rule and run.first <= last.last + 1:
            merged[-1] = _both(last, run)
        else:
            merged.append(run)
    return merged


def dropped(
    runs: Iterable[Omission],
    entries: Iterable[Entry],
    rules: Mapping[int, str],
    messages: Sequence[Message],
    omitted: Iterable[Omitted],
    counter: Counter,
) -> Iterator[Omission]:
    """Yield the omitted entries, neighbours of one rule as one run, then parts that no API can carry.

    `runs` are gone permanently; `entries` are in the view, with `rules` for hidden ones.
    """
    shown = {position for message in messages for position in message.positions}
    positions = []
    for entry in entries:
        position = entry.position
        # An entry that is in context may still have nothing that a form can carry.
        rule = rules.get(position) or ("" if position in shown else _not_shown(entry.event))
        if rule:
            positions.append(Omission(position, position, rule, count_parts(said_by(entry.event), counter)))
    yield from merge_runs([*runs, *positions])
    unsaid = (
        Omitted(message.positions, NOT_CARRIED[type(part)], count_part(part, counter))
        for message in messages
        for part in message.unsaid
    )
    for lost in (*unsaid, *omitted):
        first, last = min(lost.positions, default=0), max(lost.positions, default=0)
        yield Omission(first, last, lost.rule, lost.tokens, lost.what)


def _not_shown(event: Event) -> str:
    if any(isinstance(part, ProviderPart) for part in said_by(event)):
        return "opaque-not-carried"
    return "retried" if was_retried(event) else "nothing-said"


def merge_cuts(
    runs: Sequence[Omission], lost: Sequence[Omission], positions: Sequence[int]
) -> list[Omission]:
    """Return the runs after one more has left the window.

    A run of a cut reaches up to the next entry still in the window, and covers entries that other rules left
    out. `here` are the positions in the window, in order.
    """
    # Merged so, the runs do not grow with the log.
    cuts: list[Omission] = []
    for run in sorted(run for run in (*runs, *lost) if run.rule in CUTS):
        last = cuts[-1] if cuts else None
        if last is not None and last.rule == run.rule and _nobody_between(last.last, run.first, positions):
            cuts[-1] = _both(last, run)
        else:
            cuts.append(run)
    firsts = [run.first for run in cuts]
    rest = (run for run in (*runs, *lost) if run.rule not in CUTS)
    outside = [run for run in rest if not _is_within(run, cuts, firsts)]
    return sorted([*cuts, *merge_runs(outside)])


def _both(run: Omission, other: Omission) -> Omission:
    return run._replace(last=max(run.last, other.last), tokens=run.tokens + other.tokens)


def _nobody_between(last: int, first: int, positions: Sequence[int]) -> bool:
    return bisect_left(positions, first) == bisect_right(positions, last)


def _is_within(run: Omission, cuts: Sequence[Omission], firsts: Sequence[int]) -> bool:
    found = bisect_right(firsts, run.first)
    return found > 0 and run.last <= cuts[found - 1].last
