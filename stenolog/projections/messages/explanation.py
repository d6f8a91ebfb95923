"""The explanation of a request: where each part came from, and what was left out."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Literal, NamedTuple, TypeAlias

from .sizes import OVERHEAD, Rate

Disposition: TypeAlias = Literal["kept", "reworded", "added"]


class RequestPart(NamedTuple):
    """One part of a request: its positions, its rule and what the rule did, and its size.

    `message` is its index in the body's messages, -1 for parts before them (system text, tools).
    `continues`: it belongs to the message before it, which this API writes as several. `text` is the
    content of a text around the conversation, because one message may hold several of them.
    """

    positions: tuple[int, ...]
    disposition: Disposition
    rule: str
    tokens_in: int
    tokens_out: int
    message: int
    role: str
    continues: bool = False
    text: str = ""


def tokens_of(parts: Iterable[RequestPart]) -> int:
    """Return the tokens of the parts as a budget counts them, without pictures."""
    return sum(part.tokens_out + (0 if part.continues else OVERHEAD) for part in parts)


class Omission(NamedTuple):
    """A run of positions that were left out, the rule that did it, and the tokens they would have cost.

    `what` names it, if rule and positions do not.
    """

    first: int
    last: int
    rule: str
    tokens: int
    what: str = ""


def omission_rule(omissions: Iterable[Omission], position: int) -> str:
    """Return the rule that left out a position, or ""."""
    return next((run.rule for run in omissions if run.first <= position <= run.last), "")


class Omitted(NamedTuple):
    """Something an API cannot carry: the positions, the rule, the tokens it would have cost, its name."""

    positions: tuple[int, ...]
    rule: str
    tokens: int
    what: str = ""


class Explanation(NamedTuple):
    """The source of every part of a request, the omissions, and the positions whose words were read."""

    parts: tuple[RequestPart, ...] = ()
    omissions: tuple[Omission, ...] = ()
    read: frozenset[int] = frozenset()


def at_rate(explanation: Explanation, rate: Rate) -> Explanation:
    """Return an explanation with the tokens that are billed for the estimated ones."""
    of = rate.of
    parts = (
        part._replace(tokens_in=of(part.tokens_in), tokens_out=of(part.tokens_out))
        for part in explanation.parts
    )
    omissions = (run._replace(tokens=of(run.tokens)) for run in explanation.omissions)
    return Explanation(tuple(parts), tuple(omissions), explanation.read)


class LazyExplanation:
    """An explanation that is made when asked for, or pickled."""

    def __init__(self, explain: Callable[[], Explanation]) -> None:
        self._explain = explain

    def __call__(self) -> Explanation:
        return self._explain()

    def __deepcopy__(self, memo: object) -> LazyExplanation:
        return self

    def __reduce__(self) -> tuple[Callable[[Explanation], LazyExplanation], tuple[Explanation]]:
        return ready, (self(),)


def ready(explanation: Explanation) -> LazyExplanation:
    """Return an explanation that has been made."""
    return LazyExplanation(lambda: explanation)
