"""The saver given to LangGraph: checkpoints into the log, and back as they were put."""

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
from stenolog.events import NewEntry

from .bringing import check_saver, decisions, missing_here
from .checkpoint_entries import CheckpointEntries, awaited
from .messages import matches, name_of
from .stored_values import Allowed, SafeSerializer, ValueReader
from .thread_fold import Saved, Thread
from .thread_store import Decide, ThreadStore, Where, config_of, id_of

try:  # LangGraph tells a saver which classes a schema names only if this is set
    from langgraph._internal import _serde
except ImportError:  # a checkpoint alone does not need LangGraph itself
    pass
else:
    _serde.STRICT_MSGPACK_ENABLED = True  # type: ignore[attr-defined]

Saver = TypeVar("Saver")
MOST_EARLY = 100
"""Checkpoints of main graphs that those of subgraphs may wait for."""


class Connection(AbstractContextManager[Saver], AbstractAsyncContextManager[Saver], Generic[Saver]):
    """Context manager, sync or async, that opens the log and makes its saver."""

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
    @wraps(getattr(BaseCheckpointSaver, f"a{name}"))
    async def run(self: LangGraphSaver, *given: Any, **named: Any) -> Any:
        return await asyncio.to_thread(getattr(self, name), *given, **named)

    return run


_list = list  # within the class below, `list` is what LangGraph calls so


class LangGraphSaver(BaseCheckpointSaver[int]):
    """Saver of LangGraph's checkpoints in a log, each thread in the conversation of its id.

    A checkpoint comes back as it was put, by way of `serde`. Its messages are appended as events too, so that
    timeline, requests and `check requests` know them; `agent` is the default speaker. Not so with a `serde`
    of your own, which may encrypt, or with `tell=False`. For sync and async graphs, any number of threads,
    and any number of processes on a file.

    The default `serde` revives plain data, LangGraph's own messages and types, and classes that the schema of
    a compiled graph names. `allow` adds classes or names ("agent.Invoice"), with those of their fields. An
    object of another class is stored with a warning, and raises `CallerError` if a later process reads it.
    Checkpoints imported from a file are not read: `list` omits their threads, anything else raises
    `CallerError`. `trust_imported` names the threads for which they are read.

    "The latest" checkpoint is the one put last, whatever the clocks said.
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
        self._early: dict[tuple[str, str], list[Decide]] = {}

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
        """Open a file's log for `with` or `async with`; `options` are the saver's, such as `allow`."""
        return Connection(conn_string, lambda log: cls(log, **options))

    def setup(self) -> None:
        """Do nothing; programs call it as a `SqliteSaver`'s."""

    def conversation(self, thread_id: object) -> Conversation:
        """Return a thread's conversation: of its name, or of its hash if it is no valid name."""
        return self._shelf.conversation(id_of(thread_id))

    def branches(self, thread_id: object, checkpoint_ns: str = "") -> _list[CheckpointTuple]:
        """Return the checkpoints without a successor, newest first: the ends of all branches.

        Several: the thread was forked, or two invocations ran at once.
        """
        with self._lock:
            thread = self._shelf.thread(id_of(thread_id))
            return [self._tuple(thread, saved) for saved in thread.branches(checkpoint_ns)]

    def bring(self, old: BaseCheckpointSaver[Any], thread_id: object) -> int:
        """Put what only another saver has of a thread; return the number of checkpoints.

        One transaction: the thread continues here with its history, branches, interrupts and pending writes,
        at the times of its checkpoints. Raises `CallerError` if `old` has no such thread, if it continued in
        both savers, if its messages were imported into this log, and for a class that `allow` does not name.
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
        """Bring a thread from an async saver, such as an `AsyncPostgresSaver`."""
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
        """Return the writes to delta channels, those of pruned ancestors too."""
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

        def decide(thread: Thread) -> list[NewEntry]:
            return entries.of_checkpoint(thread, where, checkpoint, kept, new_versions)

        with self._lock:
            self._shelf.append(where.thread, decide)
            around = awaited(self._shelf.thread(where.thread), where, kept)
            if around is not None:
                self._early.setdefault((where.thread, around), []).append(decide)
                if len(self._early) > MOST_EARLY:
                    del self._early[next(iter(self._early))]
            for late in () if where.ns else self._early.pop((where.thread, checkpoint["id"]), ()):
                self._shelf.append(where.thread, late)
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

        Raises `ConversationExistsError`. Does nothing for a thread without checkpoints.
        """
        with self._lock:
            if self._shelf.thread(id_of(source_thread_id)).position:
                self._shelf.copy(id_of(source_thread_id), id_of(target_thread_id))

    def delete_thread(self, thread_id: str) -> None:
        """Delete the thread's conversation; empty and archive it while copies of it live."""
        with self._lock:
            self._shelf.delete(id_of(thread_id))

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Drop these runs' checkpoints for LangGraph; the log keeps what happened."""
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

    def get_next_version(self, current: Any, channel: None) -> Any:
        """Return the version after `current`: a number, or a text in threads put from other savers."""
        if isinstance(current, str):
            return f"{int(current.partition('.')[0]) + 1:032}.0"
        return super().get_next_version(current, channel)

    def with_allowlist(self, extra_allowlist: Collection[tuple[str, ...]]) -> Self:
        """Allow classes that a graph's schema names; a `serde` of your own decides for itself."""
        if isinstance(self.serde, SafeSerializer):
            self.serde.with_msgpack_allowlist(extra_allowlist)
        return self

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
        metadata = self._reading(thread).value(saved.metadata) if wanted else {}
        return matches(metadata, wanted)

    def _is_before(self, thread: Thread, saved: Saved, id: str, limit: Saved | None) -> bool:
        """Return whether a checkpoint is older than the one with this `id`: `limit`, if the log has it.

        A subgraph's is as old as its enclosing graph's. For an unknown id, the time in the ids decides.
        """
        if limit is None:
            return saved.id < id
        around = self._reading(thread).value(saved.metadata).get("parents") or {}
        above = thread.saved.get((limit.ns, around.get(limit.ns, ""))) if saved.ns != limit.ns else None
        return (above or saved).order < limit.order

    def _history(self, thread: Thread, above: Iterable[Saved], channel: str) -> DeltaChannelHistory:
        """Return a channel's last value stored in an ancestor, and the writes since."""
        reading = self._reading(thread)
        written: _list[PendingWrite] = []
        for saved in above:
            on_channel = [write for write in thread.writes(saved) if write.channel == channel]
            written[:0] = [(write.task, channel, reading.value(write.value)) for write in on_channel]
            if channel in saved.values:
                return {"writes": written, "seed": reading.value(saved.values[channel])}
        return {"writes": written}
