"""The law of snapshots: a process that goes on from one sends what a process that read everything sends."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import pytest
from pydantic import TypeAdapter

from stenolog import Entry
from stenolog.domain.policy import Policy, policy
from stenolog.projections.formats import FORMATS
from stenolog.projections.messages.sizes import COUNTERS
from stenolog.projections.requests import LaneId, lanes
from stenolog.projections.requests.incremental import snapshot
from stenolog.projections.requests.incremental.series import window
from stenolog.projections.requests.incremental.session import RequestSession
from stenolog.projections.requests.incremental.snapshot import (
    MessageSegment,
    ResumableSession,
    SessionSnapshot,
)
from stenolog.projections.requests.incremental.window import PartialWindowError, Window
from stenolog.projections.requests.request import Request
from stenolog.projections.requests.sendable import may_be_asked
from tests.random_cases import seeds
from tests.requests.histories import BLOBS, history
from tests.requests.policies import SMALL
from tests.requests.sessions import session_log

STORED: TypeAdapter[SessionSnapshot] = TypeAdapter(SessionSnapshot)


def assert_same(made: Request, defined: Request) -> None:
    """Compare two requests, first as bytes, which are made without the objects."""
    assert made.bytes == defined.bytes
    assert made.body == defined.body
    assert made.sha256 == defined.sha256
    assert made.plan == defined.plan
    assert made == defined


class Processes:
    """One process after another, each going on from the snapshot of the one before, if that left one."""

    def __init__(self, log: Sequence[Entry], lane: LaneId, chosen: Policy, api: str) -> None:
        self.log, self.lane, self.chosen, self.api = log, lane, chosen, api
        self.resumed, self.counter = 0, COUNTERS[chosen.counter]
        self.segments: list[MessageSegment] = []
        self.begin(self.whole(0))

    def stored(self) -> int:
        """Return the segments that the session goes on from."""
        writer = self.session.writer
        return 0 if writer is None else writer.call_ids.known_from // snapshot.SEGMENT

    def begin(self, made: Window) -> None:
        self.window, self.session = made, RequestSession(made, self.api, BLOBS)

    def whole(self, at: int) -> Window:
        return window(self.lane, self.chosen, self.log[:at], self.counter, blobs=BLOBS)

    def take(self, entry: Entry) -> None:
        try:
            self.window.take(entry)
        except PartialWindowError:
            self.begin(self.whole(entry.position))

    def request(self) -> Request:
        try:
            return self.session.request()
        except PartialWindowError:
            self.begin(self.whole(self.window.position))
            return self.session.request()

    def restart(self) -> None:
        found = self.session.captured(self.stored()) if self.session.is_storable else None
        rest = None if self.session.is_storable else snapshot.without_text(self.window)
        if found is None and rest is None:
            return
        self.segments = [*self.segments[: self.stored()], *found.segments()] if found else []
        made = rest or found.snapshot([each.digest for each in self.segments])  # type: ignore[union-attr]
        read = STORED.validate_json(STORED.dump_json(made))
        rows = (self.log[at - 1] for first, last in read.window.rows for at in range(first, last + 1))
        self.begin(Window(self.lane, self.chosen, self.counter, read.window, rows, BLOBS))
        if read.written is not None:
            stored = ResumableSession(read.written, tuple(self.segments))
            assert stored.is_sound
            stored.window(self.window, self.whole)
            self.session.resume(stored)
        self.resumed += 1


def of_the_whole(made: Processes) -> Request:
    return RequestSession(made.whole(made.window.position), made.api, BLOBS).request()


def compared(log: Sequence[Entry], chosen: Policy, api: str, seed: int) -> int:
    """Compare the requests after each entry, with restarts between; return how many there were."""
    chance, resumed = Random(seed), 0
    for lane in lanes(log):
        made = Processes(log, lane, chosen, api)
        for entry in log:
            made.take(entry)
            if made.window.state.blocked is not None:
                break
            if may_be_asked(made.window) and chance.random() < 0.7:
                assert_same(made.request(), of_the_whole(made))
                if chance.random() < 0.5:
                    made.restart()
        resumed += made.resumed
    return resumed


@pytest.fixture(autouse=True)
def short_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot, "SEGMENT", 3)


@seeds(2, slow=20, nightly=2_000)
def test_who_goes_on_from_a_snapshot_sends_what_the_whole_log_gives(seeds: range) -> None:
    apis = [*FORMATS]
    for seed in seeds:
        for nth, chosen in enumerate(SMALL.values()):
            compared(history(seed, 40), chosen, apis[(seed + nth) % len(apis)], seed)


@pytest.mark.parametrize("api", sorted(set(FORMATS) - {"plain"}))
def test_a_teams_session_goes_on_from_many_snapshots(api: str) -> None:
    assert compared(session_log(1, 60), policy(None), api, 1) > 10


def test_who_goes_on_from_a_snapshot_counts_once_what_is_counted_as_billed() -> None:
    assert compared(history(9, 40), SMALL["tokens as billed"], "anthropic", 9) > 0
