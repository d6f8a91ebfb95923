"""The next request of a long conversation, under a budget: what is read for it, and how long it takes."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any
from unittest.mock import patch

from benchmarks._ratio import Row, compared, cpu_seconds, least
from benchmarks.read import conversation
from stenolog import Conversation, Entry, Request
from stenolog.adapters.conversation import log as logs
from stenolog.adapters.conversation.queries.requests.window_cache import windows_of
from stenolog.adapters.store.reading import reader
from stenolog.context import Budget, LastN
from stenolog.domain.policy import Policy, policy
from stenolog.projections.requests.incremental.series import from_window, window
from stenolog.projections.requests.pipeline.lane import LaneId
from stenolog.testing import entries
from tests.requests.judging import MODELS

SHORT, LONG = 1_000, 100_000
BATCH = 10_000
SPARE = 64
CODER = LaneId("coder")
BUDGET = policy(Budget(tokens=32_000))
POLICIES = {"32,000 tokens": BUDGET, "the last 50": policy(LastN(50))}


def run() -> Iterable[Row]:
    with (
        tempfile.TemporaryDirectory() as folder,
        logs.open(Path(folder, "short.db"), synchronous="normal") as short,
        logs.open(Path(folder, "long.db"), synchronous="normal") as long,
    ):
        one, other = filled(short["talk"], SHORT), filled(long["talk"], LONG)
        long_s, short_s = compared(turn(other), turn(one), rounds=60)
        note = f"{long_s * 1e3:.1f} against {short_s * 1e3:.1f} ms, with four new entries each time"
        yield Row(f"next request at {LONG:,} entries against {SHORT:,}", long_s / short_s, 1.5, note=note)
        yield rows_read(other, turns=300)
    yield explained()
    yield from folded()


def explained() -> Row:
    """Return the same requests with their explanations and without."""
    made = window(CODER, BUDGET, entries(*conversation(SHORT)))

    def on_all_apis() -> object:
        return [from_window(made, api).body for api in MODELS]

    def explained() -> object:
        return [from_window(made, api).explanation for api in MODELS]

    whole_s, bare_s = least(explained, on_all_apis, rounds=60)
    note = f"{whole_s * 1e3:.1f} against {bare_s * 1e3:.1f} ms of CPU; made when asked for"
    return Row(
        "requests on four APIs with their explanation against without", whole_s / bare_s, 3.0, note=note
    )


def folded() -> Iterator[Row]:
    """Measure the first request of a log that was never asked for one: every entry is looked at once."""
    short, long = (entries(*conversation(length)) for length in (LONG // 10, LONG))
    for name, chosen in POLICIES.items():
        long_s, short_s = (cpu_seconds(fold(log, chosen)) / len(log) for log in (long, short))
        note = f"{long_s * 1e6:.0f} against {short_s * 1e6:.0f} µs an entry"
        lengths = f"{LONG:,} entries against {LONG // 10:,}"
        yield Row(f"first fold of {lengths}, {name}", long_s / short_s, 1.5, note=note)


def fold(log: list[Entry], chosen: Policy) -> Callable[[], object]:
    return lambda: window(CODER, chosen, log)


def filled(talk: Conversation, length: int) -> Conversation:
    """Return the conversation with so many entries, and one request made."""
    events = iter(conversation(length - 1))
    while batch := list(islice(events, BATCH)):
        talk.extend(batch)
    talk.request("coder", policy=BUDGET)
    return talk


def turn(talk: Conversation) -> Callable[[], object]:
    """Return a turn more, and the request after it."""

    def ask() -> object:
        talk.extend(conversation(4))
        return talk.request("coder", policy=BUDGET)

    return ask


def rows_read(talk: Conversation, turns: int) -> Row:
    """Return the rows that a new process reads for its request after more turns, beyond those shown.

    Where the cut has just moved, the window is read as it stood before.
    """
    most, window = 0, in_window(talk.request("coder", policy=BUDGET))
    for _ in range(turns):
        talk.extend(conversation(4))
        windows_of(talk.log).clear()
        rows: list[Entry] = []
        with patch.object(reader, "_decoded", counting(rows)):
            request = talk.request("coder", policy=BUDGET)
        before, window = window, in_window(request)
        most = max(most, len(rows) - max(before, window))
    return Row(
        "rows read for it, beyond its window", most, SPARE, "", f"in {turns} turns; {window} in the last"
    )


def in_window(request: Request) -> int:
    """Return the number of entries that a request shows."""
    return len({position for part in request.parts for position in part.positions})


def counting(rows: list[Entry]) -> Callable[..., Iterator[Entry]]:
    """Measure the decoding of entries that also keeps them."""
    read = reader._decoded

    def counted(*asked: Any) -> Iterator[Entry]:
        for entry in read(*asked):
            rows.append(entry)
            yield entry

    return counted
