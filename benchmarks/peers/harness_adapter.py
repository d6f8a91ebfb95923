"""Stenolog in the harness that compares conversation stores: it is copied there, and speaks its interface.

A user of stenolog keeps one handle per conversation and builds each request from the log.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bench.peer import Peer  # type: ignore[import-not-found]
from bench.shapes import canon_chat  # type: ignore[import-not-found]
from bench.workload import EVENTS_PER_TURN, Event, turn  # type: ignore[import-not-found]

import stenolog
from stenolog import AssistantMessage, Conversation, ModeSwitch, ToolCall, ToolResult, UserMessage
from stenolog.context import Budget
from stenolog.domain.policy import PolicyLike

AGENT = "assistant"
NOTE = "[a preview: "
BATCH = 100
"""Turns that are written in one transaction where a store is only filled."""


def written(event: Event) -> stenolog.Event:
    """Return an event of the workload as stenolog takes it down."""
    if event.kind == "user":
        return UserMessage(text=event.text)
    if event.kind == "result":
        return ToolResult(call_id=event.call_id, name=event.tool, text=event.text)
    calls = [ToolCall(id=call.id, name=call.name, arguments=call.args) for call in event.calls]
    return AssistantMessage(agent=AGENT, text=event.text, tool_calls=calls)


def read(event: stenolog.Event) -> tuple[Any, ...]:
    """Return an event of the log in the form that the harness compares."""
    match event:
        case UserMessage(text=text):
            return ("user", text)
        case ToolResult(call_id=id, text=text):
            return ("result", id, text)
        case AssistantMessage(tool_calls=[_, *_] as calls):
            return ("calls", tuple((call.id, call.name, call.arguments) for call in calls))
        case AssistantMessage(text=text):
            return ("answer", text)
        case _:
            raise ValueError(f"expected an event of a turn, found {event.kind}")


def position(turns: int) -> int:
    """Return the position of a turn's end: the first entry of a conversation is its opening."""
    return 1 + turns * int(EVENTS_PER_TURN)


class Stenolog(Peer):  # type: ignore[misc]
    """The whole history in each request."""

    name = "stenolog"
    import_line = "import stenolog"
    journal = "WAL + synchronous=FULL"
    native = "list of OpenAI chat dicts in the request's body"
    policy: PolicyLike = None

    def open(self, path: Path) -> None:
        self.log = stenolog.open(path)
        self.talks: dict[str, Conversation] = {}

    def close(self) -> None:
        self.log.close()

    def talk(self, conv: str) -> Conversation:
        """Return a handle that is made once; a new conversation opens with its agent."""
        if conv not in self.talks:
            talk = self.talks[conv] = self.log[conv]
            if not talk.position:
                talk.append(ModeSwitch(joins=[AGENT]), expected=0)
        return self.talks[conv]

    def append(self, event: Event) -> None:
        self.talk(event.conv).append(written(event))

    def preload(self, conv: str, turns: int) -> None:
        for first in range(1, turns + 1, BATCH):
            numbers = range(first, min(first + BATCH, turns + 1))
            self.talk(conv).extend(written(event) for number in numbers for event in turn(conv, number))

    def messages(self, conv: str, upto: int | None = None) -> Any:
        body = self.talk(conv).request(AGENT, upto, "openai-chat", policy=self.policy).body
        return body["messages"]

    def canon(self, native: Any) -> list[tuple[Any, ...]]:
        """Return the messages, without the note that closes a request which nobody would send."""
        said = native[:-1] if native and str(native[-1]["content"]).startswith(NOTE) else native
        return list(canon_chat(said))

    def stored(self, conv: str) -> list[tuple[Any, ...]]:
        return [read(entry.event) for entry in self.talk(conv).entries() if entry.position > 1]

    def as_of(self, conv: str, turn: int) -> Any:
        return self.messages(conv, position(turn))

    def fork(self, conv: str, turn: int, new: str) -> str:
        self.talks[new] = self.talk(conv).fork(after=position(turn), name=new)
        return new

    def resume(self, conv: str, ack: Any = None) -> None:
        """Do nothing: the next request closes the calls that the crash left open."""


class Stenolog32k(Stenolog):
    """Requests of at most 32,000 tokens."""

    name = "stenolog_32k"
    policy = Budget(tokens=32_000)
