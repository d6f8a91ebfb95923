"""The saver that LangGraph is given: checkpoints into the log, and back as they were put."""

from __future__ import annotations

import asyncio
import os
from collections import ChainMap
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import chain
from threading import RLock
from typing import Any, Self

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

from stenolog import Conversation, Log
from stenolog.errors import CallerError
from stenolog.events import NewEntry

from .awaited import AwaitedSaver
from .bringing import check_saver, missing_here
from .configs import Where, config_of
from .connection import Connection
from .message_sync import MessageSync
from .messages import ChannelMessage, matches, messages_in, name_of
from .notes import late_notes, note_on
from .stored_values import Allowed, Ref, SafeSerializer, ValueReader, ValueWriter, in_the_clear
from .thread_fold import Saved, Thread
from .thread_store import ThreadStore, id_of, record

_MISSING = object()
VALUES = "channel_values"
_list = list  # within the class below, `list` is what LangGraph calls so


class LangGraphSaver(AwaitedSaver):
    """Keeps the checkpoints of LangGraph in a log: each thread in the conversation of its id.

    A checkpoint is given back as it was put, by way of `serde`. The messages in its state are told as events
    too, so that timeline, requests and `check requests` know them; `agent` is who says what names nobody. Not
    so with a `serde` of your own, which may encrypt, and where `tell` is false. For sync and async graphs
    alike; any number of threads may use it, and of processes the file.

    The default `serde` revives plain data and LangGraph's own messages and types. `allow` names further
    classes, as classes or as (module, name); any other raises `CallerError`, on writing and on reading.
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

    @classmethod
    def from_conn_string(cls, conn_string: str | os.PathLike[str], **options: Any) -> Connection[Self]:
        """Open the log in a file for `with` or `async with`; `options` are the saver's, such as `allow`."""
        return Connection(conn_string, lambda log: cls(log, **options))

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

        A thread goes on here where it stood there, with its history, its branches and its interrupts. Raises
        `CallerError` where `old` has no such thread, where the thread went on in both savers, where its
        messages were imported into this log, and where it holds a class that `allow` does not name.

        Entries have the times of their checkpoints.
        """
        check_saver(old)
        with self._lock:
            thread, brought = self._shelf.thread(id := id_of(thread_id)), 0
        for each in missing_here(old, thread, id):
            versions = each.checkpoint["channel_versions"]
            config = self._store(each.parent, each.checkpoint, each.metadata, versions, each.at)
            for task, writes in each.writes:
                self._store_writes(config, writes, task, "", each.at)
            brought += 1
        return brought

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
        return self._store(config, checkpoint, metadata, new_versions)

    def put_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        self._store_writes(config, writes, task_id, task_path)

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

    def _store(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new: ChannelVersions,
        at: datetime | None = None,
    ) -> RunnableConfig:
        """Append a checkpoint with that time, or with the time of now."""
        where, kept = Where.of(config), get_checkpoint_metadata(config, metadata)
        with self._lock:
            self._shelf.append(
                where.thread, lambda thread: self._put(thread, where, checkpoint, kept, new), at
            )
        return config_of(where.thread, where.ns, checkpoint["id"])

    def _store_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task: str,
        path: str,
        at: datetime | None = None,
    ) -> None:
        where = Where.of(config)

        def written(thread: Thread) -> _list[NewEntry]:
            writing = ValueWriter(self.serde, thread.links)
            kept = {
                "writes": [[channel, writing.ref(value)] for channel, value in writes],
                "ns": where.ns,
                "id": where.id or "",
                "task": task,
                "path": path,
            }
            self._shelf.keep(writing.finish(kept))
            given = (thread, self._reading(thread), where, writes, task, path)
            note = note_on(*given) if self._is_readable() else None
            return [] if note is None and thread.has(kept) else [record(kept, note)]

        with self._lock:
            self._shelf.append(where.thread, written, at)

    def _is_readable(self) -> bool:
        return self.tell and in_the_clear(self.serde)

    # With the lock held

    def _put(
        self,
        thread: Thread,
        where: Where,
        checkpoint: Checkpoint,
        metadata: Mapping[str, Any],
        new: ChannelVersions,
    ) -> _list[NewEntry]:
        """Return a checkpoint, behind its messages' events."""
        writing = ValueWriter(self.serde, thread.links)
        values = checkpoint["channel_values"]
        refs = self._unchanged_values(thread, where, checkpoint, new)
        refs |= {channel: writing.ref(value) for channel, value in values.items() if channel not in refs}
        kept: dict[str, Any] = {
            "checkpoint": writing.ref({name: part for name, part in checkpoint.items() if name != VALUES}),
            "ns": where.ns,
            "id": checkpoint["id"],
            "parent": where.id or "",
            "values": {channel: refs[channel] for channel in values},
            "metadata": writing.ref(metadata),
        }
        telling = MessageSync(
            thread, where.ns, where.id or "", self._shelf.agent, self._shelf.head(thread, where.thread)
        )
        switched: dict[str, Any] = {}
        late: _list[NewEntry] = []
        around = thread.saved.get(("", (metadata.get("parents") or {}).get("", "")))
        is_early = "parents" in metadata and bool(where.ns) and around is None
        if self._is_readable() and not is_early:  # LangGraph puts several at once
            counted = metadata.get("counters_since_delta_snapshot") or {}
            unknown = [channel for channel in counted if channel not in values]
            telling.tell(messages_in(values, refs, ChainMap(writing.links, thread.links)))
            telling.take_in(self._written(thread, where, unknown))
            late = late_notes(thread, self._reading(thread), where.ns, checkpoint["id"])
            if not where.ns:
                switched = self._switched(thread, telling, is_whole=not unknown)
        self._shelf.keep(telling.blobs | writing.finish(kept))
        if not telling.drafts and not switched and thread.has(kept):
            return []
        return [*telling.drafts, record(kept, **switched), *late]

    def _switched(self, thread: Thread, telling: MessageSync, *, is_whole: bool) -> dict[str, Any]:
        """Return the changes of a main graph's checkpoint to the conversation's settings."""
        hides = telling.hides(whole=is_whole)
        joins = [agent for agent in telling.speakers() if agent not in thread.members]
        return ({"hides": hides} if hides != thread.hidden else {}) | ({"joins": joins} if joins else {})

    def _written(self, thread: Thread, where: Where, channels: Collection[str]) -> Iterator[ChannelMessage]:
        """Yield the messages that were written to these channels since the checkpoint before."""
        parent = thread.saved.get((where.ns, where.id or ""))
        reading = self._reading(thread)
        for write in thread.writes(parent) if parent else ():
            if write.channel in channels:
                values, refs = {write.channel: reading.value(write.value)}, {write.channel: write.value}
                yield from chain(*messages_in(values, refs, thread.links, f" {write.task}.{write.number}"))

    def _unchanged_values(
        self, thread: Thread, where: Where, checkpoint: Checkpoint, new: ChannelVersions
    ) -> dict[str, Ref]:
        """Return the values that are still the parent's: their channels have the same versions there."""
        parent = thread.saved.get((where.ns, where.id or ""))
        if parent is None:
            return {}
        then = self._reading(thread).value(parent.checkpoint)["channel_versions"]
        now = checkpoint["channel_versions"]
        return {
            channel: parent.values[channel]
            for channel in checkpoint["channel_values"]
            if channel in parent.values
            and channel not in new
            and now.get(channel, _MISSING) == then.get(channel)
        }

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
