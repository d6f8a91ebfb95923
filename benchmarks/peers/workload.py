"""The work for every store: turns of five events, made from a seed, the same in every process.

A turn is a user's message (200 characters), an assistant's with two calls at once, their results (300 and
4,000 characters) and the assistant's answer (600 characters). Any turn is made without those before it.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

Alphabet = Literal["latin", "cyrillic"]
Kind = Literal["user", "calls", "result", "answer"]
Said = tuple[Any, ...]
"""An event as it is compared: its kind first, then what it says."""

SEED = 6
STEPS = 5
SIZES = (200, 0, 300, 4_000, 600)
"""Characters of text by step."""
KINDS: tuple[Kind, ...] = ("user", "calls", "result", "result", "answer")
LETTERS = {
    "latin": "eeeaaiiooonnttssrrlldcumphgbfyvkwxjqz",
    "cyrillic": "оооееаааиинннттссррввллкмдпуяыьгзбчйхжшюцщэфъ",
}
SPICE = ('"quoted"', "line\nbreak", "src\\path\\file.py", "{'a': [1, 2]}", "—", "№ 5", "café")
"""What must be escaped, or is more than a byte."""
PAGE = 200_000


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a tool; its arguments are JSON text."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that happened; `step` counts from 0 in a turn, turns from 1."""

    conversation: str
    turn: int
    step: int
    text: str = ""
    calls: tuple[Call, ...] = ()
    answers: str = ""
    tool: str = ""

    @property
    def kind(self) -> Kind:
        return KINDS[self.step]

    @property
    def id(self) -> str:
        return f"{self.conversation}/{self.turn}/{self.step}"

    @property
    def said(self) -> Said:
        match self.kind:
            case "calls":
                return ("calls", *((call.id, call.name, call.arguments) for call in self.calls))
            case "result":
                return ("result", self.answers, self.text)
            case "user" | "answer":
                return (self.kind, self.text)


Turn = tuple[Event, Event, Event, Event, Event]


@cache
def page(alphabet: Alphabet) -> str:
    """Return a long text of words that are no words, to cut from."""
    chance = random.Random(f"{SEED} {alphabet}")
    letters = LETTERS[alphabet]
    words = ["".join(chance.choices(letters, k=chance.randint(2, 9))) for _ in range(2_000)]
    written = [chance.choice(SPICE if chance.random() < 0.02 else words) for _ in range(PAGE // 5)]
    return " ".join(written)


def turn(conversation: str, number: int, alphabet: Alphabet = "latin") -> Turn:
    """Return the turn of that number."""
    chance, whole = random.Random(f"{SEED} {conversation} {number}"), page(alphabet)

    def text(step: int, size: int) -> str:
        start = chance.randrange(len(whole) - size)
        return f"{conversation}/{number}/{step} {whole[start : start + size]}"[:size]

    def call(letter: str, name: str, size: int) -> Call:
        asked = json.dumps({"about": text(1, size), "page": number}, ensure_ascii=False)
        return Call(f"{conversation}-{number}-{letter}", name, asked)

    one, other = call("a", "look_up", 40), call("b", "read_file", 60)
    return (
        Event(conversation, number, 0, text(0, SIZES[0])),
        Event(conversation, number, 1, calls=(one, other)),
        Event(conversation, number, 2, text(2, SIZES[2]), answers=one.id, tool=one.name),
        Event(conversation, number, 3, text(3, SIZES[3]), answers=other.id, tool=other.name),
        Event(conversation, number, 4, text(4, SIZES[4])),
    )


def events(conversation: str, turns: int, alphabet: Alphabet = "latin") -> Iterator[Event]:
    """Yield the events of the first turns."""
    return (event for number in range(1, turns + 1) for event in turn(conversation, number, alphabet))


def said(conversation: str, turns: int) -> list[Said]:
    """Return the messages of the first turns."""
    return [event.said for event in events(conversation, turns)]


def content(conversation: str, turns: int, alphabet: Alphabet = "latin") -> int:
    """Return the bytes of what is said, in UTF-8: texts and arguments, without any form around them."""
    return sum(
        len(event.text.encode()) + sum(len(call.arguments.encode()) for call in event.calls)
        for event in events(conversation, turns, alphabet)
    )


def broken(messages: list[Said]) -> int:
    """Return the number of faults that a provider refuses: calls without results, results without calls."""
    faults, waiting = 0, set[str]()
    for kind, *rest in messages:
        if kind == "result":
            faults += rest[0] not in waiting
            waiting.discard(rest[0])
            continue
        faults += len(waiting)
        waiting = {call[0] for call in rest} if kind == "calls" else set()
    return faults + len(waiting)
