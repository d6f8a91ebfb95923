"""Named tuples are read back from JSON by their annotations as pydantic reads them."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings

from stenolog import Entry, Settings, State, evolve
from stenolog.adapters.queries.folds import Json, Rows, reader
from stenolog.domain.limits import UsageByLane, track_usage
from stenolog.domain.settings import configure
from stenolog.domain.values import PositionRange
from stenolog.projections.requests import LaneId
from stenolog.projections.requests.incremental.snapshot import WindowSnapshot
from stenolog.projections.requests.incremental.window import Window
from stenolog.projections.usage import Usage, usage
from tests.requests.policies import SMALL
from tests.strategies import logs

KINDS = (State, Settings, UsageByLane, Usage, WindowSnapshot)
ROWS: dict[type, Rows[Any]] = {kind: Rows(kind) for kind in KINDS}
JSON: dict[type, Json[Any]] = {kind: Json(kind) for kind in KINDS}


def folded(log: list[Entry]) -> Iterator[Any]:
    """States of every fold, as they are after the log."""
    state, now, accounts = State(), Settings(), UsageByLane()
    for entry in log:
        state, now, accounts = evolve(state, entry), configure(now, entry), track_usage(accounts, entry)
    yield from (state, now, accounts, usage(log))
    window = Window(LaneId("coder"), SMALL["tokens"])
    for entry in log:
        window.take(entry)
    yield window.snapshot


@given(logs())
@settings(max_examples=60)
def test_what_is_written_is_read_again(log: list[Entry]) -> None:
    for value in folded(log):
        text = ROWS[type(value)].dump(value)

        assert ROWS[type(value)].load(text) == value == JSON[type(value)].load(text)
        assert ROWS[type(value)].dump(ROWS[type(value)].load(text)) == text


class Place(NamedTuple):
    at: datetime | None = None
    spans: tuple[PositionRange, ...] = ()
    pairs: tuple[tuple[int, PositionRange], ...] = ()
    by: dict[int, tuple[str, ...]] = {}  # noqa: RUF012 - never changed


def test_times_values_and_keys_that_are_numbers_are_read_as_what_they_were() -> None:
    place = Place(
        datetime(2026, 1, 2, 3, 4, 5, 678, tzinfo=UTC),
        (PositionRange(first=1, last=2),),
        ((7, PositionRange(first=3, last=3)),),
        {4: ("a", "b")},
    )

    assert Rows(Place).load(Rows(Place).dump(place)) == place
    assert Rows(Place).load(Rows(Place).dump(Place())) == Place()


@pytest.mark.parametrize(
    "text", [b"", b"7", b"{}", b"[]", b"[1]", b'["x",[],[],{}]', b'[null,[[]],[],{"x":[]}]']
)
def test_what_cannot_be_a_row_is_an_error_of_value(text: bytes) -> None:
    with pytest.raises(ValueError, match="expected a Place, as `dump` writes it"):
        Rows(Place).load(text)


def test_a_type_that_no_annotation_tells_how_to_read_is_refused() -> None:
    with pytest.raises(TypeError, match="expected a type that can be read by its annotations"):
        reader(set[int])
    with pytest.raises(TypeError, match="expected one type or None"):
        reader(tuple[PositionRange | datetime, ...])
