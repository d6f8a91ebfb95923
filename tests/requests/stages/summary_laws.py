"""Random histories of a team that summarises, and the laws of what a summary may hide.

Each law is judged from the log alone, not by the code that decides it: what an author was sent is what the
author's own request with its whole history had, before the summary.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from dataclasses import replace
from random import Random
from typing import Any, cast

from pydantic import JsonValue

from stenolog import AssistantMessage, Entry, Event, ModeSwitch, Request, UserMessage
from stenolog.context import FullHistory, policy
from stenolog.events import PositionRange, Receipt
from stenolog.requests import LaneId, build, lanes
from tests.requests.histories import START
from tests.requests.policies import SMALL

LANES = (LaneId("coder"), LaneId("reviewer"), LaneId("coder", "t1"), LaneId("coder", "t2"), LaneId("planner"))
NAMES = ("coder", "reviewer", "coder/t1", "planner", "user")
NOT_SENT = {"not-addressed", "private-purpose", "hidden", "reset", "not-in-context", "pass"}
"""The rules by which an author was not sent an entry, nor another wording of it, whatever its policy."""
FULL = policy(FullHistory())


def team_history(seed: int) -> list[Entry]:
    """Return a history of several agents and tasks, of which every third entry is a summary or a memory."""
    random, log = Random(seed), list[Entry]()
    for position in range(1, random.randint(4, 18)):
        event = _event(random, position)
        log.append(Entry("team", position, f"e{position}", START, "", event))
    return log


def _event(random: Random, position: int) -> Event:
    kind, lane = random.random(), random.choice(LANES)
    to = tuple(random.sample(NAMES, random.choice((0, 0, 1, 2))))
    if kind < 0.3:
        edits = random.randint(1, position) if random.random() < 0.15 else None
        return UserMessage(text=f"question {position}", to=to, replaces=edits)
    if kind < 0.4:
        return ModeSwitch(**_switch(random, position))
    said: dict[str, Any] = {"agent": lane.agent, "task": lane.task, "text": f"word {position}"}
    if kind < 0.5:
        return AssistantMessage(purpose="memory", **said)
    if kind < 0.75 and position > 2:
        first = random.randint(1, position - 1)
        covers = [PositionRange(first=first, last=random.randint(first, position - 1))]
        receipt = _receipt(random, position) if random.random() < 0.3 else None
        return AssistantMessage(purpose="summary", covers=covers, receipt=receipt, to=to, **said)
    edits = random.randint(1, position) if random.random() < 0.1 else None
    return AssistantMessage(to=to, replaces=edits, **said)


def _receipt(random: Random, position: int) -> Receipt:
    """Return the receipt of a request that was cut, or that was made some entries before."""
    view, first = random.randint(1, position), random.randint(1, position)
    cut = [[first, random.randint(first, position)]] if random.random() < 0.5 else []
    return Receipt(view=view, sha256="0", plan={"cut": cast(JsonValue, cut)} if cut else {})


def _switch(random: Random, position: int) -> dict[str, Any]:
    agents = tuple(random.sample(("coder", "reviewer", "planner"), random.choice((0, 0, 1))))
    return random.choice(
        (
            {"agents": agents, "scope": random.choice(("open", "addressed"))},
            {"agents": agents, "scope": "addressed"},
            {"agents": agents, "context_from": random.randint(1, position)},
            {"hides": (PositionRange(first=1, last=random.randint(1, position)),)},
            {"hides": None},
            {"joins": ("coder", "reviewer", "planner")},
        )
    )


def faults(seed: int) -> Iterator[str]:
    """Yield each place where a request of a history breaks a law of summaries."""
    log = team_history(seed)
    random = Random(seed)
    for lane in lanes(log):
        name = random.choice(list(SMALL))
        request = build(log, lane.agent, task=lane.task, policy=SMALL[name])
        where = f"(seed {seed}, {name}, {lane.address})"
        for position in _covered(log, request):
            if why := _wrongly_hidden(log, lane, position):
                yield f"summary: {position} {why} {where}"
        yield from (f"summary: {fault} {where}" for fault in _taken_from(log, lane))


def _covered(log: Sequence[Entry], request: Request) -> Iterator[int]:
    runs = [run for run in request.omissions if run.rule == "covered"]
    settings = {entry.position for entry in log if isinstance(entry.event, ModeSwitch)}
    for run in runs:
        yield from (at for at in range(run.first, run.last + 1) if at not in settings)


def _wrongly_hidden(log: Sequence[Entry], lane: LaneId, position: int) -> str:
    """Return why no summary may hide an entry from a lane; empty if one may."""
    hidden = log[position - 1].event
    is_summary = bool(getattr(hidden, "covers", ()))
    stands_for = {*_stands_for(log, log[position - 1])}
    for entry in log[position:]:
        said = entry.event
        if not isinstance(said, AssistantMessage) or not said.covers:
            continue
        author = LaneId(said.agent, said.task)
        if lane != author and not {lane.address, lane.agent} & {*said.to}:
            continue
        if isinstance(hidden, AssistantMessage) and hidden.purpose == "memory" and author != lane:
            continue
        if any(position in span for span in said.covers) and _was_sent(log, entry, author, position):
            return ""
        # A summary may take the place of another that stands for nothing more.
        if is_summary and all(any(at in span for span in said.covers) for at in stands_for):
            return ""
    return "is hidden by no summary that was made for the lane by one who was sent it"


def _stands_for(log: Sequence[Entry], summary: Entry) -> Iterator[int]:
    """Yield the positions that a summary covers, and that its author was sent."""
    if isinstance(said := summary.event, AssistantMessage):
        author = LaneId(said.agent, said.task)
        for span in said.covers:
            for position in range(span.first, span.last + 1):
                if _was_sent(log, summary, author, position, NOT_SENT | {"replaced"}):
                    yield position


def _was_sent(
    log: Sequence[Entry], summary: Entry, author: LaneId, position: int, not_sent: Set[str] = NOT_SENT
) -> bool:
    receipt = getattr(summary.event, "receipt", None)
    if receipt is not None:
        cut = any(first <= position <= last for first, last in receipt.plan.get("cut", ()))
        if position > receipt.view or (cut and not _told(log, summary, author, position)):
            return False
    request = build(log[: summary.position - 1], author.agent, task=author.task, policy=FULL)
    runs = [run for run in request.omissions if run.first <= position <= run.last]
    return not any(run.rule in not_sent for run in runs)


def _told(log: Sequence[Entry], summary: Entry, author: LaneId, position: int) -> bool:
    """Return whether an earlier summary for the author, that is within this one, stands for a position."""
    for entry in log[: summary.position - 1]:
        said = entry.event
        if isinstance(said, AssistantMessage) and any(position in span for span in said.covers):
            is_for = author == (said.agent, said.task) or {author.address, author.agent} & {*said.to}
            if is_for and _positions(said) <= _positions(summary.event):
                return True
    return False


def _positions(said: Event) -> set[int]:
    spans: Sequence[PositionRange] = getattr(said, "covers", ())
    return {at for span in spans for at in range(span.first, span.last + 1)}


def _taken_from(log: Sequence[Entry], lane: LaneId) -> Iterator[str]:
    """Say if others' summaries change what a lane with full history is sent."""
    without = [entry._replace(event=_as_memory(entry.event, lane)) for entry in log]
    if without == log:
        return
    now, then = (build(each, lane.agent, task=lane.task, policy=FULL) for each in (log, without))
    if now.bytes != then.bytes:
        yield "others' summaries change what is sent with full history"


def _as_memory(event: Event, lane: LaneId) -> Event:
    """Return a summary that another lane made for itself as a memory; any other event as it is."""
    match event:
        case AssistantMessage(purpose="summary", to=()) if not lane.wrote(event):
            return replace(event, purpose="memory", covers=())
        case _:
            return event
