"""The list of tool outputs, and the short aliases by which it names them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from typing import TYPE_CHECKING, Any

from stenolog.domain.errors import InvalidEventError
from stenolog.projections.requests.pipeline.truncation import entry_of

from .lines import Piece
from .terminal import width

if TYPE_CHECKING:
    from stenolog.adapters.queries.outputs import Outputs

    from .layout import Cell

SHORTEST = 8
"""The characters of an entry's id that a short alias has, or more where two would be alike."""
TOOL = 12
"""The cells that the name of a tool keeps."""


def outputs_drawn(rows: Sequence[Mapping[str, Any]]) -> Iterator[Piece]:
    """Draw the outputs: with short aliases and their first words, or in a pipe with whole aliases."""
    from .layout import table

    if width() is None:
        yield table((">ENTRY", ">BYTES", "TOOL", "ALIAS"), [(*_cells(row), row["alias"]) for row in rows])
        return
    short = short_aliases([row["alias"] for row in rows])
    cells = [(*_cells(row), (short[row["alias"]], "bold"), (row["begins"], "dim")) for row in rows]
    yield table((">ENTRY", ">BYTES", "~TOOL", "ALIAS", "*TEXT"), cells, names=TOOL)


def _cells(row: Mapping[str, Any]) -> tuple[Cell, ...]:
    size = "gone" if row["bytes"] is None else f"{row['bytes']:,}"
    return f"{row['position']:,}", size, row["name"]


def short_aliases(aliases: Sequence[str]) -> dict[str, str]:
    """Return a short alias for each: `@` and as much of the entry's id as no other has; else the alias."""
    ids = {alias: entry_of(alias) for alias in aliases}
    known = {id for id in ids.values() if id}
    length = next(long for long in count(SHORTEST) if len({id[:long] for id in known}) == len(known))
    return {alias: f"@{id[:length]}" if id else alias for alias, id in ids.items()}


def full_alias(outputs: Outputs, written: str) -> str:
    """Return the alias that was meant: a whole one, or a short one as the list has it.

    Raises `InvalidEventError` for a short one that several outputs have.
    """
    if "/" in written or not written.startswith("@"):
        return written
    found = [alias for alias in outputs if (id := entry_of(alias)) and id.startswith(written[1:])]
    if len(found) > 1:
        raise InvalidEventError(
            f"{written} is the beginning of {len(found)} aliases: {', '.join(found[:3])}…"
        )
    return found[0] if found else written
