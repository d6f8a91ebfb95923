"""The saver that LangGraph is given: checkpoints into the log, and back as they were put."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from functools import wraps
from threading import RLock
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    DeltaChannelHistory,
    PendingWrite,
    get_checkpoint_id,
    get_checkpoint_metadata,
)
from langgraph.checkpoint.serde.base import SerializerProtocol

import stenolog
from stenolog import Conversation, Log
from stenolog.errors import CallerError

from .bringing import check_saver, decisions, missing_here
from .checkpoint_entries import CheckpointEntries
from .messages import matches, name_of
from .stored_values import Allowed, SafeSerializer, ValueReader
from .thread_fold import Saved, Thread
from .thread_store import ThreadStore, Where, config_of, id_of

Saver = TypeVar("Saver")


class Connection(AbstractContextManager[Saver], AbstractAsyncContextManager[Saver], Generic[Saver]):
    """Opens the log for `with` and `async with`, and makes the saver of it."""

    def __init__(self, path: str | os.PathLike[str], saver_of: Callable[[Log], Saver]) -> None:
        self._path = path
        self._saver_of = saver_of
        self._log: Log | None = None

    def __enter__(self) -> Saver:
        self._log = log = stenolog.open(self._path)
        try:
            return self._saver_of(log)
        except BaseException:
            log.close()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._log is not None:
            self._log.close()

    async def __aenter__(self) -> Saver:
        return await asyncio.to_thread(self.__enter__)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self.__exit__, kind, error, trace)


def _awaited(name: str) -> Any:
    """Return an async method that runs the method of this name in a thread."""

    @wraps(getattr(BaseCheckpointSaver, f"a{name}"))
    async def run(self: LangGraphSaver, *given: Any, **named: Any) -> Any:
        return await asyncio.to_thread(getattr(self, name), *given, **named)

    return run


_list = list  # within the class below, `list` is what LangGraph calls so


class LangGraphSaver(BaseCheckpointSaver[int]):
    """Keeps the checkpoints of LangGraph in a log: each thread in the conversation of its id.

    A checkpoint is given back as it was put, by way of `serde`. The messages in its state are told as events
    too, so that timeline, requests and `check requests` know them; `agent` is who says what names nobody. Not
    so with a `serde` of your own, which may encrypt, and where `tell` is false. For sync and async graphs
    alike; any number of threads may use it, and of processes the file.

    The default `serde` revives plain data and LangGraph's own messages and types. `allow` has further
    classes, or their names ("agent.Invoice"), and those that the fields of one name, as of a graph's state
    schema; any other raises `CallerError`, on writing and on reading.
    Checkpoints that were imported from a file are not read: `list` leaves their threads out, anything else
    raises `CallerError`. `trust_imported` names the ids of the threads for which they are read.

    "The latest" checkpoint is the one that was put last, whatever the clocks said.
    """

    def __init__(
        self,
        log: Log,
        *,
        serde: SerializerProtocol | None = None,
        allow: Allowed = (),
        trust_imported: Collection[str] = (),
        agent: str = "assistant",
        tell: bool = True,
    ) -> None:
        if not isinstance(log, Log):
            raise CallerError(
                "log: expected an open log, as in LangGraphSaver(stenolog.open('talks.db')), "
                f"found {log!r:.80}"
            )
        if serde is not None and allow:
            raise CallerError("allow: expected none beside serde, a serializer of your own, which decides")
        super().__init__(serde=serde or SafeSerializer(allow))
        self.tell = tell
        self._shelf = ThreadStore(log, name_of(agent), trust_imported)
        self._lock = RLock()

    aget_tuple = _awaited("get_tuple")
    aget_delta_channel_history = _awaited("get_delta_channel_history")
    aput = _awaited("put")
    aput_writes = _awaited("put_writes")
    acopy_thread = _awaited("copy_thread")
    adelete_thread = _awaited("delete_thread")
    adelete_for_runs = _awaited("delete_for_runs")
    aprune = _awaited("prune")

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        found = self.list(config, filter=filter, before=before, limit=limit)
        while (made := await asyncio.to_thread(next, found, None)) is not None:
            yield made

    @classmethod
    def from_conn_string(cls, conn_string: str | os.PathLike[str], **options: Any) -> Connection[Self]:
        """Open the log in a file for `with` or `async with`; `options` are the saver's, such as `allow`."""
        return Connection(conn_string, lambda log: cls(log, **options))

    def setup(self) -> None:
        """Do nothing: a log needs no setup, but programs call it, as that of a `SqliteSaver`."""

    def conversation(self, thread_id: object) -> Conversation:
        """Return the conversation of a thread: of the same name, or of its hash if the id can be no name."""
        return self._shelf.conversation(id_of(thread_id))

    def branches(self, thread_id: object, checkpoint_ns: str = "") -> _list[CheckpointTuple]:
        """Return the checkpoints that nothing was built on, newest first: the ends of all branches.

        More than one: the thread was forked, or two invocations ran on it at once.
        """
        with self._lock:
            thread = self._shelf.thread(id_of(thread_id))
            return [self._tuple(thread, saved) for saved in thread.branches(checkpoint_ns)]

    def bring(self, old: BaseCheckpointSaver[Any], thread_id: object) -> int:
        """Put what only another saver has of a thread, and return the number of checkpoints.

        All in one transaction, or nothing: a thread goes on here where it stood there, with its history, its
        branches, its interrupts and its pending writes. Raises `CallerError` where `old` has no such thread,
        where the thread went on in both savers, where its messages were imported into this log, and where it
        holds a class that `allow` does not name.

        Entries have the times of their checkpoints.
        """
        check_saver(old)
        entries, id = self._entries, id_of(thread_id)
        with self._lock:
            before = len(self._shelf.thread(id).saved)
        self._shelf.append_together(
            id, lambda thread: decisions(thread, missing_here(old, thread, id), entries)
        )
        with self._lock:
            return len(self._shelf.thread(id).saved) - before

    async def abring(self, old: BaseCheckpointSaver[Any], thread_id: object) -> int:
        """Do the same as `bring`, with a saver of an event loop, such as an `AsyncPostgresSaver`."""
        return await asyncio.to_thread(self.bring, old, thread_id)

    # Reading

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        where = Where.of(config)
        with self._lock:
            thread = self._shelf.thread(where.thread)
            saved = thread.find(where.ns, where.id)
            return None if saved is None else self._tuple(thread, saved)

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        with self._lock:
            threads = [self._shelf.thread(Where.of(config).thread)] if config else self._shelf.threads()
            found = [pair for thread in threads for pair in self._listed(thread, config, before)]
        given = 0
        for thread, saved in found:
            if given == limit:
                return
            with self._lock:
                made = self._tuple(thread, saved) if self._has(thread, saved, filter or {}) else None
            if made is not None:
                given += 1
                yield made

    def get_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """Return the writes to delta channels. Pruned ancestors still count: the log has them."""
        where = Where.of(config)
        with self._lock:
            thread = self._shelf.thread(where.thread)
            saved = thread.find(where.ns, where.id)
            above = [] if saved is None else [*thread.ancestors(saved)]
            return {channel: self._history(thread, above, channel) for channel in channels}

    # Writing

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        where, kept = Where.of(config), get_checkpoint_metadata(config, metadata)
        entries = self._entries
        with self._lock:
            self._shelf.append(
                where.thread,
                lambda thread: entries.of_checkpoint(thread, where, checkpoint, kept, new_versions),
            )
        return config_of(where.thread, where.ns, checkpoint["id"])

    def put_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        where, entries = Where.of(config), self._entries
        with self._lock:
            self._shelf.append(
                where.thread, lambda thread: entries.of_writes(thread, where, writes, task_id, task_path)
            )

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Fork the source as the target; nothing is copied.

        Raises `ConversationExistsError` where the target exists. A thread without checkpoints copies nothing.
        """
        with self._lock:
            if self._shelf.thread(id_of(source_thread_id)).position:
                self._shelf.copy(id_of(source_thread_id), id_of(target_thread_id))

    def delete_thread(self, thread_id: str) -> None:
        """Delete the thread's conversation; while copies of it live, it is emptied and archived instead."""
        with self._lock:
            self._shelf.delete(id_of(thread_id))

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Drop the checkpoints of these runs for LangGraph; the log still has what happened."""
        with self._lock:
            for thread in self._shelf.threads() if run_ids else ():
                self._shelf.drop(thread.id or "", lambda thread: self._of_runs(thread, run_ids))

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Raise `CallerError` for a strategy that is neither "keep_latest" nor "delete"."""
        if strategy not in ("keep_latest", "delete"):
            raise CallerError(f"strategy: expected 'keep_latest' or 'delete', found {strategy!r}")
        with self._lock:
            for id in map(id_of, thread_ids):
                if strategy == "delete":
                    self._shelf.delete(id)
                else:
                    self._shelf.drop(id, Thread.outdated)

    # Inside

    @property
    def _entries(self) -> CheckpointEntries:
        # Made anew each time: LangGraph copies the saver, and gives the copy another serializer.
        return CheckpointEntries(self.serde, self._shelf, self.tell)

    def _of_runs(self, thread: Thread, runs: Sequence[str]) -> Iterator[Saved]:
        reading = self._reading(thread)
        return (s for s in thread.newest_first() if reading.value(s.metadata).get("run_id") in runs)

    def _reading(self, thread: Thread) -> ValueReader:
        return ValueReader(self.serde, thread.links, self._shelf.log.blobs)

    def _tuple(self, thread: Thread, saved: Saved) -> CheckpointTuple:
        reading, id = self._reading(thread), thread.id or ""
        checkpoint: Checkpoint = reading.value(saved.checkpoint)
        checkpoint["channel_values"] = {channel: reading.value(ref) for channel, ref in saved.values.items()}
        return CheckpointTuple(
            config=config_of(id, saved.ns, saved.id),
            checkpoint=checkpoint,
            metadata=reading.value(saved.metadata),
            parent_config=config_of(id, saved.ns, saved.parent) if saved.parent else None,
            pending_writes=[
                (write.task, write.channel, reading.value(write.value)) for write in thread.writes(saved)
            ],
        )

    def _listed(
        self, thread: Thread, config: RunnableConfig | None, before: RunnableConfig | None
    ) -> Iterator[tuple[Thread, Saved]]:
        named = config["configurable"] if config else {}
        ns, id = named.get("checkpoint_ns"), named.get("checkpoint_id") or None
        end = (get_checkpoint_id(before) or None) if before else None
        limit = next((other for other in thread.saved.values() if other.id == end), None)
        for saved in thread.newest_first():
            is_named = ns in (None, saved.ns) and id in (None, saved.id)
            if is_named and (end is None or self._is_before(thread, saved, end, limit)):
                yield thread, saved

    def _has(self, thread: Thread, saved: Saved, wanted: Mapping[str, Any]) -> bool:
        """Return whether a checkpoint's metadata has all wanted values."""
        metadata = self._reading(thread).value(saved.metadata) if wanted else {}
        return matches(metadata, wanted)

    def _is_before(self, thread: Thread, saved: Saved, id: str, limit: Saved | None) -> bool:
        """Return whether a checkpoint is older than the one of that id, which is `limit`.

        A subgraph's checkpoint is as old as the enclosing graph's checkpoint under which it was made. If
        the log does not know the id, the time in the ids decides.
        """
        if limit is None:
            return saved.id < id
        around = self._reading(thread).value(saved.metadata).get("parents") or {}
        above = thread.saved.get((limit.ns, around.get(limit.ns, ""))) if saved.ns != limit.ns else None
        return (above or saved).order < limit.order

    def _history(self, thread: Thread, above: Iterable[Saved], channel: str) -> DeltaChannelHistory:
        """Return a channel's writes since its value was last stored in an ancestor, and that value."""
        reading = self._reading(thread)
        written: _list[PendingWrite] = []
        for saved in above:
            here = [write for write in thread.writes(saved) if write.channel == channel]
            written[:0] = [(write.task, channel, reading.value(write.value)) for write in here]
            if channel in saved.values:
                return {"writes": written, "seed": reading.value(saved.values[channel])}
        return {"writes": written}
