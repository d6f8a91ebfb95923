"""What was used, on the terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from stenolog.domain.limits import MICRO
from stenolog.projections.prices import Prices, price_of
from stenolog.projections.usage import Tally, together

from .drawing import Cell, table, wrapped
from .lines import Piece, line

COLUMNS = (
    ">CALLS", ">ERRORS", ">TOOLS", ">INPUT", ">CACHED", ">OUTPUT", ">MEDIAN", ">P95", ">FIRST",
)  # fmt: skip


def drawn(
    rows: Sequence[tuple[str, Tally]], by: str, prices: Prices | None, as_of: str | None
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
        yield wrapped((_on_prices(whole, prices, as_of), "dim"), hang=2)
    if whole.untold:
        untold = f"{whole.untold:,} of {whole.answers:,} answers do not say how many tokens they used"
        yield wrapped((untold, "dim"), hang=2)


def _row(name: Cell, tally: Tally, prices: Prices | None) -> list[Cell]:
    tokens, errors = tally.sum, sum(tally.errors.values())
    failed = f" ({tally.tool_errors:,} failed)" if tally.tool_errors else ""
    cells: list[Cell] = [
        name,
        f"{tally.calls:,}",
        (f"{errors:,}", "red") if errors else "-",
        f"{tally.tools:,}{failed}" if tally.tools else "-",
        f"{tokens.input:,}" if tally.tokens else "-",
        f"{tokens.cache_read * 100 // tokens.input}%" if tokens.input else "-",
        f"{tokens.output:,}" if tally.tokens else "-",
        _seconds(tally.took.percentile(50)),
        _seconds(tally.took.percentile(95)),
        _seconds(tally.first.percentile(50)),
    ]
    return cells if prices is None else [*cells, _usd(tally, prices)]


def _seconds(milliseconds: int | None) -> str:
    if milliseconds is None:
        return "-"
    return f"{milliseconds} ms" if milliseconds < 1000 else f"{milliseconds / 1000:.1f} s"


def _usd(tally: Tally, prices: Prices) -> str:
    """What it cost; not known where a model has no price, or no answer says what it used."""
    micro = tally.cost(prices) if tally.tokens or not tally.answers else None
    return "?" if micro is None else f"{micro / MICRO:,.2f}" if micro >= MICRO else f"{micro / MICRO:.4f}"


def _on_prices(whole: Tally, prices: Prices, as_of: str | None) -> str:
    """Whose prices they are, and which are missing."""
    if not whole.tokens:
        return "what was used is not known"
    unknown = [name or "(no name)" for name in whole.tokens if price_of(name, prices) is None]
    if unknown:
        return f"no price is known for {', '.join(unknown)}: give one with --prices; a team's file will do"
    return f"USD at example prices of {as_of}: give yours with --prices" if as_of else "USD at your prices"
