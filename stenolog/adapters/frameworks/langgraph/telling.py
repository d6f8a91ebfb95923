"""Which messages of a state are told as events, and which of those that were told are out of it now.

A message is told once, by its id and exact value. One that is in the state again, after a rewind, is not told
again; one whose words were changed is told as an edit of the first. What the main graph's state has held and
holds no longer (a branch that was left, a removed message) is hidden, as after a rewind.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from langchain_core.messages import BaseMessage
from pydantic import JsonValue

from stenolog.adapters.transcripts.media import Blobs
from stenolog.adapters.transcripts.scribe import spans
from stenolog.domain.entry import Draft, check_name
from stenolog.domain.errors import InvalidEvent
from stenolog.domain.events import AssistantMessage, ToolResult
from stenolog.domain.values import CallRef, Span

from .messages import Spoken, clean, event_of, name_of
from .threads import Thread
from .values import Link, Ref, items_of, sha_of


class Found(NamedTuple):
    """A message in a state: `key` tells it from others, `id` is its own, empty where it has none."""

    key: str
    id: str
    message: BaseMessage
    sha: str


def messages_in(
    values: Mapping[str, Any], refs: Mapping[str, Ref], links: Mapping[str, Link], place: str = ""
) -> Iterator[Found]:
    """The messages in the channels of a state; LangGraph's own channels hold what comes into these later.

    A message without an id is known by its place.
    """
    for channel, value in values.items():
        if channel.startswith("__") and channel != "__root__":
            continue
        several = [value] if isinstance(value, BaseMessage) else value if type(value) is list else []
        items = [refs[channel]] if isinstance(value, BaseMessage) else items_of(refs[channel], links)
        for nth, (message, ref) in enumerate(zip(several, items, strict=False)):
            if isinstance(message, BaseMessage) and (sha := sha_of(ref)):
                id = clean(message.id or "")
                yield Found(f"{channel}:{id}" if id else f"{channel}{place}[{nth}]", id, message, sha)


def speaker(ns: str, agent: str) -> str:
    """Who says what names nobody: the main graph's agent, or the node that a subgraph is."""
    return name_of(ns.split("|")[-1].split(":")[0]) if ns else agent


@dataclass
class Telling:
    """Tells messages behind `head`, the position that the conversation will stand at."""

    thread: Thread
    ns: str
    agent: str
    head: int
    drafts: list[Draft] = field(default_factory=list)
    blobs: Blobs = field(default_factory=dict)
    shown: set[int] = field(default_factory=set)
    _calls: dict[str, CallRef] = field(default_factory=dict)

    def tell(self, state: Iterable[Found]) -> None:
        """Tell what is new of a state."""
        self._calls = dict(self.thread.calls)
        for found in state:
            self.shown.add(self._standing(found) or self._say(found))

    def hides(self) -> tuple[Span, ...]:
        """What of the main graph's state is out of it now."""
        gone = (self.thread.in_root | self.shown) - self.shown
        return tuple(spans(gone, self.thread.records))

    def adopted(self) -> list[int]:
        """What a subgraph's state held first, and the main graph's holds now."""
        return sorted(p for p in self.shown - self.thread.in_root if p <= self.thread.position)

    def _standing(self, found: Found) -> int | None:
        """Where the message is told already; one without an id is known by its place."""
        if found.id and found.sha in self.thread.by_value:
            return self.thread.by_value[found.sha]
        told = self.thread.told.get(found.key)
        return told.position if told is not None and told.sha == found.sha else None

    def _say(self, found: Found) -> int:
        call = self._calls.get(getattr(found.message, "tool_call_id", ""))
        event = event_of(found.message, speaker(self.ns, self.agent), call, self.blobs)
        before = self.thread.told.get(found.key)
        if before is not None and not isinstance(event, ToolResult):
            event = replace(event, replaces=before.position)
        told: dict[str, JsonValue] = {"message": found.key, "value": found.sha}
        told |= {"ns": self.ns} if self.ns else {}
        draft = Draft(replace(event, meta={"langgraph": told}), self._entry_id(found.id))
        self.drafts.append(draft)
        self._note(event, draft.id)
        return self.head + len(self.drafts)

    def _entry_id(self, id: str) -> str | None:
        """The message's own id, where an entry may have it and none has."""
        if id in self.thread.entry_ids or any(draft.id == id for draft in self.drafts):
            return None
        try:
            return check_name(id, what="message id")
        except InvalidEvent:
            return None

    def _note(self, event: Spoken, entry: str | None) -> None:
        if isinstance(event, AssistantMessage):
            for nth, call in enumerate(event.tool_calls):
                self._calls.pop(call.id, None)
                if entry is not None:
                    self._calls[call.id] = CallRef(entry=entry, index=nth)
