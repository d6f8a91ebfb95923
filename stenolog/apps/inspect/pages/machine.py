"""The page of the lifecycle: the state of each lane at a position, and what the entry there changed."""

from __future__ import annotations

from typing import Any, NamedTuple

from markupsafe import Markup

from stenolog.apps.inspect.entries.rows import row
from stenolog.apps.inspect.page import Page, has_request
from stenolog.apps.inspect.query import Query
from stenolog.apps.views.envelope import Answer
from stenolog.apps.views.lanes import sender
from stenolog.apps.views.states import Standing, in_words, next_inputs, state_at, state_data
from stenolog.domain.lanes.lifecycle import GUARDS, TRIGGERS, Status
from stenolog.domain.lanes.state import decision
from stenolog.domain.lanes.step import Transition
from stenolog.projections.views.lifecycle_picture import Taken, lifecycle_picture

MOST = 100
"""Lanes that the table has: those that the entry moved and those at work first."""


class LaneRow(NamedTuple):
    """A lane as a row of the table; `moved`: the entry at the position changed its state."""

    address: str
    status: Status
    does: str
    asked: int
    answered: int
    calls: int
    moved: bool


def view(query: Query) -> dict[str, Any]:
    """Return the state of every lane, with the picture of one of them."""
    found = state_at(query.conversation, query.at)
    agent = query.agent if query.word("agent") else _moved(found) or query.agent
    lane = found.state.lane(agent)
    steps = [each for each in found.transitions if agent and each.lane == agent]
    rows = lane_rows(found)
    return {
        "name": query.conversation.name,
        "at": query.at,
        "head": query.head,
        "agent": agent,
        "status": lane.status,
        "program": sender(query.conversation, agent).program,
        "does": in_words(decision(found.state, lane)),
        # Made of the lifecycle's own words, and the agent's name, which is escaped.
        "picture": Markup(_picture(agent, lane.status, steps)),
        "row": row(query.conversation.entry(query.at)),
        "made": steps,
        "others": [each for each in found.transitions if each.lane != agent],
        "next": next_inputs(lane.status),
        "triggers": TRIGGERS,
        "guards": GUARDS,
        "lanes": rows[:MOST],
        "more": max(0, len(rows) - MOST),
    }


def _moved(found: Standing) -> str:
    return next((each.lane for each in found.transitions if each.lane), "")


def _picture(agent: str, status: Status, steps: list[Transition]) -> str:
    ways = [
        Taken(each.source, each.trigger, each.target, each.guard)
        for each in steps
        if each.source and each.trigger and each.target and not each.anomaly
    ]
    title = f"The lifecycle of {agent}, which is {status}"
    return lifecycle_picture(status, ways[-1] if ways else None, title=title, standalone=False)


def lane_rows(found: Standing) -> list[LaneRow]:
    """Return a row for each lane: first those that the entry moved, then those with something to do."""
    moved = {each.lane for each in found.transitions}
    rows = [
        LaneRow(
            where,
            lane.status,
            in_words(decision(found.state, lane)),
            lane.asked,
            lane.answered,
            len(lane.calls),
            where in moved,
        )
        for where, lane in found.state.lanes.items()
    ]
    return sorted(rows, key=lambda each: (not each.moved, each.status in ("idle", "closed")))


def twin(query: Query) -> Answer:
    """Return the data of `state --json`."""
    return Answer(state_data(state_at(query.conversation, query.at)))


page = Page("machine", view, twin, link="Machine", rank=8, is_more=True, applies=has_request)
