"""Window: a view that keeps its entries' messages, and rebuilds only what may have changed.

Under a budget it keeps an upper bound, and is measured only if that exceeds its room. A `WindowSnapshot` and
its entries continue it without earlier ones.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from operator import attrgetter

from stenolog.domain.entry import Entry
from stenolog.domain.policy import Policy
from stenolog.projections.messages.message import EMPTY_BLOBS
from stenolog.projections.messages.rules import NO_ROOM
from stenolog.projections.messages.sizes import ESTIMATE, Counter, Size, total
from stenolog.projections.requests.pipeline.budget import (
    POSITION,
    Cap,
    caps,
    caps_now,
    fit,
    oldest_to_cut,
    surely_within,
    tidy,
)
from stenolog.projections.requests.pipeline.edits import Edited, edited, with_notes
from stenolog.projections.requests.pipeline.lane import LaneId
from stenolog.projections.requests.pipeline.must_stay import positions_of
from stenolog.projections.requests.pipeline.prompt import titles
from stenolog.projections.requests.pipeline.tool_groups import ToolGrouper
from stenolog.projections.requests.pipeline.view import (
    NEWEST,
    NOTHING_SHOWN,
    Arrival,
    Contents,
    View,
)
from stenolog.projections.requests.pipeline.visibility import visible
from stenolog.projections.views.context import read_context
from stenolog.projections.views.tool_pairs import CallKey

from .bounds import NO_SIZE, bound, counts_against, size_as_shown
from .frozen import (
    ENDLESS,
    FrozenAndTail,
    FrozenPrefix,
    TailContents,
    WindowRow,
    changes_context,
    freeze,
    is_plain,
    moves_others,
    thaws,
)
from .window_snapshot import START, WindowSnapshot, restore, snapshot_of


class PartialWindowError(Exception):
    """A window continued from a session's snapshot needs earlier entries."""


