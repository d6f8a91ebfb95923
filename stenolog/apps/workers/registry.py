"""The registry of workers, as a port: it shows a worker to the others, and the others to it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol


class WorkerRegistry(Protocol):
    """Shows a worker to the others, and the others to it."""

    def beat(self, digest: str, doing: Iterable[int]) -> None:
        """Show that the worker lives, its version of the team, and the keys of what it is at."""

    def is_current(self, digest: str) -> bool:
        """Return whether a version of the team is the current one."""

    def share_breakers(self, opened: Mapping[str, float]) -> dict[str, float]:
        """Tell of models that are left alone for so many seconds; return those that others leave alone."""

    def end(self) -> None:
        """Show that the worker has ended."""


class OnlyWorker:
    """The registry of a log in a file, where each worker stands for itself. See `WorkerRegistry`."""

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
