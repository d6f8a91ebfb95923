"""Figures for a reader: money, durations and times ago, worded once for terminal and pages."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from stenolog.adapters.providers.prices import usd

SPANS = (
    (60, "min"),
    (60 * 60, "h"),
    (24 * 60 * 60, "d"),
    (30 * 24 * 60 * 60, "mo"),
    (365 * 24 * 60 * 60, "y"),
)
"""Units of time that a person counts in, by their seconds."""


def ago(time: datetime, now: datetime) -> str:
    """Return how long before `now` a time was, in the largest unit: `3 d ago`."""
    seconds = (now - time).total_seconds()
    unit = next(((size, name) for size, name in reversed(SPANS) if seconds >= size), None)
    return "now" if unit is None else f"{seconds // unit[0]:.0f} {unit[1]} ago"


def lasted(milliseconds: float | None, none: str = "") -> str:
    """Return a duration in short: 12 ms, 1.3 s, 2 min 5 s, 3 h 4 min; `none` for None."""
    if milliseconds is None:
        return none
    if milliseconds < 1000:
        return f"{milliseconds:.0f} ms"
    if milliseconds < 60_000:
        return f"{milliseconds / 1000:.1f} s"
    minutes, seconds = divmod(int(milliseconds / 1000), 60)
    return f"{minutes} min {seconds} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def known_usd(row: Mapping[str, Any]) -> str:
    """Return the cost of a row of costs in dollars: ≥ if a part of it is unknown, ? if all of it is."""
    cost, is_least = row["known_cost_micro_usd"], row["cost_is_incomplete"]
    return "?" if is_least and not cost else short_usd(cost, is_least=is_least)


def short_folder(path: str) -> str:
    """Return the last two parts of a path."""
    return "/".join(path.replace("\\", "/").rstrip("/").split("/")[-2:])


def short_usd(micro_usd: int | None, *, is_least: bool) -> str:
    """Return a sum in dollars for a list: ≥ if a part of it is unknown; empty if all of it is."""
    return "" if micro_usd is None else f"{'≥' if is_least else ''}{usd(micro_usd)}"


def counted(number: int, what: str, many: str = "") -> str:
    """Return a number and its noun: 1 request, 12 requests; `many` is an irregular plural."""
    return f"{number:,} {what if number == 1 else many or f'{what}s'}"
