"""Queue of messages that a person types while Claude Code is busy. Some never become a record of their own.

`enqueue` brings the words. `remove` takes them out in the middle of a turn: the agent is shown them, and
later versions write them as an attachment too. `dequeue` takes them out to be the next prompt, `popAll`
takes them back to be edited.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(eq=False)
class QueuedMessage:
    """One queued message: its words, the id of the entry that keeps them, whether they were delivered."""

    text: str
    entry: str
    delivered: bool = False


class Queue:
    """The messages that wait, first come first served, and those taken out."""

    def __init__(self) -> None:
        self._waiting: list[QueuedMessage] = []
        self._out: list[QueuedMessage] = []

    def enqueue(self, text: str, entry: str) -> None:
        """Add words that were typed while the agent was busy."""
        self._waiting.append(QueuedMessage(text, entry))

    def take(self, content: str) -> QueuedMessage | None:
        """Take one out: that of these words where they are told, else the first."""
        for waiting in self._waiting:
            if not content or waiting.text == content:
                self._waiting.remove(waiting)
                if not waiting.delivered:
                    self._out.append(waiting)
                return waiting
        return None

    def out(self, entry: str) -> QueuedMessage | None:
        """The message of that entry, where it was taken out to be the next prompt and not delivered since."""
        return next((waiting for waiting in self._out if waiting.entry == entry), None)

    def forget(self, waiting: QueuedMessage) -> None:
        """A message that was taken out needs no delivery any more."""
        self._out.remove(waiting)

    def clear(self) -> None:
        """Remove all waiting messages."""
        self._waiting.clear()

    def claim(self, text: str, *, delivered: bool = False) -> QueuedMessage | None:
        """The queued message that a record with these words is the delivery of.

        With `delivered`, the record may be the echo of one that was delivered already; else it never is,
        for the same words may be typed again.
        """
        for waiting in (*self._out, *self._waiting):
            if waiting.text == text and (delivered or not waiting.delivered):
                if waiting in self._out:
                    self._out.remove(waiting)
                return waiting
        return None
