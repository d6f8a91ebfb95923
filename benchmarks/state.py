"""The state of a conversation and its next effects: after a million entries as after a thousand."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable
from itertools import islice
from pathlib import Path

from benchmarks._ratio import Row, compared
from benchmarks.read import conversation
from stenolog import Conversation, UserMessage
from stenolog.adapters.conversation import log as logs
from stenolog.domain.lanes.state import decision

SHORT, LONG = 1_000, 1_000_000
BATCH = 10_000
LIMIT = 1.5


def run() -> Iterable[Row]:
    with (
        tempfile.TemporaryDirectory() as folder,
        logs.open(Path(folder, "short.db"), synchronous="normal") as short,
        logs.open(Path(folder, "long.db"), synchronous="normal") as long,
    ):
        one, other = filled(short["talk"], SHORT), filled(long["talk"], LONG)
        long_s, short_s = compared(turn(other), turn(one), rounds=1000)
    note = f"{long_s * 1e6:.0f} against {short_s * 1e6:.0f} µs, with one new entry each time"
    yield Row(f"state and decision at {LONG:,} entries against {SHORT:,}", long_s / short_s, LIMIT, note=note)


def filled(talk: Conversation, entries: int) -> Conversation:
    """Return the conversation with so many entries, folded once."""
    events = iter(conversation(entries - 1))
    while batch := list(islice(events, BATCH)):
        talk.extend(batch)
    talk.state()
    return talk


def turn(talk: Conversation) -> Callable[[], object]:
    """Look at what is new since the last time, and decide for every lane."""

    def look() -> object:
        talk.append(UserMessage(text="And now?"))
        state = talk.state()
        return [decision(state, lane) for lane in state.lanes.values()]

    return look
