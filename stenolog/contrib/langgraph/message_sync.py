"""Sync of a state's messages: those to append as events, and those that have left the state since.

A message is told once, by its id and exact value; one without an id, by its value. What stands in the log in
the order of the state stays; from the first message on that does not, all are told behind it, be it anew. So
what is in context has the order of the state, and a result follows its call. A message whose words were
changed is told as an edit of the first. What the main graph's state holds no longer (a branch that was left,
a removed message) is hidden, as after a rewind.

A subgraph that was given words of the main graph speaks in the open. One that was briefed with words of its
own is in the timeline alone; what the main graph's state takes over from it is told anew.
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
    """Return the default speaker of a message: the main graph's agent, or a subgraph's node."""
    return name_of(ns.split("|")[-1].split(":")[0]) if ns else agent


@dataclass
class MessageSync:
    """Tells messages behind `head`, the position that the conversation will stand at.

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
            told = set(self._under(found.key))
            position = max(told & set(self._places(found)), default=0)
            position = position or self._say(found, self._edited(found, 0))
            self._removed |= told - {position}
            self.shown.add(position)

    def hides(self, *, whole: bool) -> tuple[PositionRange, ...]:
        """Return the spans outside the main graph's state now.

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
        """Return the log positions of the first messages, in order, up to one that is not logged.

        Each position is as late as possible, since a result follows the last entry of its call.
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
        """Return the positions at which the message is logged.

        Without an id, a message that was removed and returns counts as another one.
        """
        told = [*self.thread.by_value.get(found.sha, ()), *self._now.get(found.sha, ())]
        if not self.ns:
            told = [place for place in told if place not in self.thread.private]
        return told if found.id else [place for place in told if place not in self._left]

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
        """Return the message that this one is an edit of, where that has its place behind the one before."""
        told = self._under(found.key) if found.id and not found.call_ids else []
        is_one = told and told[-1] > behind and told[-1] not in self._places(found)
        is_result = isinstance(found.message, ToolMessage)
        return told[-1] if is_one and not is_result and told[-1] not in self.thread.private else None

    def _say(self, found: ChannelMessage, edited: int | None) -> int:
        event = self._event(found)
        if edited is not None and not isinstance(event, ToolResult):
            event = replace(event, replaces=edited)
        told: dict[str, JsonValue] = {"message": found.key, "value": found.sha}
        told |= {"ns": self.ns} if self.ns else {}
        first = min((*self.thread.by_value.get(found.sha, ()), *self._now.get(found.sha, ())), default=0)
        first = first or next(iter(self._under(found.key)), 0) * bool(found.id)
        copied: dict[str, JsonValue] = {"stenolog": {"copy_of": first}} if first else {}
        event = replace(event, meta={"langgraph": told, **copied}, in_context=not self._is_private)
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
        """Return the message's own id, where an entry may have it and none has."""
        if id in self.thread.entry_ids or any(draft.id == id for draft in self.drafts):
            return token_hex(8)
        try:
            return check_name(id, what="message id")
        except InvalidEventError:
            return token_hex(8)

    def _under(self, key: str) -> list[int]:
        """Return the positions of messages with that key."""
        return [*self.thread.told.get(key, ()), *self._now.get(key, ())]

    def _remove(self, found: ChannelMessage) -> None:
        """Remove the message of that id from its channel, or all messages."""
        every = key_of(found.channel, "")
        keys = {*self.thread.told, *self._now} if found.id == REMOVE_ALL else {found.key}
        gone = {p for key in keys if key == found.key or key.startswith(every) for p in self._under(key)}
        self._removed |= gone
        self.shown -= gone
