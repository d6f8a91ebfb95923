"""A request with its reasons: one line for every part of the body, and for every run that was left out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from stenolog.domain.entry import Entry
from stenolog.domain.state import address
from stenolog.projections.analysis.bodies import said
from stenolog.projections.requests import Dropped, Explained, Request

from .drawing import table
from .lines import Piece, line
from .words import describe

DISPOSITIONS = {"kept": "green", "reworded": "yellow", "added": "magenta"}


def drawn(request: Request, entries: Iterable[Entry]) -> Iterator[Piece]:
    """The whole request: what it is, whether anyone would send it, and its parts with what they came from."""
    words = {entry.position: describe(entry).what for entry in entries}
    yield from head_lines(request)
    shared = Counter(part.message for part in request.parts)
    columns = (">#", ">ENTRIES", "ROLE", "WHAT", "RULE", ">TOKENS", "*TEXT")
    yield table(columns, [_row(row, request, words, shared) for row in _in_order(request)])


def head_lines(request: Request) -> Iterator[Piece]:
    """Which request it is, and whether anyone would send it."""
    tokens = sum(part.tokens_out for part in request.parts)
    yield line(
        ("request for ", "dim"), (address(request.agent, request.task), "bold cyan"), f" at {request.upto}",
        (f" · {request.wire} · about {tokens:,} tokens · sha256 {request.sha256[:12]}…", "dim"),
    )  # fmt: skip
    if not request.sendable:
        yield line((f"a preview, nobody would send it: {request.reason}", "yellow"))


def _in_order(request: Request) -> list[Explained | Dropped]:
    """The parts in the order of the body; each run that was left out before the first part behind it."""
    rows: list[Explained | Dropped] = list(request.parts)
    for run in reversed(request.dropped):
        behind = (
            index
            for index, row in enumerate(rows)
            if isinstance(row, Explained) and row.message >= 0 and max(row.positions, default=0) > run.last
        )
        rows.insert(next(behind, len(rows)), run)
    return rows


def _row(
    row: Explained | Dropped, request: Request, words: Mapping[int, str], shared: Counter[int]
) -> Sequence[str | tuple[str, str]]:
    if isinstance(row, Dropped):
        text = words.get(row.first, "")
        span = spans(range(row.first, row.last + 1))
        return ("-", span, "", ("left out", "red"), row.rule, f"{row.tokens:,} → 0", (text, "dim"))
    alone = shared[row.message] == 1 or not row.positions
    came_from = words[row.positions[0]] if row.positions and row.role != "tools" else ""
    text = said(request, row, alone) or came_from
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


def spans(positions: Sequence[int]) -> str:
    """Positions as runs: 3-5, 8."""
    runs: list[list[int]] = []
    for position in sorted(positions):
        if runs and position == runs[-1][1] + 1:
            runs[-1][1] = position
        else:
            runs.append([position, position])
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)
