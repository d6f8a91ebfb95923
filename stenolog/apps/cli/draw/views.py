"""Output of `request` and `cost`: parts with reasons, tokens and prices."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import TypeAlias, TypeVar

from stenolog.adapters.providers.prices import usd
from stenolog.apps.cli.lines import Piece, counted, describe, line
from stenolog.apps.cli.terminal import width
from stenolog.apps.views.figures import lasted
from stenolog.domain.entry import Entry
from stenolog.domain.lanes.state import address, runs_in_words
from stenolog.projections.analysis.explain import Missing
from stenolog.projections.analysis.provider_bill import NO_BILL, Bill, not_recorded
from stenolog.projections.messages.rules import HAD, HELD, NOT_CARRIED
from stenolog.projections.messages.sizes import PLAIN
from stenolog.projections.prices import Prices, unpriced
from stenolog.projections.requests import Omission, Request, RequestPart
from stenolog.projections.requests.part_texts import part_text
from stenolog.projections.views.usage import NOT_FAILED, UsageTotals, together

from .layout import Cell, table, wrapped

Row: TypeAlias = RequestPart | tuple[Omission, int]
"""A part of the request; or what was left out, and how often."""
Run = TypeVar("Run", Omission, Missing)
OF_THE_WIRE = frozenset(NOT_CARRIED.values()) | {"foreign-reasoning", "trailing-thinking", HELD}
"""Rules that omit single parts, since the API has no place for them, or the provider has them."""
RUNS = 4
TEXT = 20
"""The cells that the text of a part keeps."""
NARROW = 90
"""A table of up to so many cells has marks in place of words."""
MARKS = {"kept": "", "reworded": "~", "added": "+", "left out": "-", "held": "="}
DISPOSITIONS = {"kept": "green", "reworded": "yellow", "added": "magenta"}


def drawn_request(request: Request, entries: Iterable[Entry], bill: Bill = NO_BILL) -> Iterator[Piece]:
    """Yield the request: summary, whether it may be sent, parts with sources."""
    words = {entry.position: describe(entry).what for entry in entries}
    yield from head_lines(request, bill)
    yield from bill_lines(bill)
    shared = Counter(part.message for part in request.parts)
    rows = [*_unexplained(bill), *(_row(row, request, words, shared) for row in _in_order(request))]
    cells = width()
    if cells is None or cells > NARROW:
        yield table((">#", ">ENTRIES", "ROLE", "WHAT", "RULE", ">TOKENS", "*TEXT"), rows, TEXT)
        return
    columns = (">#", ">ENTRIES", "ROLE", "", "RULE", ">TOKENS", "*TEXT")
    yield table(columns, [_marked(*row) for row in rows], TEXT)
    yield wrapped(("+ added, ~ reworded, - left out, = held by the provider", "dim"))


def _marked(
    number: Cell, span: Cell, role: Cell, what: Cell, rule: Cell, tokens: Cell, text: Cell
) -> Sequence[Cell]:
    """Return a row's cells in a narrow table: a mark for the word, and one number of tokens."""
    word, style = (what, "") if isinstance(what, str) else what
    if word not in MARKS:
        return number, span, role, "", what, tokens, text
    number = "" if number == "-" else number
    size = tokens if isinstance(tokens, str) else tokens[0]
    before, _, after = size.partition(" → ")
    return (
        number,
        span,
        role,
        (MARKS[word], style),
        rule,
        before if word == "left out" else after or size,
        text,
    )


def head_lines(request: Request, bill: Bill = NO_BILL) -> Iterator[Piece]:
    """Draw a request's heading, with a note if it would not be sent, or which model a later answer names."""
    tokens = counted(request.size.tokens, "token")
    if held := sum(run.tokens for run in request.held_runs):
        tokens += f" and {held:,} held"
    yield wrapped(
        ("request for ", "dim"), (address(request.agent, request.task), "bold cyan"),
        f" at entry {request.at}",
        *((f" · as {request.agent} sent it", "green"),) * (request.patch is not None),
        (f" · format {request.api} · {tokens} · sha256 {request.sha256[:12]}…", "dim"),
    )  # fmt: skip
    if request.rate != PLAIN:
        ratio = request.rate.billed / request.rate.estimated
        words = f"tokens are estimated: {ratio:.2f} for every four bytes, as billed so far"
        yield wrapped((words, "dim"), hang=2)
    if bill.model:
        named = f"no model is named up to here; its answer at {bill.answer} names the model {bill.model}"
        yield wrapped((named, "dim"), hang=2)
    elif not request.sendable:
        why = "not sendable yet" if request.ready else "would not be sent"
        yield wrapped((f"{why}: {request.reason}", "yellow"), hang=2)


