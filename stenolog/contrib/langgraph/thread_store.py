"""Threads of a log: conversations, what was read of them, and configs that name them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from hashlib import sha256
from typing import Any, NamedTuple, TypeAlias

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import get_checkpoint_id
from pydantic import JsonValue

from stenolog import Conversation, Log
from stenolog.analysis import within
from stenolog.errors import (
    CallerError,
    ConversationExistsError,
    ConversationNotFoundError,
    InvalidEventError,
    VersionConflictError,
)
from stenolog.events import OPENING_ID, Entry, ModeSwitch, NewEntry, UserMessage, check_name
from stenolog.importers import Blobs

from .thread_fold import Saved, Thread

Decide: TypeAlias = Callable[[Thread], list[NewEntry]]
"""Returns the entries to append to a thread as it is."""
REMEMBERED = 200
"""So many threads are remembered as they were read; any other is read anew."""


class ThreadStore:
    """Reader and appender of threads; callers on several threads hold a lock."""

    def __init__(self, log: Log, agent: str, trusted: Collection[str] = ()) -> None:
        self.log = log
        self.agent = agent
        self._trusted = {self.conversation(id_of(thread_id)).name for thread_id in trusted}
        self._threads: dict[str, Thread] = {}

    def conversation(self, id: str) -> Conversation:
        """Return a thread's conversation: of its name, or of its hash if it is no valid name."""
        return self.log[name_of_thread(id)]

    def thread(self, id: str) -> Thread:
        """Return the thread as logged now.

        Raises `CallerError` if its checkpoints, or only its messages, were imported.
        """
        conversation = self.conversation(id)
        thread = self._read(conversation)
        if thread.has_refused and not thread.saved:
            raise CallerError(
                f"{conversation.name!r}: its checkpoints were imported from a file, and no graph runs from "
                "such a checkpoint: take another thread_id, or, where you trust the author of the file, "
                f"pass trust_imported=[{id!r}]"
            )
        if thread.position and thread.id is None and conversation.imported_ranges():
            name = conversation.name
            raise CallerError(
                f"{name!r}: its messages were imported from a file, without checkpoints, so a "
                "graph would begin anew there: take another thread_id or another log, or rename the "
                f"imported conversation first: log[{name!r}].rename('imported {name}')"
            )
        return thread

    def threads(self) -> Iterator[Thread]:
        """Yield all threads, the archived ones too; conversations of other kinds are none."""
        for name in self.log.names(archived=True):
            thread = self._read(self.log[name])
            if thread.id is not None:
                yield thread

    def keep(self, contents: Blobs) -> None:
        """Put blobs, in one transaction."""
        if contents:
            self.log.blobs.put_all(contents.values())

    def opening(self, thread: Thread, id: str) -> list[NewEntry]:
        """Return the entries that come before the first record of a thread."""
        if thread.id is not None:
            return []
        meta: dict[str, JsonValue] = {"langgraph": {"thread": id}}
        if thread.position:
            return [NewEntry(ModeSwitch(meta=meta))]
        return [NewEntry(ModeSwitch(mode="agent", meta=meta), OPENING_ID)]

    def head(self, thread: Thread, id: str) -> int:
        """Return the position that the next append expects."""
        return thread.position + len(self.opening(thread, id))

    def append(self, id: str, decide: Decide) -> None:
        """Append a decision on the thread's state; on a version conflict, decide again."""
        while True:
            thread = self.thread(id)
            if not (drafts := decide(thread)):
                return
            try:
                self._extend(id, thread, [*self.opening(thread, id), *drafts], thread.position)
                return
            except VersionConflictError:
                continue

    def append_together(
        self, id: str, decisions: Callable[[Thread], Iterable[tuple[Decide, datetime]]]
    ) -> None:
        """Append decisions in one transaction, each on the state left by those before, with its time.

        Needs no lock: it reads the thread again.
        """
        while True:
            thread = self._updated(Thread(self.conversation(id).key), self.conversation(id))
            position, is_emptied, drafts = thread.position, thread.is_emptied, list[NewEntry]()
            for decide, at in decisions(thread):
                if found := decide(thread):
                    timed = [draft._replace(time=at) for draft in (*self.opening(thread, id), *found)]
                    for nth, draft in enumerate(timed, thread.position + 1):
                        thread.take(Entry(id, nth, draft.id or "", at, "", draft.event))
                    drafts += timed
            thread.is_emptied = is_emptied
            try:
                if drafts:
                    self._extend(id, thread, drafts, position)
                return
            except VersionConflictError:
                continue

    def _extend(self, id: str, thread: Thread, drafts: Sequence[NewEntry], expected: int) -> None:
        if thread.is_emptied:
            self.conversation(id).unarchive()
        self.conversation(id).extend(drafts, expected=expected)

    def copy(self, source: str, target: str) -> None:
        """Fork the source as the target."""
        self.conversation(source).fork(name=self.conversation(target).name, pending="keep")
        self.append(target, lambda _: [record({"thread": target})])

    def drop(self, id: str, chosen: Callable[[Thread], Iterable[Saved]]) -> None:
        """Drop checkpoints for LangGraph; the log still has what happened."""

        def dropped(thread: Thread) -> list[NewEntry]:
            ids = [[saved.ns, saved.id] for saved in chosen(thread)]
            return [record({"drop": ids})] if ids else []

        self.append(id, dropped)

    def delete(self, id: str) -> None:
        """Delete the conversation; empty it while copies need its entries."""
        conversation = self.conversation(id)
        try:
            conversation.delete()
        except ConversationNotFoundError:
            return
        except ConversationExistsError:
            self.append(id, lambda thread: [self._emptied(thread, id)])
            conversation.archive()

    def _emptied(self, thread: Thread, id: str) -> NewEntry:
        ids = [[saved.ns, saved.id] for saved in thread.newest_first()]
        return record({"drop": ids, "emptied": True}, context_from=self.head(thread, id) + 1)

    def _read(self, conversation: Conversation) -> Thread:
        key = conversation.key
        thread = self._threads.pop(conversation.name, None)
        if thread is None or thread.stream != key:
            thread = Thread(key)
        self._threads[conversation.name] = self._updated(
            thread, conversation
        )  # behind those unused for longer
        if len(self._threads) > REMEMBERED:
            del self._threads[next(iter(self._threads))]
        return thread

    def _updated(self, thread: Thread, conversation: Conversation) -> Thread:
        head = conversation.position
        if thread.position < head:
            is_imported = within(conversation.imported_ranges())
            is_trusted = conversation.name in self._trusted
            for entry in conversation.entries(thread.position, head):
                thread.take(entry, trusted=is_trusted or not is_imported(entry.position))
            thread.id = thread.id and _id_in(conversation.name, thread.id)
        return thread


