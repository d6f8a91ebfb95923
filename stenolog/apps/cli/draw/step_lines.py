"""The steps of a conversation as lines: what each entry changed in its lane, and the decision."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from stenolog.apps.cli.lines import Piece
from stenolog.domain.erasure import is_erased
from stenolog.domain.lanes.step import Transition
from stenolog.projections.views.lines import kind_word

if TYPE_CHECKING:
    from stenolog.adapters.conversation.log import Conversation

STEP = 12
"""The cells that names of agents and tools keep."""
DECISIONS = {
    "call_model": "cyan",
    "run_tools": "blue",
    "ask_approval": "yellow",
    "wait": "dim",
    "stop": "red",
}
NONE_ERASED: Mapping[int, str] = {}


def erased_among(conversation: Conversation, steps: Iterable[Transition]) -> dict[int, str]:
    """Return the words for entries without words among the transitions', by position."""
    unknown = (conversation.entry(step.position) for step in steps if step.kind == "unknown")
    return {entry.position: kind_word(entry.event) for entry in unknown if is_erased(entry.event)}


def step_lines(steps: Iterable[Transition], erased: Mapping[int, str] = NONE_ERASED) -> Iterator[Piece]:
    """Yield a table row for each transition; `erased` are the words for entries without words."""
    from .layout import table

    columns = (">ENTRY", "~AGENT", "TRIGGER", "~NEXT", "THEN", "*NOTE")
    shown = (step._replace(kind=erased.get(step.position, step.kind)) for step in steps)
    rows = [_step_row(step) for step in shown]
    kept = range(len(columns) if any(row[-1][0] for row in rows) else len(columns) - 1)
    yield table([columns[at] for at in kept], [[row[at] for at in kept] for row in rows], names=STEP)


def _step_row(step: Transition) -> tuple[tuple[str, str], ...]:
    guard = f" [{', '.join(step.guard)}]" if step.guard else ""
    return (
        (str(step.position), "bold"),
        (step.lane, "cyan"),
        ((step.trigger or "") + guard, ""),
        (decision_words(step) if step.lane else "", DECISIONS[step.decision.do]),
        ((step.target or "") if step.lane else step.kind, "dim"),
        (f"! {step.anomaly}" if step.anomaly else "", "yellow"),
    )


def decision_words(step: Transition) -> str:
    """Describe the lane's next step in words."""
    decision = step.decision
    tools = ", ".join(call.name for call in decision.calls)
    about = tools or decision.reason or (f"for {decision.cause}" if decision.do == "call_model" else "")
    again = f", attempt {decision.attempt}" if decision.do == "call_model" and decision.attempt > 1 else ""
    return f"{decision.do}{' ' + about if about else ''}{again}"
