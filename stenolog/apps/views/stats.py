"""A conversation in numbers, and the context of one of its agents over time."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Any, NamedTuple

from stenolog.adapters.conversation.queries.requests import curves
from stenolog.domain.errors import InvalidEventError
from stenolog.projections.analysis.provider_bill import (
    Unexplained,
    is_asked_before,
    lacking_parts,
    unexplained,
)
from stenolog.projections.context_curve import ContextCurve
from stenolog.projections.views.usage import Usage, usage

from .lanes import lane, sender

if TYPE_CHECKING:
    from stenolog.adapters.conversation.log import Conversation


class Stats(NamedTuple):
    """A conversation up to `position`: its usage by lane, and the curve of one lane.

    `unexplained` sums up what was billed for the lane's requests beyond what is rebuilt; None if stenolog
    sent them.
    """

    conversation: str
    position: int
    used: Usage
    agent: str
    curve: ContextCurve
    unexplained: Unexplained | None = None


def has_calls(conversation: Conversation) -> bool:
    """Return whether an agent has answered, so that there is a context to show."""
    return bool(busiest(conversation.fold(usage)))


def stats(conversation: Conversation, agent: str, at: int, seconds: float = inf) -> Stats:
    """Return the numbers up to a position; `agent` empty: the one with most calls.

    Requests are measured for at most so many `seconds`. Raises `InvalidEventError` if no agent has answered,
    and as `Conversation.context_curve`.
    """
    used = conversation.fold(usage, at)
    chosen = agent or busiest(used)
    if not chosen:
        raise InvalidEventError(f"{conversation.name!r} at {at}: no agent has answered yet")
    curve = curves.context_curve(conversation, *lane(chosen), at=at, seconds=seconds)
    return Stats(conversation.name, at, used, chosen, curve, _unexplained(conversation, chosen, curve))


def _unexplained(conversation: Conversation, agent: str, curve: ContextCurve) -> Unexplained | None:
    program, has_prompt, has_tools = sender(conversation, agent)
    if not program:
        return None
    known = [one for one in curve.samples if one.billed is not None and one.tokens is not None]
    sizes = [(one.billed or 0, one.tokens or 0) for one in known]
    parts = lacking_parts(has_prompt=has_prompt, has_tools=has_tools)
    if not sizes:
        return Unexplained(parts, None, 0, 0, 0, 0, curve.position)
    is_whole = is_asked_before(conversation.entries(), known[0].position)
    return unexplained(parts if is_whole else (), sizes, sizes[0][0] - sizes[0][1], curve.position)


def busiest(used: Usage) -> str:
    """Return the address of the lane with most calls, or ""."""
    calls = {where: totals.calls for where, totals in used.by("lane")}
    return max(calls, key=lambda where: calls[where], default="")


def stats_data(found: Stats) -> dict[str, Any]:
    """Return the numbers as JSON."""
    curve = found.curve
    return {
        "conversation": found.conversation,
        "position": found.position,
        "agents": agent_rows(found.used),
        "agent": found.agent,
        "api": curve.api,
        "largest": curve.largest,
        "budget": curve.budget,
        "unexplained": None if found.unexplained is None else found.unexplained._asdict(),
        "cuts": curve.count("cut"),
        "compactions": curve.count("compaction"),
        "resets": curve.count("reset"),
        "rewinds": curve.count("rewind"),
        "steps": curve.steps(),
        "marks": curve.marks,
        "samples": curve.samples,
    }


def agent_rows(used: Usage) -> list[dict[str, Any]]:
    """Return a row for each lane, the one with most calls first."""
    rows = [
        {
            "agent": where,
            "calls": totals.calls,
            "errors": totals.failed,
            "tools": totals.tools,
            "tokens": {kind: tokens for kind, tokens in totals.sum._asdict().items() if kind != "cost"},
        }
        for where, totals in used.by("lane")
    ]
    return sorted(rows, key=lambda row: (-row["calls"], row["agent"]))
