"""Output of `cost --plan`, `request --without` and `explain text`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from stenolog.apps.cli.lines import Piece, line
from stenolog.domain.entry import Entry
from stenolog.domain.lanes.state import runs_in_words
from stenolog.domain.policy import Policy
from stenolog.domain.policy_text import in_short, titled
from stenolog.projections.analysis.budget import BudgetRow
from stenolog.projections.analysis.text_fate import TextFate
from stenolog.projections.analysis.whatif import WhatIf
from stenolog.projections.messages.rules import RULES
from stenolog.projections.requests import Request
from stenolog.projections.terminal_text import one_line
from stenolog.projections.views.lines import describe

from .difference import difference_drawn
from .layout import Cell, table, wrapped

BEFORE = 30
"""The characters that are shown before a text that was looked for."""
BUDGET_COLUMNS = (
    "~POLICY", ">BUDGET", ">REQUESTS", ">OVER", ">CUTS", ">LOST", ">CACHEABLE", ">SENT", ">FRESH", ">USD",
)  # fmt: skip

NOTES = (
    "LOST: messages of a person that some request was without",
    "CACHEABLE: the part of SENT with which a request begins as the one before did",
)


def budget_drawn(rows: Sequence[BudgetRow], source: str) -> Iterator[Piece]:
    """Yield a line for each policy and budget, and the columns' meanings."""
    names = _policy_names(row.policy for row in rows)
    yield table(BUDGET_COLUMNS, [_budget_row(row, names[in_short(row.policy)]) for row in rows])
    for written, name in names.items():
        if name != written:
            yield wrapped((f"{name}: {written}", "dim"), hang=2)
    if any(row.over for row in rows):
        over = "OVER: what must stay is more than the budget; these could not be sent"
        yield wrapped((over, "yellow"), hang=2)
    for note in (*NOTES, _on_price(rows, source)):
        yield wrapped((note, "dim"), hang=2)


def _policy_names(policies: Iterable[Policy]) -> dict[str, str]:
    titles = {in_short(chosen): titled(chosen) for chosen in policies}
    times: Counter[str] = Counter()
    names = {}
    for written, title in titles.items():
        times[title] += 1
        names[written] = title if times[title] == 1 else f"{title} {times[title]}"
    return names


def _on_price(rows: Sequence[BudgetRow], source: str) -> str:
    model = next((row.model for row in rows if row.model), "")
    if all(row.cost is None for row in rows):
        return f"no price is known for {model or 'this model'}: give one with --prices"
    if source:
        return f"USD for {model} at {source}: give yours with --prices"
    return f"USD at your price for {model}"


def _budget_row(row: BudgetRow, name: str) -> Sequence[Cell]:
    return (
        name,
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


def whatif_drawn(whatif: WhatIf) -> Iterator[Piece]:
    """Yield both requests in numbers, then the differences, line by line."""
    both = {"real": whatif.real, "what if": whatif.other}
    columns = ("", ">MESSAGES", ">TOKENS", ">BYTES", ">LEFT OUT", "SENDABLE")
    yield table(columns, [_size_row(title, request) for title, request in both.items()])
    for title, request in both.items():
        if not request.sendable:
            yield wrapped((f"{title}: would not be sent: {request.reason}", "yellow"), hang=2)
    if whatif.same:
        yield line("nothing would have been otherwise")
    else:
        yield line("")
        yield from difference_drawn(whatif.difference, whatif.real, whatif.other)


def _size_row(title: str, request: Request) -> Sequence[Cell]:
    size = request.size
    shown = {position for part in request.parts for position in part.positions}
    out = len({at for run in request.omissions for at in range(run.first, run.last + 1)} - shown - {0})
    sendable: Cell = "yes" if request.sendable else ("no", "yellow")
    return (title, f"{size.messages:,}", f"{size.tokens:,}", f"{size.bytes:,}", f"{out:,}", sendable)


def bisect_drawn(found: TextFate, lane: str, entries: Mapping[int, Entry], note: str = "") -> Iterator[Piece]:
    """Draw the text's fate, the entries that explain it, and a note on other programs' requests."""
    yield from _fate_lines(found, lane, entries)
    if note:
        yield wrapped((note, "yellow"), hang=2)


def _fate_lines(found: TextFate, lane: str, entries: Mapping[int, Entry]) -> Iterator[Piece]:
    quoted = f"“{found.text}”"
    if found.verdict == "never in":
        yield wrapped((quoted, "bold"), f" was never in a request of {lane}")
        return
    for first, last in found.runs[:-1]:
        yield line((f"in at {runs_in_words([(first, last)])}, gone at {last + 1}", "dim"))
    first, last = found.runs[-1]
    if found.verdict == "still in":
        words = f"again in the request of {lane}" if found.runs[1:] else f"still in the request of {lane}:"
        yield wrapped((quoted, "bold"), f" is {words} from {first} on")
        return
    yield wrapped((quoted, "bold"), f" was last in the request of {lane} at {last}, from {first} on")
    run = f" (with {found.dropped[0]}-{found.dropped[1]})" if found.dropped[1] > found.dropped[0] else ""
    does = RULES.get(found.rule, "")
    yield wrapped(("gone by   ", "dim"), (found.rule, "red"), f"{run}: {does}", hang=10)
    for title, position in (*(("said at", at) for at in found.source), ("after", found.vanished)):
        if position in entries:
            description = describe(entries[position])
            place = (f"{title:<8} ", "dim"), (f"{position:>5}", "bold"), f"  {description.who}  "
            yield line(*place, *_marked(description.what, found.text))


def _marked(words: str, text: str) -> Iterator[Cell]:
    whole, wanted = one_line(words), one_line(text)
    at = whole.find(wanted) if wanted else -1
    if at < 0:
        yield whole
        return
    first = max(0, at - BEFORE)
    yield f"…{whole[first:at]}" if first else whole[:at]
    yield wanted, "bold yellow"
    yield whole[at + len(wanted) :]
