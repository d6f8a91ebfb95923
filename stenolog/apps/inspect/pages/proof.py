"""The page of the proof: a conversation checked from its first entry, while the reader watches.

Nothing of an earlier check is used: the file is opened anew, every digest and link is computed again, and
each request with a receipt is built again and compared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from queue import SimpleQueue
from threading import Thread
from time import perf_counter
from typing import Any, NamedTuple

from stenolog.adapters.conversation.log import Log
from stenolog.adapters.conversation.log import open as open_log
from stenolog.apps.inspect.page import Page
from stenolog.apps.inspect.query import Query
from stenolog.apps.views.checks import LogCheck, log_check
from stenolog.apps.views.envelope import Answer

EVERY = 2_000
"""So many entries are checked between two lines on what is done."""
MOST = 100
"""The problems, and the requests of an outcome, that the page lists."""


class Progress(NamedTuple):
    """A line on what is done so far."""

    words: str


class Result(NamedTuple):
    """The end of a check: its findings, time and seconds; `error` if it could not be done."""

    check: LogCheck | None
    at: datetime
    seconds: float
    error: str = ""


def checked_anew(log: Log, name: str, watch: Callable[..., Iterable[Any]] | None = None) -> LogCheck:
    """Check a conversation and its requests, only from the file."""
    if log.recorder.is_private:
        return log_check(log[name], requests=True, watch=watch)
    # A connection that is open holds pages in memory, which would hide a change of the file.
    with open_log(log.recorder.address) as fresh:
        return log_check(fresh[name], requests=True, watch=watch)


def steps(log: Log, name: str, entries: int) -> Iterator[Progress | Result]:
    """Yield what is done so far, and at last the result."""
    queue: SimpleQueue[Progress | Result] = SimpleQueue()

    def watch(items: Iterable[Any], label: str, number: int | None) -> Iterator[Any]:
        if not label.startswith("verifying"):
            queue.put(Progress("Each request that has a receipt is built again, and compared"))
            yield from items
            return
        for done, item in enumerate(items, 1):
            if not done % EVERY:
                queue.put(Progress(f"{done:,} of {entries:,} entries are as they were written"))
            yield item

    def work() -> None:
        begin = perf_counter()
        check, error = None, ""
        try:
            check = checked_anew(log, name, watch)
        # Whatever it is: in this thread nobody else would hear of it. The log may have been closed meanwhile.
        except Exception as failed:
            error = f"{type(failed).__name__}: {failed}"
        queue.put(Result(check, datetime.now(UTC), perf_counter() - begin, error))

    Thread(target=work, daemon=True).start()
    while True:
        step = queue.get()
        yield step
        if isinstance(step, Result):
            return


def view(query: Query) -> dict[str, Any]:
    """Return a check that begins as the page is sent."""
    talk = query.conversation
    return {
        "name": talk.name,
        "at": query.at,
        "agent": query.word("agent"),
        "head": query.head,
        "steps": steps(query.log, talk.name, query.head),
        "most": MOST,
    }


def twin(query: Query) -> Answer:
    """Return the data of `check log --requests --json`."""
    found = checked_anew(query.log, query.conversation.name)
    return Answer(found.data, found.notes, found.failed)


page = Page("proof", view, twin, streams=True, link="Proof", rank=9, is_more=True)
