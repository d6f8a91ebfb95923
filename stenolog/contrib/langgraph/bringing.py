"""Checkpoints of a thread in another saver, ready to be put here."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from functools import partial
from itertools import groupby
from typing import Any, NamedTuple

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    WRITES_IDX_MAP,
    BaseCheckpointSaver,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    get_checkpoint_metadata,
)
from langgraph.checkpoint.serde.types import INTERRUPT

from stenolog.errors import CallerError
from stenolog.importers import as_time

from .checkpoint_entries import CheckpointEntries
from .thread_fold import CALLER, Id, Thread
from .thread_store import Decide, Where


class Brought(NamedTuple):
    """A checkpoint to put: its parent's config, its tasks' later writes, and its own time."""

    id: Id
    parent: RunnableConfig
    checkpoint: Checkpoint
    metadata: CheckpointMetadata
    writes: list[tuple[str, list[tuple[str, Any]]]]
    at: datetime


def check_saver(old: object) -> None:
    """Raise `CallerError` for anything but a saver, such as a database's path."""
    if not isinstance(old, BaseCheckpointSaver):
        raise CallerError(
            "old: expected a saver, as in `with SqliteSaver.from_conn_string('lg.sqlite') as old:`, "
            f"found {old!r:.80}"
        )


def missing_here(old: BaseCheckpointSaver[Any], thread: Thread, thread_id: str) -> Iterator[Brought]:
    """Yield checkpoints that are not here with all their writes, oldest first.

    Raises `CallerError` if the other saver does not know the thread, or the thread continued in both.
    """
    found = {_id(each): _keys(each) for each in old.list(_config(thread_id))}
    if not found:
        # A SqliteSaver makes a new, empty database where its path names none.
        is_empty = next(iter(old.list(None, limit=1)), None) is None
        hint = ", and it has no thread at all: is its path right?" if is_empty else ""
        raise CallerError(f"thread_id: expected a thread of the other saver, found {thread_id!r}{hint}")
    # Ids begin with a time. A saver may list one namespace after the other, but a subgraph's checkpoint
    # needs the one around it.
    missing = sorted((id for id in found if _is_missing(thread, id, found[id])), key=lambda id: id[1])
    if missing and (unread := thread.saved.keys() - found.keys()):
        raise CallerError(
            f"the thread {thread_id!r} went on in both savers: {len(missing)} checkpoints are only in the "
            f"other one, and {len(unread)} only here; bring it into another log"
        )
    # One at a time: together, the checkpoints of a long thread may not fit into memory.
    for ns, id in missing:
        made = old.get_tuple(_config(thread_id, checkpoint_ns=ns, checkpoint_id=id))
        if made is not None:
            yield _brought(made, thread_id)


def decisions(
    thread: Thread, brought: Iterable[Brought], entries: CheckpointEntries
) -> Iterator[tuple[Decide, datetime]]:
    """Yield the appends of each missing checkpoint and its writes, with its time."""
    for each in brought:
        where = Where.of(each.parent)
        if each.id not in thread.saved:
            metadata, new = (
                get_checkpoint_metadata(each.parent, each.metadata),
                each.checkpoint["channel_versions"],
            )
            given: dict[str, Any] = {"checkpoint": each.checkpoint, "metadata": metadata, "new": new}
            yield partial(entries.of_checkpoint, where=where, **given), each.at
        where = Where(where.thread, *each.id)
        for task, writes in each.writes:
            yield partial(entries.of_writes, where=where, writes=writes, task=task, path=""), each.at


def _keys(found: CheckpointTuple) -> Counter[tuple[str, str]]:
    return Counter((task, channel) for task, channel, _ in found.pending_writes or ())


def _is_missing(thread: Thread, id: Id, written: Counter[tuple[str, str]]) -> bool:
    return id not in thread.saved or bool(
        written - Counter((write.task, write.channel) for write in thread.writes_at(*id))
    )


def _brought(found: CheckpointTuple, thread_id: str) -> Brought:
    (ns, id), checkpoint = _id(found), found.checkpoint
    parent = (found.parent_config or {}).get("configurable", {}).get("checkpoint_id")
    seen = {node: _numbered(versions) for node, versions in checkpoint["versions_seen"].items()}
    numbered: Any = {
        **checkpoint,
        "channel_versions": _numbered(checkpoint["channel_versions"]),
        "versions_seen": seen,
    }
    config = _config(thread_id, checkpoint_ns=ns, **({"checkpoint_id": parent} if parent else {}))
    writes = _by_task(found.pending_writes or ())
    return Brought((ns, id), config, numbered, found.metadata, writes, as_time(checkpoint.get("ts")))


def _by_task(
    writes: Sequence[tuple[str, str, Any]],
) -> list[tuple[str, list[tuple[str, Any]]]]:
    """Return each task's writes together: interrupts, the caller's answers, then the rest.

    Errors and answers come last of the rest, since the order of the others numbers them.
    """

    def rank(write: tuple[str, str, Any]) -> tuple[int, str]:
        return (0 if write[1] == INTERRUPT else 1 if write[0] == CALLER else 2), write[0]

    ordered = sorted(writes, key=lambda write: (rank(write), write[1] in WRITES_IDX_MAP))
    return [
        (task, [(channel, value) for _, channel, value in those])
        for (_, task), those in groupby(ordered, key=rank)
    ]


def _numbered(versions: dict[str, Any]) -> dict[str, Any]:
    try:
        return {channel: int(str(version).split(".")[0]) for channel, version in versions.items()}
    except ValueError:
        raise CallerError(
            f"the other saver: expected versions that begin with a number, found {versions!r}"
        ) from None


def _id(found: CheckpointTuple) -> Id:
    named = found.config["configurable"]
    return named.get("checkpoint_ns") or "", named["checkpoint_id"]


def _config(thread_id: str, **named: str) -> RunnableConfig:
    return {"configurable": {"thread_id": thread_id, **named}}
