"""What a law is: a rule of a provider's protocol with a name, and a check that finds where it is broken."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple, TypeAlias

Body: TypeAlias = dict[str, Any]


class Breach(NamedTuple):
    """A place where a body breaks a law: a JSON pointer, and what was found there."""

    law: str
    pointer: str
    found: str


Finding: TypeAlias = tuple[str, str]
"""A JSON pointer and what was found there."""


class Law(NamedTuple):
    """A rule that a provider enforces. `says` is the rule in a sentence."""

    name: str
    says: str
    check: Callable[[Body], Iterator[Finding]]

    def breaches(self, body: Body) -> Iterator[Breach]:
        """Every place where the body breaks this law."""
        return (Breach(self.name, pointer, found) for pointer, found in self.check(body))


def law(check: Callable[[Body], Iterator[Finding]]) -> Law:
    """Make a law of a check: its name is the function's, with hyphens, and its sentence the docstring."""
    return Law(check.__name__.replace("_", "-"), check.__doc__ or "", check)


def messages(body: Body) -> Iterator[tuple[str, Body]]:
    """The messages of a body, each with its JSON pointer."""
    return ((f"/messages/{i}", message) for i, message in enumerate(body.get("messages", [])))


def blank(text: object) -> bool:
    """Whether it is a text that holds nothing but blanks."""
    return isinstance(text, str) and not text.strip()


def is_object(text: object) -> bool:
    """Whether it is the JSON text of an object."""
    try:
        return isinstance(text, str) and isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False


def unfit(named: Iterable[Finding], fits: Callable[[str], bool]) -> Iterator[Finding]:
    """Those of several names or ids, each with its pointer, that are unfit or stand twice."""
    seen: set[str] = set()
    for pointer, name in named:
        if name in seen or not fits(name):
            yield pointer, repr(name)
        seen.add(name)


def asks_for_json_object(format: object) -> bool:
    """Whether the format of an answer is that of OpenAI's that needs the word json in the conversation."""
    return isinstance(format, dict) and format.get("type") == "json_object"


def says_json(said: object) -> bool:
    """Whether the word json stands anywhere in it, in whichever case."""
    return "json" in json.dumps(said).lower()
