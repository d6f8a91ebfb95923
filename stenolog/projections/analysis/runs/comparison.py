"""Comparison of two runs: the steps that both made, the first that differs, and what followed from it.

A step differs first if all that led to it is the same in both runs. To an answer its lane's step before led,
and what its request could hold; to a result its call; to a message or a setting what agents had done.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from itertools import zip_longest
from typing import NamedTuple, TypeVar

from stenolog.domain.entry import Entry
from stenolog.domain.lanes.state import address
from stenolog.domain.parts import says_something
from stenolog.projections.messages.json_fields import same_from_start
from stenolog.projections.views.tool_pairs import CallKey

from ..cache.changes import Twins
from .steps import ORDERED, UNORDERED, Mask, Step, StepKind, Stream, steps

T = TypeVar("T")
NEVER = 1 << 62
MOST_PAIRS = 4_000_000
"""Pairs of steps up to which a longest common sequence is looked for; beyond, they are matched in order."""


class Divergence(NamedTuple):
    """A step that the runs made differently, or that only one made: its position in each, 0 for none.

    `lanes` are the addresses of the agent whose answer it is, `views` the positions of the requests that
    preceded it in each run; 0 and "" for any other step.
    """

    kind: StepKind
    before: int
    after: int
    lanes: tuple[str, str] = ("", "")
    views: tuple[int, int] = (0, 0)


class Comparison(NamedTuple):
    """Two runs compared.

    `shared` entries at the beginning are the same to the byte, as a fork's are; so many steps are the `same`.
    `twins` are the positions of the same step in both. `first` is the first difference, `followed` what came
    of it, `others` what differs beside it for other reasons. `asides` changed nothing after them: failed
    calls that were made again, and entries that are for no model.
    """

    shared: int
    same: int
    twins: Mapping[int, int]
    first: Divergence | None
    followed: tuple[Divergence, ...] = ()
    others: tuple[Divergence, ...] = ()
    asides: tuple[Divergence, ...] = ()

    @property
    def divergences(self) -> tuple[Divergence, ...]:
        """The first difference, and all others."""
        first = () if self.first is None else (self.first,)
        return (*first, *self.followed, *self.others, *self.asides)

    @property
    def answer(self) -> Divergence | None:
        """The first answer that both gave, and differently, of the first difference and what followed."""
        answers = (each for each in self.divergences[: 1 + len(self.followed)] if all(each.views))
        return next((each for each in answers if each.kind == "answer"), None)


def compare(
    before: Iterable[Entry],
    after: Iterable[Entry],
    *,
    agent: str = "",
    calls: bool = False,
    mask: Mask = str,
) -> Comparison:
    """Return the comparison of two runs, or of what one agent did and could read in them.

    `calls` and `mask` are those of `steps`.
    """
    logs = [*before], [*after]
    shared = same_from_start(*([entry.digest for entry in log] for log in logs))
    one, other = (steps_of(log, agent=agent, calls=calls, mask=mask) for log in logs)
    return compared(one, other, shared)


def steps_of(entries: Iterable[Entry], *, agent: str, calls: bool, mask: Mask) -> list[Step]:
    """Return the steps of a run that an agent took, or that it could read; "" for all agents."""
    return [*_of_agent(steps(entries, calls=calls, mask=mask), agent)]


def compared(before: Sequence[Step], after: Sequence[Step], shared: int = 0) -> Comparison:
    """Return the comparison of two runs' steps."""
    twins = _matched(before, after)
    slots = _slots(before, after, twins)
    made = [slot.divergence for slot in slots]
    causes = _Causes(slots)
    roots = causes.roots()
    if not roots:
        return Comparison(shared, len(twins), twins, None, asides=tuple(made))
    first = roots[0]
    followed = causes.following(first)
    rest = [nth for nth in range(len(slots)) if nth not in (first, *followed)]
    return Comparison(
        shared,
        len(twins),
        twins,
        made[first],
        tuple(made[nth] for nth in followed),
        tuple(made[nth] for nth in rest if not slots[nth].aside),
        tuple(made[nth] for nth in rest if slots[nth].aside),
    )


