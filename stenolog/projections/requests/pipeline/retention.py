"""Retention: the messages that must stay when the window is cut, and the reasons. No budget removes them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from types import MappingProxyType

from stenolog.domain.entry import Entry
from stenolog.domain.events import AssistantMessage, LlmError, UserMessage
from stenolog.domain.parts import says_something
from stenolog.projections.acts import was_retried
from stenolog.projections.requests.request import Message

from .lane import pinned
from .view import View, WindowContents


def _pins(view: View, shown: WindowContents) -> Iterator[int]:
    """what the policy pins"""
    pins = view.policy.pins
    return (entry.position for entry in (shown.entries if pins else ()) if pinned(entry, pins))


def _latest(view: View, shown: WindowContents) -> Iterator[int]:
    """the latest message with content that is for the agent"""
    return islice((e.position for e in reversed(shown.entries) if _is_for(e, view)), 1)


def _answering(view: View, shown: WindowContents) -> Iterator[int]:
    """the message that the current run answers, be it edited"""
    yield view.memory.running
    yield from (edit for edit, first in shown.edits.items() if first == view.memory.running)


def _at_work(view: View, shown: WindowContents) -> Iterator[int]:
    """the agent's last answer, where it called tools: with their results it is what comes next"""
    at_work = view.state.lane(view.lane.address).status != "idle"
    called = (piece for unit in shown.units for piece in unit if piece.calls) if at_work else ()
    if any(view.memory.answered in piece.positions for piece in called):
        yield view.memory.answered


def _cut_off(view: View, shown: WindowContents) -> Iterator[int]:
    """what last arrived of an answer that was cut off, so that "continue" has an anchor"""
    answered = view.memory.answered
    since = (entry for entry in reversed(shown.entries) if entry.position > answered)
    return islice((entry.position for entry in since if _is_cut_off(entry, view)), 1)


def _history_positions(view: View, shown: WindowContents) -> Iterator[int]:
    """what the history keeps beside the last messages: a memory bank's facts, say"""
    keeps = view.policy.history.keeps
    for entry in shown.entries if keeps else ():
        if isinstance(entry.event, AssistantMessage) and entry.event.purpose in keeps:
            yield entry.position


def _summaries(view: View, shown: WindowContents) -> Iterator[int]:
    """the summaries that stand: each in the place of what it covers"""
    for entry in shown.entries:
        if isinstance(entry.event, AssistantMessage) and entry.event.purpose == "summary":
            yield entry.position


def _is_cut_off(entry: Entry, view: View) -> bool:
    event = entry.event
    if not isinstance(event, LlmError) or not view.lane.owns(event):
        return False
    return says_something(event.parts) and not was_retried(event)


def _is_for(entry: Entry, view: View) -> bool:
    match entry.event:
        case UserMessage(author_kind="system"):
            return False
        case UserMessage(to=to, parts=parts):
            named = not to or view.lane.address in to or view.lane.agent in to
            return named and (says_something(parts) or bool(parts))
        case _:
            return False


STAYS: Mapping[str, Callable[[View, WindowContents], Iterator[int]]] = MappingProxyType(
    {
        "pinned": _pins,
        "latest-message": _latest,
        "being-answered": _answering,
        "at-work": _at_work,
        "cut-off": _cut_off,
        "kept": _history_positions,
        "summaries": _summaries,
    }
)
"""Why something stays, by name: each gives positions."""
BESIDE = frozenset({"pinned", "kept", "summaries"})
"""Why something stays beside the last messages, and does not count as one of them."""


def must_keep(view: View, shown: WindowContents) -> dict[int, str]:
    """The index of each unit that must stay, with the reason."""
    unit_of = {p: i for i, unit in enumerate(shown.units) for piece in unit for p in piece.positions}
    kept: dict[int, str] = {}
    for reason, positions in STAYS.items():
        for position in positions(view, shown):
            if position in unit_of:
                kept.setdefault(unit_of[position], reason)
    return kept


def positions_of(unit: Sequence[Message]) -> set[int]:
    """Every position that a unit is made of."""
    return {position for piece in unit for position in piece.positions}
