"""Snapshot of a view: its state as values that can be stored, and how a view continues from it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from stenolog.domain.entry import Entry
from stenolog.domain.lanes.state import State
from stenolog.domain.lanes.step import INITIAL
from stenolog.domain.settings import NOTHING, Settings
from stenolog.projections.messages.explanation import Omission
from stenolog.projections.requests.pipeline.bills import NO_BILLS, Bills
from stenolog.projections.requests.pipeline.lane import LaneMemory
from stenolog.projections.requests.pipeline.lane_apis import LaneApis
from stenolog.projections.requests.pipeline.omissions import runs
from stenolog.projections.requests.pipeline.summaries import Scopes
from stenolog.projections.requests.pipeline.view import View
from stenolog.projections.views.context import SummaryRecord
from stenolog.projections.views.tool_pairs import Call, Pair, ToolCallIndex


class WindowSnapshot(NamedTuple):
    """The state of a window at a position: enough to continue from there, except for the entries.

    `rows` are the runs of positions in the window, `private` those of what was not for the lane.
    """

    position: int = 0
    state: State = INITIAL
    settings: Settings = NOTHING
    rows: tuple[tuple[int, int], ...] = ()
    waiting: tuple[Call, ...] = ()
    pairs: tuple[Pair, ...] = ()
    summaries: tuple[SummaryRecord, ...] = ()
    left_out: tuple[Omission, ...] = ()
    private: tuple[tuple[int, int], ...] = ()
    own: LaneMemory = LaneMemory()
    cuts: int = 0
    scopes: tuple[Scopes, ...] = ()
    bills: Bills = NO_BILLS
    apis: LaneApis = LaneApis()
    known_api: tuple[str, ...] = ()


START = WindowSnapshot()


def snapshot_of(view: View) -> WindowSnapshot:
    """Return a view's snapshot."""
    return WindowSnapshot(
        view.position,
        view.state,
        view.settings,
        tuple(runs(entry.position for entry in view.entries)),
        tuple(view.pairing.waiting),
        tuple(view.pairing.pairs.values()),
        tuple(view.summaries),
        tuple(view.left_out),
        tuple(view.private),
        view.memory,
        view.cuts,
        tuple(view.scopes),
        view.bills,
        view.apis,
        view.known_api,
    )


def restore(view: View, snapshot: WindowSnapshot, entries: Iterable[Entry]) -> None:
    """Have a new view continue from a snapshot; `entries` are those at its rows."""
    view.position, view.state, view.settings = snapshot.position, snapshot.state, snapshot.settings
    view.memory, view.cuts, view.apis = snapshot.own, snapshot.cuts, snapshot.apis
    view.left_out, view.summaries = list(snapshot.left_out), list(snapshot.summaries)
    view.private, view.scopes = list(snapshot.private), list(snapshot.scopes)
    view.pairing = ToolCallIndex(snapshot.waiting, snapshot.pairs)
    view.entries = list(entries)
    view.known_api = snapshot.known_api
    view.learn(snapshot.bills)
