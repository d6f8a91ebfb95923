"""Lines of a request: its parts in the order of the body, and each omission in its place.

A request may have thousands of parts. A page shows those at both ends, or some from one of them on, folds the
others, and reads only the entries that it names.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Literal, NamedTuple, TypeAlias

from stenolog.adapters.conversation.log import Conversation
from stenolog.domain.entry import Entry
from stenolog.projections.analysis.cache.difference import Shared
from stenolog.projections.analysis.explain import Missing, Reason, described, left_out, why
from stenolog.projections.messages.explanation import Omission
from stenolog.projections.messages.rules import HAD
from stenolog.projections.requests import Request

END = 80
"""The lines at each end of a request that a page shows."""
RUNS = 20
"""The runs that an omission names."""
LONGEST = 6_000
"""The characters of a text that a page shows."""
STRETCHES = 100
"""The most stretches of an outline."""
GAP = 32
"""Entries that are not needed are read too, if so few of them are between two that are."""


class PartLine(NamedTuple):
    """A part: its index, its reason, and whether the call before began with it too.

    `text` is the beginning of its text, `more` the number of further characters.
    """

    kind: Literal["part"]
    number: int
    reason: Reason
    same: bool
    text: str
    more: int


class OmissionLine(NamedTuple):
    """Positions that were left out in a row, with the tokens that they would have cost.

    `runs` are the first of them, `others` is the number of the others; `rules` names all rules.
    """

    kind: Literal["omission"]
    first: int
    last: int
    rules: tuple[str, ...]
    tokens: int
    runs: tuple[Missing, ...]
    others: int

    @property
    def is_held(self) -> bool:
        """True if the provider holds all of it."""
        return HAD.issuperset(self.rules)


class FoldLine(NamedTuple):
    """Parts that are not shown, with their tokens; a page that shows them begins at `start`."""

    kind: Literal["fold"]
    first: int
    last: int
    tokens: int
    start: int


class SharedLine(NamedTuple):
    """The end of what was the same in the call before."""

    kind: Literal["shared"]


Line: TypeAlias = PartLine | OmissionLine | FoldLine | SharedLine
_Place: TypeAlias = int | tuple[Omission, ...]
"""A part by its index, or what was left out before the next one."""


class Stretch(NamedTuple):
    """A turn of a request: its first part's index, its entry and first words, and the tokens of its parts."""

    number: int
    position: int
    words: str
    tokens: int


def outline(request: Request, turns: Mapping[int, str]) -> list[Stretch]:
    """Return the turns that a request has; `turns` are the first words of each, by its first entry.

    What comes before the first one has no words. Of many turns some neighbours are one stretch.
    """
    found = [Stretch(0, 0, "", 0)]
    for number, part in enumerate(request.parts):
        position = part.positions[0] if part.positions else 0
        if position in turns and position > found[-1].position:
            found.append(Stretch(number, position, turns[position], 0))
        found[-1] = found[-1]._replace(tokens=found[-1].tokens + part.tokens_out)
    found = [each for each in found if each.tokens]
    step = -(-len(found) // STRETCHES) or 1
    groups = (found[first : first + step] for first in range(0, len(found), step))
    return [group[0]._replace(tokens=sum(each.tokens for each in group)) for group in groups]


def lines(
    conversation: Conversation,
    request: Request,
    shared: Shared | None = None,
    start: int | None = None,
    end: int = END,
) -> list[Line]:
    """Return the lines of a request: `end` at each end, or twice as many from part `start` on.

    `shared` is its common beginning with the call before.
    """
    places = list(_places(request))
    chosen = _chosen(places, start, end)
    parts = [at for run in chosen for at in places[run.start : run.stop] if isinstance(at, int)]
    gone = [at[:RUNS] for run in chosen for at in places[run.start : run.stop] if not isinstance(at, int)]
    runs = [one for some in gone for one in some]
    entries = [*read(conversation, described([request.parts[at] for at in parts], runs))]
    reasons = dict(zip(parts, why(request, entries, parts), strict=True))
    missing = dict(zip(runs, left_out(request, entries, runs), strict=True))
    found: list[Line] = []
    done = 0
    for run in chosen:
        if run.start > done:
            found.append(_fold(request, places[done : run.start], done, end))
        found += (_line(at, reasons, missing, shared) for at in places[run.start : run.stop])
        done = run.stop
    if done < len(places):
        found.append(_fold(request, places[done:], done, end))
    return _with_border(found) if shared is not None else found


def read(conversation: Conversation, positions: Sequence[int]) -> Iterator[Entry]:
    """Yield the entries at these positions, and a few between them."""
    spans: list[tuple[int, int]] = []
    for position in positions:
        if spans and position - spans[-1][1] <= GAP:
            spans[-1] = spans[-1][0], position
        else:
            spans.append((position, position))
    for first, last in spans:
        yield from conversation.entries(after=first - 1, at=last)


def _places(request: Request) -> Iterator[_Place]:
    """Yield the parts in order, each omission before the first part of a later entry."""
    waiting = sorted(request.omissions)
    at = 0
    for index, part in enumerate(request.parts):
        is_front = part.message < 0 or part.role == "system"
        first = 0 if is_front else min(part.positions, default=0)
        begin = at
        while at < len(waiting) and waiting[at].first < first:
            at += 1
        if at > begin:
            yield tuple(waiting[begin:at])
        yield index
    if at < len(waiting):
        yield tuple(waiting[at:])


def _chosen(places: Sequence[_Place], start: int | None, end: int) -> list[range]:
    number = len(places)
    if number <= 2 * end:
        return [range(number)]
    if start is None:
        return [range(end), range(number - end, number)]
    begin = next((place for place, at in enumerate(places) if at == start), 0)
    return [range(begin, min(begin + 2 * end, number))]


def _line(
    at: _Place, reasons: dict[int, Reason], missing: dict[Omission, Missing], shared: Shared | None
) -> PartLine | OmissionLine:
    if isinstance(at, int):
        reason = reasons[at]
        more = max(0, len(reason.text) - LONGEST)
        same = shared is not None and shared.has(reason.message, reason.role)
        return PartLine("part", at, reason, same, reason.text[:LONGEST], more)
    named = tuple(missing[run] for run in at[:RUNS])
    return OmissionLine(
        "omission",
        at[0].first,
        max(run.last for run in at),
        tuple(dict.fromkeys(run.rule for run in at)),
        sum(run.tokens for run in at),
        named,
        len(at) - len(named),
    )


def _fold(request: Request, places: Sequence[_Place], done: int, end: int) -> FoldLine:
    parts = [at for at in places if isinstance(at, int)]
    tokens = sum(request.parts[at].tokens_out for at in parts)
    start = parts[-2 * end :][0] if done == 0 and parts else parts[0] if parts else 0
    return FoldLine("fold", parts[0] if parts else 0, parts[-1] if parts else 0, tokens, start)


def _with_border(found: Iterable[Line]) -> list[Line]:
    """Mark the place at which what the call before had too ends."""
    bordered: list[Line] = []
    for same, run in groupby(found, key=lambda line: not isinstance(line, PartLine) or line.same):
        is_border = not same and any(isinstance(line, PartLine) and line.same for line in bordered)
        if is_border and not any(isinstance(line, SharedLine) for line in bordered):
            bordered.append(SharedLine("shared"))
        bordered += run
    return bordered
