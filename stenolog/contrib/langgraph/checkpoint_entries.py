"""Entries of a checkpoint and of a task's writes.

Interrupts, answers and errors are written in a note for people, in place of a mode switch. Writes may come
before their checkpoint; their note comes after it. No model is sent a note.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, groupby
from typing import Any

from langgraph.checkpoint.base import ChannelVersions, Checkpoint
from langgraph.checkpoint.serde.base import SerializerProtocol
from langgraph.checkpoint.serde.types import ERROR, INTERRUPT, RESUME
from pydantic import JsonValue

from stenolog.events import NewEntry, UserMessage

from .message_sync import MessageSync
from .messages import ChannelMessage, as_json, clean, messages_in, name_of
from .stored_values import Ref, ValueReader, ValueWriter, in_the_clear
from .thread_fold import CALLER, Thread
from .thread_store import ThreadStore, Where, record

PULLED = "~__pregel_pull, "
"""The path of a task that runs a node begins so, and ends with the node's name."""


def note_on(
    thread: Thread,
    reading: ValueReader,
    where: Where,
    writes: Iterable[tuple[str, Any]],
    task: str,
    path: str,
) -> UserMessage | None:
    """Return a note on these writes; None if not needed, or before their checkpoint."""
    if (where.ns, where.id or "") not in thread.saved:
        return None
    answers = thread.answers(where.ns, where.id or "", task)
    return _note(writes, where.ns, task, path, [_as_text(reading.value(answer)) for answer in answers])


def late_notes(thread: Thread, reading: ValueReader, ns: str, id: str) -> list[NewEntry]:
    """Return notes on writes that came before their checkpoint, which is put now."""
    if (ns, id) in thread.saved:
        return []
    notes = []
    for (task, path), writes in groupby(thread.writes_at(ns, id), lambda write: (write.task, write.path)):
        values = [(write.channel, reading.value(write.value)) for write in writes if write.number < 0]
        note = _note(values, ns, task, path, [_as_text(each) for _, value in values for each in _each(value)])
        if note is not None:
            notes.append(NewEntry(replace(note, meta={**note.meta, "langgraph": {"note": id}})))
    return notes


def _note(
    writes: Iterable[tuple[str, Any]], ns: str, task: str, path: str, known: Sequence[str]
) -> UserMessage | None:
    reasons, resumed, is_interrupted = list[str](), list[str](), False
    for channel, value in writes:
        # What happens in a subgraph reaches the main graph, which writes it too.
        if channel == INTERRUPT and not ns:
            reasons += [f"interrupted: {_as_text(getattr(each, 'value', each))}" for each in _each(value)]
            is_interrupted = True
        elif channel == ERROR and not ns:
            reasons.append(f"error: {value if isinstance(value, str) else repr(value)}")
        elif channel == RESUME:
            given = [*map(_as_text, [value] if task == CALLER else _each(value))]
            resumed += [f"resumed: {words}" for words in given if task == CALLER or words not in known]
    if not reasons and not resumed:
        return None
    text = clean("\n".join(resumed + reasons))
    asks: dict[str, JsonValue] = {"asks_person": is_interrupted} if is_interrupted or resumed else {}
    meta: dict[str, JsonValue] = {"stenolog": asks} if asks else {}
    if not reasons:
        return UserMessage(text=text, in_context=False, meta=meta)
    node = path.removeprefix(PULLED)
    author = name_of(node) if path.startswith(PULLED) and "," not in node else "graph"
    return UserMessage(text=text, author=author, author_kind="system", in_context=False, meta=meta)


def _each(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list | tuple) else [value]


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else as_json(value)


_MISSING = object()
VALUES = "channel_values"


def awaited(thread: Thread, where: Where, metadata: Mapping[str, Any]) -> str | None:
    """Return the main graph's checkpoint that must come first; LangGraph puts several at once."""
    around: str = (metadata.get("parents") or {}).get("", "")
    is_early = "parents" in metadata and bool(where.ns) and ("", around) not in thread.saved
    return around if is_early else None


class CheckpointEntries:
    """Maker of entries on a thread's state, and of their blobs; the caller appends them."""

    def __init__(self, serde: SerializerProtocol, shelf: ThreadStore, tell: bool) -> None:
        self._serde = serde
        self._shelf = shelf
        self._is_readable = tell and in_the_clear(serde)

    def of_writes(
        self, thread: Thread, where: Where, writes: Sequence[tuple[str, Any]], task: str, path: str
    ) -> list[NewEntry]:
        """Return a task's writes, with a note if needed; nothing if the thread has them."""
        writing = ValueWriter(self._serde, thread.links)
        kept = {
            "writes": [[channel, writing.ref(value)] for channel, value in writes],
            "ns": where.ns,
            "id": where.id or "",
            "task": task,
            "path": path,
        }
        self._shelf.keep(writing.finish(kept))
        given = (thread, self._reading(thread), where, writes, task, path)
        note = note_on(*given) if self._is_readable else None
        return [] if note is None and thread.has(kept) else [record(kept, note)]

    def of_checkpoint(
        self,
        thread: Thread,
        where: Where,
        checkpoint: Checkpoint,
        metadata: Mapping[str, Any],
        new: ChannelVersions,
    ) -> list[NewEntry]:
        """Return a checkpoint after its messages' events."""
        writing = ValueWriter(self._serde, thread.links)
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
        late: list[NewEntry] = []
        if self._is_readable and awaited(thread, where, metadata) is None:
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
        """Return the values equal to the parent's: their channels' versions are the same."""
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

    def _reading(self, thread: Thread) -> ValueReader:
        return ValueReader(self._serde, thread.links, self._shelf.log.blobs)
