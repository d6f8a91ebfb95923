"""Costs of a conversation, and of all, as data: sums by axis, the dearest requests, misses, compactions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from stenolog.projections.analysis.cache.calls import CacheCall
from stenolog.projections.prices import Prices
from stenolog.projections.views.spending import (
    Spending,
    Spent,
    SpentCall,
    Sums,
    by_cost,
    compaction_costs,
    dearest,
)

from .caches import call_data, calls_of, total_data
from .stats import Stats, has_calls, stats

if TYPE_CHECKING:
    from stenolog.adapters.conversation.log import Conversation


def cost_report(conversation: Conversation, prices: Prices, agent: str = "") -> dict[str, Any]:
    """Return all that the page Cost of a conversation shows; `agent` empty: the one with most calls."""
    found = Spending(prices)
    for entry in conversation.entries():
        found.take(entry)
    numbers = stats(conversation, agent, found.position) if has_calls(conversation) else None
    return report_data(conversation.name, found, calls_of(conversation), numbers, prices)


def report_data(
    name: str,
    found: Spending,
    calls: Sequence[CacheCall],
    numbers: Stats | None,
    prices: Prices,
) -> dict[str, Any]:
    """Return the costs of a conversation as JSON; `numbers` are of the agent whose curve is shown."""
    cause = {call.position: call.cause.kind for call in calls if call.is_miss}
    missed = {call.position: call.cost(prices) if call.missed else 0 for call in calls}
    curve = numbers.curve if numbers else None
    marks = [(mark.position, mark.kind) for mark in curve.marks if mark.kind != "cut"] if curve else []
    lane = numbers.agent if numbers else ""
    compacted = compaction_costs(marks, found.calls, lane, lambda at: missed.get(at, 0), prices)
    gone = numbers.unexplained if numbers else None
    return {
        "conversation": name,
        "position": found.position,
        "total": sum_data("", found.total),
        "by": axes_data(found.axes),
        "dearest": [
            {"conversation": name, **call_row(call), "why": cause.get(call.position, "")}
            for call in dearest(found.calls)
        ],
        "cache": total_data(calls, prices),
        "misses": [call_data(call, prices) for call in calls if call.is_miss],
        "agent": lane,
        "compactions": [one._asdict() for one in compacted],
        "unexplained": None if gone is None else gone._asdict(),
    }


def axes_data(axes: Sums) -> dict[str, list[dict[str, Any]]]:
    """Return the sums of each axis as rows, the dearest first; days in their order."""
    return {axis: [sum_data(*row) for row in by_cost(sums, axis)] for axis, sums in axes.items()}


def sum_data(name: str, spent: Spent) -> dict[str, Any]:
    """Return a sum as JSON, in micro-dollars."""
    return {"name": name, "calls": spent.calls, **_amounts(spent)}


def call_row(call: SpentCall) -> dict[str, Any]:
    """Return a request and its cost as JSON."""
    return {
        "position": call.position,
        "at": call.at,
        "agent": call.lane,
        "model": call.model,
        "tool": call.tool,
        **_amounts(call.spent),
    }


def _amounts(spent: Spent) -> dict[str, Any]:
    return {
        "tokens": {
            "input": spent.input,
            "output": spent.output,
            "cache_read": spent.cached,
            "cache_write": spent.written,
        },
        "known_cost_micro_usd": spent.micro_usd,
        "cost_is_incomplete": spent.unknown > 0,
    }
