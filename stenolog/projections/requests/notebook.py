"""Request as a table for notebooks, with omissions in their places."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from stenolog.domain.lanes.state import runs_in_words
from stenolog.projections.html_table import Cells, table
from stenolog.projections.messages.explanation import Omission, RequestPart
from stenolog.projections.messages.rules import HAD

from .part_texts import Explained, part_text

COLUMNS = ("", "entries", "role", "what", "rule", "tokens", "text")


def request_table(request: Explained, caption: str) -> str:
    """Return a request as HTML."""
    lines = list(_in_place(request.parts, request.omissions))
    alone = Counter(part.message for part in request.parts)

    def cells(line: RequestPart | Omission) -> Cells:
        if isinstance(line, Omission):
            where = runs_in_words([(line.first, line.last)])
            if line.rule in HAD:
                return "", where, "", "held", line.rule, line.tokens, line.what
            return "", where, "", "left out", line.rule, f"{line.tokens:,} → 0", line.what
        number = line.message + 1 if line.message >= 0 else ""
        size = (
            f"{line.tokens_in:,} → {line.tokens_out:,}"
            if line.tokens_in != line.tokens_out
            else line.tokens_out
        )
        text = part_text(request, line, alone[line.message] == 1)
        where = ", ".join(map(str, line.positions))
        return number, where, line.role, line.disposition, line.rule, size, text

    return table(caption, COLUMNS, len(lines), lambda first, end: map(cells, lines[first:end]))


def _in_place(parts: Sequence[RequestPart], gone: Sequence[Omission]) -> Iterator[RequestPart | Omission]:
    waiting = sorted(gone)
    for part in parts:
        first = 0 if part.message < 0 or part.role == "system" else min(part.positions, default=0)
        while waiting and waiting[0].first < first:
            yield waiting.pop(0)
        yield part
    yield from waiting
