"""A thread of LangGraph's as a fold of the entries that carry `meta.langgraph`, with its open calls.

    {"thread": "42"}                              whose conversation this is; a copy says it anew
    {"checkpoint": …, "ns": "", "parent": …}      a checkpoint: its values and metadata by reference
    {"writes": [[channel, …], …], "task": …}      what a task wrote, before the next checkpoint took it in
    {"note": …}                                   beside a note on writes that came before their checkpoint
    {"drop": [[ns, id], …]}                       checkpoints that were deleted or pruned
    {"drop": …, "emptied": true}                  the thread was deleted, and lives on for its copies
    {"message": …, "value": "9c1b…"}              beside a message that is told: which, and its exact value

Checkpoints stand in the order of the log, never in that of their ids, which are drawn from a clock.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

from langgraph.checkpoint.base import WRITES_IDX_MAP, writes_sort_key
from langgraph.checkpoint.serde.types import INTERRUPT, RESUME

from stenolog import events
from stenolog.analysis import members_after, within
from stenolog.errors import CorruptLogError

from .stored_values import Links, Ref, items_of, joined


class PendingCall(NamedTuple):
    """A call by its provider's id, and its message's position."""

    id: str
    position: int
    ref: events.CallRef


class OpenCalls:
    """The open calls by agent, in order: several may have one id."""

    def __init__(self, by_agent: dict[str, list[PendingCall]] | None = None) -> None:
        self._by_agent = by_agent or {}

    def copy(self) -> OpenCalls:
        """Return a copy of the open calls, to continue with."""
        return OpenCalls({agent: [*calls] for agent, calls in self._by_agent.items()})

    def take(self, event: events.Event, position: int, entry: str) -> None:
        """Read an entry: a message opens its calls, and ends the agent's earlier ones."""
        match event:
            case events.AssistantMessage(agent=agent, replaces=None):
                calls = enumerate(event.tool_calls)
                self._by_agent[agent] = [
                    PendingCall(call.id, position, events.CallRef(entry=entry, index=nth))
                    for nth, call in calls
                ]
            case events.ToolResult(call_id=id, call=ref):
                self._answer(ref or self.find(id))
            case _:
                pass

    def find(self, id: str, position: int | None = None) -> events.CallRef | None:
        """Return the first open call of that id, of the message at a position if given."""
        return next(
            (
                call.ref
                for calls in self._by_agent.values()
                for call in calls
                if call.id == id and position in (None, call.position)
            ),
            None,
        )

    def _answer(self, ref: events.CallRef | None) -> None:
        for calls in self._by_agent.values():
            calls[:] = [call for call in calls if call.ref != ref]


CALLER = "00000000-0000-0000-0000-000000000000"
"""LangGraph's id for the task of a graph's caller, who writes `Command(resume=…)`."""
Id: TypeAlias = tuple[str, str]
"""A checkpoint within its thread: namespace and id."""


class Saved(NamedTuple):
    """A checkpoint; `order` is its entry's position. `dropped`: kept for descendants only."""

    order: int
    ns: str
    id: str
    parent: str
    checkpoint: Ref
    values: dict[str, Ref]
    metadata: Ref
    dropped: bool = False


class Write(NamedTuple):
    """A task's write to a channel."""

    path: str
    task: str
    number: int
    channel: str
    value: Ref


def _saved_in(order: int, kept: dict[str, Any]) -> Saved:
    values = dict(kept["values"])
    return Saved(order, kept["ns"], kept["id"], kept["parent"], kept["checkpoint"], values, kept["metadata"])


def _writes_in(kept: dict[str, Any]) -> Iterator[Write]:
    for nth, (channel, value) in enumerate(kept["writes"]):
        yield Write(kept["path"], kept["task"], WRITES_IDX_MAP.get(channel, nth), channel, value)


