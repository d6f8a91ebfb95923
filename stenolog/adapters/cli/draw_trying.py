"""What `budget`, `whatif` and `bisect` found out, on the terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

from stenolog.domain.entry import Entry
from stenolog.projections.analysis.bisect import Bisected
from stenolog.projections.analysis.budget import Row
from stenolog.projections.analysis.whatif import WhatIf
from stenolog.projections.requests import Request
from stenolog.projections.requests.rules import RULES

from .draw_explaining import difference_drawn
from .drawing import table
from .lines import Piece, line
from .policies import in_short
from .words import describe

Cell: TypeAlias = str | tuple[str, str]
BUDGET_COLUMNS = (
    "POLICY", ">BUDGET", ">REQUESTS", ">OVER", ">CUTS", ">LOST", ">CACHEABLE", ">SENT", ">FRESH", ">USD",
)  # fmt: skip


def budget_drawn(rows: Sequence[Row], as_of: str | None) -> Iterator[Piece]:
    """A line for each policy under each budget, and what the columns mean."""
    yield table(BUDGET_COLUMNS, [_budget_row(row) for row in rows])
    model = next((row.model for row in rows if row.model), "")
    if any(row.over for row in rows):
        yield line(("OVER: what must stay is more than the budget; these could not be sent", "yellow"))
    yield line(("LOST: messages of a person that some request was without", "dim"))
    yield line(
        ("CACHEABLE: how much of the conversation was a prefix of the request before, in bytes", "dim")
    )
    if all(row.cost is None for row in rows):
        yield line((f"no price is known for {model or 'this model'}: give one with --prices", "dim"))
    elif as_of is not None:
        yield line((f"USD at an example price for {model} of {as_of}: give yours with --prices", "dim"))
    else:
        yield line((f"USD at your price for {model}", "dim"))


def _budget_row(row: Row) -> Sequence[Cell]:
    return (
        in_short(row.policy),
        f"{row.tokens:,}" if row.tokens is not None else "-",
        f"{row.requests:,}",
        (f"{row.over:,}", "red") if row.over else "-",
        f"{row.cuts:,}" if row.cuts else "-",
        (f"{len(row.lost):,} of {row.told:,}", "yellow") if row.lost else "-",
        f"{row.cacheable:.1%}",
        f"{row.sent:,}",
        f"{row.fresh:,}",
        "?" if row.cost is None else f"{row.cost:,.2f}" if row.cost >= 1 else f"{row.cost:.4f}",
    )


def whatif_drawn(made: WhatIf) -> Iterator[Piece]:
    """Both requests in numbers, then what differs, line by line."""
    columns = ("", ">MESSAGES", ">TOKENS", ">BYTES", ">LEFT OUT", "*SENDABLE")
    yield table(columns, [_size_row("real", made.real), _size_row("what if", made.other)])
    if made.same:
        yield line("nothing would have been otherwise")
    else:
        yield line("")
        yield from difference_drawn(made.difference, made.real, made.other)


def _size_row(title: str, request: Request) -> Sequence[Cell]:
    size = request.size
    here = {position for part in request.parts for position in part.positions}
    out = len({at for run in request.dropped for at in range(run.first, run.last + 1)} - here - {0})
    sendable: Cell = "yes" if request.sendable else (request.reason, "yellow")
    return (title, f"{size.messages:,}", f"{size.tokens:,}", f"{size.bytes:,}", f"{out:,}", sendable)


def bisect_drawn(made: Bisected, lane: str, entries: Mapping[int, Entry]) -> Iterator[Piece]:
    """What became of the text, and the entries that tell why."""
    quoted = f"“{made.text}”"
    if made.verdict == "never in":
        yield line((quoted, "bold"), f" was never in a request of {lane}")
        return
    for first, last in made.runs[:-1]:
        span = f"{first}-{last}" if first < last else f"{first}"
        yield line((f"in at {span}, gone at {last + 1}", "dim"))
    first, last = made.runs[-1]
    if made.verdict == "still in":
        yield line((quoted, "bold"), f" is still in the request of {lane}: from {first} on")
        return
    yield line((quoted, "bold"), f" was last in the request of {lane} at {last}, from {first} on")
    run = f" (with {made.dropped[0]}-{made.dropped[1]})" if made.dropped[1] > made.dropped[0] else ""
    yield line(("gone by   ", "dim"), (made.rule, "red"), f"{run}: {RULES.get(made.rule, '')}")
    for title, position in (*(("said at", at) for at in made.source), ("after", made.vanished)):
        if position in entries:
            told = describe(entries[position])
            yield line((f"{title:<8} ", "dim"), (f"{position:>5}", "bold"), f"  {told.who}", f"  {told.what}")
