"""Logs to search in: on disk and in memory, and what was found there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from stenolog import Log
from stenolog.adapters.conversation.search import indexing
from stenolog.adapters.store.contract.values import CommittedRow
from tests.stores.conftest import conversation, log, path

__all__ = ["conversation", "log", "path"]


def places(log: Log, query: str, **wanted: Any) -> list[tuple[str, int]]:
    """Return the places of the hits, in the order of the log's names and positions."""
    return sorted((hit.conversation, hit.position) for hit in log.search(query, **wanted))


@pytest.fixture
def indexed(monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """Return the number of entries indexed since the last call."""
    seen: list[int] = []
    worded = indexing.worded

    def counting(source: indexing.Source, rows: list[CommittedRow]) -> Any:
        seen.extend(row.notification for row in rows)
        return worded(source, rows)

    monkeypatch.setattr(indexing, "worded", counting)

    def since() -> int:
        count = len(seen)
        seen.clear()
        return count

    return since
