"""Writers that come while somebody else writes, so that their jobs share a transaction."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from stenolog import Conversation, Log, NewEntry, StenologError
from stenolog.adapters.conversation.log import prepare_all
from stenolog.adapters.store.contract.appends import Append
from stenolog.adapters.store.sqlite.appends import append
from stenolog.adapters.store.sqlite.turn.group_commit import Job, PendingJob
from stenolog.domain.entry import Record
from tests.stores.workers import PATIENCE


def sealing(
    conversation: Conversation, drafts: Sequence[NewEntry], expected: int | None, fence: int | None = None
) -> Job[list[Record]]:
    """Return the append of some drafts, as the store makes it."""
    items, edge = prepare_all(conversation.log, drafts), conversation.log.edge
    return partial(append, Append(conversation.stream, items, expected, edge, fence))


def outcome(call: Callable[[], Any]) -> Any:
    try:
        return call()
    except StenologError as error:
        return type(error), str(error)


def at_once(log: Log, *calls: Callable[[], Any]) -> list[Any]:
    """Return the results of calls in threads that all arrive during another write, in this order."""
    group, submit = log.datastore.group, log.datastore.group.submit
    queued = threading.Semaphore(0)

    def watched(waiting: PendingJob[Any]) -> None:
        submit(waiting)
        queued.release()

    group.submit = watched  # type: ignore[method-assign]
    with ThreadPoolExecutor(len(calls)) as pool:
        with log.datastore.thread_lock:
            futures = []
            for call in calls:
                futures.append(pool.submit(outcome, call))
                assert queued.acquire(timeout=PATIENCE)
        outcomes = [future.result(PATIENCE) for future in futures]
    group.submit = submit  # type: ignore[method-assign]
    return outcomes


def in_groups(hook: Callable[[], object]) -> Callable[[sqlite3.Connection], None]:
    """Return a hook of transactions that is called in those of groups."""

    def commit_hooks(_: sqlite3.Connection) -> None:
        if threading.current_thread().name == "stenolog-writer":
            hook()

    return commit_hooks