def name_of_thread(id: str) -> str:
    """Return the name of a thread's conversation."""
    try:
        return check_name(id, what="thread_id")
    except InvalidEventError:
        return f"thread {sha256(id.encode()).hexdigest()[:32]}"


def _id_in(name: str, recorded: str) -> str:
    # A fork inherits the entry with its original's id, and a renamed conversation keeps it. Configs with that
    # id would write to the original, so the conversation's name counts.
    return recorded if name_of_thread(recorded) == name else name


def id_of(thread_id: object) -> str:
    """Return a thread's writable id: half surrogate pairs are spelled out."""
    return str(thread_id).encode(errors="backslashreplace").decode()


def record(kept: dict[str, Any], note: UserMessage | None = None, **switched: Any) -> NewEntry:
    """Return an entry of ours: without words, or with those of a note."""
    meta: dict[str, Any] = {"langgraph": kept}
    return NewEntry(replace(note, meta={**note.meta, **meta}) if note else ModeSwitch(meta=meta, **switched))


class Where(NamedTuple):
    """The checkpoint that a config names."""

    thread: str
    ns: str
    id: str | None

    @classmethod
    def of(cls, config: RunnableConfig) -> Where:
        named = config["configurable"]
        return cls(
            id_of(named["thread_id"]), named.get("checkpoint_ns") or "", get_checkpoint_id(config) or None
        )


def config_of(thread: str, ns: str, id: str) -> RunnableConfig:
    """Return the config that names a checkpoint."""
    return {"configurable": {"thread_id": thread, "checkpoint_ns": ns, "checkpoint_id": id}}
