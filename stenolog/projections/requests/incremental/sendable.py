"""Checks before a request is sent: its agent takes part, has something to answer, and fits its budget."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import TYPE_CHECKING

from stenolog.projections.requests.body_digest import conversation
from stenolog.projections.requests.pipeline.budget import limits, must_keep, positions_of
from stenolog.projections.requests.pipeline.prompt import DEFAULT_MODEL
from stenolog.projections.requests.request import Body, Message, Request, RequestPart, texts
from stenolog.projections.requests.wires import plain
from stenolog.projections.requests.wires.body_builder import OPENING

from .frozen import Unit

if TYPE_CHECKING:
    from stenolog.projections.requests.pipeline.view import WindowContents

    from .window import Window


def takes_part(window: Window) -> bool:
    """Return whether the window's agent is known: it has a card, has joined, was addressed, or has spoken."""
    agent, state = window.lane.agent, window.state
    return (
        not window.memory.set_at.keys().isdisjoint(("card", "named"))
        or agent in state.members
        or any(lane.agent == agent for lane in state.lanes.values())
    )


def may_be_asked(window: Window) -> bool:
    """Return whether a request of the window's agent can be built: it takes part, or nobody is known yet."""
    return takes_part(window) or not agent_names(window)


def agent_names(window: Window) -> list[str]:
    """Return the names of the agents that are known. Where there are none, any agent may be asked for."""
    return [*dict.fromkeys([*window.settings.cards, *window.state.members, *window.state.lanes])]


def unknown(window: Window) -> str:
    """Say who is known, and how an agent joins, for callers who asked for somebody else."""
    agent, names = window.lane.agent, ", ".join(agent_names(window))
    joins = f"conversation.submit(ModeSwitch(joins=[{agent!r}]))"
    return f"no agent {agent!r} takes part; known are {names}; to let it join: {joins}"


def unnamed(window: Window, body: Body, api: str) -> str:
    """Say that a body names no model, and how to name one; empty where it names one or needs none.

    A prompt of plain text needs none: the program that it goes to has a model of its own.
    """
    if body.get("model") != DEFAULT_MODEL or api == plain.NAME:
        return ""
    named = f"ModeSwitch(cards={{{window.lane.agent!r}: AgentCard(model=...)}})"
    return f"no model is named; to name one: conversation.submit({named})"


def since_last_turn(window: Window, shown: WindowContents) -> tuple[list[Unit], set[int]]:
    """Under `StreamDelta`, what the backend does not have yet, and the positions that it has; else all.

    It has its own words and what they were built on. An answer stays with results that it has not had.
    """
    own, seen = window.memory, window.state.lane(window.lane.address).seen
    if not goes_on(window):
        return shown.units, set()
    fresh, had = [], set[int]()
    for unit in shown.units:
        said_itself = unit[0].role == "assistant"
        if all(p <= seen or (said_itself and p <= own.answered) for p in positions_of(unit)):
            had |= positions_of(unit)
        else:
            fresh.append(unit)
    return fresh, had


def goes_on(window: Window) -> bool:
    """Return whether the request continues a session whose backend has the earlier messages."""
    own = window.memory
    return window.policy.history.delta and bool(own.answered) and own.died < own.answered


def unsendable_reason(window: Window, end: Message | None) -> str:
    """Why nobody would send this here: empty where the lane waits for its model, or may be told to go on.

    `end` is the last that was said.
    """
    if end is None:
        return "nothing has been said to it"
    if end.role == "assistant":
        return "nothing to answer: the last word is the agent's own"
    state, address = window.state, window.lane.address
    stands = state.lane(address)
    if address not in state.lanes and stands.asked:
        return ""
    match stands.status:
        case "awaiting_llm" | "failed":
            return ""
        case "awaiting_tools":
            return _calls(len(stands.calls), "has no result yet", "have no result yet")
        case "awaiting_approval":
            return _calls(sum(call.approval for call in stands.calls), "awaits approval", "await approval")
        case "closed":
            return "the agent has left"
        case "idle":
            return "nothing to answer: the lane is idle"


def _calls(number: int, does: str, do: str) -> str:
    return f"{number} of its calls {does if number == 1 else do}"


def over_budget(window: Window, request: Request) -> str:
    """Return a message that names the exceeded budgets and the parts that must stay; empty if it fits.

    The request is measured only if the window does not know that it fits.
    """
    budget = window.policy.budget
    if budget is None or (window.surely_fits and not _has_opening(request)):
        return ""
    if request.size.fits(limits(budget)):
        return ""
    shown = window.contents()
    over = [
        f"{size:,} {name} of {limit:,}"
        for name, size, limit in zip(request.size._fields, request.size, limits(budget), strict=True)
        if size > limit
    ]
    reasons = {p: why for i, why in must_keep(window, shown).items() for p in positions_of(shown.units[i])}
    must = [part for part in request.parts if _stays(part, reasons)]
    largest = sorted(must, key=lambda part: -part.tokens_out)[:5]
    named = ", ".join(_describe_part(part, reasons) for part in largest)
    return f"over budget ({', '.join(over)}), and this must stay: {named}"


def _has_opening(request: Request) -> bool:
    """Return whether the API put a message before the agent's own words: the window does not count that."""
    messages = conversation(request.body)
    return isinstance(messages, list) and OPENING in islice(texts(messages[:1]), 2)


def _stays(part: RequestPart, reasons: Mapping[int, str]) -> bool:
    """Return whether no cut removes the part: it must stay, or it is outside the conversation."""
    return part.role in ("system", "tools", "parameters") or any(
        position in reasons for position in part.positions
    )


def _describe_part(part: RequestPart, reasons: Mapping[int, str]) -> str:
    why = next((reasons[p] for p in part.positions if p in reasons), part.rule)
    where = f"position {part.positions[0]}" if part.positions else part.role
    return f"{where} ({why}, {part.tokens_out:,} tokens)"
