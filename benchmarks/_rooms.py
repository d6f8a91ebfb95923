"""The CPU of an append and of the next request, by room of the package.

The rooms are sampled: nothing is slower for being looked at. What a library does counts for its caller.
"""

from __future__ import annotations

import signal
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import stenolog
from stenolog import AssistantMessage, UserMessage
from tests.counts.counters import PACKAGE, room
from tests.counts.flows import talk as talk_of

EVERY_S = 0.0005
TALKS, STEPS, ENTRIES = 10, 250, 1_000
"""Steps in each conversation of so many entries: one alone would grow too long."""

Rooms = dict[str, float]
"""Seconds of CPU by room, as `tests/costs.toml` names them."""


def measured() -> dict[str, Rooms]:
    """Return the CPU of an append without fsync, and of the next request, by row of `tests/costs.toml`."""
    question, answer = UserMessage("go on"), AssistantMessage(agent="coder", text="done")
    append, ask = Sampled(), Sampled()
    with (
        tempfile.TemporaryDirectory() as folder,
        stenolog.open(Path(folder, "talks.db"), synchronous="normal") as log,
    ):
        for number in range(TALKS):
            talk = talk_of(log, f"talk {number}", ENTRIES)
            talk.request("coder", api="openai-chat")
            with sampling(append, ask):
                for _ in range(STEPS):
                    talk.append(answer)
                    append.run(lambda talk=talk: talk.append(question))  # type: ignore[misc]
                    ask.run(lambda talk=talk: talk.request("coder", api="openai-chat"))  # type: ignore[misc]
    return {"append": append.rooms(), "request, openai-chat, 1,000 entries": ask.rooms()}


class Sampled:
    """A piece of work that is repeated: its CPU, and the rooms in which it was found."""

    def __init__(self) -> None:
        self._found: Counter[str] = Counter()
        self._runs = 0
        self._cpu_s = 0.0
        self._running = False

    def run(self, work: Callable[[], object]) -> None:
        """Run it once."""
        start, self._running = time.thread_time(), True
        work()
        self._running = False
        self._cpu_s += time.thread_time() - start
        self._runs += 1

    def look(self, frame: FrameType | None) -> None:
        """Note the room of the innermost function of the package, if it runs."""
        while self._running and frame is not None:
            if (path := frame.f_code.co_filename).startswith(PACKAGE):
                self._found[room(path)] += 1
                return
            frame = frame.f_back

    def rooms(self) -> Rooms:
        """Return the CPU of one run."""
        each = self._cpu_s / self._runs / max(self._found.total(), 1)
        return {where: count * each for where, count in sorted(self._found.items())}


@contextmanager
def sampling(*works: Sampled) -> Iterator[None]:
    """Interrupt this thread again and again, and have each look where it is."""

    def look(_: int, frame: FrameType | None) -> None:
        for work in works:
            work.look(frame)

    before = signal.signal(signal.SIGALRM, look)
    signal.setitimer(signal.ITIMER_REAL, EVERY_S, EVERY_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
