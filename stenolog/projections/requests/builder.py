"""The request of one lane at the end of a log: a pipeline of small rules, each of which is explained.

visible → voice → groups and seals → window → what stands around → API. Pure: the same log gives the same
bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from stenolog.domain.entry import Entry
from stenolog.domain.errors import InvalidPolicyError
from stenolog.domain.events import AssistantMessage, LlmError, ModeSwitch, UserMessage
from stenolog.domain.policy import Policy, PolicyLike, policy
from stenolog.domain.settings import NOTHING, Settings, configure, settings

from .incremental.sendable import takes_part as takes_part
from .incremental.session import RequestSession
from .incremental.window import Window
from .incremental.window import window as window_of
from .pipeline.view import LaneId
from .request import EMPTY_BLOBS, Request
from .tokens import COUNTERS, Counter
from .wires import Api

DEFAULT_API = "openai-chat"


def build(
    entries: Iterable[Entry],
    agent: str,
    *,
    task: str = "",
    api: str | Api = DEFAULT_API,
    policy: PolicyLike = None,
    blobs: Mapping[str, bytes] = EMPTY_BLOBS,
    counters: Mapping[str, Counter] = COUNTERS,
) -> Request:
    """Build the request that the lane (agent, task) would send after these entries, on an API.

    `policy` None is the one on the agent's card. Raises `AgentNotFoundError` where no such agent takes part,
    `UnsupportedVersionError` where an entry needs one, `InvalidPolicyError`.
    """
    log = list(entries)
    now = settings(log) if policy is None else NOTHING
    chosen, counter = choose(now, agent, policy, counters)
    return from_window(window_of(LaneId(agent, task), chosen, log, counter, blobs), api, blobs)


def every_request(
    entries: Iterable[Entry],
    agent: str,
    *,
    task: str = "",
    api: str | Api = DEFAULT_API,
    policy: PolicyLike = None,
    blobs: Mapping[str, bytes] = EMPTY_BLOBS,
    counters: Mapping[str, Counter] = COUNTERS,
) -> Iterator[Request]:
    """The lane's request after each entry from the first that it takes part in. Raises as `build`."""
    log = list(entries)
    lane = LaneId(agent, task)
    live: RequestSession | None = None
    for window in windows(log, lane, policy, counters, blobs):
        if live is None or live.window is not window:
            live = RequestSession(window, api, blobs)
        if takes_part(window):
            yield live.request()


def windows(
    log: Sequence[Entry],
    lane: LaneId,
    given: PolicyLike,
    counters: Mapping[str, Counter] = COUNTERS,
    blobs: Mapping[str, bytes] = EMPTY_BLOBS,
) -> Iterator[Window]:
    """The lane's window after each entry: one window, unless the policy on its card changes.

    A policy that cannot be used has no windows until a later one mends it. Raises `InvalidPolicyError` at the
    end where none did.
    """
    now, window = NOTHING, None
    refused: InvalidPolicyError | None = None
    for length, entry in enumerate(log, 1):
        before, now = now, configure(now, entry)
        changed = before.card_of(lane.agent).policy != now.card_of(lane.agent).policy
        if length == 1 or (given is None and changed):
            window = refused = None
            try:
                chosen, counter = choose(now, lane.agent, given, counters)
                window = window_of(lane, chosen, log[:length], counter, blobs)
            except InvalidPolicyError as error:
                refused = error
        elif window is not None:
            window.take(entry)
        if window is not None:
            yield window
    if refused is not None:
        raise refused


def choose(
    now: Settings, agent: str, given: PolicyLike, counters: Mapping[str, Counter]
) -> tuple[Policy, Counter]:
    """The policy that is asked for, or that is on the card, and the counter that it names."""
    chosen = policy(now.card_of(agent).policy if given is None else given)
    try:
        return chosen, counters[chosen.counter]
    except KeyError:
        known = ", ".join(counters)
        raise InvalidPolicyError(
            f"/budget/counter: expected one of {known}, found {chosen.counter!r}"
        ) from None


def from_window(window: Window, api: str | Api, blobs: Mapping[str, bytes] = EMPTY_BLOBS) -> Request:
    """The request of what is in a window."""
    return RequestSession(window, api, blobs).request()


def lanes(entries: Iterable[Entry]) -> tuple[LaneId, ...]:
    """Every lane that has taken part or was addressed, in order of appearance."""
    return tuple(dict.fromkeys(lane for entry in entries for lane in _lanes_of(entry)))


def _lanes_of(entry: Entry) -> Iterator[LaneId]:
    match entry.event:
        case AssistantMessage(agent=agent, task=task) | LlmError(agent=agent, task=task):
            yield LaneId(agent, task)
        case UserMessage(to=to):
            for where in to:
                agent, _, task = where.partition("/")
                yield LaneId(agent, task)
        case ModeSwitch(joins=joins, cards=cards):
            for agent in (*joins, *cards):
                yield LaneId(agent)
        case _:
            pass
