"""Writer of an API: it writes messages, a stretch after another, and gives a body at any time.

No stretch ends between two own words of the agent, nor between an answer and its results, so later messages
change nothing in it.
"""

from __future__ import annotations

import gc
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

from pydantic_core import from_json

from stenolog.projections.messages.body_digest import MessageHash, PrefixHash
from stenolog.projections.messages.identifiers import CallIds
from stenolog.projections.messages.message import Body, Message, Preamble, Rendered

from .body_builder import BodyBuilder


class EarlierMessages:
    """The first messages of a body, `texts` of JSON that another process wrote; parsed when asked for."""

    def __init__(self, texts: Sequence[bytes]) -> None:
        self.texts = texts

    @cached_property
    def messages(self) -> list[Body]:
        # So many objects at once make the collector look at all of the process, which takes twice as long as
        # parsing them; and JSON has no cycles.
        is_enabled = gc.isenabled()
        gc.disable()
        try:
            # As long as this is, pydantic's parser takes half the time of the standard library's.
            return [message for text in self.texts for message in from_json(b"[%b]" % text)]
        finally:
            if is_enabled:
                gc.enable()

    @property
    def is_read(self) -> bool:
        """True if the messages have been asked for."""
        return "messages" in self.__dict__


class Writer(ABC):
    """A writer for one lane under one preamble. It never changes what it has returned.

    `explaining` False: no caller will ask for the sources of the parts. `waiting` are messages that will be
    written with those after them.
    """

    def __init__(self, preamble: Preamble, blobs: Mapping[str, bytes], *, explaining: bool = True) -> None:
        self.preamble = preamble
        self.builder = BodyBuilder(blobs, preamble.counter, explaining=explaining)
        self.call_ids = CallIds(self.builder.messages)
        self.ids: Any = self.call_ids
        self.earlier: EarlierMessages | None = None
        self.waiting: list[Message] = []
        # What was written to stay never changes, so each message is hashed once.
        self._known = PrefixHash(self.builder.messages)
        self.begin()

    def begin(self) -> None:
        """Write the parts before the conversation; they are explained first."""
        if self.preamble.persona:
            self.builder.explain_persona(self.preamble)

    @abstractmethod
    def write(self, messages: Sequence[Message]) -> None:
        """Write a stretch of the conversation."""

    @abstractmethod
    def close(self, messages: Sequence[Message]) -> Body:
        """Write the rest of the conversation and the notes after it; return the whole body."""

    @property
    def number(self) -> int:
        """The number of messages written to stay."""
        return self.call_ids.earlier + len(self.builder.messages)

    @property
    def is_storable(self) -> bool:
        """True if another process can go on from the messages, the ids and `memo`."""
        # The digest of a picture's message is not that of its text.
        return not self.builder.has_media

    @property
    def may_resume(self) -> bool:
        """True if it can do so now."""
        return self.is_storable and not (self.builder.missing or self.waiting)

    @property
    def memo(self) -> bool:
        """True if later messages depend on an earlier one, by the API's rules."""
        return False

    def resume(self, earlier: EarlierMessages | None, messages: Sequence[Body], memo: bool) -> None:
        """Go on after earlier messages and these, the last of which may be continued."""
        self.builder.messages[:] = messages
        self.earlier = earlier

    def hold_earlier(self) -> None:
        """Hold the earlier messages as objects, if asked for."""
        if self.earlier is not None and self.earlier.is_read:
            self.builder.messages[:0] = self.earlier.messages
            self.earlier, self.call_ids.earlier = None, 0

    def body(self, messages: Sequence[Message]) -> Body:
        """Return the body of the written messages and these, which are then dropped."""
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
        """Return the body of only these messages, and every part's explanation."""
        return self.builder.rendered(self.close(messages))
