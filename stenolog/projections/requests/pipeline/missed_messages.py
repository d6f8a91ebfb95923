"""Messages that an agent missed: said between two of its turns, and not for it.

They keep their places, between two notes. The receipts of the agent's answers tell where its turns lie, so
the notes never move.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from stenolog.domain.entry import Entry
from stenolog.domain.events import AssistantMessage, UserMessage
from stenolog.domain.parts import TextPart
from stenolog.domain.policy import MissedMessages
from stenolog.projections.requests.request import Message

from .lane import LaneId
from .quoting import END_OF, note

Unit = tuple[Message, ...]


def with_away(
    units: Sequence[Unit], entries: Iterable[Entry], lane: LaneId, away: MissedMessages | None, began: int = 0
) -> list[Unit]:
    """The units with a note before and behind each run of what the lane has missed.

    `began` is the view of its first answer (0: it has none), which may itself be out of the window.
    """
    if away is None:
        return list(units)
    missed = {entry.position for entry in entries if _is_missed(entry, lane)}
    made: list[Unit] = []
    away_now = been_here = False
    for unit in units:
        others_tool = unit[0].rule == "attributed" and unit[0].by == "tool"
        been_away = been_here or 0 < began < unit[0].positions[0]
        gone = been_away and (others_tool or not missed.isdisjoint(unit[0].positions))
        if gone is not away_now:
            title = away.title if gone else f"{END_OF} {away.title}"
            made.append((_note(title, unit[0].positions[:1]),))
            away_now = gone
        made.append(unit)
        been_here = been_here or unit[0].role == "assistant"
    return made


def titles(away: MissedMessages) -> tuple[Message, Message]:
    """The notes before and behind a run of what was missed."""
    return _note(away.title, ()), _note(f"{END_OF} {away.title}", ())


def _note(title: str, positions: tuple[int, ...]) -> Message:
    return Message("user", (TextPart(text=note(title)),), positions, "away-note", "added")


def _is_missed(entry: Entry, lane: LaneId) -> bool:
    """Return whether the entry was for others: another agent's answer, or a message to other names."""
    match entry.event:
        case UserMessage(author_kind="system"):
            return False
        case UserMessage(to=to):
            return bool(to) and lane.address not in to
        case AssistantMessage(purpose="answer", to=to) as said:
            return not lane.owns(said) and lane.address not in to
        case _:
            return False
