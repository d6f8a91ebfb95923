"""Requests of one lane, at one position after another."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

from stenolog.domain.entry import Entry
from stenolog.domain.errors import InvalidPolicyError
from stenolog.domain.policy import Policy, PolicyLike
from stenolog.domain.settings import NOTHING, configure, settings
from stenolog.projections.formats.base import Format
from stenolog.projections.messages.message import EMPTY_BLOBS
from stenolog.projections.messages.sizes import COUNTERS, ESTIMATE, Counter
from stenolog.projections.requests.choosing import choose
from stenolog.projections.requests.pipeline.lane import LaneId
from stenolog.projections.requests.pipeline.lane_apis import asked_api
from stenolog.projections.requests.request import Request
from stenolog.projections.requests.sendable import may_be_asked, takes_part

from .session import RequestSession
from .snapshot import ResumableSession
from .window import Window

MOST = 8
"""So many APIs are written for at once."""
T = TypeVar("T")


class RequestSeries:
    """A window's requests, one after another, on each API. `explained` as in `RequestSession`."""

    def __init__(
        self, window: Window, blobs: Mapping[str, bytes] = EMPTY_BLOBS, *, explained: bool = False
    ) -> None:
        self.window, self.blobs, self.explained = window, blobs, explained
        self.sessions: dict[str | Format, RequestSession] = {}

    def resume(self, api: str | Format, stored: ResumableSession) -> None:
        """Continue as `RequestSession.resume`."""
        self.sessions[api] = RequestSession(self.window, api, self.blobs)
        self.sessions[api].resume(stored)

    def request(self, api: str | Format | None = None) -> Request:
        """Return the request on an API; None: that of the lane's answers.

        Raises as `RequestSession.request`.
        """
        api = api or self.window.api
        if api not in self.sessions:
            if len(self.sessions) == MOST:
                self.sessions.clear()
            self.sessions[api] = RequestSession(self.window, api, self.blobs, explained=self.explained)
        return self.sessions[api].request()


class LaneSeries(RequestSeries):
    """The requests of a lane under a policy; None: under the one on its card, whenever that changes.

    A policy counts as if it had always been in force, so a new one reads the log again: `read` returns the
    entries up to a position. `refused` says why the policy on the card is unusable; the window is then an
    older one. Raises `InvalidPolicyError` for an unusable given policy.
    """

    def __init__(
        self,
        lane: LaneId,
        given: PolicyLike,
        read: Callable[[int], Iterable[Entry]],
        counters: Mapping[str, Counter] = COUNTERS,
        blobs: Mapping[str, bytes] = EMPTY_BLOBS,
        *,
        explained: bool = False,
    ) -> None:
        chosen, counter = choose(NOTHING, lane.agent, given, counters)
        super().__init__(Window(lane, chosen, counter, blobs=blobs), blobs, explained=explained)
        self.refused: InvalidPolicyError | None = None
        self._given, self._read, self._counters, self._settings = given, read, counters, NOTHING

    def take(self, entry: Entry) -> None:
        agent, before = self.window.lane.agent, self._settings
        self._settings = now = configure(before, entry)
        if self._given is None and before.card_of(agent).policy != now.card_of(agent).policy:
            self._begin(entry.position)
        elif self.refused is None:
            self.window.take(entry)

    def _begin(self, position: int) -> None:
        self.sessions.clear()
        self.refused, lane = None, self.window.lane
        try:
            chosen, counter = choose(self._settings, lane.agent, None, self._counters)
        except InvalidPolicyError as error:
            self.refused = error
        else:
            self.window = window(lane, chosen, self._read(position), counter, self.blobs)


def series(
    log: Sequence[Entry],
    lane: LaneId,
    given: PolicyLike,
    counters: Mapping[str, Counter] = COUNTERS,
    blobs: Mapping[str, bytes] = EMPTY_BLOBS,
    *,
    explained: bool = False,
) -> Iterator[RequestSeries]:
    """Yield the lane's series after each entry: always the same one.

    An unusable policy yields nothing until a later one; at the end it raises `InvalidPolicyError`.
    """

    def read(position: int) -> Sequence[Entry]:
        return log[: bisect_right(log, position, key=lambda entry: entry.position)]

    made = LaneSeries(lane, given, read, counters, blobs, explained=explained)
    for entry in log:
        made.take(entry)
        if made.refused is None:
            yield made
    if made.refused is not None:
        raise made.refused