def _of_agent(found: Iterable[Step], agent: str) -> Iterator[Step]:
    for step in found:
        whose = step.lane or (address(step.call.agent, step.call.task) if step.call else "")
        if agent in ("", whose, whose.partition("/")[0]) or step.reaches(agent):
            yield step


class _Slot(NamedTuple):
    """Steps that both runs have in one place and that differ; None in a run that has none there."""

    steps: tuple[Step | None, Step | None]
    order: float

    @property
    def aside(self) -> bool:
        """True if neither changes anything by itself."""
        return all(step is None or step.aside for step in self.steps)

    @property
    def divergence(self) -> Divergence:
        one, other = self.steps
        step = one or other
        assert step is not None
        return Divergence(
            step.kind,
            one.position if one else 0,
            other.position if other else 0,
            (one.lane if one else "", other.lane if other else ""),
            (one.view if one else 0, other.view if other else 0),
        )


def _by(found: Iterable[Step], key: Callable[[Step], T]) -> dict[T, list[Step]]:
    groups: dict[T, list[Step]] = defaultdict(list)
    for step in found:
        groups[key(step)].append(step)
    return groups


def _stream(step: Step) -> Stream:
    return step.stream


def _matched(before: Sequence[Step], after: Sequence[Step]) -> dict[int, int]:
    """Return the positions of the steps that are the same, in both runs."""
    streams, others = _by(before, _stream), _by(after, _stream)
    pairs = [pair for stream, mine in streams.items() for pair in _pairs(mine, others.get(stream, ()))]
    twins = {one.position: other.position for one, other in pairs}
    known = frozenset(twins), frozenset(twins.values())
    for one, other in pairs:
        if one.refers_to or other.refers_to:
            mine = {twins.get(each, 0) for span in one.refers_to for each in span if each in known[0]}
            theirs = {each for span in other.refers_to for each in span if each in known[1]}
            if mine != theirs:
                del twins[one.position]
    return twins


def _pairs(before: Sequence[Step], after: Sequence[Step]) -> Iterator[tuple[Step, Step]]:
    """Yield the steps of one stream that are the same in both runs."""
    if before[0].kind in UNORDERED:
        waiting = _by([*after][::-1], lambda step: step.digest)
        yield from ((step, waiting[step.digest].pop()) for step in before if waiting[step.digest])
        return
    one, other = ([step.digest for step in found] for found in (before, after))
    same = same_from_start(one, other)
    yield from zip(before[:same], after[:same], strict=True)
    if before[0].kind in ORDERED:
        return
    one, other = one[same:], other[same:]
    if len(one) * len(other) > MOST_PAIRS:
        pairs = zip(before[same:], after[same:], strict=False)
        yield from (pair for pair in pairs if pair[0].digest == pair[1].digest)
        return
    for block in SequenceMatcher(None, one, other, autojunk=False).get_matching_blocks():
        first, second = same + block.a, same + block.b
        yield from zip(before[first : first + block.size], after[second : second + block.size], strict=True)


def _slots(before: Sequence[Step], after: Sequence[Step], twins: Mapping[int, int]) -> list[_Slot]:
    """Return the differing steps, in the order of the earlier run."""
    place = Twins({later: earlier for earlier, later in twins.items()}).in_second
    streams, others = _by(before, _stream), _by(after, _stream)
    found = [
        _Slot((one, other), one.position if one is not None else place(other.position if other else 0))
        for stream in dict.fromkeys((*streams, *others))
        for one, other in _gaps(streams.get(stream, ()), others.get(stream, ()), twins)
    ]
    return sorted(found, key=lambda slot: slot.order)


