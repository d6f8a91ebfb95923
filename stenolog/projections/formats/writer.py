"""Writer of an API: it writes messages, a stretch after another, and gives a body at any time.

A stretch ends where later messages change nothing: never between two words of the agent's own, nor between an
answer and the results of its calls.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

from stenolog.projections.messages.body_digest import MessageHash, PrefixHash
from stenolog.projections.messages.identifiers import CallIds
from stenolog.projections.messages.message import Body, Message, Preamble, Rendered

from .body_builder import BodyBuilder


class Writer(ABC):
    """A writer for one lane under one preamble. It never changes what it has returned.

    `explaining` False: no caller will ask for the sources of the parts.
    """

    def __init__(self, preamble: Preamble, blobs: Mapping[str, bytes], *, explaining: bool = True) -> None:
        self.preamble = preamble
        self.builder = BodyBuilder(blobs, preamble.counter, explaining=explaining)
        self.ids: Any = CallIds()
        # What was written to stay never changes, so each message is hashed once.
        self._known = PrefixHash(self.builder.messages)
        self.begin()

    def begin(self) -> None:
        """Write the parts before the conversation, which are explained first."""
        if self.preamble.persona:
            self.builder.explain_persona(self.preamble)

    @abstractmethod
    def write(self, messages: Sequence[Message]) -> None:
        """Write a stretch of the conversation."""

    @abstractmethod
    def close(self, messages: Sequence[Message]) -> Body:
        """Write the rest of the conversation and the notes after it; return the whole body."""

    def body(self, messages: Sequence[Message]) -> Body:
        """Return the body of the written messages and of these, which are dropped again."""
        savepoint, ids = self.builder.savepoint(), self.ids.count
        made = self.close(messages)
        self.builder.rollback(savepoint)
        self.ids.back(ids)
        return made

    def encoded(self, messages: list[Body]) -> MessageHash:
        """Return the messages of a body just made, prepared for digests."""
        # Without the last of those written to stay: it may still be continued.
        return MessageHash(messages, self._known, max(len(self.builder.messages) - 1, 0))

    def rendered(self, messages: Sequence[Message]) -> Rendered:
        """Return the body of only these messages, and the explanation of every part."""
        return self.builder.rendered(self.close(messages))
