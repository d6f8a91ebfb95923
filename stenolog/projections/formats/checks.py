"""Laws of a provider's protocol: rules with names, and a validator that reads only what changed.

A law reads message after message, and can return to an earlier state: of a body that begins as the previous
one, only the rest is read.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeAlias

from stenolog.projections.messages.body_digest import MESSAGES, PROMPT

Body: TypeAlias = dict[str, Any]
Finding: TypeAlias = tuple[str, str]
"""A JSON pointer and what a law found there, which `judge` may still pass."""
Findings: TypeAlias = Iterator[Finding]
Steps: TypeAlias = Generator[Finding, None, Any]
"""A generator of the findings in a message; it returns the state to remember after the message."""
Look: TypeAlias = Callable[[str, Body], Findings]
Step: TypeAlias = Callable[[Any, str, Any], Steps]
Judge: TypeAlias = Callable[[Body, Sequence[Finding]], Iterable[Finding]]

UNREADABLE = (AttributeError, LookupError, TypeError, ValueError, RecursionError)
"""Exceptions of a law whose body does not have the shape that its provider documents."""
END: Body = {}
"""The end of the messages, for a law that waits for something."""


class Violation(NamedTuple):
    """A place where a body breaks a law: a JSON pointer, and what was found there."""

    law: str
    pointer: str
    found: str


class Law(NamedTuple):
    """A rule that a provider enforces; `says` is its sentence.

    `look` gets each message's JSON pointer, and the message; `step` also, first, the memory of those before
    (`start` makes the first). `judge` gets the body, and what was found.
    """

    name: str
    says: str
    look: Look | None = None
    step: Step | None = None
    start: Callable[[], Any] = bool
    judge: Judge = lambda _, found: found
    waits: bool = False
    """True if `step` is called with `END` as well."""


def law(check: Callable[[Body], Findings]) -> Law:
    """Make a law of a function: its name, with hyphens, and its docstring's sentence.

    The function gets every body, so it does not look at all messages.
    """
    return Law(*_name_and_sentence(check), judge=lambda body, _: check(body))


def per_message(check: Look) -> Law:
    """Make a law of a function of one message."""
    return Law(*_name_and_sentence(check), look=check)


def collected(look: Look) -> Callable[[Judge], Law]:
    """Make a law of a function of a body and the findings in each message."""
    return lambda check: Law(*_name_and_sentence(check), look=look, judge=check)


def stateful(start: Callable[[], Any], *, waits: bool = False) -> Callable[[Step], Law]:
    """Make a law of a function of a state and a message, which returns the next state.

    The state is never changed in place. With `waits` it gets `END` after the last message.
    """
    return lambda check: Law(*_name_and_sentence(check), step=check, start=start, waits=waits)


def _name_and_sentence(check: Callable[..., object]) -> tuple[str, str]:
    return check.__name__.replace("_", "-"), check.__doc__ or ""


class PersistentSet:
    """A growing set whose earlier versions stay.

    They share members: of two that grew from the same one, only the later is of use.
    """

    def __init__(self) -> None:
        self._order: list[object] = []
        self._places: dict[object, int] = {}
        self._size = 0

    def __contains__(self, member: object) -> bool:
        place = self._places.get(member, self._size)
        return place < self._size and self._order[place] == member

    def plus(self, member: object) -> PersistentSet:
        """Return the set with one more member."""
        if member in self:
            return self
        del self._order[self._size :]
        self._order.append(member)
        self._places[member] = self._size
        grown = PersistentSet.__new__(PersistentSet)
        grown._order, grown._places, grown._size = self._order, self._places, self._size + 1
        return grown


def conversation(body: Body, under: str) -> Sequence[Any]:
    """Return a body's messages; a plain prompt's paragraphs."""
    messages = body.get(under, ())
    if under == PROMPT and under in body:
        return str(messages).split("\n\n")
    return messages if isinstance(messages, list) else ()


def misshapen(found: object) -> str:
    """Say that something has not the shape that a law reads."""
    return f"unreadable for this law: {found!r:.60}"


def blank(text: object) -> bool:
    """Return whether the value is a text of blanks only, or empty."""
    return isinstance(text, str) and not text.strip()


def is_object(text: object) -> bool:
    """Return whether the value is a JSON object's text."""
    try:
        return isinstance(text, str) and isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False


def unfit(named: Iterable[Finding], fits: Callable[[str], bool], seen: PersistentSet | None = None) -> Steps:
    """Yield the names or ids, with pointers, that are unfit or not unique; return those seen."""
    seen = seen or PersistentSet()
    for pointer, name in named:
        if name in seen or not fits(name):
            yield pointer, repr(name)
        seen = seen.plus(name)
    return seen


def asks_for_json_object(format: object) -> bool:
    """Return whether the format is OpenAI's `json_object`, which needs the word json in a message."""
    return isinstance(format, dict) and format.get("type") == "json_object"


def says_json(messages: Iterable[Any]) -> bool:
    """Return whether a message has the word json, in any case."""
    return any("json" in json.dumps(message).lower() for message in messages)


class IncrementalValidator:
    """Some laws, read over one body after another. The messages are `under` a key.

    >>> from stenolog.projections.formats import FORMATS
    >>> reading = IncrementalValidator(FORMATS["openai-chat"].laws)
    >>> asked = {"role": "user", "content": "Which test fails?"}
    >>> reading.violations({"messages": [asked]})
    []
    >>> [violation.pointer for violation in reading.violations({"messages": [asked, {"role": "narrator"}]})]
    ['/messages/1/role', '/messages/1/content']
    """

    def __init__(self, laws: Iterable[Law], under: str = MESSAGES) -> None:
        self._under = under
        self._readers = [_Reader(law) for law in laws]
        self._along = [reader for reader in self._readers if reader.law.look or reader.law.step]
        self._read: list[Body] = []

    def violations(self, body: Body) -> list[Violation]:
        """Return every place where a body breaks a law. Read messages must not change.

        Never raises: what a law cannot read breaks that law.
        """
        key, messages = self._under, conversation(body, self._under)
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
    """A law's memory and findings after each message."""

    def __init__(self, law: Law) -> None:
        self.law = law
        self._look = law.look or partial(self._step, law.step)
        self._states: list[Any] = [law.start()]
        self._found: list[Finding] = []
        self._numbers: list[int] = []
        """The number of the message that each was found in."""

    def back(self, messages: int) -> None:
        del self._states[messages + 1 :]
        while self._numbers and self._numbers[-1] >= messages:
            self._numbers.pop()
            self._found.pop()

    def take(self, number: int, at: str, message: Body) -> None:
        for finding in self._readable(at, message):
            self._found.append(finding)
            self._numbers.append(number)

    def found(self, body: Body) -> Findings:
        try:
            yield from self.law.judge(body, self._found)
        except UNREADABLE:
            yield "", misshapen(body)
        if self.law.waits:
            yield from self._readable("", END)
            self._states.pop()

    def _readable(self, at: str, message: Body) -> Findings:
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
    """Count the equal messages at two bodies' beginnings, comparing whole runs for speed."""
    same, end = 0, min(len(before), len(now))
    run = end
    while same < end:
        if before[same : same + run] == now[same : same + run]:
            same += run
        elif run == 1:
            break
        run = max(1, min(run // 2, end - same))
    return same
