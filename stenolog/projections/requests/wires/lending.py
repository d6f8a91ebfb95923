"""The lists of messages that bodies have: one that its owner has let go of is brought up to date, not copied.

A long conversation is handed out in a list before every call, and a copy touches each of its messages: at
20,000 of them that takes longer than all the rest of a request. An owner who changes his list without copying
it first, as he should, spoils it for himself alone: it is compared before it is handed out again.
"""

from __future__ import annotations

from collections import deque
from typing import Any

from stenolog.projections.requests.request import Body

try:
    from sys import getrefcount
except ImportError:  # pragma: no cover - not on CPython

    def getrefcount(object: Any, /) -> int:
        """Nobody counts here: all lists are copied."""
        return 0


KEPT = 2
"""Lists that are kept an eye on: whoever asks for the next request often still has the one before."""
OURS = 2
"""References to a list that nobody else has, as they are counted here."""


class Lent:
    """A list that was handed out; the first `stays` messages in it were there to stay."""

    __slots__ = ("messages", "stays")

    def __init__(self, messages: list[Body], stays: int) -> None:
        self.messages = messages
        self.stays = stays

    @property
    def is_free(self) -> bool:
        """True if no caller holds the messages any more."""
        return getrefcount(self.messages) == OURS


class Lending:
    """Hands out messages, each time in a list that nobody else has."""

    def __init__(self, messages: list[Body]) -> None:
        self._messages = messages
        self._lent: deque[Lent] = deque(maxlen=KEPT)

    def lend(self, stays: int) -> list[Body]:
        """A list of all the messages as they are now; the first `stays` of them stay as they are."""
        free = next((lent for lent in self._lent if lent.is_free), None)
        messages = None if free is None else self._again(free)
        if messages is None:
            messages = self._messages.copy()
        self._lent.append(Lent(messages, stays))
        return messages

    def _again(self, free: Lent) -> list[Body] | None:
        """The list with what has come since; None where its owner has changed it."""
        self._lent.remove(free)
        messages, stays = free.messages, free.stays
        messages[stays:] = self._messages[stays:]
        try:
            return messages if messages == self._messages else None
        except Exception:  # it holds what its owner has put there, which may not be compared
            return None
