"""The log for asyncio: the same names, awaited.

    async with stenolog.open_async("talks.db") as log:
        await log["demo"].append(UserMessage(text="Which test fails?"))

Every call runs in one of the log's few threads, so the event loop never waits for the disk. One of them
writes: appends of tasks that wait at the same time are committed together. A cancelled call may have been
carried out: repeat an append with the same id.
"""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import (
    AsyncIterator,
    Callable,
    Coroutine,
    Generator,
    Iterable,
    Iterator,
    Sequence,
)
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import datetime
from functools import wraps
from itertools import islice
from types import TracebackType
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

from stenolog.adapters.store.contract.recorder import LogRecorder
from stenolog.adapters.store.contract.values import PendingEntry, PendingInsert, Stream
from stenolog.adapters.store.reading.reader import Tail
from stenolog.domain.entry import Entry, NewEntry, Record, check_name
from stenolog.domain.errors import StoreError
from stenolog.domain.events import Event

from . import log as logs
from .log import Conversation, Log, Pending, new_entries

if TYPE_CHECKING:
    from .search.lookup import Hit

P = ParamSpec("P")
S = TypeVar("S")
T = TypeVar("T")
THREADS = 4
BATCH = 128
"""Entries fetched per turn of a thread."""


def documented_by(original: type) -> Callable[[type[T]], type[T]]:
    """Give methods without a docstring that of the same name in `original`, for `help`."""

    def document(kind: type[T]) -> type[T]:
        for name, method in vars(kind).items():
            if not name.startswith("_") and not method.__doc__ and hasattr(original, name):
                method.__doc__ = getattr(original, name).__doc__
        return kind

    return document


def open_async(path: str | os.PathLike[str] | None = None, **options: Any) -> AsyncLog:
    """Return the log at `path`, opened by `async with` or `await`. Path and options as `open`."""
    return AsyncLog(lambda: logs.open(path, **options))


@documented_by(Log)
class AsyncLog:
    """`Log`, awaited. It belongs to one event loop."""

    def __init__(self, opening: Callable[[], Log]) -> None:
        self._opening = opening
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="stenolog")
        self._landing: LoopBridge | None = None
        self._log: Log | None = None
        self._closed = False

    @property
    def sync(self) -> Log:
        """The log underneath."""
        assert self._log is not None, "open it first: `async with stenolog.open_async(path) as log`"
        return self._log

    def __await__(self) -> Generator[Any, None, AsyncLog]:
        return self.__aenter__().__await__()

    async def __aenter__(self) -> AsyncLog:
        if self._log is None:
            self._log = await self.run(self._opening)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Give the file back; closing again does nothing."""
        if self._closed:
            return
        if self._log is not None:
            await self.run(self._log.close)
        self._threads.shutdown(wait=False)
        self._closed = True

    def __getitem__(self, name: str) -> AsyncConversation:
        return AsyncConversation(self, name)

    async def names(self, **which: Any) -> list[str]:
        """Return the names; `which` as for `Log.names`."""
        return await self.run(self.sync.names, **which)

    async def count(self, **which: Any) -> int:
        return await self.run(self.sync.count, **which)

    async def search(self, query: str, **wanted: Any) -> list[Hit]:
        """Return the hits; `wanted` as for `Log.search`."""
        return await self.run(self.sync.search, query, **wanted)

    async def exists(self, name: str) -> bool:
        return await self.run(self.sync.__contains__, name)

    async def put_blob(self, content: bytes) -> str:
        """Store bytes that entries can name; return their sha256."""
        return await self.run(self.sync.blobs.put, content)

    async def blob(self, sha: str) -> bytes:
        return await self.run(self.sync.blobs.__getitem__, sha)

    async def backup(self, path: str | os.PathLike[str]) -> None:
        await self.run(self.sync.backup, path)

    async def run(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Make any call of the log in its threads. Raises `StoreError` if it was closed."""
        if self._closed and self._log is not None:
            raise StoreError(f"{self._log.path}: the log was closed")
        return await asyncio.get_running_loop().run_in_executor(self._threads, lambda: call(*args, **kwargs))

    async def _write(
        self, items: Sequence[PendingEntry], stream: Stream, expected: int | None
    ) -> list[Record]:
        loop = asyncio.get_running_loop()
        if self._landing is None or self._landing.loop is not loop:
            self._landing = LoopBridge(loop)
        return await self._landing.write(self.sync.recorder, items, stream, expected)

    async def _each(self, entries: Callable[[], Iterator[T]]) -> AsyncIterator[T]:
        iterator = await self.run(entries)
        while batch := await self.run(lambda: list(islice(iterator, BATCH))):
            for entry in batch:
                yield entry


