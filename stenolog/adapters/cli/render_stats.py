"""Output of `stats` on the terminal: calls, tokens, times, errors and cost."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from stenolog.domain.limits import MICRO
from stenolog.projections.prices import Prices, unpriced
from stenolog.projections.usage import UsageTotals, together

from .layout import Cell, table, wrapped
from .lines import Piece, line

COLUMNS = (
    ">CALLS", ">ERRORS", ">TOOLS", ">INPUT", ">CACHED", ">OUTPUT", ">MEDIAN", ">P95", ">FIRST",
)  # fmt: skip


def drawn(
    rows: Sequence[tuple[str, UsageTotals]], by: str, prices: Prices | None, source: str
) -> Iterator[Piece]:
    """A line for each, one for all together, and what is behind the errors and the prices."""
    if not rows:
        yield line(("no model was called, and no tool", "dim"))
        return
    shown = [_row((name or f"(no {by})", "cyan"), tally, prices) for name, tally in rows]
    whole = together(tally for _, tally in rows)
    if len(rows) > 1:
        shown.append(_row(("all", "bold"), whole, prices))
    yield table((f"~{by.upper()}", *COLUMNS, *([">USD"] if prices is not None else [])), shown)
    if whole.errors:
        counted = ", ".join(f"{count:,} {name}" for name, count in whole.errors.items())
        again = f"; {whole.retries:,} tried again" if whole.retries else ""
        yield wrapped((f"errors: {counted}{again}", "yellow"), hang=2)
    if prices is not None:
        yield wrapped((_on_prices(whole, prices, source), "dim"), hang=2)
    if whole.untold:
        untold = f"{whole.untold:,} of {whole.answers:,} answers do not say how many tokens they used"
        yield wrapped((untold, "dim"), hang=2)


def _row(name: Cell, tally: UsageTotals, prices: Prices | None) -> list[Cell]:
    tokens, errors = tally.sum, sum(tally.errors.values())
    failed = f" ({tally.tool_errors:,} failed)" if tally.tool_errors else ""
    cells: list[Cell] = [
        name,
        f"{tally.calls:,}",
        (f"{errors:,}", "red") if errors else "-",
        f"{tally.tools:,}{failed}" if tally.tools else "-",
        f"{tokens.input:,}" if any(tokens) else "-",
        f"{tokens.cache_read * 100 // tokens.input}%" if tokens.input else "-",
        f"{tokens.output:,}" if any(tokens) else "-",
        _seconds(tally.took.percentile(50)),
        _seconds(tally.took.percentile(95)),
        _seconds(tally.first.percentile(50)),
    ]
    return cells if prices is None else [*cells, _usd(tally, prices)]


def _seconds(milliseconds: int | None) -> str:
    if milliseconds is None:
        return "-"
    return f"{milliseconds} ms" if milliseconds < 1000 else f"{milliseconds / 1000:.1f} s"


def _usd(tally: UsageTotals, prices: Prices) -> str:
    """Return the cost, or its lower bound; unknown if no answer with a price tells its usage."""
    known, missing = tally.known_cost(prices), unpriced(tally.tokens, prices)
    if not known and (missing or (tally.answers and not (tally.tokens or tally.billed))):
        return "?"
    usd = f"{known / MICRO:,.2f}" if known >= MICRO else f"{known / MICRO:.4f}"
    return f"≥{usd}" if missing else usd


def _on_prices(whole: UsageTotals, prices: Prices, source: str) -> str:
    """Return a note on the sources of the prices, and on those that are missing."""
    if not (whole.tokens or whole.billed):
        return "what was used is not known"
    if unknown := [name or "(no name)" for name in unpriced(whole.tokens, prices)]:
        return f"no price is known for {', '.join(unknown)}: give one with --prices; a team's file will do"
    if not whole.tokens:
        return "USD as the agents state it"
    stated = "; where an agent states its cost, that" if whole.billed else ""
    return f"USD at {source}: give yours with --prices{stated}" if source else f"USD at your prices{stated}"
