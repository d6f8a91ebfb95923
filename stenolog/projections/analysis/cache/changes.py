"""Changes from one request to another, part by part."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Literal, NamedTuple, TypeAlias

from stenolog.projections.messages.body_digest import by_hash
from stenolog.projections.messages.explanation import omission_rule
from stenolog.projections.messages.rules import FRONT
from stenolog.projections.requests import Request, RequestPart
from stenolog.projections.requests.part_texts import messages, part_text

Sign: TypeAlias = Literal["-", "+", "~"]


class PartChange(NamedTuple):
    """Something that went (-), came (+), or has another form (~).

    `first` to `last` are its positions (0: none); a run left out by one rule is one change, of `parts` parts.
    `was` is the rule of the first request and `rule` that of the second: the one by which it is there, or is
    left out ("": not there yet, or no longer). `text` is what it says, or said; `text_before` is the earlier
    text if it has another form.
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
    text_before: str = ""

    @property
    def tokens(self) -> int:
        """The second request's additional tokens."""
        return self.tokens_after - self.tokens_before

    @property
    def what(self) -> str:
        """The change in words, by its rules."""
        match self:
            case PartChange(sign="-", rule=""):
                return f"gone: {self.was}"
            case PartChange(sign="-"):
                return f"dropped: {self.rule}"
            case PartChange(sign="+", was=""):
                return self.rule
            case PartChange(sign="+"):
                return f"{self.rule}, before dropped: {self.was}"
            case _:
                return self.rule if self.rule == self.was else f"{self.was} → {self.rule}"


class Twins:
    """The positions of the same entries in two logs. `given` are those of the second by those of the first.

    None: the requests are of one log.
    """

    def __init__(self, given: Mapping[int, int] | None = None) -> None:
        self._given = given
        self._known = sorted(given or ())
        self._back = {later: earlier for earlier, later in (given or {}).items()}

    def in_second(self, position: int) -> float:
        """Return the place in the second log; one between two entries if the second has no such entry."""
        if self._given is None or position in self._given:
            return position if self._given is None else self._given[position]
        before = bisect_left(self._known, position)
        return (self._given[self._known[before - 1]] if before else 0) + 1 - 1 / (1 + position)

    def in_first(self, position: int) -> int:
        """Return the position in the first log; 0 if it has no such entry."""
        return position if self._given is None else self._back.get(position, 0)


ONE_LOG = Twins()


def changes(before: Request, after: Request, twins: Twins = ONE_LOG) -> tuple[PartChange, ...]:
    """Return what came, went or changed: the prefix's first, then in the second log's order."""
    return tuple(_runs(_changes(_Side(before, twins.in_second), _Side(after), twins)))


def counted(found: Iterable[PartChange]) -> list[PartChange]:
    """Return the changes merged by sign and rule, most tokens first."""
    groups: dict[tuple[Sign, str], list[PartChange]] = defaultdict(list)
    for change in found:
        groups[change.sign, change.rule or change.was].append(change)
    return sorted(map(_as_one, groups.values()), key=lambda one: (-abs(one.tokens), one))


class _Placed(NamedTuple):
    """A part of a request, and the places of its entries in the second log."""

    part: RequestPart
    places: tuple[float, ...]


class _Match(NamedTuple):
    """A part of the first request and the same part of the second; None if missing."""

    before: _Placed | None
    after: _Placed | None

    @property
    def sort_key(self) -> tuple[bool, float, bool]:
        """The order of changes: the prefix's first, then by place."""
        placed = self.after or self.before
        assert placed is not None
        return placed.part.rule not in FRONT, min(placed.places, default=0), self.after is not None


def _matches(before: Iterable[_Placed], after: Iterable[_Placed]) -> list[_Match]:
    """Return both requests' parts, matched by rule and places, by subject, or by the prefix's rule.

    What a rule added matches only what the same rule added.
    """
    found: list[_Match] = []
    left, right = list(before), list(after)
    for key in (_exactly, _by_origin, _by_rule):
        left, right = _matched(left, right, key, found)
    found += [_Match(part, None) for part in left] + [_Match(None, part) for part in right]
    return sorted(found, key=lambda match: match.sort_key)