def bill_lines(bill: Bill) -> Iterator[Piece]:
    """Draw a request's bill, with a note on what the log lacks."""
    if bill.tokens:
        cached = f", {bill.cached:,} of them cached" if bill.cached else ""
        had = f"billed {bill.tokens:,} tokens{cached}, by the answer at {bill.position}"
        before = f"the request before it, at {bill.at}: {bill.rebuilt:,} tokens in this log, "
        yield wrapped((had if bill.is_its_own else before + had, "dim"), hang=2)
    if bill.program:
        style = "bold yellow" if bill.is_short else "yellow"
        note = f"{not_recorded(bill.program, has_prompt=bill.has_prompt, has_tools=bill.has_tools)}; "
        yield wrapped((note, "yellow"), (bill.difference, style), hang=2)


def _unexplained(bill: Bill) -> Iterator[Sequence[Cell]]:
    if (gone := bill.unexplained) is None:
        return
    rows = [("billed", f"{tokens:,}", f"not logged, {words}") for tokens, words in gone.pieces]
    lacking = f"not in this log: {', '.join(gone.parts)}"
    for what, tokens, text in rows or [("missing", "?" if gone.tokens is None else "", lacking)]:
        yield ("", "", "", (what, "yellow"), "", (tokens, "yellow"), (text, "dim"))


def _in_order(request: Request) -> list[Row]:
    rows: list[Row] = list(request.parts)
    for run, times in folded(request.omissions):
        behind = (
            index
            for index, row in enumerate(rows)
            if isinstance(row, RequestPart) and row.message >= 0 and max(row.positions, default=0) > run.first
        )
        rows.insert(next(behind, len(rows)), (run, times))
    return rows


def _row(row: Row, request: Request, words: Mapping[int, str], shared: Counter[int]) -> Sequence[Cell]:
    if not isinstance(row, RequestPart):
        run, times = row
        text = words.get(run.first, "") if times == 1 else f"{times} times"
        span = spans(range(run.first, run.last + 1))
        if run.rule in HAD:
            by = (f"{run.what}: {text}" if run.what else text, "dim")
            return ("-", span, "", ("held", "green"), run.rule, f"{run.tokens:,}", by)
        return ("-", span, "", ("left out", "red"), run.rule, f"{run.tokens:,} → 0", (text, "dim"))
    alone = shared[row.message] == 1 or not row.positions
    came_from = words[row.positions[0]] if row.positions and row.role != "tools" else ""
    text = part_text(request, row, alone) or came_from
    tokens = f"{row.tokens_out:,}"
    if row.tokens_in != row.tokens_out:
        tokens = f"{row.tokens_in:,} → {row.tokens_out:,}"
    return (
        str(row.message + 1) if row.message >= 0 else "",
        spans(row.positions),
        row.role,
        (row.disposition, DISPOSITIONS[row.disposition]),
        row.rule,
        tokens,
        (text, "dim"),
    )


def folded(runs: Iterable[Run]) -> list[tuple[Run, int]]:
    """Return the omitted runs, oldest first, with counts: one a rule if an API cannot carry it."""
    first: dict[str, int] = {}
    found: list[tuple[Run, int]] = []
    for run in runs:
        at = first.get(run.rule) if run.rule in OF_THE_WIRE else None
        if at is None:
            first[run.rule] = len(found)
            found.append((run, 1))
            continue
        before, times = found[at]
        lowest, highest = min(before.first, run.first), max(before.last, run.last)
        found[at] = before._replace(first=lowest, last=highest, tokens=before.tokens + run.tokens), times + 1
    return sorted(found, key=lambda row: row[0].first)


def spans(positions: Sequence[int]) -> str:
    """Return positions as runs: 3-5, 8; of more than `RUNS` the first, the second and the last."""
    runs: list[list[int]] = []
    for position in sorted(positions):
        if runs and position == runs[-1][1] + 1:
            runs[-1][1] = position
        else:
            runs.append([position, position])
    shown = [runs_in_words([(first, last)]) for first, last in runs]
    return ", ".join(shown if len(shown) <= RUNS else [*shown[:2], "…", shown[-1]])