def awaited(
    method: Callable[Concatenate[Conversation, P], T],
) -> Callable[Concatenate[AsyncConversation, P], Coroutine[Any, Any, T]]:
    """Return a method of `Conversation` as a coroutine that runs it in a thread of the log."""

    @wraps(method)
    async def run(self: AsyncConversation, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self.log.run(lambda: method(self._sync(), *args, **kwargs))

    return run


@documented_by(Conversation)
class AsyncConversation:
    """`Conversation`, awaited, with the same results and errors."""

    def __init__(self, log: AsyncLog, name: str, conversation: Conversation | None = None) -> None:
        self.log = log
        self._name = name
        self._conversation = conversation

    @property
    def name(self) -> str:
        return self._conversation.name if self._conversation else self._name

    async def position(self) -> int:
        return await self._run(lambda conversation: conversation.position)

    async def digest(self) -> str:
        return await self._run(lambda conversation: conversation.digest)

    async def append(
        self,
        event: Event,
        *,
        id: str | None = None,
        time: datetime | None = None,
        expected: int | None = None,
    ) -> Entry:
        (entry,) = await self.extend([NewEntry(event, id, time)], expected=expected)
        return entry

    async def extend(self, events: Iterable[Event | NewEntry], *, expected: int | None = None) -> list[Entry]:
        new = new_entries(events)
        if not new:
            return []
        conversation = self._conversation or self._sought()
        items = logs.prepare_all(self.log.sync, new)
        records = await self.log._write(items, conversation.stream, expected)
        if self._conversation is None:
            log = self.log.sync
            self._conversation = Conversation(log, log.streams.share(conversation.stream))
        return logs.to_entries(conversation, new, records)

    def __aiter__(self) -> AsyncIterator[Entry]:
        return self.entries()

    def entries(self, after: int = 0, at: int | None = None, *, strict: bool = False) -> AsyncIterator[Entry]:
        """Yield the entries with `after` < position <= `at`; see `Conversation.entries`."""
        return self.log._each(lambda: self._sync().entries(after, at, strict=strict))

    def records(self, after: int = 0, at: int | None = None) -> AsyncIterator[Record]:
        """Yield the entries as stored records."""
        return self.log._each(lambda: self._sync().records(after, at))

    async def tail(self, after: int | None = None, timeout: float | None = None) -> AsyncIterator[Entry]:
        """Yield the entries after `after`, then new ones; see `Conversation.tail`."""
        mark = await self.position() if after is None else after
        loop, woken, recorder = asyncio.get_running_loop(), asyncio.Event(), self.log.sync.recorder
        with recorder.listening(lambda: loop.call_soon_threadsafe(woken.set)):
            tail = Tail(recorder, lambda mark: self._sync()._unread(mark), mark, timeout)
            while not recorder.closed:
                woken.clear()
                with tail.until_closed():
                    async for entry in self.log._each(tail.read):
                        yield entry
                        tail.restart()
                try:
                    async with asyncio.timeout(tail.patience):
                        await woken.wait()
                except TimeoutError:
                    return

    async def fork(
        self, after: int | None = None, name: str | None = None, pending: Pending = "close"
    ) -> AsyncConversation:
        made = await self._run(lambda conversation: conversation.fork(after, name, pending))
        return AsyncConversation(self.log, made.name, made)

    entry = awaited(Conversation.entry)
    entry_by_id = awaited(Conversation.entry_by_id)
    state = awaited(Conversation.state)
    settings = awaited(Conversation.settings)
    fold = awaited(Conversation.fold)
    timeline = awaited(Conversation.timeline)
    transitions = awaited(Conversation.transitions)
    request = awaited(Conversation.request)
    join = awaited(Conversation.join)
    bill = awaited(Conversation.bill)
    explain = awaited(Conversation.explain)
    export = awaited(Conversation.export)
    search = awaited(Conversation.search)
    submit = awaited(Conversation.submit)
    rename = awaited(Conversation.rename)
    archive = awaited(Conversation.archive)
    unarchive = awaited(Conversation.unarchive)
    erase = awaited(Conversation.erase)
    delete = awaited(Conversation.delete)

    async def sync(self) -> Conversation:
        """Return the underlying conversation, for code in its own threads."""
        return await self.log.run(self._sync)

    def _sought(self) -> Conversation:
        return Conversation(self.log.sync, Stream(check_name(self._name, what="conversation")))

    async def _run(self, call: Callable[[Conversation], T]) -> T:
        return await self.log.run(lambda: call(self._sync()))

    def _sync(self) -> Conversation:
        """Return the underlying conversation. Runs in a thread, since it reads the log."""
        if self._conversation is None:
            self._conversation = self.log.sync[self._name]
        return self._conversation


class LoopBridge:
    """Handover from the writing thread to the event loop, with one wake-up per transaction."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._asked: deque[tuple[PendingInsert, asyncio.Future[Any]]] = deque()

    async def write(
        self, recorder: LogRecorder, items: Sequence[PendingEntry], stream: Stream, expected: int | None
    ) -> list[Record]:
        """Have an append made, and wait until it is."""
        future = self.loop.create_future()
        waiting = recorder.insert_later(items, self._wake, stream=stream, expected=expected)
        self._asked.append((waiting, future))
        await future
        return waiting.result()

    def _wake(self) -> None:
        with suppress(RuntimeError):  # the loop may have ended
            self.loop.call_soon_threadsafe(self._tell)

    def _tell(self) -> None:
        """Run the queued jobs in order, in the event loop's thread."""
        while self._asked and self._asked[0][0].done:
            _, future = self._asked.popleft()
            if not future.done():  # it may have been cancelled
                future.set_result(None)
