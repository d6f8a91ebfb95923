"""Sync of a state's messages: those to append, and those that left the state.

A message is appended once, known by its id and exact value, or by its value. Logged messages in the state's
order stay. From the first one out of order on, all are appended again, so that context has the state's order
and results follow their calls. A changed message is an edit of the first. What the main graph's state no
longer holds (another branch, a removed message) is hidden.

A subgraph that was given words of the main graph is in context. One with a brief of its own is only in the
timeline; what the main state takes from it is appended again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from secrets import token_hex

from langchain_core.messages import RemoveMessage, ToolMessage
from pydantic import JsonValue

from stenolog.errors import InvalidEventError
from stenolog.events import AssistantMessage, NewEntry, PositionRange, ToolResult, check_name
from stenolog.importers import Blobs, position_ranges

from .messages import ChannelMessage, Spoken, clean, event_of, key_of, name_of
from .thread_fold import OpenCalls, Thread

REMOVE_ALL = "__remove_all__"
"""The id of a `RemoveMessage` that removes all messages of its channel."""


def speaker(ns: str, agent: str) -> str:
    """Return a message's default speaker: the main graph's agent, or a subgraph's node."""
    return name_of(ns.split("|")[-1].split(":")[0]) if ns else agent


@dataclass
class MessageSync:
    """Appender of messages after `head`, the conversation's next position.

    `parent` is the id of the checkpoint that the state was made from.
    """

    thread: Thread
    ns: str
    parent: str
    agent: str
    head: int
    drafts: list[NewEntry] = field(default_factory=list)
    blobs: Blobs = field(default_factory=dict)
    shown: set[int] = field(default_factory=set)
    _removed: set[int] = field(default_factory=set)
    _now: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    _is_private: bool = False

    def __post_init__(self) -> None:
        latest = self.thread.latest.get(self.ns)
        goes_on = latest is not None and latest.id == self.parent
        self._left = self.thread.hidden_positions() if goes_on else set()
        self._calls: OpenCalls = self.thread.calls.copy()
        self._callers: dict[str, int] = {}

    def tell(self, channels: Sequence[Sequence[ChannelMessage]]) -> None:
        """Record the new messages of a state, channel by channel."""
        in_the_open = self.thread.spoken
        known = (p for found in channels for one in found for p in self.thread.by_value.get(one.sha, ()))
        self._is_private = bool(self.ns) and not any(position in in_the_open for position in known)
        for messages in channels:
            self._tell([found for found in messages if not isinstance(found.message, RemoveMessage)])

    def take_in(self, written: Iterable[ChannelMessage]) -> None:
        """Record the writes to channels whose values are unknown."""
        for found in written:
            if isinstance(found.message, RemoveMessage):
                self._remove(found)
                continue
            positions = set(self._under(found.key))
            position = max(positions & set(self._places(found)), default=0)
            position = position or self._say(found, self._edited(found, 0))
            self._removed |= positions - {position}
            self.shown.add(position)

    def hides(self, *, whole: bool) -> tuple[PositionRange, ...]:
        """Return the spans outside the main graph's state.

        Not `whole`: only part of the state is known.
        """
        gone = self.thread.spoken if whole else self.thread.hidden_positions() | self._removed
        return tuple(position_ranges(gone - self.shown, self.thread.records))

    def speakers(self) -> list[str]:
        """Return the agents that speak in the new entries, each once."""
        said = (draft.event for draft in self.drafts)
        return [*dict.fromkeys(event.agent for event in said if isinstance(event, AssistantMessage))]

    def _tell(self, messages: Sequence[ChannelMessage]) -> None:
        places = self._matching_positions(messages)
        kept = self._in_pairs(messages, places)
        behind = 0
        for nth, found in enumerate(messages):
            edited = None if nth < kept else self._edited(found, behind)
            position = places[nth] if nth < kept else self._say(found, edited)
            behind = edited or position
            self.shown.add(position)
            self._callers |= dict.fromkeys(found.call_ids, position)

    def _matching_positions(self, messages: Sequence[ChannelMessage]) -> list[int]:
        """Return the positions of the first messages up to one that is not logged.

        Each is as late as possible, since a result follows the last entry of its call.
        """
        options: list[list[int]] = []
        first = 0
        for found in messages:
            options.append([place for place in self._places(found) if place > first])
            if not options[-1]:
                options.pop()
                break
            first = min(options[-1])
        chosen: list[int] = []
        for places in reversed(options):
            fitting = {place for place in places if not chosen or place < chosen[-1]}
            chosen.append(max(fitting & self.shown or fitting))
        return chosen[::-1]

    def _places(self, found: ChannelMessage) -> list[int]:
        """Return the positions at which a message is logged.

        One without an id that was removed and returns counts as another.
        """
        positions = [*self.thread.by_value.get(found.sha, ()), *self._now.get(found.sha, ())]
        if not self.ns:
            positions = [place for place in positions if place not in self.thread.private]
        return positions if found.id else [place for place in positions if place not in self._left]

    def _in_pairs(self, messages: Sequence[ChannelMessage], places: Sequence[int]) -> int:
        """Return the number of logged messages that may stay.

        A result needs an open call, or one logged with it.
        """
        kept, callers = len(places), dict[str, int]()
        results: list[tuple[int, int, str]] = []
        for nth, found in enumerate(messages):
            if isinstance(found.message, ToolMessage):
                id = clean(found.message.tool_call_id)
                results.append((nth, callers.get(id, nth), id))
            callers |= dict.fromkeys(found.call_ids, nth)
        for nth, caller, id in reversed(results):
            if nth >= kept > caller and self._calls.find(id, places[caller]) is None:
                kept = caller
        return kept

    def _edited(self, found: ChannelMessage, behind: int) -> int | None:
        positions = self._under(found.key) if found.id and not found.call_ids else []
        is_one = positions and positions[-1] > behind and positions[-1] not in self._places(found)
        is_result = isinstance(found.message, ToolMessage)
        return (
            positions[-1] if is_one and not is_result and positions[-1] not in self.thread.private else None
        )

    def _say(self, found: ChannelMessage, edited: int | None) -> int:
        event = self._event(found)
        if edited is not None and not isinstance(event, ToolResult):
            event = replace(event, replaces=edited)
        meta: dict[str, JsonValue] = {"message": found.key, "value": found.sha}
        meta |= {"ns": self.ns} if self.ns else {}
        first = min((*self.thread.by_value.get(found.sha, ()), *self._now.get(found.sha, ())), default=0)
        first = first or next(iter(self._under(found.key)), 0) * bool(found.id)
        copied: dict[str, JsonValue] = {"stenolog": {"copy_of": first}} if first else {}
        event = replace(event, meta={"langgraph": meta, **copied}, in_context=not self._is_private)
        id = self._entry_id(found.id)
        self.drafts.append(NewEntry(event, id))
        position = self.head + len(self.drafts)
        self._calls.take(event, position, id)
        self._now[found.key].append(position)
        self._now[found.sha].append(position)
        return position

    def _event(self, found: ChannelMessage) -> Spoken:
        message, around = found.message, self.ns.rpartition("|")[0]
        agent = self.thread.agents.get(found.sha) or speaker(self.ns, self.agent)
        call = None
        if isinstance(message, ToolMessage):
            id = clean(message.tool_call_id)
            call = self._calls.find(id, self._callers.get(id))
        brief_of = speaker(around, self.agent) if self.ns else ""
        event = event_of(message, agent, call, self.blobs, brief_of)
        if isinstance(event, AssistantMessage) and found.sha in self.thread.by_value:
            return replace(event, usage=None)  # it was counted where it was told first
        return event

    def _entry_id(self, id: str) -> str:
        """Return the message's own id, if valid and free."""
        if id in self.thread.entry_ids or any(draft.id == id for draft in self.drafts):
            return token_hex(8)
        try:
            return check_name(id, what="message id")
        except InvalidEventError:
            return token_hex(8)

    def _under(self, key: str) -> list[int]:
        return [*self.thread.told.get(key, ()), *self._now.get(key, ())]

    def _remove(self, found: ChannelMessage) -> None:
        every = key_of(found.channel, "")
        keys = {*self.thread.told, *self._now} if found.id == REMOVE_ALL else {found.key}
        gone = {p for key in keys if key == found.key or key.startswith(every) for p in self._under(key)}
        self._removed |= gone
        self.shown -= gone
