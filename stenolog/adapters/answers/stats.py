"""A conversation in numbers, and the context of one of its agents over time."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Any, NamedTuple

from stenolog.adapters.queries import curves
from stenolog.domain.errors import InvalidEventError
from stenolog.projections.analysis.provider_bill import NotInLog, lacking_parts
from stenolog.projections.context_curve import ContextCurve
from stenolog.projections.usage import Usage, usage

from .lanes import lane, sender

if TYPE_CHECKING:
    from stenolog.adapters.log import Conversation


class Stats(NamedTuple):
    """A conversation up to `position`: its usage by lane, and the curve of the lane at an address.

    `not_in_log` sums up what was billed for all of the lane's requests beyond what is rebuilt; None where
    stenolog sent them.
    """

    conversation: str
    position: int
    used: Usage
    agent: str
    curve: ContextCurve
    not_in_log: NotInLog | None = None


def stats(conversation: Conversation, agent: str, at: int, seconds: float = inf) -> Stats:
    """Return the numbers up to a position; `agent` empty: the one with most calls.

    Requests are measured for so many `seconds` at most. Raises `InvalidEventError` where no agent has
    answered, and as `Conversation.context_curve`.
    """
    used = conversation.fold(usage, at)
    chosen = agent or busiest(used)
    if not chosen:
        raise InvalidEventError(f"{conversation.name!r} at {at}: no agent has answered yet")
    curve = curves.context_curve(conversation, *lane(chosen), at=at, seconds=seconds)
    return Stats(conversation.name, at, used, chosen, curve, _not_in_log(conversation, chosen, curve))


def _not_in_log(conversation: Conversation, agent: str, curve: ContextCurve) -> NotInLog | None:
    program, has_prompt, has_tools = sender(conversation, agent)
    if not program:
        return None
    sizes = [
        (one.billed, one.tokens) for one in curve.samples if one.billed is not None and one.tokens is not None
    ]
    billed, rebuilt = sum(size for size, _ in sizes), sum(size for _, size in sizes)
    parts = lacking_parts(has_prompt=has_prompt, has_tools=has_tools)
    return NotInLog(parts, max(billed - rebuilt, 0) if sizes else None, billed, rebuilt, curve.position)


def busiest(used: Usage) -> str:
    """Return the address of the lane with most calls; empty where there is none."""
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
        "not_in_log": None if found.not_in_log is None else found.not_in_log._asdict(),
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
            "errors": sum(totals.errors.values()),
            "tools": totals.tools,
            "tokens": {kind: tokens for kind, tokens in totals.sum._asdict().items() if kind != "cost"},
        }
        for where, totals in used.by("lane")
    ]
    return sorted(rows, key=lambda row: (-row["calls"], row["agent"]))
