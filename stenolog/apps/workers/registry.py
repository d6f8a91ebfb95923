"""Port of the registry that shows workers to each other."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol


class WorkerRegistry(Protocol):
    """Shows a worker to the others, and the others to it."""

    def beat(self, digest: str, doing: Iterable[int]) -> None:
        """Report that the worker lives, its team's version, and the conversations it runs."""

    def is_current(self, digest: str) -> bool:
        """Return whether a version of the team is the current one."""

    def share_breakers(self, opened: Mapping[str, float]) -> dict[str, float]:
        """Report models to avoid for so many seconds; return those that others avoid."""

    def end(self) -> None:
        """Show that the worker has ended."""


class OnlyWorker:
    """Registry of a log in a file, where each worker is alone. See `WorkerRegistry`."""

    def beat(self, digest: str, doing: Iterable[int]) -> None:
        """Do nothing."""

    def is_current(self, digest: str) -> bool:
        """Return True."""
        return True

    def share_breakers(self, opened: Mapping[str, float]) -> dict[str, float]:
        """Return nothing: no other worker is known."""
        return {}

    def end(self) -> None:
        """Do nothing."""