NAMES = 24
"""The cells that names of agents, models and conversations keep."""
SPARE = ("FIRST", "P95", "MEDIAN", "CACHED", "ERRORS")
"""The columns that a narrow terminal does without, the first one first."""
COLUMNS = (
    ">CALLS", ">ERRORS", ">TOOLS", ">INPUT", ">CACHED", ">OUTPUT", ">MEDIAN", ">P95", ">FIRST",
)  # fmt: skip


def drawn(
    rows: Sequence[tuple[str, UsageTotals]],
    by: str,
    prices: Prices | None,
    source: str,
    *,
    titles: Sequence[str] = (),
) -> Iterator[Piece]:
    """Yield a line for each, a total, and details of errors and prices.

    `source` is where the prices come from, `titles` are the last column.
    """
    if not rows:
        yield line(("no model was called, and no tool", "dim"))
        return
    shown = [_stats_row((name or f"(no {by})", "cyan"), tally, prices) for name, tally in rows]
    whole = together(tally for _, tally in rows)
    if len(rows) > 1:
        shown.append(_stats_row(("all", "bold"), whole, prices))
    columns = (f"~{by.upper()}", *COLUMNS, *([">USD"] if prices is not None else []))
    if titles:
        columns = (*columns, "*TITLE")
        shown = [[*row, title] for row, title in zip_longest(shown, titles, fillvalue="")]
    kept = [at for at in range(len(columns)) if any(row[at] != "-" for row in shown)]
    yield table(
        [columns[at] for at in kept], [[row[at] for at in kept] for row in shown], names=NAMES, spare=SPARE
    )
    if whole.failed:
        counted = ", ".join(f"{n:,} {name}" for name, n in whole.errors.items() if name not in NOT_FAILED)
        again = f"; {whole.retries:,} tried again" if whole.retries else ""
        yield wrapped((f"errors: {counted}{again}", "yellow"), hang=2)
    if others := ", ".join(f"{whole.errors[name]:,} {name}" for name in NOT_FAILED if name in whole.errors):
        yield wrapped((f"not counted as errors: {others}", "dim"), hang=2)
    if prices is not None:
        for words in _on_prices(whole, prices, source):
            yield wrapped((words, "dim"), hang=2)
    if whole.understated:
        partial = (
            f"≥: {whole.understated:,} of {whole.answers:,} answers state fewer output tokens than they have"
        )
        yield wrapped((f"{partial}: they were written down before their streams ended", "yellow"), hang=2)
    if whole.untold:
        untold = f"{whole.untold:,} of {whole.calls:,} calls do not say how many tokens they used"
        yield wrapped((untold, "dim"), hang=2)


def _stats_row(name: Cell, tally: UsageTotals, prices: Prices | None) -> list[Cell]:
    tokens, errors = tally.sum, tally.failed
    failed = f" ({tally.tool_errors:,} failed)" if tally.tool_errors else ""
    cells: list[Cell] = [
        name,
        f"{tally.calls:,}",
        (f"{errors:,}", "red") if errors else "-",
        f"{tally.tools:,}{failed}" if tally.tools else "-",
        f"{tokens.input:,}" if any(tokens) else "-",
        f"{tokens.cache_read * 100 // tokens.input}%" if tokens.input else "-",
        f"{_least(tally)}{tokens.output:,}" if any(tokens) else "-",
        lasted(tally.took.percentile(50), "-"),
        lasted(tally.took.percentile(95), "-"),
        lasted(tally.first.percentile(50), "-"),
    ]
    return cells if prices is None else [*cells, _usd(tally, prices)]


def _usd(tally: UsageTotals, prices: Prices) -> str:
    known, missing = tally.known_cost(prices), unpriced(tally.tokens, prices)
    if not known and (missing or (tally.untold and not (tally.tokens or tally.billed))):
        return "?"
    return f"{'≥' if missing else _least(tally)}{usd(known)}"


def _least(tally: UsageTotals) -> str:
    return "≥" if tally.understated or tally.untold else ""


def _on_prices(whole: UsageTotals, prices: Prices, source: str) -> Iterator[str]:
    if not (whole.tokens or whole.billed):
        yield "what was used is not known"
        return
    if unknown := [name or "(no name)" for name in unpriced(whole.tokens, prices)]:
        names = ", ".join(unknown)
        yield f"no price is known for {names}: give one with --prices; a team's file will do"
    if not whole.tokens:
        yield "USD as the agents state it"
        return
    stated = "; where an agent states its cost, that" if whole.billed else ""
    yield f"USD at {source}: give yours with --prices{stated}" if source else f"USD at your prices{stated}"
