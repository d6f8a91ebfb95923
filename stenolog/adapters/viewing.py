"""The request of a lane of a stored conversation: only what is in its window is read.

A window under a policy with a cap is marked every so many entries, in the place where checkpoints are kept;
the next request takes it up from there. A policy without one shows everything, and everything is read.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING

from stenolog.domain.entry import Entry
from stenolog.domain.errors import InvalidPolicy, StenologError
from stenolog.domain.policy import Policy, PolicyLike
from stenolog.domain.policy import policy as policy_of
from stenolog.domain.settings import NOTHING
from stenolog.projections.base import Fold
from stenolog.projections.requests import DEFAULT_WIRE, PIPELINE, Lane, Request, Wire
from stenolog.projections.requests.bookmark import settled_by
from stenolog.projections.requests.build import choose
from stenolog.projections.requests.caps import caps
from stenolog.projections.requests.live import BrokenWindow
from stenolog.projections.requests.marks import START, Mark
from stenolog.projections.requests.model import Explanation
from stenolog.projections.requests.tokens import Counter
from stenolog.projections.requests.window import Window

from . import keeping
from .bookmarking import FAR, Left, find, leave
from .collecting import without_collecting
from .counters import COUNTERS
from .holding import Held, Key, Marking
from .keeping import Kept
from .stores import reading
from .stores.checkpoints import Checkpoints
from .stores.glance import SOME, since

if TYPE_CHECKING:
    from .conversation import Conversation

GAP, SPARE = 3, 32
"""Rows beyond the window that are read to ask fewer questions: between two runs of it, and in all."""
WINDOW = "window "
MARK = keeping.Rows(Mark)


def request(
    talk: Conversation,
    agent: str,
    task: str,
    upto: int | None,
    wire: str | Wire | None,
    policy: PolicyLike,
    counters: Mapping[str, Counter] = COUNTERS,
) -> Request:
    """See `Conversation.request`."""
    out = DEFAULT_WIRE if wire is None else wire
    lane = Lane(agent, task)
    if upto is not None or counters is not COUNTERS:
        return _fresh(talk, lane, upto, policy, counters).request(out)
    return _newest(talk, lane, out, policy)


def _newest(talk: Conversation, lane: Lane, wire: str | Wire, policy: PolicyLike) -> Request:
    """The request at the head of the log, from the window that is held, where there is one."""
    holding = talk.log.holding
    key = Key(reading.resolve(talk.log.datastore, talk.stream) or 0, lane, holding.named(policy))
    held = holding.take(key)
    if held is None or not _goes_on(talk, held):
        with without_collecting():
            held = _resumed(talk, key, wire, policy)
            held = held or _fresh(talk, lane, None, policy, COUNTERS, whole=False)
    try:
        request = held.request(wire)
    except BrokenWindow:
        held = _fresh(talk, lane, None, policy, COUNTERS, whole=len(held.lives) > 1)
        request = held.request(wire)
    leave(talk.log, key, held, further=FAR)
    holding.put(key, held)  # from now on it may be somebody else's
    return request


def _resumed(talk: Conversation, key: Key, wire: str | Wire, policy: PolicyLike) -> Held | None:
    """The window as another process has left it, with what has come since; None where nothing was left."""
    found = find(talk.log, key, wire) if isinstance(wire, str) else None
    if found is None:
        return None
    mark = found.mark.mark
    try:
        chosen, counter = choose(mark.settings, key.lane.agent, policy, COUNTERS)
        rows = _rows(talk, mark)
        window = Window(key.lane, chosen, counter, mark, rows, talk.log.blobs, settled_by(found.mark))
    except InvalidPolicy:  # the one on the card then; it may be another by now
        return None
    explain = partial(_explained, talk, key.lane, policy)
    held = Held(window, talk.log.blobs, Marking(), explain, by_card=policy is None)
    held.digest = found.digest
    live = held.live(wire)
    if not live.resume(found.mark, found.messages):
        return None
    number = len(found.messages)
    held.left[wire] = Left(live.writer, number - 1, found.sums, number)
    return held if _goes_on(talk, held) else None


def _explained(
    talk: Conversation, lane: Lane, policy: PolicyLike, wire: str | Wire, upto: int
) -> Explanation:
    """Where the parts of a request come from, by the log alone."""
    return _fresh(talk, lane, upto, policy, COUNTERS).request(wire).explanation


def _goes_on(talk: Conversation, held: Held) -> bool:
    """Take what is new in the log into a window; whether it is the window of this log still."""
    while held.usable:
        here = held.window.position
        new = since(talk.log.datastore, talk.stream, here, held.digest)
        if new is None:
            return False
        held.extend(new)
        if len(new) < SOME:
            return held.usable
    return False


def _fresh(
    talk: Conversation,
    lane: Lane,
    upto: int | None,
    policy: PolicyLike,
    counters: Mapping[str, Counter],
    *,
    whole: bool = True,
) -> Held:
    """A window, made of what was kept of it and the entries since. `whole`: nothing of it is let go of."""
    now = talk.settings(upto) if policy is None else NOTHING
    chosen, counter = choose(now, lane.agent, policy, counters)
    marks = _marks(lane, chosen, counter) if caps(chosen) else None
    mark = START if marks is None else keeping.start(talk, marks, upto)[0]
    window = Window(lane, chosen, counter, mark, _rows(talk, mark), talk.log.blobs)
    marking = Marking() if marks is None else _Marks(talk, marks, window, at_head=upto is None)
    explain = partial(_explained, talk, lane, policy)
    held = Held(window, talk.log.blobs, marking, explain, by_card=policy is None, whole=whole)
    held.extend(talk.entries(mark.position, upto))
    if policy is None and choose(window.settings, lane.agent, None, counters)[0] != chosen:
        return _fresh(talk, lane, upto, policy, counters, whole=whole)  # a card has come meanwhile
    held.usable = True  # this is the policy that was chosen, whatever cards there were before
    if not held.digest and window.position:
        held.digest = reading.digest_at(talk.log.datastore, talk.stream, window.position).hex()
    return held


class _Marks(Marking):
    """Marks a window on its way, so that the next process takes it up from there."""

    def __init__(self, talk: Conversation, marks: Kept[Mark], window: Window, *, at_head: bool) -> None:
        self.talk, self.marks, self.window, self.at_head = talk, marks, window, at_head
        self._at, self._cuts = window.position, window.cuts
        self._last: Entry | None = None

    def take(self, entry: Entry) -> None:
        self._last = entry
        if keeping.ends_a_stretch(entry) and not self._is_unfit:
            keeping.keep(self.talk, self.marks, entry, self.window.mark)

    @property
    def _is_unfit(self) -> bool:
        """Whether no mark may be made here: a blob was missing, or the last cut may be taken back."""
        return self.window.measure.missing or self.window.may_be_uncut

    def rest(self) -> None:
        """Mark where it stands, if that is far enough, or after a cut: the mark before that has rows that
        nobody needs."""
        is_far = self.window.position - self._at >= keeping.WORTH_KEEPING
        if not self.at_head or self._last is None or self._is_unfit:
            return
        if is_far or self.window.cuts > self._cuts:
            keeping.keep(self.talk, self.marks, self._last, self.window.mark)
            self._at, self._cuts = self.window.position, self.window.cuts


def _rows(talk: Conversation, mark: Mark) -> Iterator[Entry]:
    """The entries at a mark's rows; two runs are read at once where little is between them."""
    held = {position for first, last in mark.rows for position in range(first, last + 1)}
    read = (entry for first, last in _joined(mark.rows) for entry in talk.entries(first - 1, last))
    return (entry for entry in read if entry.position in held)


