"""Lifecycle of a lane: six states, ten triggers, and one table that says where each trigger leads.

A lane is an agent, or an agent at one of its tasks. Its state says what must happen next, so any process can
resume the conversation from the log:

    idle               nothing is due; the lane waits to be asked
    awaiting_llm       its model must be called, now or at the retry time of the last error
    awaiting_approval  the last answer made calls, and a person must approve at least one of them
    awaiting_tools     the calls of the last answer may run; at least one has no result yet
    failed             the last model call failed for good; a message or `continue` resumes the lane
    closed             the agent has left

An entry moves a lane in three steps, all of them pure:

1. `triggers.interpret` reads the entry, updates the fields of the lane (open calls, attempts, what it was
   asked) and names a trigger.
2. `move` looks up the rows of (state, trigger) in `TABLE`. The first row whose guards hold decides. A guard
   is a question about the updated lane, such as "does some call still have no result?"; `step.HOLDS`
   answers it.
3. `step` stores the state that the row names. Without a row the lane stays, and the entry is counted as an
   anomaly: a fold has to read any log, also an imported one.

An answer with two calls moves a lane from awaiting_llm to awaiting_tools. The first result leaves it there,
because the guard `calls_open` holds. The second moves it to awaiting_llm.

The rows are a machine of the `transitions` library, which `compile_table` freezes at import. See
`state.decision` for what is due.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import combinations
from types import MappingProxyType
from typing import Any, Final, Literal, NamedTuple, TypeAlias, TypeVar, cast

from transitions import Machine

Status: TypeAlias = Literal["idle", "awaiting_llm", "awaiting_approval", "awaiting_tools", "failed", "closed"]
Trigger: TypeAlias = Literal[
    "asked",
    "answered",
    "resulted",
    "erred",
    "approved",
    "refused",
    "questioned",
    "cancelled",
    "continued",
    "joined",
    "left",
]
T = TypeVar("T")
TRIGGERS: Final[dict[Trigger, str]] = {
    "asked": "something has arrived that this agent should answer",
    "answered": "the agent's model has answered",
    "resulted": "one of the agent's tool calls has its result",
    "erred": "the agent's model call failed",
    "approved": "a person approved a call, or answered its question",
    "refused": "a person refused a call",
    "questioned": "one of the agent's tools asks a person",
    "cancelled": "a person, or the loss of the connection to one, stopped the agent",
    "continued": "a person told the agent to go on",
    "joined": "the agent takes part",
    "left": "the agent takes part no longer",
}
"""The triggers, each with its event."""
STATES: Final[tuple[Status, ...]] = (
    "idle",
    "awaiting_llm",
    "awaiting_approval",
    "awaiting_tools",
    "failed",
    "closed",
)
GUARDS: Final = {
    "has_calls": "the answer calls tools",
    "awaits_approval": "some open call still needs a person's approval or answer",
    "calls_open": "some call still has no result",
    "has_ended": "a result has ended the run, and nothing was said since",
    "will_retry": "the error says when it will be tried again",
    "asked_since": "something arrived while the answer was being written, which it has not seen",
}


def _row(trigger: Trigger, source: Status | list[Status], dest: Status | None, *when: str) -> dict[str, Any]:
    return {"trigger": trigger, "source": source, "dest": dest, "conditions": list(when)}


BUSY: Final[tuple[Status, ...]] = ("awaiting_llm", "awaiting_approval", "awaiting_tools")
_OPEN: list[Status] = ["idle", "awaiting_llm", "awaiting_approval", "awaiting_tools", "failed"]
# A lane has open calls just in these two.
_AT_CALLS: list[Status] = ["awaiting_approval", "awaiting_tools"]
_FREE: list[Status] = ["idle", "awaiting_llm", "failed"]

TRANSITIONS: Final[list[dict[str, Any]]] = [
    _row("asked", _FREE, "awaiting_llm"),
    # What is said while calls are open is answered with their results.
    _row("asked", _AT_CALLS, None),
    _row("answered", _OPEN, "awaiting_approval", "has_calls", "awaits_approval"),
    _row("answered", _OPEN, "awaiting_tools", "has_calls"),
    # Behind the rows with calls: an answer that calls tools waits for them first.
    _row("answered", _OPEN, "awaiting_llm", "asked_since"),
    # From any state but closed: an imported log has answers that no message asked for.
    _row("answered", _OPEN, "idle"),
    _row("resulted", _AT_CALLS, "awaiting_approval", "awaits_approval"),
    _row("resulted", _AT_CALLS, "awaiting_tools", "calls_open"),
    _row("resulted", _AT_CALLS, "idle", "has_ended"),
    _row("resulted", _AT_CALLS, "awaiting_llm"),
    _row("approved", "awaiting_approval", "awaiting_approval", "awaits_approval"),
    _row("approved", "awaiting_approval", "awaiting_tools"),
    # The result of the refused call closes it; until then no call of the answer may run.
    _row("refused", "awaiting_approval", None),
    _row("questioned", _AT_CALLS, "awaiting_approval"),
    _row("erred", _FREE, "awaiting_llm", "will_retry"),
    _row("erred", _FREE, "failed"),
    # The lane waits for its calls, and not for its model.
    _row("erred", _AT_CALLS, None),
    _row("cancelled", _OPEN, "idle"),
    _row("continued", _FREE, "awaiting_llm"),
    _row("joined", _OPEN, None),
    _row("joined", "closed", "idle"),
    _row("left", [*_OPEN, "closed"], "closed"),
]


_CALLBACKS = (
    "on_enter",
    "on_exit",
    "prepare_event",
    "before_state_change",
    "after_state_change",
    "finalize_event",
    "on_exception",
    "on_final",
)


class Row(NamedTuple):
    """One way out of a state: the guards with their required truth, and the target (None: stay)."""

    guards: tuple[tuple[str, bool], ...]
    target: Status | None


Table: TypeAlias = Mapping[tuple[Status, Trigger], tuple[Row, ...]]


def machine(model: object = None) -> Machine:
    """Return the declaration as the library's own machine, to draw it and to check the table."""
    return Machine(
        model=model,
        states=list(STATES),
        transitions=TRANSITIONS,
        initial="idle",
        auto_transitions=False,
        send_event=True,
    )