def at_views(
    waiting: dict[int, list[T]],
    log: Sequence[Entry],
    lane: LaneId,
    given: PolicyLike,
    counters: Mapping[str, Counter] = COUNTERS,
    blobs: Mapping[str, bytes] = EMPTY_BLOBS,
    *,
    explained: bool = False,
) -> Iterator[tuple[T, RequestSeries]]:
    """Yield each waiting call by its request's position, with the lane's series there.

    It is removed from `waiting`; calls from before the lane took part stay. Raises as `series`.
    """
    chosen, counter = choose(NOTHING, lane.agent, given, counters)
    first = RequestSeries(Window(lane, chosen, counter, blobs=blobs), blobs, explained=explained)
    if may_be_asked(first.window):
        yield from ((call, first) for call in waiting.pop(0, ()))
    end = bisect_right(log, max(waiting, default=0), key=lambda entry: entry.position)
    for made in series(log[:end], lane, given, counters, blobs, explained=explained):
        if made.window.position in waiting and may_be_asked(made.window):
            yield from ((call, made) for call in waiting.pop(made.window.position))


def build(
    entries: Iterable[Entry],
    agent: str,
    *,
    task: str = "",
    api: str | Format | None = None,
    policy: PolicyLike = None,
    blobs: Mapping[str, bytes] = EMPTY_BLOBS,
    counters: Mapping[str, Counter] = COUNTERS,
) -> Request:
    """Build the request that the lane (agent, task) would send after these entries, on an API.

    `builder.build_reference` defines it; this takes time proportional to the log. `policy` None is the one on
    the agent's card, `api` None that of its answers; a new agent has an empty card. Raises
    `AgentNotFoundError` for a likely misspelling, `UnsupportedVersionError` for an entry of a later release,
    `InvalidPolicyError`.
    """
    log = list(entries)
    now = settings(log) if policy is None else NOTHING
    chosen, counter = choose(now, agent, policy, counters)
    return from_window(window(LaneId(agent, task), chosen, log, counter, blobs), api, blobs)


def every_request(
    entries: Iterable[Entry],
    agent: str,
    *,
    task: str = "",
    api: str | Format | None = None,
    policy: PolicyLike = None,
    blobs: Mapping[str, bytes] = EMPTY_BLOBS,
    counters: Mapping[str, Counter] = COUNTERS,
) -> Iterator[Request]:
    """Yield the lane's request after each entry since it takes part, all on one API. Raises as `build`."""
    log, lane = list(entries), LaneId(agent, task)
    chosen = asked_api(api, log, lane)
    for made in series(log, lane, policy, counters, blobs):
        if takes_part(made.window):
            yield made.request(chosen)


def windows(
    log: Sequence[Entry],
    lane: LaneId,
    given: PolicyLike,
    counters: Mapping[str, Counter] = COUNTERS,
    blobs: Mapping[str, bytes] = EMPTY_BLOBS,
) -> Iterator[Window]:
    """Yield the lane's window after each entry: one window, unless the policy on its card changes.

    Raises as `series`.
    """
    return (made.window for made in series(log, lane, given, counters, blobs))


def window(
    lane: LaneId,
    policy: Policy,
    entries: Iterable[Entry],
    counter: Counter = ESTIMATE,
    blobs: Mapping[str, bytes] = EMPTY_BLOBS,
) -> Window:
    """Return a lane's window after all entries."""
    made = Window(lane, policy, counter, blobs=blobs)
    for entry in entries:
        made.take(entry)
    return made


def from_window(
    window: Window,
    api: str | Format | None,
    blobs: Mapping[str, bytes] = EMPTY_BLOBS,
    *,
    explained: bool = False,
) -> Request:
    """Return a window's request. `explained`: make its parts at once."""
    return RequestSession(window, api or window.api, blobs, explained=explained).request()