@dataclass
class Thread:
    """The log's records of a thread, up to `position`; `stream` is its conversation's key."""

    stream: int | None = None
    position: int = 0
    id: str | None = None
    saved: dict[Id, Saved] = field(default_factory=dict)
    latest: dict[str, Saved] = field(default_factory=dict)
    links: Links = field(default_factory=dict)
    told: dict[str, list[int]] = field(default_factory=dict)
    """The positions of the messages that were written, by key; likewise by the sha256 of their exact
    value."""
    by_value: dict[str, list[int]] = field(default_factory=dict)
    spoken: set[int] = field(default_factory=set)
    """The positions of those that requests have, and of those only for the timeline."""
    private: set[int] = field(default_factory=set)
    agents: dict[str, str] = field(default_factory=dict)
    """The author of each message, by the message's value."""
    members: tuple[str, ...] = ()
    is_emptied: bool = False
    """True if the thread was deleted while copies of it lived, and no checkpoint was put since."""
    hidden: tuple[events.PositionRange, ...] = ()
    records: set[int] = field(default_factory=set)
    """The positions of entries that hold checkpoints and writes: they say nothing."""
    entry_ids: set[str] = field(default_factory=set)
    calls: OpenCalls = field(default_factory=OpenCalls)
    resumed: tuple[Ref, ...] = ()
    """The answer that the graph's caller gave last, until the next interrupt."""
    has_refused: bool = False
    """True if imported entries hold checkpoints, which were not read."""
    _writes: dict[Id, dict[tuple[str, int], Write]] = field(default_factory=dict)

    def take(self, entry: events.Entry, *, trusted: bool = True) -> None:
        """Read an entry, without the checkpoints of one that is not trusted."""
        self.position = entry.position
        self.entry_ids.add(entry.id)
        self.calls.take(entry.event, entry.position, entry.id)
        if isinstance(entry.event, events.ModeSwitch):
            self.members = members_after(self.members, entry.event)
        kept = getattr(entry.event, "meta", {}).get("langgraph")
        if not isinstance(kept, dict) or (self.id is None and not isinstance(kept.get("thread"), str)):
            return  # of a conversation that is no thread: whatever it is, it is not ours
        if not trusted:
            self.has_refused = True
            return
        try:
            self._take(entry, kept)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            where = f"{entry.conversation!r} at position {entry.position}"
            raise CorruptLogError(
                f"{where}: meta.langgraph is no record of a checkpoint: {error!r}"
            ) from None

    def find(self, ns: str, id: str | None) -> Saved | None:
        """Return the checkpoint of that id, else the latest; None if there is none."""
        saved = self.latest.get(ns) if id is None else self.saved.get((ns, id))
        return None if saved is None or saved.dropped else saved

    def newest_first(self) -> Iterator[Saved]:
        """Yield the checkpoints of all namespaces that were not dropped."""
        standing = (saved for saved in self.saved.values() if not saved.dropped)
        return iter(sorted(standing, key=lambda saved: saved.order, reverse=True))

    def outdated(self) -> Iterator[Saved]:
        """Yield all but the latest checkpoint of each namespace."""
        return (saved for saved in self.newest_first() if saved is not self.latest[saved.ns])

    def ancestors(self, saved: Saved) -> Iterator[Saved]:
        """Yield parent, grandparent, and so on, dropped ones too; each once, even in a cycle."""
        seen = {saved.id}
        above = self.saved.get((saved.ns, saved.parent))
        while above is not None and above.id not in seen:
            yield above
            seen.add(above.id)
            above = self.saved.get((above.ns, above.parent))

    def branches(self, ns: str) -> Iterator[Saved]:
        """Yield the checkpoints that none was built on, newest first."""
        parents = {saved.parent for saved in self.saved.values() if saved.ns == ns and not saved.dropped}
        return (s for s in self.newest_first() if s.ns == ns and s.id not in parents)

    def writes(self, saved: Saved) -> list[Write]:
        """Return a checkpoint's writes in the order of their application."""
        return self.writes_at(saved.ns, saved.id)

    def writes_at(self, ns: str, id: str) -> list[Write]:
        """Return the same of a checkpoint that may not have been put."""
        written = self._writes.get((ns, id), {}).values()
        return sorted(written, key=lambda write: writes_sort_key(write.path, write.task, write.number))

    def answers(self, ns: str, id: str, task: str) -> list[Ref]:
        """Return the answers that have a note: the caller's last, and the task's own."""
        own = self._writes.get((ns, id), {}).get((task, WRITES_IDX_MAP[RESUME]))
        return [*self.resumed, *(items_of(own.value, self.links) if own else ())]

    def has(self, kept: dict[str, Any]) -> bool:
        """Return whether a checkpoint, or a task's writes, would change nothing."""
        key = kept["ns"], kept["id"]
        if "writes" in kept:
            written = self._writes.get(key, {})
            return all(
                (write.task, write.number) in written
                and (write.number >= 0 or written[write.task, write.number] == write)
                for write in _writes_in(kept)
            )
        saved = self.saved.get(key)
        return "lists" not in kept and saved is not None and saved == _saved_in(saved.order, kept)

    def hidden_positions(self) -> set[int]:
        """Return the positions of messages that are out of the main graph's state."""
        is_hidden = within(self.hidden)
        return {position for position in self.spoken if is_hidden(position)}

    def _take(self, entry: events.Entry, kept: dict[str, Any]) -> None:
        for before, items in kept.get("lists", ()):
            joined(self.links, before, items)
        match entry.event, kept:
            case events.ModeSwitch() as switch, _:
                self._record(switch, entry.position, kept)
            case _, {"writes": list()}:
                self.records.add(entry.position)
                self._write(kept)
            case _, {"note": _}:
                self.records.add(entry.position)
            case _, {"message": str(key), "value": str(value)}:
                self._take_message(entry, key, value)
            case _:
                pass

    def _take_message(self, entry: events.Entry, key: str, value: str) -> None:
        event = entry.event
        self.told.setdefault(key, []).append(entry.position)
        self.by_value.setdefault(value, []).append(entry.position)
        (self.spoken if getattr(event, "in_context", True) else self.private).add(entry.position)
        if isinstance(event, events.AssistantMessage):
            self.agents[value] = event.agent

    def _record(self, switch: events.ModeSwitch, position: int, kept: dict[str, Any]) -> None:
        self.records.add(position)
        if "thread" in kept:
            self.id = kept["thread"]
        if "checkpoint" in kept:
            self._save(position, kept)
        if "writes" in kept:
            self._write(kept)
        if isinstance(switch.hides, tuple):
            self.hidden = switch.hides
        self._drop((ns, id) for ns, id in kept.get("drop", ()))
        if kept.get("emptied"):
            self._empty()

    def _save(self, position: int, kept: dict[str, Any]) -> None:
        key = kept["ns"], kept["id"]
        before = self.saved.get(key)
        order = position if before is None else before.order
        saved = _saved_in(order, kept)
        self.saved[key] = saved
        self.is_emptied = False
        latest = self.latest.get(saved.ns)
        if latest is None or latest.dropped or saved.order >= latest.order:
            self.latest[saved.ns] = saved

    def _write(self, kept: dict[str, Any]) -> None:
        """Keep a task's first write to a channel; of a special channel, the last."""
        written = self._writes.setdefault((kept["ns"], kept["id"]), {})
        for write in _writes_in(kept):
            if write.number < 0 or (write.task, write.number) not in written:
                written[write.task, write.number] = write
            if write.channel == RESUME and write.task == CALLER:
                self.resumed = (write.value,)
            elif write.channel == INTERRUPT and not kept["ns"]:
                self.resumed = ()

    def _empty(self) -> None:
        """Forget all synced messages, so that they are synced again."""
        for index in (self.told, self.by_value, self.agents):
            index.clear()
        self.spoken.clear()
        self.private.clear()
        self.hidden, self.is_emptied = (), True

    def _drop(self, ids: Iterable[Id]) -> None:
        for key in ids:
            if key in self.saved:
                self.saved[key] = self.saved[key]._replace(dropped=True)
        standing = sorted((s for s in self.saved.values() if not s.dropped), key=lambda saved: saved.order)
        self.latest = {saved.ns: saved for saved in standing}
