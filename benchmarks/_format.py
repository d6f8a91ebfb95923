"""The print of a measured row."""

from __future__ import annotations

import math

from benchmarks._ratio import Row


def line(row: Row) -> str:
    value, limit = (
        "-" if number == math.inf else f"{number:.4g} {row.unit}" for number in (row.value, row.limit)
    )
    note = f" ({row.note})" if row.note else ""
    return f"{'ok' if row.ok else 'MISS':4} {value:>10} {limit:>10}  {row.name}{note}"
