"""The list that `ls` prints: a row for each conversation, in columns that fit the terminal."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from stenolog.apps.cli.arguments.time import in_zone
from stenolog.apps.cli.lines import Piece, shortened
from stenolog.apps.views.conversations import short_model
from stenolog.apps.views.figures import ago, short_usd

from .layout import Cell, table

NAME_PART = 5
"""A name that is no UUID has at most this part of the terminal."""
TITLE, PART = 24, 4
"""The cells that a title keeps before other columns are left out; of a wide terminal this part of them."""
NAMES = 12
"""The cells that names of projects, branches, agents and models keep."""
STATES = {
    "failed": "failed",
    "awaiting_approval": "approval",
    "awaiting_tools": "open",
    "awaiting_llm": "open",
}
"""The words for a status of an agent, the most urgent first; `open`: a model or a tool has yet to answer."""
STYLES = {"failed": "red", "approval": "yellow", "open": "dim", "": ""}
COLUMNS = (
    "NAME", ">LAST", "~PROJECT", "~BRANCH", "~AGENTS", "~MODEL", "STATE", ">TURNS", ">ERRORS", ">USD",
    "*TITLE",
)  # fmt: skip
ALWAYS = frozenset(("NAME", "LAST", "TURNS", "TITLE"))
"""The columns that are there even if they are empty."""
SPARE = ("BRANCH", "AGENTS", "MODEL", "PROJECT", "ERRORS", "STATE", "USD")
"""The columns that a narrow terminal does without, the first one first."""


def list_drawn(
    rows: Sequence[dict[str, Any]], width: int | None, now: datetime | None = None
) -> Iterable[Piece]:
    """Draw the list in so many cells; None is a pipe, with names in full. Times are relative to `now`."""
    drawn = [_row(row, width, now) for row in rows]
    kept = [
        at
        for at, name in enumerate(COLUMNS)
        if name.strip(">*~") in ALWAYS or any(_text_of(row[at]) for row in drawn)
    ]
    columns, least = [COLUMNS[at] for at in kept], max(TITLE, (width or 0) // PART)
    yield table(columns, [[row[at] for at in kept] for row in drawn], least, NAMES, SPARE)


def _text_of(cell: Cell) -> str:
    return cell if isinstance(cell, str) else cell[0]


def _row(row: dict[str, Any], width: int | None, now: datetime | None) -> tuple[Cell, ...]:
    piped = width is None
    statuses = {*row["lanes"].values(), *(["awaiting_approval"] if row["asks_person"] else [])}
    state = next((shown for status, shown in STATES.items() if status in statuses), "")
    fork = row["fork_of"]
    parent = fork["conversation" if piped else "short_name"] if fork else ""
    title = f"fork of {parent}@{fork['position']}: " if fork else ""
    return (
        (row["name"] if width is None else shortened(row["short_name"], width // NAME_PART), "bold"),
        (_last(row["last_at"], now), "dim"),
        re.split(r"[/\\]", row["folder"].rstrip("/\\"))[-1],
        (row["branch"], "dim"),
        _few(row["agents"], piped),
        _few(row["models"] if piped else [short_model(name) for name in row["models"]], piped),
        (state, STYLES[state]),
        f"{row['turns']:,}",
        (f"{row['errors']:,}", "red") if row["errors"] else "",
        short_usd(row["known_cost_micro_usd"], is_least=row["cost_is_incomplete"]),
        (title + row["title"]).removesuffix(": "),
    )


def _last(at: str | None, now: datetime | None) -> str:
    if at is None:
        return ""
    time = datetime.fromisoformat(at)
    return f"{in_zone(time):%Y-%m-%d %H:%M}" if now is None else ago(time, now)


def _few(names: Sequence[str], piped: bool) -> str:
    if piped:
        return ",".join(names)
    return names[0] + (f" +{len(names) - 1}" if len(names) > 1 else "") if names else ""