class Window(View):
    """The view of one lane under one policy, with a row for each entry in it.

    `may_continue`: a request may continue a session whose backend has earlier messages. `whole`, if set,
    folds the log anew up to a position: this window has no rows of its first `earlier` entries.
    """

    whole: Callable[[int], Window] | None = None
    earlier = 0

    def __init__(
        self,
        lane: LaneId,
        policy: Policy,
        counter: Counter = ESTIMATE,
        snapshot: WindowSnapshot = START,
        entries: Iterable[Entry] = (),
        blobs: Mapping[str, bytes] = EMPTY_BLOBS,
    ) -> None:
        """`entries` are those at the rows of `snapshot`. Raises `InvalidPolicyError`."""
        super().__init__(lane, policy, counter, blobs)
        restore(self, snapshot, entries)
        self._answered = 0
        self.frozen = FrozenPrefix()
        self.may_continue = policy.history.delta
        self.holes = NEWEST if any(run.rule == NO_ROOM for run in self.left_out) else frozenset()
        self._titles = total(map(self.measure.of, titles(policy.away))) if policy.away else Size()
        self._caps: tuple[Cap, ...] = caps(policy)
        self.rows = [self._row(entry) for entry in self.entries]
        if self._caps:
            self._caps = caps_now(self, self.contents())
        # Upper bounds: a window is measured as a whole only where these no longer fit.
        self._sizes = self._bounds()

    def branch(self) -> Window:
        """Return a copy of this window that continues by itself."""
        made = copy(self)
        for name in ("entries", "left_out", "summaries", "private", "scopes", "rows", "_sizes"):
            setattr(made, name, list(getattr(self, name)))
        made.pairing = self.pairing.copy()
        made.frozen, made.measure = FrozenPrefix(), copy(self.measure)
        if self.uncut is not None:
            _, entries, left_out, summaries, pairing, *_ = self.uncut
            made.uncut = self.uncut._replace(
                entries=list(entries),
                left_out=list(left_out),
                summaries=list(summaries),
                pairing=pairing.copy(),
            )
        return made

    @property
    def is_unfit(self) -> bool:
        """True if a snapshot of its rows would not do: some are missing, or the next entry may undo a cut."""
        return self.measure.missing or self.uncut is not None or self.whole is not None

    @property
    def snapshot(self) -> WindowSnapshot:
        return snapshot_of(self)

    def take(self, entry: Entry) -> Arrival:
        """Take the log's next entry in, and drop entries that exceed the policy.

        Raises `PartialWindowError`; the window is then of no use any more.
        """
        kept_by, rate = self._kept_by if self.holes else None, self.rate
        arrival = super().take(entry)
        if arrival.rule and changes_context(entry.event):
            self._answered = 0
        row = None if arrival.rule else self._row(entry)
        is_plain = row is not None and row.plain
        if not is_plain and thaws(self.frozen, entry, arrival.pair, shown=row is not None):
            self.check_whole()
            self.frozen = FrozenPrefix()
        # Whether the id of a result was called before is known of a whole window only.
        if arrival.made or (arrival.pair is not None and arrival.pair.call is None):
            self.check_whole()
        if row is not None:
            self._add(row)
        if self._caps:
            released = bool(self.holes) and (self._kept_by != kept_by or not self.holes.isdisjoint(NEWEST))
            # What is not plain may bring entries back, or stand where it was not measured.
            surely = released or (not is_plain and moves_others(self.rows, entry, self.voice))
            if arrival.rule == "setting" or self.rate != rate:
                # A card, a mode or a bill changes the room that is left.
                asks = self.policy.reminder or self.policy.away
                self._caps = caps_now(self, self.contents() if asks else NOTHING_SHOWN)
            self._keep_within_caps(arrival, surely=surely)
        return arrival

    @property
    def is_capped(self) -> bool:
        return bool(self._caps)

    @property
    def measured(self) -> tuple[tuple[Cap, ...], tuple[Size, ...]]:
        """The caps now, and the most that counts against each."""
        return self._caps, tuple(self._sizes)

    @measured.setter
    def measured(self, found: tuple[tuple[Cap, ...], tuple[Size, ...]]) -> None:
        self._caps, self._sizes = found[0], [*found[1]]

    @property
    def number(self) -> int:
        """The number of entries in the window."""
        return self.earlier + len(self.rows)

    @property
    def _kept_by(self) -> tuple[int, int, str, int]:
        own = self.memory
        return own.running, own.answered, self.state.lane(self.lane.address).status, self.cuts

    def contents(self) -> Contents:
        """Return the contents in the order in which they are shown.

        Raises `PartialWindowError`.
        """
        self.check_whole()
        tail = self._tail_contents(FrozenPrefix())
        units = [unit for unit in tail.units if unit]
        return Contents(units, tail.left_out, tail.entries, tail.edits)

    def frozen_and_tail(self) -> FrozenAndTail:
        upto = ENDLESS
        if self.may_continue and self.continues_session:
            # The backend has what was frozen, so that it can be passed over.
            upto = self.state.lane(self.lane.address).seen
            if self.frozen.last > upto:
                self.check_whole()
                self.frozen = FrozenPrefix()
        frozen = self.frozen
        tail = self._tail_contents(frozen)
        number = freeze(frozen, tail, self.memory.answered, upto)
        entries = tail.entries
        if number and self.policy.pins is not None:
            entries = frozen.keep_pinned(entries, self.policy.pins)
        rest = [unit for unit in tail.units[number:] if unit]
        return FrozenAndTail(frozen, len(frozen.units), frozen.rows, rest, tail.left_out, entries)

    def check_whole(self) -> None:
        """Raise `PartialWindowError` if the entries before a snapshot are not here."""
        if self.whole is not None:
            raise PartialWindowError

    def drop(self, gone: Mapping[int, str]) -> None:
        super().drop(gone)
        rest = self.rows[len(self.rows) - len(self.entries) :]
        # Mostly the oldest are gone.
        if rest and rest[0].entry is not self.entries[0]:
            rest = [row for row in self.rows if row.entry.position not in gone]
        self.rows, self.frozen = rest, FrozenPrefix()
        self._answered = 0 if self._answered in gone else self._answered

    def surely_fits(self, more: Size | None = None) -> bool:
        """Return whether the window is known to fit, with so much more of a budget."""
        # Where no room is left, what stands around the conversation may be larger than the budget alone.
        if self.measure.missing or any(0 in cap.room for cap in self._caps):
            return False
        for size, cap in zip(self._sizes, self._caps, strict=True):
            if more is not None and cap.rule != "beyond-last":
                size = size.plus(more)
            if self.counts(cap.rule) and not size.fits(cap.room):
                return False
        return True

    def _add(self, row: WindowRow) -> None:
        self.rows.append(row)
        for i, cap in enumerate(self._caps):
            if counts_against(cap, row.entry, self.policy):
                self._sizes[i] = self._sizes[i].plus(row.size)

    def _tail_contents(self, frozen: FrozenPrefix) -> TailContents:
        rows = self.rows[frozen.rows :]
        entries = [row.entry for row in rows]
        grouping, edits = ToolGrouper(self.style, frozen.answer, frozen.called), dict[int, int]()
        if self._is_plain(rows):
            seen = Edited(entries, {}, set())
            shown = rows
        else:
            made = [made for made in self.summaries if made.summary.position not in frozen.left_out]
            context = read_context(entries, self.settings, self.pairing, made, self.lane.agent)
            left_out = visible(entries, self.voice, context, self.memory.answered)
            seen = edited(entries, left_out, self.voice, context, self.policy.pins)
            edits = context.edits
            row_of = {row.entry.position: row for row in rows}
            shown = [row_of[entry.position] for entry in seen.shown]
        for row in shown:
            for message in row.messages:
                grouping.add(message)

        def is_hidden(call: CallKey) -> bool:
            result = self.pairing.results.get(call, 0)
            return bool(result) and all(entry.position != result for entry in seen.shown)

        units = grouping.units(is_hidden, self.waits_for)
        if seen.anew:
            units = with_notes(units, seen.anew)
        return TailContents(rows, grouping.made, units, seen.left_out, seen.shown, edits)

    def _is_plain(self, rows: Sequence[WindowRow]) -> bool:
        if self.summaries or self.settings.hides:
            return False
        since = self.settings.context_from_of(self.lane.agent)
        return not rows or (rows[0].entry.position >= since and all(map(attrgetter("plain"), rows)))

    def _row(self, entry: Entry) -> WindowRow:
        messages = self.messages_of(entry)
        if not self._caps:
            return WindowRow(entry, messages, NO_SIZE, is_plain(entry, self.voice))
        sizes = [self.measure.of(message) for message in messages]
        size = sizes[0] if len(sizes) == 1 else total(sizes)
        if self.policy.budget is not None:
            messages = tuple([each._replace(size=size) for each, size in zip(messages, sizes, strict=True)])
        size = bound(self, entry, messages, size, self._answered)
        # Notes may stand before and behind it.
        if self.policy.away is not None:
            size = size.plus(self._titles)
        plain = is_plain(entry, self.voice)
        if not plain:
            self._answered = 0
        elif messages and messages[0].role == "assistant":
            self._answered = entry.position
        return WindowRow(entry, messages, size, plain)

    def _bounds(self) -> list[Size]:
        return [
            total(row.size for row in self.rows if counts_against(cap, row.entry, self.policy))
            for cap in self._caps
        ]

    def _take_cut_back(self) -> bool:
        is_back = super()._take_cut_back()
        if is_back:
            self.rows = [self._row(entry) for entry in self.entries]
            self.frozen, self._sizes = FrozenPrefix(), self._bounds()
        return is_back

    def _keep_within_caps(self, arrival: Arrival, *, surely: bool) -> None:
        """Cut if the window has outgrown a cap; measure only if it could have."""
        if surely or not (self.surely_fits() or self._fits_as_shown() or self._slide()):
            fitted = fit(self, self.contents)
            self._caps, self._sizes = tuple(cap for cap, _ in fitted), [size for _, size in fitted]
        if arrival.made:
            tidy(self, self.contents())

    def _fits_as_shown(self) -> bool:
        """Measure what is new since the last time; return whether the window is known to fit the budget.

        The bounds count a placeholder and a stub for each call.
        """
        policy, is_only = self.policy, len(self._caps) == 1 and self.whole is None
        is_simple = not (policy.pins or policy.away or policy.reminder or self.may_continue)
        is_simple = is_simple and not self.voice.shared
        if policy.budget is None or not (is_only and is_simple and self._is_plain(self.rows)):
            return False
        (cap,), size = self._caps, size_as_shown(self, self.frozen_and_tail())
        if not surely_within(self, cap, size):
            return False
        self._sizes = [size]
        return True

    def _slide(self) -> bool:
        """Cut the oldest units as `fit` would, without measuring all of them; return whether that is sure."""
        if self.policy.budget is not None or self.whole is not None or not self._is_plain(self.rows):
            return False
        (cap,), told = self._caps, self.frozen_and_tail()
        shown = Contents([*told.frozen.units, *told.units], {}, self.entries, {})
        number = oldest_to_cut(self, cap, shown)
        if number is None:
            return False
        if number:
            gone = set().union(*map(positions_of, shown.units[:number]))
            last = bisect_right(self.entries, max(gone, default=0), hi=told.rows, key=POSITION)
            rows = [entry.position for entry in self.entries[:last]]
            frozen = told.frozen.without(number, len(rows))
            if frozen is None or gone.symmetric_difference(rows):
                return False
            self.cut(dict.fromkeys(rows, cap.rule), cap.rule, self.position)
            self.frozen = frozen
        self._sizes = [Size(sum(map(len, shown.units[number:])))]
        return True
