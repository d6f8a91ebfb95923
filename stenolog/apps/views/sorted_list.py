"""Conversations sorted by a column, grouped by project, and summed."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from stenolog.domain.errors import InvalidEventError
from stenolog.projections.views.spending import Spent, together

from .cost_table import CostRow

COLUMNS: dict[str, Callable[[CostRow], Any]] = {
    "title": lambda row: (row.title or row.name).casefold(),
    "project": lambda row: row.folder.casefold(),
    "agents": lambda row: [name.casefold() for name in row.agents],
    "models": lambda row: [name.casefold() for name in row.models],
    "turns": lambda row: row.turns,
    "errors": lambda row: row.errors,
    "tokens": lambda row: row.tokens,
    "usd": lambda row: -1 if row.cost is None else row.cost,
    "last": lambda row: row.last,
}
"""The keys by which a list is sorted."""


class ConversationGroup(NamedTuple):
    """Conversations of one project, or all; the sums count shared entries of forks once."""

    folder: str
    rows: list[CostRow]

    @property
    def turns(self) -> int:
        return sum(row.own_turns for row in self.rows)

    @property
    def errors(self) -> int:
        return sum(row.own_errors for row in self.rows)

    @property
    def spent(self) -> Spent:
        return together(row.total for row in self.rows)


SUMMED: dict[str, Callable[[ConversationGroup], int]] = {
    "turns": lambda group: group.turns,
    "errors": lambda group: group.errors,
    "tokens": lambda group: group.spent.input + group.spent.output,
    "usd": lambda group: group.spent.cost,
}
"""The columns of which a group has the sum."""


def grouped(rows: Iterable[CostRow], sort: str, *, by_project: bool) -> list[ConversationGroup]:
    """Return the rows sorted by a column, descending after `-`; in one group, or one for each project.

    Groups are sorted by the same column: by its sum, else by that of their first conversation. Raises
    `InvalidEventError` for no column.
    """
    column, is_falling = sort.removeprefix("-"), sort.startswith("-")
    if column not in COLUMNS:
        raise InvalidEventError(f"sort: expected one of {', '.join(COLUMNS)}, found {column!r:.60}")
    key = COLUMNS[column]
    ordered = sorted(rows, key=lambda row: row.name)
    ordered.sort(key=key, reverse=is_falling)
    if not by_project:
        return [ConversationGroup("", ordered)]
    folders: dict[str, list[CostRow]] = {}
    for row in ordered:
        folders.setdefault(row.folder, []).append(row)
    groups = [ConversationGroup(*each) for each in folders.items()]
    if column in SUMMED:
        groups.sort(key=SUMMED[column], reverse=is_falling)
    return groups
