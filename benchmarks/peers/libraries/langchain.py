"""LangChain's SQLChatMessageHistory: a row of JSON for each message, all of them read for each list."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

from langchain_community.chat_message_histories import (  # type: ignore[import-not-found]
    SQLChatMessageHistory,
)
from langchain_core.messages import AnyMessage
from sqlalchemy import create_engine  # type: ignore[import-not-found]

from benchmarks.peers.libraries.lc_messages import message, read
from benchmarks.peers.peer import Peer
from benchmarks.peers.workload import STEPS, Alphabet, Event, Said, events


class LangChain(Peer):
    packages: ClassVar[tuple[str, ...]] = ("langchain-community", "langchain-core", "sqlalchemy")
    prepared: ClassVar[bool] = True

    def open(self, path: Path) -> None:
        self.engine = create_engine(f"sqlite:///{path}")
        self.histories: dict[str, Any] = {}

    def close(self) -> None:
        self.engine.dispose()

    def append(self, event: Event) -> None:
        self.history(event.conversation).add_message(message(event))

    def fill(self, conversation: str, turns: int, alphabet: Alphabet = "latin") -> None:
        everything = [message(event) for event in events(conversation, turns, alphabet)]
        self.history(conversation).add_messages(everything)

    def messages(self, conversation: str) -> list[AnyMessage]:
        return list(self.history(conversation).messages)

    def said(self, messages: Any) -> list[Said]:
        return [read(one) for one in messages]

    def at(self, conversation: str, turn: int) -> list[AnyMessage]:
        """Return the loaded list, cut here: the library reads everything."""
        return self.messages(conversation)[: turn * STEPS]

    def history(self, conversation: str) -> Any:
        if conversation not in self.histories:
            self.histories[conversation] = SQLChatMessageHistory(conversation, connection=self.engine)
        return self.histories[conversation]
