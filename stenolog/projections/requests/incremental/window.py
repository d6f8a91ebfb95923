"""Stage 6, window: the entries that a lane is shown under its policy.

A window takes the log entry by entry. The cut moves only when what is in the window outgrows its room, and
then far enough that it need not move soon again: between two cuts, what is sent begins with all of what was
sent before. A window can be left at a position as a `WindowSnapshot`, and taken up there again with the
entries in it, without what came before.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from stenolog.domain.entry import Entry
from stenolog.domain.events import AssistantMessage, ToolResult
from stenolog.domain.model import field_replacer
from stenolog.domain.policy import Policy
from stenolog.domain.settings import configure
from stenolog.domain.state import Summary
from stenolog.domain.step import evolve
from stenolog.domain.triggers import response_of
from stenolog.projections.context import SummaryRecord, read, summary_of
from stenolog.projections.requests.pipeline.attribution import (
    AttributionStyle,
    attribute,
    attribution_style,
    chosen,
    in_prose_result,
    rewritten,
)
from stenolog.projections.requests.pipeline.budget import (
    Cap,
    caps,
    counted_sizes,
    fitting_units,
    must_keep,
    positions_of,
)
from stenolog.projections.requests.pipeline.edits import parts_wordings, with_notes
from stenolog.projections.requests.pipeline.measure import Measure
from stenolog.projections.requests.pipeline.omissions import merge_cuts, said_by
from stenolog.projections.requests.pipeline.prompt import reserved_size, titles
from stenolog.projections.requests.pipeline.tool_groups import ToolGrouper
from stenolog.projections.requests.pipeline.view import (
    NOTHING_SHOWN,
    LaneId,
    WindowContents,
    WindowRow,
    pinned,
)
from stenolog.projections.requests.pipeline.visibility import (
    Visible,
    apply_visibility,
    exclusion_rule,
)
from stenolog.projections.requests.request import EMPTY_BLOBS, Message, Omission, Size, larger, total
from stenolog.projections.requests.tokens import ESTIMATE, Counter, count_parts
from stenolog.projections.tool_pairs import ToolCallIndex

from .frozen import FrozenAndTail, FrozenPrefix, TailContents, changes_context, is_plain, settle, unsettles
from .lane_memory import Now, remember
from .snapshot import START, Uncut, WindowSnapshot, runs

PER_CALL = 24
"""Tokens that the seal of a call, a stub of its tool, or its late result as text, may take."""
SPARE = 64
"""So many entries more than are shown may be in a window, before those that summaries cover leave it."""
LEAST_PRIVATE = 256
"""So many runs of what was not for the lane are known exactly; older ones are taken together."""


_of_size = field_replacer(Message, "size")
NO_SIZE = Size()


class Window:
    """The messages that one lane is shown under one policy, updated with the log."""

    def __init__(
        self,
        lane: LaneId,
        policy: Policy,
        counter: Counter = ESTIMATE,
        mark: WindowSnapshot = START,
        entries: Iterable[Entry] = (),
        blobs: Mapping[str, bytes] = EMPTY_BLOBS,
    ) -> None:
        """`entries` are those at the rows of `mark`; `blobs` are measured under a budget in bytes alone."""
        self.lane, self.policy, self.counter = lane, policy, counter
        self.position, self.state, self.settings = mark.position, mark.state, mark.settings
        self.memory, self.cuts = mark.own, mark.cuts
        self.left_out, self.summaries = list(mark.left_out), list(mark.summaries)
        self.private = list(mark.private)
        self.pairing = ToolCallIndex(mark.waiting, mark.pairs)
        self._ear: AttributionStyle = attribution_style(lane, policy, counter)
        self._rewrites = chosen(policy.rewrites)
        self.settled = FrozenPrefix()
        self.measure = Measure(policy.budget, counter, blobs)
        self._titles = total(map(self.measure.of, titles(policy.away))) if policy.away else Size()
        self._caps = caps(policy)
        self.rows = [self._row(entry) for entry in entries]
        self._caps = self._caps_now(self.contents())
        self._sizes = self._bounds()
        self._uncut: Uncut | None = None

    @property
    def may_be_uncut(self) -> bool:
        """True if the next entry may undo the last cut; a snapshot made here could not do that."""
        return self._uncut is not None

    @property
    def snapshot(self) -> WindowSnapshot:
        """A snapshot of the window as it is now."""
        return WindowSnapshot(
            self.position,
            self.state,
            self.settings,
            tuple(runs(row.entry.position for row in self.rows)),
            tuple(self.pairing.waiting),
            tuple(self.pairing.pairs.values()),
            tuple(self.summaries),
            tuple(self.left_out),
            tuple(self.private),
            self.memory,
            self.cuts,
        )

    def take(self, entry: Entry) -> None:
        """Take the next entry of the log in."""
        if self._uncut is not None:
            self._take_cut_back(self._uncut, self._response(entry))
        before = self.state
        self.position = entry.position
        self.state = evolve(before, entry)
        self.settings = configure(self.settings, entry)
        address, token = self.lane.address, self._pass_token
        stands = Now(self.lane, before.lane(address), self.state.lane(address), self.settings, token)
        self.memory = remember(self.memory, entry, stands)
        pair = self.pairing.take(entry)
        rule = exclusion_rule(
            entry.event,
            self.lane,
            self.settings.scope_of(self.lane.agent),
            pair.call if pair else None,
            token,
        )
        made = summary_of(entry.position, entry.event)
        if made and not rule and made.agent != self.lane.agent and self._tells_too_much(made):
            rule = "not-addressed"
        if unsettles(self.settled, entry, pair, shown=not rule):
            self.settled = FrozenPrefix()
        if rule:
            self._pass_over(entry, rule)
        else:
            if made:
                open_calls = tuple(call.position for _, call in before.open_calls())
                self.summaries.append(SummaryRecord(made, open_calls))
            self._add(self._row(entry))
        if self._caps:
            before_it = (row.entry for row in reversed(self.rows))
            surely = changes_context(entry.event) or parts_wordings(entry, before_it, self.lane)
            self._keep_within_caps(surely, self._response(entry))
            if made:
                self._tidy()

    def _add(self, row: WindowRow) -> None:
        self.rows.append(row)
        for i, cap in enumerate(self._caps):
            if self._counts(row.entry, cap):
                self._sizes[i] = self._sizes[i].plus(row.size)

    def contents(self) -> WindowContents:
        """Return the contents of the window, in the order in which they are shown."""
        heard = self._tail_contents(FrozenPrefix())
        units = [unit for unit in heard.units if unit]
        return WindowContents(units, heard.left_out, heard.entries, heard.edits)

    def frozen_and_tail(self) -> FrozenAndTail:
        """Split the window into its frozen prefix and its tail."""
        settled = self.settled
        heard = self._tail_contents(settled)
        number = settle(settled, heard, self.memory.answered)
        rest = [unit for unit in heard.units[number:] if unit]
        return FrozenAndTail(settled, len(settled.units), settled.rows, rest, heard.left_out)

    @property
    def surely_fits(self) -> bool:
        """True if the window is known to fit the caps; if False, it may still fit."""
        if self.measure.missing:
            return False
        sizes = zip(self._sizes, self._caps, strict=True)
        return not [cap for size, cap in sizes if not size.fits(cap.room)]

    def _tail_contents(self, settled: FrozenPrefix) -> TailContents:
        """Return the contents of the rows behind the frozen ones."""
        rows = self.rows[settled.rows :]
        entries = [row.entry for row in rows]
        if self._is_plain(rows):
            seen, edits = Visible(entries, {}, set()), {}
        else:
            made = [made for made in self.summaries if made.summary.position not in settled.left_out]
            now = read(entries, self.settings, self.pairing, made, self.lane.agent)
            seen = apply_visibility(entries, self.lane, now, self.memory.answered, self.policy.pins)
            edits = now.edits
        pieces = {row.entry.position: row.pieces for row in rows}
        grouping = ToolGrouper(self._ear, settled.answer, settled.called)
        for entry in seen.shown:
            for piece in pieces[entry.position]:
                grouping.hear(piece)
        here = {entry.position for entry in seen.shown}
        results = self.pairing.results
        units = with_notes(
            grouping.units(lambda call: call in results and results[call] not in here), seen.anew
        )
        return TailContents(rows, grouping.made, units, seen.left_out, seen.shown, edits)

    def _is_plain(self, rows: Sequence[WindowRow]) -> bool:
        """Return whether all of these rows are shown, in the order that they are in."""
        if self.summaries or self.settings.hides or not rows:
            return False
        return rows[0].entry.position >= self.settings.context_from_of(self.lane.agent) and all(
            row.plain for row in rows
        )

    def messages_of(self, position: int) -> tuple[Message, ...]:
        """Return the messages made of an entry in the window."""
        return next((row.pieces for row in self.rows if row.entry.position == position), ())

    def _row(self, entry: Entry) -> WindowRow:
        heard = attribute(entry, self._ear, self.pairing.pairs.get(entry.position))
        pieces = rewritten(heard, entry, self._rewrites, self.counter)
        if not self._caps:
            return WindowRow(entry, pieces, NO_SIZE, is_plain(entry, self.lane))
        sizes = [self.measure.of(piece) for piece in pieces]
        pieces = tuple([_of_size(piece, size) for piece, size in zip(pieces, sizes, strict=True)])
        size = sizes[0] if len(sizes) == 1 else total(sizes)
        if isinstance(entry.event, ToolResult) and pieces and pieces[0].role == "tool":
            # It may become quoted text later: escaped, with the call's id and the tool's name of the log.
            size = larger(size, self.measure.of(in_prose_result(pieces[0], self._ear)))
        calls = sum([len(piece.calls) for piece in pieces])
        extra = PER_CALL * (2 * calls + isinstance(entry.event, ToolResult))
        if extra:
            size = size.plus(Size(calls, 4 * extra, extra, 16 * extra))
        if self.policy.reminder is not None and pinned(entry, self.policy.pins):
            size = size.plus(size)  # it may be said again, in a reminder
        if self.policy.away is not None:
            size = size.plus(self._titles)
        return WindowRow(entry, pieces, size, is_plain(entry, self.lane))

    @property
    def _pass_token(self) -> str:
        turns = self.settings.turns
        token = turns.options.get("pass_token") if turns is not None else None
        mine = self.policy.voices.pass_token if self.policy.voices else ""
        return mine or (token if isinstance(token, str) else "")

    def _pass_over(self, entry: Entry, rule: str) -> None:
        position = entry.position
        if rule == "not-addressed":
            self._keep_private(position)
        if rule == "setting":
            asks = self.policy.reminder is not None or self.policy.away is not None
            self._caps = self._caps_now(self.contents() if asks and self._caps else NOTHING_SHOWN)
            return
        now = self._dropped(entry, rule)
        last = self.left_out[-1] if self.left_out else None
        nothing_since = not self.rows or last is None or self.rows[-1].entry.position < last.last
        if last is not None and last.rule == rule and nothing_since:
            self.left_out[-1] = last._replace(last=position, tokens=last.tokens + now.tokens)
        else:
            self.left_out.append(now)

    def _dropped(self, entry: Entry, rule: str) -> Omission:
        tokens = count_parts(said_by(entry.event), self.counter)
        return Omission(entry.position, entry.position, rule, tokens)

    def _keep_private(self, position: int) -> None:
        """Remember that an entry was not for the lane: no summary may tell of it."""
        first, last = self.private.pop() if self.private else (position, position)
        if last < position - 1:
            self.private.append((first, last))
            first = position
        self.private.append((first, position))
        if len(self.private) > LEAST_PRIVATE:
            (oldest, _), (_, next_last), *rest = self.private
            self.private = [(oldest, next_last), *rest]

    def _tells_too_much(self, summary: Summary) -> bool:
        return any(s.first <= last and first <= s.last for first, last in self.private for s in summary.spans)

    def _bounds(self) -> list[Size]:
        """Return what the rows come to at most, for each cap."""
        return [total(row.size for row in self.rows if self._counts(row.entry, cap)) for cap in self._caps]

    def _response(self, entry: Entry) -> str:
        """Return the id of the response that an entry is a part of; empty where it is none of the lane's."""
        event = entry.event
        return response_of(event) if isinstance(event, AssistantMessage) and self.lane.owns(event) else ""

    def _take_cut_back(self, uncut: Uncut, response: str) -> None:
        """Put the window back to before its last cut, where a further part of the same response follows.

        So a response that was imported in pieces, while its file was growing, is cut as one imported whole.
        """
        self._uncut = None
        if response != uncut.response:
            return
        mark = uncut.mark
        self.settled, self.rows, self.cuts = FrozenPrefix(), uncut.rows, mark.cuts
        self.left_out, self.summaries = list(mark.left_out), list(mark.summaries)
        self.pairing = ToolCallIndex(mark.waiting, mark.pairs)
        self._sizes = self._bounds()

    def _keep_within_caps(self, surely: bool, response: str) -> None:
        """Cut where the window has outgrown a cap; it is measured only where it could have."""
        if self.surely_fits and not surely:
            return
        shown, sizes = self._sized()
        self._caps, must_stay = self._caps_now(shown), must_keep(self, shown)
        for cap in self._caps:
            kept = fitting_units(sizes, cap, must_stay)
            if len(kept) < len(shown.units):
                if response and self._uncut is None:
                    self._uncut = Uncut(response, self.snapshot, self.rows)
                self._cut(shown, kept, cap)
                self.cuts += 1
                shown, sizes = self._sized()
                must_stay = must_keep(self, shown)
        self._sizes = [total(counted_sizes(sizes, cap, must_stay)) for cap in self._caps]

    def _counts(self, entry: Entry, cap: Cap) -> bool:
        """Return whether an entry counts against a cap; some entries stay beside the last messages."""
        if not cap.recent:
            return True
        purpose = getattr(entry.event, "purpose", "answer")
        is_beside = purpose in (*self.policy.history.keeps, "summary") or pinned(entry, self.policy.pins)
        return not is_beside

    def _tidy(self) -> None:
        """Let go of what summaries cover, once there is more of it than of what is shown."""
        shown = self.contents()
        if len(self.rows) > 2 * len(shown.entries) + SPARE:
            covered = {position for position, rule in shown.left_out.items() if rule == "covered"}
            self._drop(covered, "covered")

    def _caps_now(self, shown: WindowContents) -> tuple[Cap, ...]:
        """The caps under the card and the settings of now."""
        return caps(self.policy, reserved_size(self, shown)) if self.policy.budget else self._caps

    def _sized(self) -> tuple[WindowContents, list[Size]]:
        """Return the contents, and the size of each of their units."""
        shown = self.contents()
        return shown, [total(p.size or self.measure.of(p) for p in unit) for unit in shown.units]

    def _cut(self, shown: WindowContents, kept: set[int], cap: Cap) -> None:
        """Drop the units that are not kept, and what is out of context before the first recent one."""
        inside = [positions_of(unit) for unit in shown.units]
        stay = set().union(*(inside[i] for i in kept))
        gone = set().union(*inside) - stay
        edge = max(gone, default=0)
        out = {row.entry.position for row in self.rows if row.entry.position < edge}
        self._drop((out | gone) - stay, cap.rule)

    def _drop(self, gone: set[int], rule: str) -> None:
        """Let entries leave the window for good."""
        self.settled = FrozenPrefix()
        dropped = [row for row in self.rows if row.entry.position in gone]
        self.rows = [row for row in self.rows if row.entry.position not in gone]
        here = [row.entry.position for row in self.rows]
        lost = [self._dropped(row.entry, rule) for row in dropped]
        self.left_out = merge_cuts(self.left_out, lost, here)
        positions = set(here)
        self.pairing.forget(positions)
        self.summaries = [made for made in self.summaries if made.summary.position in positions]


def window(
    lane: LaneId,
    policy: Policy,
    entries: Iterable[Entry],
    counter: Counter = ESTIMATE,
    blobs: Mapping[str, bytes] = EMPTY_BLOBS,
) -> Window:
    """The window of a lane after all the entries of a log."""
    made = Window(lane, policy, counter, blobs=blobs)
    for entry in entries:
        made.take(entry)
    return made
