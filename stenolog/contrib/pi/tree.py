"""The tree of a session's records: one that follows an earlier record than the last leaves a branch.

Sessions of pi's first version have no ids. There, each record follows the one before it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable


class RecordTree:
    """The records so far by their ids, with their parents and numbers, and the path to the latest one."""

    def __init__(self) -> None:
        self.last = ""
        self._parents: dict[str, str] = {}
        self._numbers: dict[str, int] = {}
        self._covered: dict[str, frozenset[str]] = {}

    def __contains__(self, id: str) -> bool:
        return id in self._parents

    def leaves(self, parent: str | None) -> bool:
        """Return whether a record with this parent leaves the path; one without a known parent goes on."""
        if not self.last or parent == self.last:
            return False
        return parent is None or parent in self._parents

    def add(self, id: str, parent: str | None, number: int) -> None:
        """Add the next record; None is the parent of a root, and an unknown parent the record before."""
        actual = parent if parent in self._parents else self.last
        self._parents[id] = "" if parent is None else actual or ""
        self._numbers[id] = number
        self.last = id

    def cover(self, id: str, ids: Iterable[str]) -> None:
        """Note the messages that a summary stands for."""
        self._covered[id] = frozenset(ids)

    def path(self, last: str, messages: Collection[str]) -> tuple[list[str], list[str]]:
        """Return the messages on the path to a record, and those of them that no summary stands for."""
        path: set[str] = set()
        covered: set[str] = set()
        while last and last not in path:
            path.add(last)
            covered |= self._covered.get(last, frozenset())
            last = self._parents.get(last, "")
        on_path = [id for id in messages if id in path]
        return on_path, [id for id in on_path if id not in covered]

    def from_id(self, first: str, messages: Iterable[str]) -> list[str]:
        """Return the messages from a record on; none where it is not known."""
        start = self._numbers.get(first)
        return [] if start is None else [id for id in messages if self._numbers.get(id, -1) >= start]

    def from_number(self, first: int, messages: Iterable[str]) -> list[str]:
        """Return the messages from the record of a number on."""
        return [id for id in messages if self._numbers.get(id, -1) >= first]
