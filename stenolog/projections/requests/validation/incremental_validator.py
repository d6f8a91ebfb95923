"""Reading laws along a conversation: what has not changed since the body before is not read again."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

from .checks import (
    END,
    UNREADABLE,
    Body,
    Check,
    Finding,
    Findings,
    Step,
    Violation,
    conversation,
    misshapen,
)


class IncrementalValidator:
    """Some laws, read over one body after another.

    >>> from stenolog.projections.requests.validation import LAWS
    >>> reading = IncrementalValidator(LAWS["openai-chat"])
    >>> asked = {"role": "user", "content": "Which test fails?"}
    >>> reading.breaches({"messages": [asked]})
    []
    >>> [breach.pointer for breach in reading.breaches({"messages": [asked, {"role": "narrator"}]})]
    ['/messages/1/role', '/messages/1/content']
    """

    def __init__(self, laws: Iterable[Check]) -> None:
        self._readers = [_Reader(law) for law in laws]
        self._along = [reader for reader in self._readers if reader.law.look or reader.law.step]
        self._read: list[Body] = []

    def breaches(self, body: Body) -> list[Violation]:
        """Every place where a body breaks one of the laws. A message must not change once it was read.

        Never raises: what a law cannot read, because it has another shape, breaks that law.
        """
        key, messages = conversation(body)
        unchanged = _unchanged(self._read, messages)
        for reader in self._along:
            reader.back(unchanged)
        for number in range(unchanged, len(messages)):
            at, message = f"/{key}/{number}", messages[number]
            for reader in self._along:
                reader.take(number, at, message)
        self._read = [*messages]
        made = [Violation(r.law.name, *finding) for r in self._readers for finding in r.found(body)]
        if key in body and not isinstance(body[key], list | str):
            made.insert(0, Violation("shape", f"/{key}", misshapen(body[key])))
        return made


class _Reader:
    """The state of a law in a conversation: its memory and its findings after each message."""

    def __init__(self, law: Check) -> None:
        self.law = law
        self._look = law.look or partial(self._step, law.step)
        self._states: list[Any] = [law.start()]
        self._found: list[Finding] = []
        self._numbers: list[int] = []
        """The number of the message that each was found in."""

    def back(self, messages: int) -> None:
        """Stand where it stood behind so many messages."""
        del self._states[messages + 1 :]
        while self._numbers and self._numbers[-1] >= messages:
            self._numbers.pop()
            self._found.pop()

    def take(self, number: int, at: str, message: Body) -> None:
        """Read the next message."""
        for finding in self._readable(at, message):
            self._found.append(finding)
            self._numbers.append(number)

    def found(self, body: Body) -> Findings:
        """All that was found in this body, whose messages were read."""
        try:
            yield from self.law.judge(body, self._found)
        except UNREADABLE:
            yield "", misshapen(body)
        if self.law.waits:
            yield from self._readable("", END)
            self._states.pop()

    def _readable(self, at: str, message: Body) -> Findings:
        """Yield the law's findings in a message.

        A message that the law cannot read is a finding, and does not change the law's memory.
        """
        states = len(self._states)
        try:
            yield from self._look(at, message)
        except UNREADABLE:
            yield at, misshapen(message)
            if self.law.step is not None and len(self._states) == states:
                self._states.append(self._states[-1])

    def _step(self, step: Step | None, at: str, message: Body) -> Findings:
        assert step is not None, "a law of the body alone reads no message"
        self._states.append((yield from step(self._states[-1], at, message)))


def _unchanged(before: Sequence[Body], now: Sequence[Body]) -> int:
    """Count the messages of two bodies that are equal, from the first one on.

    Whole runs are compared, which is fast if they hold the same objects.
    """
    same, end = 0, min(len(before), len(now))
    run = end
    while same < end:
        if before[same : same + run] == now[same : same + run]:
            same += run
        elif run == 1:
            break
        run = max(1, min(run // 2, end - same))
    return same