def compile_table(declared: Machine) -> Table:
    """Return the machine as a frozen table.

    Refuses callbacks, guards without a description in `GUARDS`, and rows that are never reached because an
    earlier one always holds.
    """
    # Callbacks are refused, because a fold must not have side effects.
    for owner in (declared, *declared.states.values()):
        if called := [name for name in _CALLBACKS if getattr(owner, name, None)]:
            raise ValueError(
                f"{getattr(owner, 'name', '')}: {called} are declared; effects belong to the engine"
            )
    table: dict[tuple[Status, Trigger], tuple[Row, ...]] = {}
    for trigger, event in declared.events.items():
        for source, ways in event.transitions.items():
            rows = tuple([_compiled(trigger, source, way) for way in ways])
            # Without a last row that always holds, an entry could fall through and count as an anomaly.
            if rows[-1].guards or True in [_hides(row, later) for row, later in combinations(rows, 2)]:
                raise ValueError(
                    f"({source}, {trigger}): expected a last row without guards, and every row to be reached"
                )
            table[cast(Status, source), cast(Trigger, trigger)] = rows
    return MappingProxyType(table)


def _compiled(trigger: str, source: str, way: Any) -> Row:
    if way.before or way.after or way.prepare:
        raise ValueError(f"({source}, {trigger}): a callback is declared; effects belong to the engine")
    guards = tuple([(condition.func, condition.target) for condition in way.conditions])
    if unknown := [name for name, _ in guards if name not in GUARDS]:
        raise ValueError(f"({source}, {trigger}): unknown guards {unknown}")
    return Row(guards, way.dest)


def _hides(row: Row, later: Row) -> bool:
    """Return whether `row` matches whenever `later` does, so that the later row is never reached."""
    return set(row.guards) <= set(later.guards)


# Some 25 times as fast as the library's own machine; a fold looks it up for each entry.
TABLE: Final[Table] = compile_table(machine())


def move(
    status: Status, trigger: Trigger, holds: Mapping[str, Callable[[T], bool]], lane: T
) -> tuple[Row, Status] | None:
    """Return the row that decides, and the state after it; None if the table lists nothing.

    `holds` has the test of each guard's name, for the updated lane.
    """
    for row in TABLE.get((status, trigger), ()):
        for name, wanted in row.guards:
            if holds[name](lane) is not wanted:
                break
        else:
            return row, row.target or status
    return None


def legal(status: Status) -> tuple[Trigger, ...]:
    """Return the triggers that the table lists for a state."""
    return tuple(trigger for (source, trigger) in TABLE if source == status)
