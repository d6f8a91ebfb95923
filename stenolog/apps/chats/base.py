"""Port shared by chats, mail and feeds: outgoing messages, delivery, retries."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import NamedTuple, TypeAlias, TypeVar

from stenolog.adapters.store.contract.recorder import LogRecorder
from stenolog.domain.entry import Entry
from stenolog.domain.settings import Settings

T = TypeVar("T")


class Question(NamedTuple):
    """A piece of the question whether a call may run, or of one that a tool asks.

    `code` names the call; `is_last` ends it. `choices` are those of a tool's question; None: an approval.
    """

    text: str
    code: str
    is_last: bool = True
    choices: tuple[str, ...] | None = None


class OutgoingMessage(NamedTuple):
    """Part `nth` of `number`, from 1, of an entry's outgoing text.

    `speaker` is the lane that said it, or that it is about. `question` is set if it asks whether a call may
    run.
    """

    text: str
    speaker: str
    position: int
    nth: int
    number: int
    question: Question | None = None


Send: TypeAlias = Callable[[OutgoingMessage], Awaitable[None]]
"""Hands a piece over, and returns when it is there. Raises `OSError` if it may work later, so that it is
tried again, and `PermissionError` if nothing is wanted there any more."""
Render: TypeAlias = Callable[[Entry, Settings], Iterable[str | Question]]
"""The pieces of an entry, under the settings that hold there; none: it is not for outside. It depends only on
these two, for an entry that was sent in part is rendered again after a restart. A call that it does not show
by `Question` is approved only by its code."""
Backoff: TypeAlias = Callable[[int], float]
"""A function that returns the seconds to wait after so many failures in a row."""


def backoff(failures: int) -> float:
    """Return one second after the first failure, doubled each time up to a minute."""
    return float(min(60, 2 ** min(failures - 1, 6)))


async def at_each_commit(
    recorder: LogRecorder,
    call: Callable[[], Awaitable[object]],
    wait: Backoff,
    tell: Callable[[Exception], object],
    woken: asyncio.Event,
) -> None:
    """Make a call now, and again after each commit or when `woken`, until cancelled; retry a failing one."""
    loop = asyncio.get_running_loop()
    with recorder.listening(lambda: loop.call_soon_threadsafe(woken.set)):
        while True:
            woken.clear()  # before the call: what comes after that wakes us again
            await retry_forever(call, wait, tell, after=Exception, final=())
            await woken.wait()


async def retry_forever(
    call: Callable[[], Awaitable[T]],
    wait: Backoff,
    tell: Callable[[Exception], object],
    *,
    after: type[Exception] = OSError,
    final: tuple[type[Exception], ...] = (PermissionError,),
    tries: int = 0,
) -> T:
    """Retry a failing call until it succeeds; report each failure and wait.

    Retries errors of the kinds `after`, but not `final` ones; `tries` limits their number, then the last is
    raised.
    """
    failures = 0
    while True:
        try:
            return await call()
        except final:
            raise
        except after as error:
            failures += 1
            if failures == tries:
                raise
            tell(error)
        await asyncio.sleep(wait(failures))