def _joined(runs: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """The runs, neighbours as one where no more than `GAP` rows are between, of all gaps `SPARE` at most."""
    joined: list[tuple[int, int]] = []
    spare = SPARE
    for first, last in runs:
        gap = first - joined[-1][1] - 1 if joined else SPARE + 1
        if gap <= min(GAP, spare):
            spare -= gap
            joined[-1] = (joined[-1][0], last)
        else:
            joined.append((first, last))
    return joined


def _marks(lane: Lane, policy: Policy, counter: Counter) -> Kept[Mark]:
    """The place of a window's marks: its name says the lane, the policy and the counter."""
    asked = [lane.agent, lane.task, policy.json, policy.counter, counter.id, PIPELINE]
    name = WINDOW + json.dumps(asked, sort_keys=True)
    return Kept(Fold(name, START, lambda mark, entry: mark), MARK.dump, MARK.load)


def marked(
    checkpoints: Checkpoints, stream: int, counters: Mapping[str, Counter], blobs: Mapping[str, bytes]
) -> Iterator[tuple[Kept[Mark], Window]]:
    """Each window that marks of a stream are kept of, at its beginning, for a check of the marks."""
    for name in checkpoints.names(stream):
        if name.startswith(WINDOW):
            agent, task, given, counter, version, pipeline = json.loads(name.removeprefix(WINDOW))
            try:
                lane, chosen, found = Lane(agent, task), policy_of(given), counters[counter]
            except (StenologError, KeyError):
                continue  # by a release, or with an extra, that is not here
            if (found.id, PIPELINE) == (version, pipeline):
                yield _marks(lane, chosen, found), Window(lane, chosen, found, blobs=blobs)
