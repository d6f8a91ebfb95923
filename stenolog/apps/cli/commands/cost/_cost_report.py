"""`cost --report`: what the page Cost shows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stenolog.adapters.providers.prices import prices_of, source, usd
from stenolog.apps.cli.lines import CommandResult, Piece, counted
from stenolog.apps.cli.terminal import progress
from stenolog.apps.views.conversations import short_name
from stenolog.apps.views.cost_table import CostTable
from stenolog.apps.views.costs import cost_report
from stenolog.apps.views.figures import known_usd
from stenolog.projections.analysis.provider_bill import Unexplained

if TYPE_CHECKING:
    from stenolog.adapters.conversation.log import Conversation, Log
    from stenolog.apps.cli.draw.layout import Cell

ROWS = 10
"""The rows that are shown of each axis; --by shows all."""
SPENT = (">CALLS", ">INPUT", ">CACHED", ">OUTPUT", ">USD")


def reported(
    log: Log, conversation: Conversation | None, *, agent: str, prices: Path | None
) -> CommandResult:
    """Show what a conversation cost, or all."""
    table = prices_of(prices)
    if conversation is not None:
        data = cost_report(conversation, table, agent)
    else:
        data = CostTable(log, table).update(lambda names: progress(names, "adding up", len(names))).data()
    return CommandResult(data, lambda: _drawn(log, data, "" if prices else source()))


def _drawn(log: Log, data: Mapping[str, Any], where: str) -> Iterator[Piece]:
    from stenolog.apps.cli.draw.layout import heading, table, wrapped

    for axis, rows in data["by"].items():
        if rows:
            shown = rows[-ROWS:] if axis == "day" else rows[:ROWS]
            more = f", {ROWS} of {len(rows):,}" if len(rows) > ROWS else ""
            yield heading(f"By {axis}{more}")
            none = "no tool" if axis == "tool" else f"no {axis}"
            cells: list[list[Cell]] = [
                [(row["name"] or f"({none})", "cyan"), f"{row['calls']:,}", *_spent(row)] for row in shown
            ]
            yield table((f"~{axis.upper()}", *SPENT), cells)
    if data["dearest"]:
        yield heading("The dearest requests")
        yield table(
            ("~CONVERSATION", ">AT", "~AGENT", "~MODEL", "~AFTER", *SPENT[1:], "~CACHE MISS"),
            [
                [
                    short_name(log, row["conversation"]),
                    f"{row['position']}",
                    (row["agent"], "cyan"),
                    row["model"],
                    (row["tool"] or "-", "dim"),
                    *_spent(row),
                    (row["why"] or "-", "dim"),
                ]
                for row in data["dearest"]
            ],
        )
    yield from _compactions(data.get("compactions", ()))
    yield heading("All")
    total = data["total"]
    calls = f"{counted(total['calls'], 'call')}, {known_usd(total)} USD"
    yield wrapped((f"{calls}{_missed(data.get('cache'))}", "bold"))
    if (gone := data.get("unexplained")) and gone["tokens"]:
        words = (
            f"billed and not explained: {gone['tokens']:,} of {gone['billed']:,} tokens of {data['agent']}"
        )
        yield wrapped((f"{words}: {Unexplained(**gone).in_words}", "yellow"), hang=2)
    if where:
        yield wrapped((where, "dim"))


def _missed(cache: Mapping[str, Any] | None) -> str:
    if not cache or not cache["misses"]:
        return ""
    cost = f"{'≥' if cache['cost_is_incomplete'] else ''}{usd(cache['known_cost_micro_usd'])} USD"
    return f", of them {cost} for what {counted(cache['misses'], 'cache miss', 'cache misses')} read anew"


def _compactions(found: Sequence[Mapping[str, Any]]) -> Iterator[Piece]:
    from stenolog.apps.cli.draw.layout import heading, table

    if found:
        yield heading("Compactions")
        columns = (">AT", "KIND", ">USD", ">READ ANEW", ">TOKENS LESS", ">SAVED A CALL", ">CALLS SINCE")
        rows = [
            [
                str(one["position"]),
                one["kind"],
                *(_usd(one[name]) for name in ("cost", "missed")),
                "-" if one["tokens"] is None else f"{one['tokens']:,}",
                _usd(one["saved"]),
                str(one["calls"]),
            ]
            for one in found
        ]
        yield table(columns, rows)


def _usd(cost: int | None) -> str:
    return "?" if cost is None else usd(cost)


def _spent(row: Mapping[str, Any]) -> list[str]:
    tokens = row["tokens"]
    read = tokens["cache_read"] * 100 // max(tokens["input"], 1)
    return [f"{tokens['input']:,}", f"{read}%", f"{tokens['output']:,}", known_usd(row)]
