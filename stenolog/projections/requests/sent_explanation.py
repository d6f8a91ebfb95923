"""The explanation of another program's request: the entries of each of its messages."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from stenolog.projections.formats.readable import texts
from stenolog.projections.messages.body_digest import compact
from stenolog.projections.messages.explanation import Explanation, Omission, RequestPart
from stenolog.projections.messages.message import Body
from stenolog.projections.messages.rules import HELD
from stenolog.projections.messages.sizes import Counter

from .recipe import Recipe, references
from .request import Request

CLIENT = "client"
"""The rule of a message that only the client's own form has, and of one that the client left out."""
ITEMS = ("content", "parts")
IDS = frozenset(("id", "call_id", "tool_call_id", "tool_use_id"))
AHEAD = 16
"""So many parts are looked through for those that a message may be of, without a reference to them."""
SHORTEST = 16
"""Characters from which on a text in another one is no chance."""


def sent_explanation(
    request: Request, messages: Sequence[Recipe], body: Body, response: str, counter: Counter
) -> Explanation:
    """Return the explanation of what was sent: parts at their places there, and the client's own.

    `request` is the built one, `messages` are recipes from it to the `body`'s. `response` is the id of the
    one that the provider continues, if any.
    """
    explained = request.estimated
    there = body.get(request.messages_key)
    # OpenAI takes a text for one message of a user.
    sent: Sequence[Any] = there if isinstance(there, list) else [{"content": there}] if there else []
    built = _Built(request, explained.parts)
    places: dict[int, int] = {}
    for n, recipe in enumerate(messages):
        for pointer in references(recipe):
            for index in built.parts_at(pointer):
                places.setdefault(index, n)
    _place_by_signs(places, built, sent)
    front = [part for part in explained.parts if part.message < 0]
    kept = [explained.parts[index]._replace(message=n) for index, n in places.items()]
    filled = set(places.values())
    own = [
        _own_part(n, message, counter)
        for n, message in enumerate(sent)
        if n not in filled and isinstance(message, dict)
    ]
    parts = sorted([*kept, *own], key=lambda part: part.message)
    gone = (part for index, part in enumerate(explained.parts) if part.message >= 0 and index not in places)
    left_out = [
        Omission(
            min(part.positions), max(part.positions), HELD if response else CLIENT, part.tokens_out, response
        )
        for part in gone
        if part.positions
    ]
    return Explanation((*front, *parts), (*explained.omissions, *left_out), explained.read)


class _Signs(NamedTuple):
    """Texts and call ids by which a message is recognised."""

    texts: frozenset[str]
    ids: frozenset[str]

    def are_in(self, other: _Signs) -> bool:
        if self.ids and self.ids <= other.ids:
            return True
        return bool(self.texts) and all(_has(other.texts, text) for text in self.texts)


class _Built:
    """The built body, with its messages' parts by place."""

    def __init__(self, request: Request, parts: Sequence[RequestPart]) -> None:
        self.under = f"/{request.messages_key}/"
        found = request.body.get(request.messages_key)
        self.messages: Sequence[Any] = found if isinstance(found, list) else []
        self.of_message: dict[int, list[int]] = defaultdict(list)
        for index, part in enumerate(parts):
            if part.message >= 0:
                self.of_message[part.message].append(index)

    def parts_at(self, pointer: str) -> Sequence[int]:
        """Return the parts that a value is of: all of its message, if not known better."""
        if not pointer.startswith(self.under):
            return ()
        steps = pointer.removeprefix(self.under).split("/")
        parts = self.of_message[int(steps[0])]
        items = self._items(int(steps[0]))
        if len(steps) > 2 and len(items) == len(parts) and steps[1] in ITEMS and steps[2].isdecimal():
            return parts[int(steps[2]) : int(steps[2]) + 1]
        return parts

    def _items(self, message: int) -> Sequence[Any]:
        found = self.messages[message] if message < len(self.messages) else None
        inner = next((found[key] for key in ITEMS if key in found), ()) if isinstance(found, dict) else ()
        return inner if isinstance(inner, list) else ()

    def signs(self) -> Iterator[tuple[int, _Signs]]:
        for message, parts in sorted(self.of_message.items()):
            items = self._items(message)
            for nth, index in enumerate(parts):
                whole = items[nth] if len(items) == len(parts) else self.messages[message : message + 1]
                yield index, _signs(whole)


def _place_by_signs(places: dict[int, int], built: _Built, sent: Sequence[Any]) -> None:
    """Place parts that no recipe refers to: a short text is in the recipe itself."""
    filled = set(places.values())
    left = [(index, words) for index, words in built.signs() if index not in places]
    for n, message in enumerate(sent):
        if n in filled or not left:
            continue
        words = _signs(message)
        behind = max((index for index, at in places.items() if at < n), default=-1)
        near = [each for each in left if each[0] > behind][:AHEAD]
        for index, own in near:
            if own.are_in(words):
                places[index] = n
        left = [each for each in left if each[0] not in places]


def _signs(value: Any) -> _Signs:
    return _Signs(frozenset(texts(value)), frozenset(_ids(value)))


def _ids(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for key, inner in value.items():
            if key in IDS and isinstance(inner, str):
                yield inner
            elif isinstance(inner, dict | list):
                yield from _ids(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _ids(inner)


def _has(other: Iterable[str], text: str) -> bool:
    if len(text) < SHORTEST:
        return text in other
    return any(text in each or (len(each) >= SHORTEST and each in text) for each in other)


def _own_part(n: int, message: Body, counter: Counter) -> RequestPart:
    tokens = counter.count(compact(message))
    return RequestPart((), "added", CLIENT, 0, tokens, n, str(message.get("role", "user")))
