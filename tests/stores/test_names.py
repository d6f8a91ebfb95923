"""The names of conversations: some of them, in an order, counted, and without reading the rest."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from stenolog import Log
from stenolog.adapters.store.reading.handle import LogHandle
from tests.stores.conftest import START, said

NAMES = ["mail 10", "Mail 9", "Émile", "50%", "a_b", "a~b"]


@pytest.fixture(autouse=True)
def conversations(log: Log) -> None:
    """Write six conversations, a second apart; the first gets another message, and the last is archived."""
    for name in NAMES:
        said(log[name], "hi")
    said(log["mail 10"], "again")
    log["a~b"].archive()


@pytest.mark.parametrize(
    ("which", "expected"),
    [
        ({}, NAMES[:5]),
        ({"archived": True}, NAMES),
        ({"order": "newest"}, NAMES[4::-1]),
        ({"order": "a-z"}, ["50%", "Mail 9", "a_b", "mail 10", "Émile"]),
        ({"order": "z-a", "limit": 2}, ["Émile", "mail 10"]),
        ({"limit": 2}, ["mail 10", "Mail 9"]),
        ({"limit": 0}, []),
        ({"prefix": "m"}, ["mail 10"]),
        ({"prefix": "a", "archived": True}, ["a_b", "a~b"]),
        ({"contains": "AIL"}, ["mail 10", "Mail 9"]),
        ({"contains": "%"}, ["50%"]),
        ({"contains": "_"}, ["a_b"]),
        ({"contains": "é"}, []),
        ({"active_since": START + timedelta(seconds=4)}, ["mail 10", "a_b"]),
        ({"active_since": START + timedelta(seconds=4), "order": "newest", "limit": 1}, ["a_b"]),
        ({"older_than": "50%"}, NAMES[:3]),
        ({"older_than": "50%", "order": "newest", "limit": 1}, ["Émile"]),
        ({"older_than": "nobody"}, []),
        ({"contains": "m", "active_since": START, "older_than": "a_b"}, ["mail 10", "Mail 9", "Émile"]),
    ],
)
def test_they_are_those_that_were_asked_for(log: Log, which: dict[str, Any], expected: list[str]) -> None:
    assert log.names(**which) == expected

    counted = {name: value for name, value in which.items() if name not in ("limit", "order")}
    assert log.count(**counted) == len(log.names(**counted))


@pytest.mark.parametrize("which", ["prefix", "contains", "older_than"])
def test_half_a_surrogate_pair_is_in_no_name(log: Log, which: str) -> None:
    """A shell hands on bytes that are no UTF-8 as such."""
    assert log.names(**{which: "\udcff"}) == []  # type: ignore[arg-type]
    assert "\udcff" not in log


def test_counting_and_asking_for_one_reads_no_list(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(LogHandle, "names")

    assert len(log) == 5
    assert ("50%" in log, "nobody" in log) == (True, False)


def test_conversations_that_come_and_go_while_a_log_is_gone_through_do_not_matter(log: Log) -> None:
    for name in log:
        log[name].fork()

    assert len(log) == 10
