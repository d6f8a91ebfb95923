"""Cuts of the conversation that an agent is shown, by the receipts of its answers.

A window that moves at every answer is told of once, where it began to move.
"""

from __future__ import annotations

from collections.abc import Iterable

from pydantic import JsonValue

from stenolog.domain.entry import Entry
from stenolog.domain.events import AssistantMessage, LlmError
from stenolog.domain.state import address
from stenolog.domain.values import Receipt


def cuts(entries: Iterable[Entry]) -> dict[int, str]:
    """Return the cut spans, as `2-51, 60-71`, by the position of the first answer that was made without
    them."""
    found: dict[int, str] = {}
    lanes: dict[str, tuple[str, bool]] = {}
    for entry in entries:
        match entry.event:
            case (
                AssistantMessage(agent=agent, task=task, receipt=Receipt() as receipt)
                | LlmError(agent=agent, task=task, receipt=Receipt() as receipt)
            ):
                before, moving = lanes.get(address(agent, task), ("", False))
                cut = cut_of(receipt)
                moved = bool(cut) and cut != before
                if moved and not moving:
                    found[entry.position] = cut
                lanes[address(agent, task)] = cut, moved
            case _:
                pass
    return found


def cut_of(receipt: Receipt) -> str:
    """Return the spans cut from a request, as `2-51, 60-71`; its plan may hold other things, too."""
    cut: JsonValue = receipt.plan.get("cut")
    runs = cut if isinstance(cut, list) else []
    return ", ".join(f"{run[0]}-{run[1]}" for run in runs if isinstance(run, list) and len(run) == 2)
