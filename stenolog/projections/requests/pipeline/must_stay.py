"""Entries that a cut may not take away, each with the reason."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from types import MappingProxyType
from typing import TypeAlias

from stenolog.domain.entry import Entry
from stenolog.domain.events import AssistantMessage, LlmError, UserMessage
from stenolog.domain.parts import says_something
from stenolog.projections.messages.message import Message
from stenolog.projections.views.lines import was_retried

from .lane import pinned
from .view import AT_WORK, CUT_OFF, LATEST, Contents, View


def _pins(view: View, shown: Contents) -> Iterator[int]:
    pins = view.policy.pins
    return (entry.position for entry in (shown.entries if pins else ()) if pinned(entry, pins))


def latest(view: View, shown: Contents) -> Iterator[int]:
    """Keep the latest message with content that is for the agent"""
    return islice((e.position for e in reversed(shown.entries) if _is_for(e, view)), 1)


def _answering(view: View, shown: Contents) -> Iterator[int]:
    yield view.memory.running
    yield from (edit for edit, first in shown.edits.items() if first == view.memory.running)


def _at_work(view: View, shown: Contents) -> Iterator[int]:
    """Keep the agent's last answer, where it called tools: with their results it is what comes next"""
    at_work = view.state.lane(view.lane.address).status != "idle"
    called = (message for unit in shown.units for message in unit if message.calls) if at_work else ()
    if any(view.memory.answered in message.positions for message in called):
        yield view.memory.answered


def _cut_off(view: View, shown: Contents) -> Iterator[int]:
    answered = view.memory.answered
    since = (entry for entry in reversed(shown.entries) if entry.position > answered)
    return islice((entry.position for entry in since if _is_cut_off(entry, view)), 1)


def _history_positions(view: View, shown: Contents) -> Iterator[int]:
    """Keep the messages that the history names beside the last ones: a memory bank's facts, say"""
    keeps = view.policy.history.keeps
    for entry in shown.entries if keeps else ():
        if isinstance(entry.event, AssistantMessage) and entry.event.purpose in keeps:
            yield entry.position


def _summaries(view: View, shown: Contents) -> Iterator[int]:
    """Keep the summaries that stand: each in the place of what it covers"""
    for entry in shown.entries:
        if isinstance(entry.event, AssistantMessage) and entry.event.purpose == "summary":
            yield entry.position


def _is_cut_off(entry: Entry, view: View) -> bool:
    event = entry.event
    if not isinstance(event, LlmError) or not view.voice.owns(event):
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


KeepReason: TypeAlias = Callable[[View, Contents], Iterator[int]]
KEEP_REASONS: Mapping[str, KeepReason] = MappingProxyType(
    {
        "pinned": _pins,
        LATEST: latest,
        "being-answered": _answering,
        AT_WORK: _at_work,
        CUT_OFF: _cut_off,
        "kept": _history_positions,
        "summaries": _summaries,
    }
)
"""The reasons for which something stays, by name: each gives positions."""
NOT_COUNTED = frozenset({"pinned", "kept", "summaries"})
"""The reasons for which something stays beside the last messages, not counted as one of them."""


OF_EACH = MappingProxyType({why: KEEP_REASONS[why] for why in KEEP_REASONS if why not in (LATEST, CUT_OFF)})
"""The reasons that need no look at later entries."""


def must_keep(
    view: View, shown: Contents, reasons: Mapping[str, KeepReason] = KEEP_REASONS
) -> dict[int, str]:
    """Return the index of each unit that must stay, with the reason."""
    unit_of = {p: i for i, unit in enumerate(shown.units) for message in unit for p in message.positions}
    kept: dict[int, str] = {}
    for reason, positions in reasons.items():
        for position in positions(view, shown):
            if position in unit_of:
                kept.setdefault(unit_of[position], reason)
    return kept


def positions_of(unit: Sequence[Message]) -> set[int]:
    """Return a unit's positions."""
    return {position for message in unit for position in message.positions}
