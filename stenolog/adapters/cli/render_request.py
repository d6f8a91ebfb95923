"""A request with its reasons: one line for every part of the body, and for every run that was left out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias, TypeVar

from stenolog.domain.entry import Entry
from stenolog.domain.state import address
from stenolog.projections.analysis.body_text import part_text
from stenolog.projections.analysis.why import Missing
from stenolog.projections.requests import Omission, Request, RequestPart
from stenolog.projections.requests.rules import NOT_CARRIED

from .layout import Cell, table, wrapped
from .lines import Piece
from .words import counted, describe

Row: TypeAlias = RequestPart | tuple[Omission, int]
"""A part of the request; or what was left out, and how often."""
Run = TypeVar("Run", Omission, Missing)
OF_THE_WIRE = frozenset(NOT_CARRIED.values()) | {"foreign-reasoning", "trailing-thinking"}
"""Rules that omit single parts, since the API has no place for them."""
RUNS = 4
DISPOSITIONS = {"kept": "green", "reworded": "yellow", "added": "magenta"}


def drawn(request: Request, entries: Iterable[Entry]) -> Iterator[Piece]:
    """The whole request: what it is, whether anyone would send it, and its parts with what they came from."""
    words = {entry.position: describe(entry).what for entry in entries}
    yield from head_lines(request)
    shared = Counter(part.message for part in request.parts)
    columns = (">#", ">ENTRIES", "ROLE", "WHAT", "RULE", ">TOKENS", "*TEXT")
    yield table(columns, [_row(row, request, words, shared) for row in _in_order(request)])


def head_lines(request: Request) -> Iterator[Piece]:
    """Draw a request's heading, and a note if it would not be sent."""
    tokens = counted(request.size.tokens, "token")
    yield wrapped(
        ("request for ", "dim"), (address(request.agent, request.task), "bold cyan"), f" at {request.at}",
        (f" · {request.api} · {tokens} · sha256 {request.sha256[:12]}…", "dim"),
    )  # fmt: skip
    if not request.sendable:
        why = "not sendable yet" if request.ready else "a preview, nobody would send it"
        yield wrapped((f"{why}: {request.reason}", "yellow"), hang=2)


def _in_order(request: Request) -> list[Row]:
    """The parts in the order of the body; each run that was left out before the first part behind it."""
    rows: list[Row] = list(request.parts)
    for run, times in folded(request.dropped):
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
    """Return the omitted runs, oldest first, each with its count.

    Parts that an API cannot carry count as one run per rule, wherever they are.
    """
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
    """Positions as runs: 3-5, 8; only the first, the second and the last of more than `RUNS`."""
    runs: list[list[int]] = []
    for position in sorted(positions):
        if runs and position == runs[-1][1] + 1:
            runs[-1][1] = position
        else:
            runs.append([position, position])
    shown = [str(first) if first == last else f"{first}-{last}" for first, last in runs]
    return ", ".join(shown if len(shown) <= RUNS else [*shown[:2], "…", shown[-1]])
