"""The life of a lane: the compiled table answers as the library that it is declared with."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import product
from operator import itemgetter
from random import Random
from typing import Any, get_args

import pytest
from transitions import Machine, MachineError

from stenolog.domain.lanes.lifecycle import GUARDS, STATES, TABLE, Status, Trigger, compile_table, legal, move
from stenolog.domain.lanes.lifecycle import machine as declared

TRIGGERS: tuple[Trigger, ...] = get_args(Trigger)
TRUTHS = [dict(zip(GUARDS, truth, strict=True)) for truth in product((True, False), repeat=len(GUARDS))]


class Model:
    """What the library moves: the guards as it looks them up, each with the truth it is given."""

    state: Status
    trigger: Callable[[str], bool]

    def __init__(self) -> None:
        self.truth: Mapping[str, bool] = {}
        for name in GUARDS:
            setattr(self, name, lambda _event, name=name: self.truth[name])


@pytest.fixture(scope="module")
def model() -> Model:
    model = Model()
    declared(model)
    return model


def by_library(model: Model, status: Status, trigger: Trigger, truth: Mapping[str, bool]) -> Status | None:
    """Return the state that the library goes to; None where it refuses."""
    model.state, model.truth = status, truth
    try:
        assert model.trigger(trigger)
    except MachineError:
        return None
    return model.state


def by_table(status: Status, trigger: Trigger, truth: Mapping[str, bool]) -> Status | None:
    """Return the state that the table goes to; None where it lists nothing."""
    moved = move(status, trigger, {name: itemgetter(name) for name in truth}, truth)
    return moved[1] if moved else None


@pytest.mark.parametrize("status", STATES)
@pytest.mark.parametrize("trigger", TRIGGERS)
def test_the_table_answers_as_the_library_whatever_the_guards_say(
    model: Model, status: Status, trigger: Trigger
) -> None:
    answers = [by_library(model, status, trigger, truth) for truth in TRUTHS]

    assert [by_table(status, trigger, truth) for truth in TRUTHS] == answers


def test_the_table_answers_as_the_library_over_5000_random_sequences(model: Model) -> None:
    random = Random(20260101)
    for _ in range(5000):
        here: Status = "idle"
        for _ in range(12):
            trigger, truth = random.choice(TRIGGERS), random.choice(TRUTHS)
            there = by_library(model, here, trigger, truth)
            assert by_table(here, trigger, truth) == there
            here = there or here


def test_every_state_can_be_reached_and_left_again() -> None:
    reached = {here: set(_reached(here)) for here in STATES}

    assert reached == {here: set(STATES) for here in STATES}


def _reached(here: Status) -> Iterator[Status]:
    seen: list[Status] = [here]
    for status in seen:
        yield status
        targets = (row.target for (source, _), rows in TABLE.items() if source == status for row in rows)
        seen += [target for target in dict.fromkeys(targets) if target and target not in seen]


def test_every_trigger_and_every_guard_is_used() -> None:
    used = {name for rows in TABLE.values() for row in rows for name, _ in row.guards}

    assert used == set(GUARDS)
    assert {trigger for _, trigger in TABLE} == set(TRIGGERS)


def test_what_is_legal_is_what_the_table_lists() -> None:
    assert legal("closed") == ("joined", "left")
    assert legal("awaiting_approval") == (
        "asked",
        "answered",
        "resulted",
        "approved",
        "refused",
        "questioned",
        "erred",
        "cancelled",
        "joined",
        "left",
    )


def test_the_table_cannot_be_changed() -> None:
    table: Any = TABLE
    with pytest.raises(TypeError):
        table["idle", "asked"] = ()


def two_states(*rows: dict[str, Any], **machine: Any) -> Machine:
    ways = [{"trigger": "go", "source": "a", "dest": "b", **row} for row in rows]
    states = machine.pop("states", ["a", "b"])
    return Machine(
        model=None, states=states, transitions=ways, initial="a", auto_transitions=False, **machine
    )


def callback(*_: object) -> None:
    """Do what a table cannot do."""


@pytest.mark.parametrize("hook", ["before", "after", "prepare"])
def test_a_callback_of_a_row_is_refused(hook: str) -> None:
    with pytest.raises(ValueError, match=r"\(a, go\): a callback is declared"):
        compile_table(two_states({hook: callback}))


@pytest.mark.parametrize("hook", ["on_enter", "on_exit"])
def test_a_callback_of_a_state_is_refused(hook: str) -> None:
    with pytest.raises(ValueError, match=rf"\['{hook}'\] are declared"):
        compile_table(two_states({}, states=["a", {"name": "b", hook: callback}]))


@pytest.mark.parametrize(
    "hook",
    [
        "prepare_event",
        "before_state_change",
        "after_state_change",
        "finalize_event",
        "on_exception",
        "on_final",
    ],
)
def test_a_callback_of_the_machine_is_refused(hook: str) -> None:
    with pytest.raises(ValueError, match=rf"\['{hook}'\] are declared"):
        compile_table(two_states({}, **{hook: callback}))


@pytest.mark.parametrize("guard", ["os.path.exists", "is_tuesday", callback])
def test_a_guard_that_is_not_described_is_refused(guard: object) -> None:
    with pytest.raises(ValueError, match="unknown guards"):
        compile_table(two_states({"conditions": guard}, {}))


@pytest.mark.parametrize(
    "rows",
    [
        [{}, {"conditions": "has_calls"}],
        [{}, {}],
        [{"conditions": "has_calls"}, {"conditions": ["calls_open", "has_calls"]}, {}],
        [{"conditions": "has_calls"}, {"conditions": "has_calls"}, {}],
    ],
    ids=["behind no guard", "behind no guard, twice", "behind a wider guard", "behind the same guard"],
)
def test_a_row_that_is_never_reached_is_refused(rows: list[dict[str, Any]]) -> None:
    with pytest.raises(ValueError, match="every row to be reached"):
        compile_table(two_states(*rows))


def test_a_trigger_that_might_go_nowhere_is_refused() -> None:
    with pytest.raises(ValueError, match="a last row without guards"):
        compile_table(two_states({"conditions": "has_calls"}, {"unless": "has_calls"}))


def test_rows_with_opposite_guards_both_stay() -> None:
    table = compile_table(two_states({"conditions": "has_calls"}, {"unless": "has_calls"}, {"dest": None}))

    [rows] = table.values()
    assert [(row.guards, row.target) for row in rows] == [
        ((("has_calls", True),), "b"),
        ((("has_calls", False),), "b"),
        ((), None),
    ]
