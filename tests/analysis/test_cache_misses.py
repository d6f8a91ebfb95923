"""Each change of a request is found with its place and the entry that made it, as a model of the cache."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from stenolog import AssistantMessage, Entry, ModeSwitch, ToolResult, UserMessage
from stenolog.projections.analysis.cache_misses import CacheCall, cache_calls
from tests.analysis.cache_break import REPLY, Break, bodies
from tests.analysis.cache_breaks import breaks
from tests.analysis.provider_cache import Provider
from tests.recorder.programs import Tap, answered

ALL = breaks()


def measured(one: Break) -> tuple[list[Entry], CacheCall, int]:
    """Return the log of a break, what the analysis says of the second call, and what the provider read."""
    tap, provider = Tap(), Provider()
    read = 0
    for body, seconds in zip(bodies(one), (10.0, one.seconds), strict=True):
        now = tap.time.timestamp() + seconds
        tokens, read, wrote = provider.usage(one.api, body, now, one.least)
        answer = answered(one.api, REPLY, id=f"r{tap.number}", tokens=tokens, read=read, wrote=wrote)
        entry = tap.ask(one.api, body, answer, seconds=seconds)
    log = list(tap.log[entry.conversation].entries())
    calls = cache_calls(log, blobs=tap.log.blobs)
    tap.log.close()
    return log, calls[-1], read


def is_right(log: Sequence[Entry], call: CacheCall, how: str) -> bool:
    """Return whether the entry of a cause is the one that a break names."""
    position = call.cause.entry
    if how in ("", "none"):
        return position == 0
    event = log[position - 1].event
    if how == "card":
        return isinstance(event, ModeSwitch) and bool(event.cards) and 2 < position <= call.view
    if how == "hides":
        return isinstance(event, ModeSwitch) and isinstance(event.hides, tuple)
    words = repr(event.parts) if isinstance(event, UserMessage | AssistantMessage | ToolResult) else ""
    return how in words


def test_there_are_two_hundred_of_them() -> None:
    assert len(ALL) >= 200
    assert len({(one.api, one.name) for one in ALL}) == len(ALL)


@pytest.mark.parametrize("one", ALL, ids=lambda one: f"{one.api}: {one.name}")
def test_the_cause_the_place_and_the_entry_are_found(one: Break) -> None:
    log, call, read = measured(one)
    cause = call.cause

    assert (cause.kind, cause.how, cause.pointer, cause.offset) == one.expected[:4]
    assert is_right(log, call, one.expected.entry), (cause, [entry.event for entry in log])
    assert call.read == read
    if one.expected.kind != "model":
        assert call.agreement == "agrees", (call.expected, read)