def _matched(
    left: Iterable[_Placed],
    right: Iterable[_Placed],
    key: Callable[[_Placed], Hashable | None],
    found: list[_Match],
) -> tuple[list[_Placed], list[_Placed]]:
    """Match the parts of one key in order; return both sides' unmatched ones; None is no key."""
    waiting: dict[Hashable, deque[_Placed]] = defaultdict(deque)
    for part in right:
        waiting[key(part)].append(part)
    rest = []
    for part in left:
        named = key(part)
        same = waiting.get(named) if named is not None else None
        if same:
            found.append(_Match(part, same.popleft()))
        else:
            rest.append(part)
    return rest, [part for parts in waiting.values() for part in parts]


def _exactly(placed: _Placed) -> Hashable | None:
    return placed.part.rule, placed.places


def _by_origin(placed: _Placed) -> Hashable | None:
    part = placed.part
    return None if part.disposition == "added" or part.rule in FRONT else placed.places[:1] or None


def _by_rule(placed: _Placed) -> Hashable | None:
    return placed.part.rule if placed.part.rule in FRONT else None


class _Side:
    """One request: its parts' texts, their `place` in the second log, and what it left out."""

    def __init__(self, request: Request, place: Callable[[int], float] = float) -> None:
        self.request = request
        self.messages = messages(request)
        self.placed = [_Placed(part, tuple(map(place, part.positions))) for part in request.parts]
        self._parts = Counter(part.message for part in request.parts)

    def dropped_by(self, position: float) -> str:
        return omission_rule(self.request.omissions, int(position)) if position == int(position) else ""

    def text(self, part: RequestPart) -> str:
        return part_text(self.request, part, self._parts[part.message] == 1)

    def form(self, part: RequestPart) -> tuple[object, ...]:
        """Return the properties that must be equal for a part to have the same form."""
        # Blobs by hash: the text is equal if the bytes sent are.
        alone = part.message >= 0 and self._parts[part.message] == 1
        written = repr(by_hash(self.messages[part.message])) if alone else self.text(part)
        return part.rule, part.disposition, written


def _changes(before: _Side, after: _Side, twins: Twins) -> Iterator[PartChange]:
    for left, right in _matches(before.placed, after.placed):
        old, new = left and left.part, right and right.part
        if old is None and new is not None:
            was = before.dropped_by(twins.in_first(new.positions[0]) if new.positions else 0)
            yield _change("+", new, was, new.rule, 0, new.tokens_out, after.text(new))
        elif new is None and old is not None and left is not None:
            rule = after.dropped_by(left.places[0] if left.places else 0)
            yield _change("-", old, old.rule, rule, old.tokens_out, 0, before.text(old))
        elif old is not None and new is not None and not _same_form(before, old, after, new):
            change = _change("~", new, old.rule, new.rule, old.tokens_out, new.tokens_out, after.text(new))
            yield change._replace(text_before=before.text(old))


def _same_form(before: _Side, old: RequestPart, after: _Side, new: RequestPart) -> bool:
    """Return whether a part has the same form in both, mostly without a look at its words."""
    if (old.rule, old.disposition) != (new.rule, new.disposition):
        return False
    if min(old.message, new.message) >= 0 and old.text == new.text:
        # Requests that follow one another share their messages.
        is_shared = before.messages[old.message] is after.messages[new.message]
        return is_shared or before.form(old) == after.form(new)
    return before.form(old) == after.form(new)


def _change(
    sign: Sign, part: RequestPart, was: str, rule: str, tokens_before: int, tokens_after: int, text: str
) -> PartChange:
    first, last = min(part.positions, default=0), max(part.positions, default=0)
    return PartChange(sign, first, last, part.role, was, rule, tokens_before, tokens_after, text)


def _runs(changes: Iterable[PartChange]) -> Iterator[PartChange]:
    for run, same in groupby(changes, key=lambda change: change.rule if change.sign == "-" else ""):
        if run:
            yield _as_one(list(same))
        else:
            yield from same


def _as_one(run: Sequence[PartChange]) -> PartChange:
    begun = run[0]
    if len(run) == 1:
        return begun
    return begun._replace(
        first=min(change.first for change in run),
        last=max(change.last for change in run),
        role="",
        was="" if begun.rule else begun.was,
        tokens_before=sum(change.tokens_before for change in run),
        tokens_after=sum(change.tokens_after for change in run),
        parts=sum(change.parts for change in run),
    )
