"""Interrupts of AG-UI: what a run needs from a person before it goes on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ag_ui.core import Interrupt

from stenolog.domain.lanes.state import State
from stenolog.domain.values import ToolQuestion
from stenolog.projections.questions import schema_of
from stenolog.projections.views.tool_pairs import CallKey


def interrupts(
    state: State, calls: Mapping[CallKey, str], questions: Mapping[int, ToolQuestion]
) -> list[Interrupt]:
    """Return an interrupt for each call to approve, and for each question of a tool.

    `calls` are the ids that the client knows, `questions` those asked so far, by position.
    """
    return [*_interrupts(state, calls, questions)]


def _interrupts(
    state: State, calls: Mapping[CallKey, str], questions: Mapping[int, ToolQuestion]
) -> Iterator[Interrupt]:
    for _, call in state.open_calls():
        id, known = f"{call.entry}[{call.nth}]", calls.get(CallKey(call.position, call.nth))
        if call.question:
            asked = questions.get(call.question, ToolQuestion(text=call.name))
            # With its position, so that no answer is taken for one to a later question of the call.
            yield Interrupt(
                id=f"{id}@{call.question}",
                reason="input_required",
                message=asked.text,
                tool_call_id=known,
                response_schema=schema_of(asked),
            )
        elif call.approval:
            yield Interrupt(id=id, reason="tool_call", message=call.name, tool_call_id=known)
