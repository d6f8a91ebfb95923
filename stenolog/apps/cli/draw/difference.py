"""Output of the difference of two requests."""

from __future__ import annotations

from collections.abc import Iterator

from stenolog.apps.cli.lines import Piece, counted, line
from stenolog.apps.views.caches import cause_words
from stenolog.apps.views.differences import Difference
from stenolog.domain.lanes.limits import MICRO_PER_USD
from stenolog.domain.lanes.state import address
from stenolog.domain.policy_text import in_short
from stenolog.projections.analysis.cache.changes import PartChange
from stenolog.projections.analysis.cache.difference import RequestDiff
from stenolog.projections.requests import Request

from .explain import tokens
from .layout import Cell, table, wrapped
from .views import spans

SIGNS = {"-": "red", "+": "green", "~": "yellow"}


def difference_drawn(
    diff: RequestDiff, before: Request, after: Request, found: Difference | None = None
) -> Iterator[Piece]:
    """Yield two requests: sizes, common beginning and its end, every change."""
    yield wrapped(
        (_names(before, after), "bold cyan"),
        f"  {diff.tokens_before:,} → {diff.tokens_after:,} tok",
        (f"  {diff.messages_before} → {diff.messages_after} messages · format {after.api}", "dim"),
    )
    if before.policy != after.policy:
        yield wrapped(("policies  ", "dim"), f"{in_short(before.policy)} → {in_short(after.policy)}")
    shared = diff.shared
    yield line(("shared prefix  ", "dim"), f"{counted(shared.messages, 'message')}, {shared.tokens:,} tok")
    if diff.around:
        yield wrapped(("differs beside the messages  ", "yellow"), ", ".join(diff.around))
    if diff.equal:
        yield line(("the same, to the byte", "green"))
    if found is not None:
        yield from _cache_lines(found)
    if diff.changes:
        columns = ("", ">ENTRIES", "ROLE", "WHAT", ">TOKENS", "*TEXT")
        yield table(columns, [_change_row(change) for change in diff.changes])


def _cache_lines(found: Difference) -> Iterator[Piece]:
    diff, cost = found.diff, found.cost
    if diff.first is not None:
        yield wrapped(("first change  ", "dim"), (cause_words(diff.first), "yellow"), hang=14)
    if found.read:
        yield wrapped(found.read, hang=2)
    elif diff.again:
        usd = "" if cost is None else f", {cost / MICRO_PER_USD:.4f} USD more than from the cache"
        yield wrapped(("read anew  ", "dim"), f"{diff.again:,} tok that both have after it{usd}", hang=11)


def _names(before: Request, after: Request) -> str:
    first, second = (address(request.agent, request.task) for request in (before, after))
    if first != second:
        return f"{first} at {before.at} → {second} at {after.at}"
    return f"{first} at {before.at}" + (f" → {after.at}" if before.at != after.at else "")


def _change_row(change: PartChange) -> tuple[Cell, ...]:
    size = tokens(change.tokens_before, change.tokens_after)
    return (
        (change.sign, SIGNS[change.sign]),
        spans(range(change.first, change.last + 1)) if change.first else "",
        change.role,
        (change.what, SIGNS[change.sign]),
        f"-{change.tokens_before:,}" if change.sign == "-" else f"+{size}" if change.sign == "+" else size,
        (change.text if change.parts == 1 else f"{change.parts} parts", "dim"),
    )
