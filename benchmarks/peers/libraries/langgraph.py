"""LangGraph: a graph over a list of messages, checkpointed by SqliteSaver; a step of it for each event.

`durability="sync"`: a step's checkpoint is written before the next one begins. `LangGraphDelta` keeps the
list in the beta DeltaChannel, whose checkpoints hold what was added.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Annotated, Any, ClassVar

from langchain_core.messages import AnyMessage, HumanMessage
from langgraph.channels import DeltaChannel
from langgraph.checkpoint.sqlite import SqliteSaver  # type: ignore[import-not-found]
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.graph.message import _messages_delta_reducer
from typing_extensions import TypedDict

from benchmarks.peers.libraries.lc_messages import message, read
from benchmarks.peers.peer import Acknowledge, Peer, nobody
from benchmarks.peers.workload import Alphabet, Event, Said, Turn, events

STEPS = 6
"""Checkpoints of a turn: one for its input, one for each event after it, and one before the first."""


class Delta(TypedDict):
    messages: Annotated[list[AnyMessage], DeltaChannel(_messages_delta_reducer)]


class LangGraph(Peer):
    packages: ClassVar[tuple[str, ...]] = ("langgraph", "langgraph-checkpoint-sqlite")
    state: ClassVar[Any] = MessagesState
    _turn: Turn
    _told: Acknowledge

    def open(self, path: Path) -> None:
        self.database = sqlite3.connect(path, check_same_thread=False)
        saver = SqliteSaver(self.database)
        saver.setup()
        graph: Any = StateGraph(self.state)
        for name, node in {"model": self._model, "one": self._one, "other": self._other}.items():
            graph.add_node(name, node)
        graph.add_edge(START, "model")
        graph.add_conditional_edges("model", _next, ["one", END])
        graph.add_edge("one", "other")
        graph.add_edge("other", "model")
        self.graph = graph.compile(checkpointer=saver)

    def close(self) -> None:
        self.database.close()

    def turn(self, turn: Turn, told: Acknowledge = nobody) -> None:
        self._turn, self._told = turn, told
        given = {"messages": [message(turn[0])]}
        self.graph.invoke(given, thread(turn[0].conversation), durability="sync")
        told(turn[4])

    def append(self, event: Event) -> None:
        update = {"messages": [message(event)]}
        self.graph.update_state(thread(event.conversation), update, as_node="model")

    def fill(self, conversation: str, turns: int, alphabet: Alphabet = "latin") -> None:
        everything = [message(event) for event in events(conversation, turns, alphabet)]
        self.graph.update_state(thread(conversation), {"messages": everything}, as_node="model")

    def messages(self, conversation: str) -> list[AnyMessage]:
        return list(self.graph.get_state(thread(conversation)).values.get("messages", []))

    def said(self, messages: Any) -> list[Said]:
        return [read(one) for one in messages]

    def at(self, conversation: str, turn: int) -> list[AnyMessage]:
        return list(self._checkpoint(conversation, turn).values["messages"])

    def fork(self, conversation: str, turn: int, name: str) -> None:
        """Fork inside the thread: the old checkpoint becomes its newest."""
        self.graph.update_state(self._checkpoint(conversation, turn).config, None, as_node="__copy__")

    def _checkpoint(self, conversation: str, turn: int) -> Any:
        """Return the one at the end of a turn, by its step, which counts from -1."""
        found = self.graph.get_state_history(thread(conversation), filter={"step": STEPS * turn - 2}, limit=1)
        return next(found)

    def _model(self, state: dict[str, Any]) -> dict[str, Any]:
        if isinstance(state["messages"][-1], HumanMessage):
            self._told(self._turn[0])
            return {"messages": [message(self._turn[1])]}
        self._told(self._turn[3])
        return {"messages": [message(self._turn[4])]}

    def _one(self, state: dict[str, Any]) -> dict[str, Any]:
        self._told(self._turn[1])
        return {"messages": [message(self._turn[2])]}

    def _other(self, state: dict[str, Any]) -> dict[str, Any]:
        self._told(self._turn[2])
        return {"messages": [message(self._turn[3])]}


class LangGraphDelta(LangGraph):
    state: ClassVar[Any] = Delta


def _next(state: dict[str, Any]) -> str:
    return "one" if state["messages"][-1].tool_calls else END


def thread(conversation: str) -> Any:
    """Return the configuration of a conversation's thread."""
    return {"configurable": {"thread_id": conversation}}
