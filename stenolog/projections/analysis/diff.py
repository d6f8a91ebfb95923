"""Comparison of two requests: shared messages, and parts that were added, removed or rewritten."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, Literal, NamedTuple, TypeAlias

from stenolog.projections.requests import Request, RequestPart
from stenolog.projections.requests.body_digest import by_hash

from .body_text import around, messages, part_text, tokens_of
from .matching import matches

Sign: TypeAlias = Literal["-", "+", "~"]


class Shared(NamedTuple):
    """Number of messages from the beginning that are the same to the byte, and their tokens."""

    messages: int
    tokens: int


class Change(NamedTuple):
    """Something that went (-), came (+), or has another form (~).

    `first` to `last` are its positions (0: none); a run that was left out by one rule is one change, of
    `parts` parts. `was` is the rule of the first request and `rule` that of the second: the one that it
    stands there by, or is left out by (empty: it is not there yet, or no longer).
    """

    sign: Sign
    first: int
    last: int
    role: str
    was: str
    rule: str
    tokens_before: int
    tokens_after: int
    text: str
    parts: int = 1


class RequestDiff(NamedTuple):
    """Two requests compared, in tokens as a budget counts them.

    `around` names what differs beside the messages, as JSON pointers.
    """

    shared: Shared
    messages_before: int
    messages_after: int
    tokens_before: int
    tokens_after: int
    around: tuple[str, ...]
    changes: tuple[Change, ...]

    @property
    def equal(self) -> bool:
        """Return whether the two bodies are the same, to the byte."""
        return not self.around and self.shared.messages == self.messages_before == self.messages_after


def diff(before: Request, after: Request) -> RequestDiff:
    """The difference between two requests, which must be of one API."""
    first, second = _Side(before), _Side(after)
    same = _same(first.messages, second.messages)
    shared = tokens_of(part for part in before.parts if 0 <= part.message < same)
    return RequestDiff(
        Shared(same, shared),
        len(first.messages),
        len(second.messages),
        before.size.tokens,
        after.size.tokens,
        tuple(_around(around(before.body), around(after.body))),
        tuple(_runs(_changes(first, second))),
    )


class _Side:
    """One of the two requests: what its parts say, and what it left out."""

    def __init__(self, request: Request) -> None:
        self.request = request
        self.messages = messages(request.body)
        self._parts = Counter(part.message for part in request.parts)

    def dropped_by(self, part: RequestPart) -> str:
        """The rule by which what a part is of was left out here; empty where it was not."""
        where = part.positions[0] if part.positions else 0
        return next((run.rule for run in self.request.dropped if run.first <= where <= run.last), "")

    def text(self, part: RequestPart) -> str:
        """Return the text of a part in the body; empty if it cannot be told from the rest of its message."""
        return part_text(self.request, part, self._parts[part.message] == 1)

    def form(self, part: RequestPart) -> tuple[object, ...]:
        """Return the properties that must be equal in both for a part to have the same form."""
        alone = part.message >= 0 and self._parts[part.message] == 1
        written = _written(self.messages[part.message]) if alone else self.text(part)
        return part.rule, part.disposition, part.tokens_out, written


def _same(first: Sequence[Any], second: Sequence[Any]) -> int:
    """Count the items from the beginning that are equal."""
    for index, (one, other) in enumerate(zip(first, second, strict=False)):
        if _written(one) != _written(other):
            return index
    return min(len(first), len(second))


def _around(first: Mapping[str, Any], second: Mapping[str, Any]) -> Iterator[str]:
    for key in dict.fromkeys((*first, *second)):
        if _written(first.get(key)) != _written(second.get(key)):
            yield f"/{key}"


def _written(value: Any) -> str:
    """The value as text that is equal where the bytes sent are: keys in their order, blobs by hash."""
    return repr(by_hash(value))


def _changes(before: _Side, after: _Side) -> Iterator[Change]:
    """Yield the parts that came, went or changed: those of the prefix first, then the others in log order."""
    for old, new in matches(before.request.parts, after.request.parts):
        if old is None and new is not None:
            yield _change("+", new, before.dropped_by(new), new.rule, 0, new.tokens_out, after.text(new))
        elif new is None and old is not None:
            yield _change("-", old, old.rule, after.dropped_by(old), old.tokens_out, 0, before.text(old))
        elif old is not None and new is not None and before.form(old) != after.form(new):
            yield _change("~", new, old.rule, new.rule, old.tokens_out, new.tokens_out, after.text(new))


def _change(
    sign: Sign, part: RequestPart, was: str, rule: str, tokens_before: int, tokens_after: int, text: str
) -> Change:
    first, last = min(part.positions, default=0), max(part.positions, default=0)
    return Change(sign, first, last, part.role, was, rule, tokens_before, tokens_after, text)


def _runs(changes: Iterable[Change]) -> Iterator[Change]:
    """The changes, neighbours that were left out by one rule as one."""
    for run, same in groupby(changes, key=lambda change: change.rule if change.sign == "-" else ""):
        if run:
            yield _as_one(list(same))
        else:
            yield from same


def _as_one(run: Sequence[Change]) -> Change:
    begun = run[0]
    if len(run) == 1:
        return begun
    return begun._replace(
        last=max(change.last for change in run),
        role="",
        was="",
        tokens_before=sum(change.tokens_before for change in run),
        parts=len(run),
    )
