"""Apache Burr: a state machine with a step for each event; the whole state is kept after every step."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

from burr.core import Application, ApplicationBuilder, State, action  # type: ignore[import-not-found]
from burr.core.persistence import SQLitePersister  # type: ignore[import-not-found]

from benchmarks.peers.libraries import chat
from benchmarks.peers.peer import Acknowledge, Peer, nobody
from benchmarks.peers.workload import STEPS, Alphabet, Event, Said, Turn, events

ACTIONS = ("asked", "called", "one_done", "other_done", "answered")


@action(reads=["messages"], writes=["messages"])  # type: ignore[untyped-decorator]
def happens(state: State, event: Event) -> State:
    """Append one more event. A model's input is `state["messages"]`, in memory."""
    return state.append(messages=chat.message(event))


class Burr(Peer):
    packages: ClassVar[tuple[str, ...]] = ("apache-burr",)
    prepared: ClassVar[bool] = True

    def open(self, path: Path) -> None:
        self.persister = SQLitePersister(str(path))
        self.persister.initialize()
        self.machines: dict[str, Application] = {}

    def close(self) -> None:
        self.persister.cleanup()

    def turn(self, turn: Turn, told: Acknowledge = nobody) -> None:
        for event in turn:
            self.append(event)
            told(event)

    def append(self, event: Event) -> None:
        if event.conversation not in self.machines:
            self.machines[event.conversation] = self._machine(event.conversation)
        self.machines[event.conversation].step(inputs={"event": event})

    def fill(self, conversation: str, turns: int, alphabet: Alphabet = "latin") -> None:
        """Write one state alone, without those before it."""
        state = State({"messages": [chat.message(event) for event in events(conversation, turns, alphabet)]})
        self.persister.save(None, conversation, turns * STEPS - 1, ACTIONS[-1], state, "completed")

    def messages(self, conversation: str) -> Any:
        return self._loaded(conversation)

    def said(self, messages: Any) -> list[Said]:
        return chat.said(messages)

    def at(self, conversation: str, turn: int) -> Any:
        return self._loaded(conversation, sequence_id=turn * STEPS - 1)

    def fork(self, conversation: str, turn: int, name: str) -> None:
        """Fork; nothing is written before the fork's first step."""
        origin = {"fork_from_app_id": conversation, "fork_from_sequence_id": turn * STEPS - 1}
        self.machines[name] = self._machine(name, **origin)

    def _loaded(self, conversation: str, **which: int) -> Any:
        found = self.persister.load(None, conversation, **which)
        return found["state"]["messages"] if found else []

    def _machine(self, conversation: str, **origin: Any) -> Application:
        return (
            ApplicationBuilder()
            .with_actions(**dict.fromkeys(ACTIONS, happens))
            .with_transitions(*zip(ACTIONS, (*ACTIONS[1:], ACTIONS[0]), strict=True))
            .initialize_from(
                self.persister,
                resume_at_next_action=True,
                default_state={"messages": []},
                default_entrypoint=ACTIONS[0],
                **origin,
            )
            .with_state_persister(self.persister)
            .with_identifiers(app_id=conversation)
            .build()
        )
