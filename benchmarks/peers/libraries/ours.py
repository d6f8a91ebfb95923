"""Stenolog, as a program with a loop of its own uses it: a handle for each conversation, requests from it."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import Any, ClassVar

import stenolog
from benchmarks.peers.libraries import chat
from benchmarks.peers.peer import Peer
from benchmarks.peers.workload import STEPS, Alphabet, Event, Said, events
from stenolog import AssistantMessage, Conversation, ModeSwitch, ToolCall, ToolResult, UserMessage
from stenolog.adapters.store.contract.values import Synchronous
from stenolog.context import Budget
from stenolog.domain.policy import PolicyLike

AGENT = "assistant"
BATCH = 500
NOTE = "[a preview: "
"""What closes a request that nobody would send, where the last word is the agent's own."""


class Stenolog(Peer):
    """The whole history in each request."""

    packages: ClassVar[tuple[str, ...]] = ("stenolog", "eventsourcing", "pydantic")
    policy: ClassVar[PolicyLike] = None

    def open(self, path: Path, synchronous: Synchronous = "full") -> None:
        self.log = stenolog.open(path, synchronous=synchronous)
        self.talks: dict[str, Conversation] = {}

    def close(self) -> None:
        self.log.close()

    def append(self, event: Event) -> None:
        self.talk(event.conversation).append(written(event))

    def fill(self, conversation: str, turns: int, alphabet: Alphabet = "latin") -> None:
        rest = map(written, events(conversation, turns, alphabet))
        while batch := list(islice(rest, BATCH)):
            self.talk(conversation).extend(batch)

    def messages(self, conversation: str, upto: int | None = None) -> Any:
        request = self.talk(conversation).request(AGENT, upto, "openai-chat", policy=self.policy)
        return request.body["messages"]

    def said(self, messages: Any) -> list[Said]:
        noted = bool(messages) and str(messages[-1]["content"]).startswith(NOTE)
        return chat.said(messages[:-1] if noted else messages)

    def kept(self, conversation: str) -> list[Said]:
        return [read(entry.event) for entry in self.talk(conversation).entries(after=1)]

    def at(self, conversation: str, turn: int) -> Any:
        return self.messages(conversation, after(turn))

    def fork(self, conversation: str, turn: int, name: str) -> None:
        self.talks[name] = self.talk(conversation).fork(after=after(turn), name=name)

    def talk(self, conversation: str) -> Conversation:
        """Return the handle; a new conversation opens with its agent."""
        if conversation not in self.talks:
            talk = self.talks[conversation] = self.log[conversation]
            if not talk.position:
                talk.append(ModeSwitch(joins=[AGENT]), expected=0)
        return self.talks[conversation]


class Stenolog32k(Stenolog):
    """Requests of at most 32,000 tokens."""

    policy: ClassVar[PolicyLike] = Budget(tokens=32_000)


def after(turns: int) -> int:
    """Return the position at which a turn ends: one entry opens the conversation."""
    return 1 + turns * STEPS


def written(event: Event) -> stenolog.Event:
    """Return an event of the workload as one of the log."""
    match event.kind:
        case "user":
            return UserMessage(text=event.text)
        case "result":
            return ToolResult(call_id=event.answers, name=event.tool, text=event.text)
        case "calls" | "answer":
            calls = [ToolCall(id=call.id, name=call.name, arguments=call.arguments) for call in event.calls]
            return AssistantMessage(agent=AGENT, text=event.text, tool_calls=calls)


def read(event: stenolog.Event) -> Said:
    """Return an event of the log as it is compared."""
    match event:
        case UserMessage(text=text):
            return ("user", text)
        case ToolResult(call_id=id, text=text):
            return ("result", id, text)
        case AssistantMessage(tool_calls=[_, *_] as calls):
            return ("calls", *((call.id, call.name, call.arguments) for call in calls))
        case AssistantMessage(text=text):
            return ("answer", text)
        case _:
            raise ValueError(f"expected an event of a turn, found {event.kind}")
