"""The transitions of a log: one for each lane that an entry moves, in order."""

from __future__ import annotations

from hypothesis import given

from stenolog import Entry, UserMessage
from stenolog.domain.lanes.step import INITIAL, fold
from stenolog.projections.fold import transitions
from stenolog.testing import entries, example_conversation
from tests.strategies import logs


def test_the_transitions_lead_each_lane_from_where_it_was_to_where_it_is() -> None:
    log = entries(*example_conversation())
    where: dict[str, str | None] = {}
    for made in transitions(log):
        assert not made.lane or where.get(made.lane, "idle") == made.source
        where[made.lane] = made.target
    del where[""]

    assert where == {address: lane.status for address, lane in fold(log).lanes.items()}


@given(log=logs())
def test_every_entry_has_at_least_one_transition_and_they_stand_in_order(log: list[Entry]) -> None:
    positions = [made.position for made in transitions(log)]

    assert positions == sorted(positions)
    assert set(positions) == {entry.position for entry in log}


@given(log=logs())
def test_the_transitions_go_on_from_a_state_that_was_kept(log: list[Entry]) -> None:
    half = len(log) // 2

    assert [*transitions(log[:half]), *transitions(log[half:], fold(log[:half]))] == [*transitions(log)]


def test_transitions_are_made_one_by_one_as_the_log_is_read() -> None:
    """A live tail has no end to wait for."""

    def endless() -> object:
        while True:
            yield from entries(UserMessage(text="Hi", to=["coder"]))

    made = transitions(endless(), INITIAL)  # type: ignore[arg-type]

    assert [next(made).target, next(made).target] == ["awaiting_llm", "awaiting_llm"]