def _gaps(
    before: Sequence[Step], after: Sequence[Step], twins: Mapping[int, int]
) -> Iterator[tuple[Step | None, Step | None]]:
    """Yield the differing steps of one stream, paired between those that are the same."""
    same = {*twins.values()}
    if [*before, *after][0].kind in (*ORDERED, *UNORDERED):
        mine = (step for step in before if step.position not in twins)
        yield from zip_longest(mine, (step for step in after if step.position not in same))
        return
    waiting, gap = iter(after), list[Step]()
    for step in before:
        if step.position not in twins:
            gap.append(step)
            continue
        yield from zip_longest(gap, list(_until(waiting, twins[step.position])))
        gap = []
    yield from zip_longest(gap, waiting)


def _until(waiting: Iterator[Step], position: int) -> Iterator[Step]:
    for step in waiting:
        if step.position == position:
            return
        yield step


class _Causes:
    """The differing steps of two runs, and which of them led to which."""

    def __init__(self, slots: Sequence[_Slot]) -> None:
        self.slots = slots
        self._sides = [self._side(side) for side in (0, 1)]

    def _side(self, side: int) -> list[tuple[int, Step]]:
        found = [(nth, step) for nth, slot in enumerate(self.slots) if (step := slot.steps[side]) is not None]
        return sorted(found, key=lambda pair: pair[1].position)

    def roots(self) -> list[int]:
        """Return the differences that no other one led to; a failed call if it led to one of them."""
        strong = [nth for nth, slot in enumerate(self.slots) if not slot.aside]
        led = self.led_by(strong)
        # Each run may have another one of two differences first: then neither is known to have led.
        found = [nth for nth in strong if nth not in led] or strong[:1]
        for nth, slot in enumerate(self.slots):
            if slot.aside and not (led := self.led_by([nth])).isdisjoint(found):
                found = [nth, *(each for each in found if each not in led)]
        return sorted(found)

    def following(self, root: int) -> list[int]:
        """Return the differences that one led to, in their order."""
        known = {root}
        while fresh := self.led_by(known) - known:
            known |= fresh
        return sorted(known - {root})

    def led_by(self, causes: Collection[int]) -> set[int]:
        """Return the differences that some of these led to directly."""
        found, meant = set[int](), frozenset(causes)
        for side, made in enumerate(self._sides):
            read = _Read(step.lane for _, step in made if step.kind == "answer")
            for nth, step in made:
                if not self.slots[nth].aside and read.led_to(step):
                    found.add(nth)
                if nth in meant:
                    read.take(step)
            if read.intervened:
                missing = (nth for nth, slot in enumerate(self.slots) if slot.steps[side] is None)
                found.update(nth for nth in missing if not self.slots[nth].aside)
        return found


class _Read:
    """Reading of one run in order: its later steps that some differing ones could have led to."""

    def __init__(self, lanes: Iterable[str]) -> None:
        self.intervened = False
        self._first = dict.fromkeys(lanes, NEVER)
        self._streams: set[Stream] = set()
        self._answers: set[int] = set()
        self._decided: set[CallKey] = set()
        self._acted = False

    def led_to(self, step: Step) -> bool:
        """Return whether one of the steps so far led to this one."""
        match step.kind:
            case "answer":
                is_read = self._first[step.lane] <= step.view
                return is_read or bool({step.stream, step.attempts} & self._streams)
            case "result" | "decision" if step.call is not None:
                return step.call.key.position in self._answers or step.call.key in self._decided
            case "result" | "decision" | "error":
                return False
            case _:
                return self._acted

    def take(self, step: Step) -> None:
        """Take a step in that may lead to later ones."""
        self._streams.add(step.stream)
        self._acted |= step.kind in ("answer", "result")
        self.intervened |= step.kind == "setting" or step.is_command
        if step.kind == "answer":
            self._answers.add(step.position)
        if step.kind == "decision" and step.call is not None:
            self._decided.add(step.call.key)
        if step.kind == "error" and not says_something(getattr(step.event, "parts", ())):
            return
        for lane, first in self._first.items():
            if step.position < first and step.reaches(lane):
                self._first[lane] = step.position
