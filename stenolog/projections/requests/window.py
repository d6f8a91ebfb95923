"""Stage 6, window: what of the conversation a lane is shown under its policy.

A window takes the log entry by entry. The cut moves only when what is in the window outgrows its room, and
then far enough that it need not move soon again: between two cuts, what is sent begins with all of what was
sent before. A window can be left at a position as a `Mark`, and taken up there again with the entries
in it, without what came before.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from stenolog.domain.entry import Entry
from stenolog.domain.events import (
    ToolResult,
)
from stenolog.domain.policy import Policy
from stenolog.domain.settings import NOTHING, Settings, configure
from stenolog.domain.state import State
from stenolog.domain.step import INITIAL, evolve
from stenolog.domain.summaries import Summary
from stenolog.projections.context import Context, Made, read, summary_of
from stenolog.projections.pairing import Call, Pair, Pairing

from .around import reserved
from .caps import Cap, caps
from .groups import units
from .left_out import absorb, said_by
from .measure import Measure
from .model import Dropped, Piece, Size, total
from .own import Now, Own, remember
from .rewrites import chosen, rewritten
from .stays import BESIDE, pinned, positions_of, stays
from .tokens import ESTIMATE, Counter, count_parts
from .visible import Lane, Visible, passed_over, visible
from .voice import Ear, ear, voice

PER_CALL = 24
"""Tokens that the seal of a call, a stub of its tool, or its late result as text, may take."""
SPARE = 64
"""So many entries more than are shown may be in a window, before those that are out of context leave it."""


class Row(NamedTuple):
    """An entry in the window: what the lane hears of it, how large that is, and its words in tokens."""

    entry: Entry
    pieces: tuple[Piece, ...]
    size: Size
    tokens: int


class Mark(NamedTuple):
    """Where a window stands at a position: all that is needed to go on from there, but for the entries.

    `rows` are the runs of positions in the window.
    """

    position: int = 0
    state: State = INITIAL
    settings: Settings = NOTHING
    rows: tuple[tuple[int, int], ...] = ()
    waiting: tuple[Call, ...] = ()
    pairs: tuple[Pair, ...] = ()
    summaries: tuple[Made, ...] = ()
    left_out: tuple[Dropped, ...] = ()
    own: Own = Own()
    cuts: int = 0


START = Mark()


class Shown(NamedTuple):
    """What is in the window, in units that are never cut in two, and the rule for what is out of context."""

    units: list[tuple[Piece, ...]]
    left_out: dict[int, str]
    entries: list[Entry]


class Window:
    """What one lane is shown under one policy, kept up with the log."""

    def __init__(
        self,
        lane: Lane,
        policy: Policy,
        counter: Counter = ESTIMATE,
        mark: Mark = START,
        entries: Iterable[Entry] = (),
    ) -> None:
        """`entries` are those at the rows of `mark`."""
        self.lane, self.policy, self.counter = lane, policy, counter
        self.position, self.state, self.settings = mark.position, mark.state, mark.settings
        self.own, self.cuts = mark.own, mark.cuts
        self.left_out, self.summaries = list(mark.left_out), list(mark.summaries)
        self.pairing = Pairing(mark.waiting, mark.pairs)
        self._ear: Ear = ear(lane, policy, counter)
        self._rewrites = chosen(policy.rewrites)
        self.measure = Measure(policy.budget, counter)
        self._caps = caps(policy)
        self.rows = [self._row(entry) for entry in entries]
        self._caps = self._caps_now(row.entry for row in self.rows)
        self._size = total(row.size for row in self.rows)

    @property
    def mark(self) -> Mark:
        """Where the window stands now."""
        return Mark(
            self.position,
            self.state,
            self.settings,
            tuple(runs(row.entry.position for row in self.rows)),
            tuple(self.pairing.waiting),
            tuple(self.pairing.pairs.values()),
            tuple(self.summaries),
            tuple(self.left_out),
            self.own,
            self.cuts,
        )

    def take(self, entry: Entry) -> None:
        """Take the next entry of the log in."""
        before = self.state
        self.position = entry.position
        self.state = evolve(before, entry)
        self.settings = configure(self.settings, entry)
        address = self.lane.address
        stands = Now(
            self.lane, before.lane(address), self.state.lane(address), self.settings, self._pass_token
        )
        self.own = remember(self.own, entry, stands)
        pair = self.pairing.take(entry)
        rule = passed_over(
            entry.event,
            self.lane,
            self.settings.scope_of(self.lane.agent),
            pair.call if pair else None,
            self._pass_token,
        )
        made = summary_of(entry.position, entry.event)
        if made and not rule and made.agent != self.lane.agent and self._tells_too_much(made):
            rule = "not-addressed"
        if rule:
            self._pass_over(entry, rule)
            return
        if made:
            self.summaries.append(Made(made, tuple(call.position for _, call in before.open_calls())))
        row = self._row(entry)
        self.rows.append(row)
        self._size = self._size.plus(row.size)
        if self._caps:
            self._keep_within_caps()

    def shown(self) -> Shown:
        """What is in the window, in the order it is shown in."""
        now = self.context()
        seen = self.visible(now)
        pieces = {row.entry.position: row.pieces for row in self.rows}
        heard = [piece for entry in seen.shown for piece in pieces[entry.position]]
        here = {entry.position for entry in seen.shown}
        hidden = {key for key, at in self.pairing.results.items() if at not in here}
        return Shown(units(heard, hidden, self._ear), seen.left_out, seen.shown)

    def context(self) -> Context:
        """What is in context, of the entries in the window."""
        return read([row.entry for row in self.rows], self.settings, self.pairing, self.summaries)

    def visible(self, now: Context) -> Visible:
        """What of the window is shown, entry by entry."""
        return visible([row.entry for row in self.rows], self.lane, now, self.own.answered, self.policy.pins)

    def _row(self, entry: Entry) -> Row:
        heard = voice(entry, self._ear, self.pairing.pairs.get(entry.position))
        pieces = rewritten(heard, entry, self._rewrites, self.counter)
        if not self._caps:
            return Row(entry, pieces, Size(), count_parts(said_by(entry.event), self.counter))
        pieces = tuple(piece._replace(size=self.measure.of(piece)) for piece in pieces)
        size = total(piece.size or Size() for piece in pieces)
        calls = sum(len(piece.calls) for piece in pieces)
        extra = PER_CALL * (2 * calls + isinstance(entry.event, ToolResult))
        if extra:
            size = size.plus(Size(calls, 4 * extra, extra, 16 * extra))
        if self.policy.reminder is not None and pinned(entry, self.policy.pins):
            size = size.plus(size)  # it may be said again, in a reminder
        return Row(entry, pieces, size, count_parts(said_by(entry.event), self.counter))

    @property
    def _pass_token(self) -> str:
        turns = self.settings.turns
        token = turns.options.get("pass_token") if turns is not None else None
        mine = self.policy.voices.pass_token if self.policy.voices else ""
        return mine or (token if isinstance(token, str) else "")

    def _pass_over(self, entry: Entry, rule: str) -> None:
        tokens = count_parts(said_by(entry.event), self.counter)
        last = self.left_out[-1] if self.left_out else None
        if last is not None and last.rule == rule and last.last == entry.position - 1:
            self.left_out[-1] = last._replace(last=entry.position, tokens=last.tokens + tokens)
        else:
            self.left_out.append(Dropped(entry.position, entry.position, rule, tokens))
        if rule == "setting" and self._caps:
            self._keep_within_caps(surely=True)

    def _tells_too_much(self, summary: Summary) -> bool:
        kept_from = [run for run in self.left_out if run.rule == "not-addressed"]
        return any(s.first <= run.last and run.first <= s.last for run in kept_from for s in summary.spans)

    def _keep_within_caps(self, surely: bool = False) -> None:
        """Cut where the window has outgrown a cap; it is measured only where it could have."""
        if not surely and len(self.rows) and all(self._size.fits(cap.room) for cap in self._caps):
            return
        shown, sizes = self._sized()
        self._caps = self._caps_now(shown.entries)
        for cap in self._caps:
            kept = _kept(sizes, cap, stays(self, shown))
            if len(kept) < len(shown.units):
                self._cut(shown, kept, cap)
                self.cuts += 1
                shown, sizes = self._sized()
        if len(self.rows) > 2 * len(shown.entries) + SPARE:
            self._drop({e.entry.position for e in self.rows} & shown.left_out.keys(), shown.left_out)
        self._size = total(sizes)

    def _caps_now(self, shown: Iterable[Entry]) -> tuple[Cap, ...]:
        """The caps under the card and the settings of now."""
        return caps(self.policy, reserved(self, shown)) if self.policy.budget else self._caps

    def _sized(self) -> tuple[Shown, list[Size]]:
        """What is shown, and the size of each of its units."""
        shown = self.shown()
        return shown, [total(p.size or self.measure.of(p) for p in unit) for unit in shown.units]

    def _cut(self, shown: Shown, kept: set[int], cap: Cap) -> None:
        """Drop the units that are not kept, and what is out of context before the first recent one."""
        inside = [positions_of(unit) for unit in shown.units]
        stay = set().union(*(inside[i] for i in kept))
        gone = set().union(*inside) - stay
        edge = max(gone, default=0)
        out = {row.entry.position for row in self.rows if row.entry.position < edge}
        self._drop((out | gone) - stay, {}, cap.rule)

    def _drop(self, gone: set[int], rules: dict[int, str], rule: str = "") -> None:
        """Let entries leave the window for good."""
        if not gone:
            return
        dropped = [row for row in self.rows if row.entry.position in gone]
        self.rows = [row for row in self.rows if row.entry.position not in gone]
        here = [row.entry.position for row in self.rows]
        lost = [
            Dropped(row.entry.position, row.entry.position, rule or rules[row.entry.position], row.tokens)
            for row in dropped
        ]
        self.left_out = absorb(self.left_out, lost, here)
        positions = set(here)
        self.pairing.forget(positions)
        self.summaries = [made for made in self.summaries if made.summary.position in positions]


def _kept(sizes: Sequence[Size], cap: Cap, must_stay: Mapping[int, str]) -> set[int]:
    """The units that are kept: all while they fit; else what must stay, and the last of the rest."""
    free = [i for i in range(len(sizes)) if i not in must_stay]
    counted = (i for i, why in must_stay.items() if not (cap.recent and why in BESIDE))
    fixed = total(sizes[i] for i in counted)
    if total(sizes[i] for i in free).plus(fixed).fits(cap.room):
        return {*range(len(sizes))}
    left, kept = cap.target.minus(fixed), set(must_stay)
    for i in reversed(free):
        if not sizes[i].fits(left):
            break
        kept.add(i)
        left = left.minus(sizes[i])
    return kept


def window(lane: Lane, policy: Policy, entries: Iterable[Entry], counter: Counter = ESTIMATE) -> Window:
    """The window of a lane after all the entries of a log."""
    made = Window(lane, policy, counter)
    for entry in entries:
        made.take(entry)
    return made


def runs(positions: Iterable[int]) -> Iterator[tuple[int, int]]:
    """The runs of neighbouring positions, each as its first and last."""
    first = last = 0
    for position in positions:
        if last and position == last + 1:
            last = position
            continue
        if last:
            yield first, last
        first = last = position
    if last:
        yield first, last
