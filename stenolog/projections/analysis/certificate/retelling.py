"""Entries by agents that had been sent something: they may say it in other words, which no search finds."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from stenolog.domain.entry import Entry
from stenolog.domain.events import AssistantMessage, Event, LlmError, ModeSwitch, ToolResult, UserMessage
from stenolog.domain.policy import policy
from stenolog.domain.values import WorkflowRun
from stenolog.projections.requests import LaneId, lanes
from stenolog.projections.requests.pipeline.view import View
from stenolog.projections.views.tool_pairs import pair


def retold(log: Sequence[Entry], apart_from: Collection[LaneId], known: Collection[int]) -> set[int]:
    """Return what lanes said after they could see one of the `known` entries, or such words.

    Results of their calls count as said by them.
    """
    others = {
        lane: visible(log, lane) | _settings(log, lane) for lane in lanes(log) if lane not in apart_from
    }
    speakers = dict(_speakers(log))
    since: dict[LaneId, int] = {}
    found = set[int]()
    while True:
        before = dict(since)
        since = {lane: min(seen & (found | {*known}), default=0) for lane, seen in others.items()}
        if since == before:
            return found - {*known}
        found |= {at for at, lane in speakers.items() if 0 < since.get(lane, 0) < at}


def visible(log: Sequence[Entry], lane: LaneId) -> set[int]:
    """Return the entries that a lane could see under a policy that leaves out none."""
    view = View(lane, policy())
    return {entry.position for entry in log if not view.take(entry).rule}


def _settings(log: Sequence[Entry], lane: LaneId) -> set[int]:
    """Return the mode switches that say something to a lane."""
    return {entry.position for entry in log if _says(entry.event, lane.agent)}


def _says(event: Event, agent: str) -> bool:
    if not isinstance(event, ModeSwitch):
        return False
    has_words = isinstance(event.handoff, str) or isinstance(event.active_run, WorkflowRun)
    return has_words or event.cards.get(agent) is not None


def _speakers(log: Sequence[Entry]) -> Iterator[tuple[int, LaneId]]:
    """Yield the entries that an agent said, or had a tool say."""
    calls, said = pair(log).calls, dict[int, LaneId]()
    for entry in log:
        match entry.event:
            case AssistantMessage(agent=agent, task=task) | LlmError(agent=agent, task=task):
                said[entry.position] = LaneId(agent, task)
            case UserMessage(author_kind="agent", author=author):
                said[entry.position] = LaneId(*author.split("/", 1))
            case ToolResult() if (call := calls.get(entry.position)) and call.position in said:
                said[entry.position] = said[call.position]
            case _:
                pass
    yield from said.items()
