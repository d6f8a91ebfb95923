"""Advice on what agents cost, as data and in words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from stenolog.adapters.conversation.queries.requests.token_counters import COUNTERS
from stenolog.projections.analysis.advice.advise import Advice, Option, advice_on
from stenolog.projections.analysis.advice.traffic import Traffic
from stenolog.projections.prices import Prices

from .lanes import sender

if TYPE_CHECKING:
    from stenolog.adapters.conversation.log import Conversation, Log


def advice_data(
    log: Log, conversations: Sequence[Conversation], prices: Prices, agent: str = ""
) -> dict[str, Any]:
    """Return advice for the agents of some conversations as JSON; costs are in micro-dollars."""
    logs = [[*each.entries()] for each in conversations]
    traffic = Traffic(logs, prices, log.blobs, COUNTERS)
    return {
        "conversations": [each.name for each in conversations],
        "agents": [_data(found, _program(conversations, found)) for found in advice_on(traffic, agent)],
        "unpriced": traffic.unpriced,
    }


def _data(found: Advice, program: str) -> dict[str, Any]:
    best = found.best
    return {
        "agent": found.agent,
        "program": program,
        "models": [*found.models],
        "calls": found.calls,
        "billed_micro_usd": found.billed,
        "simulated_micro_usd": found.simulated,
        "advice": None if best is None else _option(best),
        "ask": "" if best is None or best.patch else _ask(best, program),
        "options": [_option(each) for each in found.options],
    }


def _option(option: Option) -> dict[str, Any]:
    return {
        "kind": option.kind,
        "words": option.words,
        "patch": option.patch,
        "micro_usd": option.micro_usd,
        "saving_micro_usd": option.saving,
        "is_unsure": option.is_unsure,
    }


def _ask(best: Option, program: str) -> str:
    """Return what to ask those who can change it."""
    if program:
        return f"Ask the authors of {program} to {best.words}."
    return f"In your program: {best.words}."


def _program(conversations: Sequence[Conversation], found: Advice) -> str:
    if found.is_own:
        return ""
    programs = (sender(each, found.agent).program for each in conversations)
    return next(filter(None, programs), "the program")


def per_cent(saving: int, bill: int) -> str:
    """Return a saving as the change of a bill, such as -12.0 %."""
    change = round(-100 * saving / bill, 1) if bill else 0.0
    return f"{change:+.1f} %" if change else "0.0 %"


def verdict(found: dict[str, Any]) -> str:
    """Say in a sentence what to do about an agent's bill."""
    best, bill = found["advice"], found["simulated_micro_usd"]
    if best is None:
        return "leave it: no change here would have saved enough"
    return f"{best['words']}: {per_cent(best['saving_micro_usd'], bill)}"
