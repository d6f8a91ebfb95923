"""Certificates: an agent was sent neither certain entries nor one that quotes them, between two positions.

Every request with a receipt is built again and searched; so is every other that could have been sent. What
cannot be built again as it was sent is never certified.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from stenolog.domain.entry import Entry
from stenolog.domain.erasure import is_effects, is_gone
from stenolog.domain.errors import PositionNotFoundError, StenologError
from stenolog.domain.events import UNCHANGED, AssistantMessage, Event, LlmError, ModeSwitch, UserMessage
from stenolog.domain.policy import FullHistory, PolicyLike, policy
from stenolog.domain.values import Receipt, WorkflowRun
from stenolog.projections.analysis.explain import may_send
from stenolog.projections.formats import FORMATS
from stenolog.projections.messages.message import EMPTY_BLOBS, PIPELINE
from stenolog.projections.messages.sizes import COUNTERS, Counter
from stenolog.projections.requests import LaneId, Request, check_takes_part
from stenolog.projections.requests.as_sent import FOLLOWED
from stenolog.projections.requests.incremental.series import series
from stenolog.projections.requests.incremental.window import Window
from stenolog.projections.requests.proofs import Proof, rebuilt
from stenolog.projections.requests.sendable import may_be_asked

from .retelling import retold, visible
from .subject import How, Subject

MOST = 20
"""Requests that show it, of which each is listed; no more are looked for."""
ASIDE = "its messages are only for the timeline: what it was sent is not in the log"
UNKNOWN_RESPONSE = "it goes on from a response that is not in the log"
STORED = "it names contents that the provider has kept: {}"


class CertifiedRequest(NamedTuple):
    """A request that was sent, by the receipt of the answer or error at `position`, built again the same."""

    position: int
    lane: str
    view: int
    api: str
    sha256: str
    covers: Literal["sent", "body"]


class Showing(NamedTuple):
    """A request at `view` that shows it, and the entries that do.

    `position` is the answer's whose receipt proves the request; 0: it could have been sent.
    """

    position: int
    lane: str
    view: int
    how: How
    entries: tuple[int, ...] = ()


class Unproved(NamedTuple):
    """A request that may have had it, and why that is not known. `position` as in `Showing`."""

    position: int
    lane: str
    view: int
    reason: str


class Certificate(NamedTuple):
    """The result of `certify` from position `first` to `last`, for entries and a number of texts.

    What was sent before `last` and answered after it counts.
    `quoting` are the entries that quote them. `requests` were sent without them, `possible` is the number of
    further ones that could have been sent. `without_receipt` are answers of which only the possible requests
    are known. `said` are entries of the agent's own that quote them. `retold` were sent to it by agents that
    had been sent them, and may say them in other words. It is given if none is `shown` and none `unproved`.
    """

    agent: str
    entries: tuple[int, ...]
    texts: int
    first: int
    last: int
    quoting: tuple[int, ...] = ()
    requests: tuple[CertifiedRequest, ...] = ()
    possible: int = 0
    without_receipt: tuple[int, ...] = ()
    said: tuple[int, ...] = ()
    retold: tuple[int, ...] = ()
    shown: tuple[Showing, ...] = ()
    unproved: tuple[Unproved, ...] = ()

    @property
    def is_given(self) -> bool:
        """True if the agent was sent nothing of it."""
        return not (self.shown or self.unproved)


def certify(
    entries: Iterable[Entry],
    agent: str,
    *,
    never: Collection[Entry] = (),
    texts: Collection[str] = (),
    first: int = 0,
    last: int | None = None,
    blobs: Mapping[str, bytes] = EMPTY_BLOBS,
    counters: Mapping[str, Counter] = COUNTERS,
) -> Certificate:
    """Return whether an agent was sent some entries or texts, from position `first` to `last`.

    `agent` is a name, with all its tasks, or `agent/task`. `never` may be entries of another conversation.
    Raises `PositionNotFoundError`, `AgentNotFoundError`, and `CallerError` for an entry that was erased, and
    if nothing is asked.
    """
    name, _, task = agent.partition("/")
    whole = list(entries)
    check_takes_part(whole, name)
    log = [entry for entry in whole if last is None or entry.position <= last]
    end = log[-1].position if log else 0
    if not 0 <= first <= end:
        raise PositionNotFoundError(f"expected a position from 0 to {end}, found {first}")
    subject = Subject(log, never, texts, blobs)
    search = _Search(whole, log, subject, first, blobs, counters)
    chosen = [lane for lane in _lanes_of(whole, name) if not task or lane.task == task]
    for lane in chosen:
        search.look(lane)
    return search.certificate(agent, chosen)


def _lanes_of(log: Iterable[Entry], agent: str) -> list[LaneId]:
    """Return the lanes of an agent that said something or that were addressed, by an agent too."""
    found = {LaneId(agent): None}
    for entry in log:
        if isinstance(entry.event, AssistantMessage | LlmError):
            found[LaneId(entry.event.agent, entry.event.task)] = None
        found |= {LaneId(*where.split("/", 1)): None for where in getattr(entry.event, "to", ())}
    return [lane for lane in found if lane.agent == agent]


class _Search:
    """The findings about an agent's lanes, one after another."""

    def __init__(
        self,
        whole: Sequence[Entry],
        log: Sequence[Entry],
        subject: Subject,
        first: int,
        blobs: Mapping[str, bytes],
        counters: Mapping[str, Counter],
    ) -> None:
        self._whole, self._log, self._subject, self._first = whole, log, subject, first
        self._last = log[-1].position if log else 0
        self._means: dict[str, Any] = {"blobs": blobs, "counters": counters}
        self._requests: list[CertifiedRequest] = []
        self._shown: list[Showing] = []
        self._unproved: list[Unproved] = []
        self._without: list[int] = []
        self._said: list[int] = []
        self._possible: set[tuple[LaneId, int]] = set()
        self._read: set[int] = set()

    def certificate(self, agent: str, chosen: Collection[LaneId]) -> Certificate:
        """Return the findings."""
        subject = self._subject
        known = subject.positions | subject.quoting
        others = retold(self._log, chosen, known) if self._read else ()
        return Certificate(
            agent,
            tuple(sorted(subject.positions)),
            subject.texts,
            self._first,
            self._last,
            tuple(sorted(subject.quoting)),
            tuple(sorted(self._requests)),
            len(self._possible),
            tuple(sorted(self._without)),
            tuple(sorted(self._said)),
            tuple(sorted(self._read.intersection(others))),
            tuple(sorted(set(self._shown))),
            tuple(sorted(set(self._unproved))),
        )

    def look(self, lane: LaneId) -> None:
        """Look through all that a lane was sent, or could have been."""
        # What was sent may be answered only after the last position.
        answers = {
            entry.position: entry.event
            for entry in self._whole
            if isinstance(entry.event, AssistantMessage | LlmError) and lane.owns(entry.event)
        }
        self._said += [at for at in answers if at in self._subject.quoting]
        receipts, views, before = dict[int, Receipt](), set[int](), 0
        for at, event in answers.items():
            if event.receipt is not None and at > self._first and event.receipt.view <= self._last:
                receipts[at] = event.receipt
            elif event.receipt is None and at > self._first and before <= self._last:
                # It was sent at any position since the answer before.
                views |= {*range(before, at)}
                self._without.append(at)
                if not event.in_context:
                    self._unproved.append(Unproved(at, lane.address, at - 1, ASIDE))
            before = at
        proved = self._look_at_receipts(lane, receipts)

        gone = self._first_wordless(lane, [receipts[at] for at in proved])
        known = {receipts[at].view for at in proved}

        def may_be_sent(window: Window) -> bool:
            at = window.position
            # An erased message may have asked the agent, so its state since then is not known.
            return at in views or (at >= self._first and (0 < gone <= at or may_send(window)))

        self._look_at_possible(lane, may_be_sent, known, gone, None)
        switches = (entry.event for entry in self._log if isinstance(entry.event, ModeSwitch))
        cards = (switch.cards.get(lane.agent) for switch in switches)
        if views and any(card is not None and card.policy for card in cards):
            # Without a receipt, nothing says which policy it had.
            full = policy(FullHistory())
            self._look_at_possible(lane, lambda window: window.position in views, known, gone, full)

    def _first_wordless(self, lane: LaneId, proved: Iterable[Receipt]) -> int:
        """Return the first entry without words that the lane may have been shown; 0: none.

        A request that leaves out nothing, and is still the same, shows which ones it was not shown.
        """
        hiding = next((entry.position for entry in self._log if _hides(entry.event)), self._last + 1)
        whole = max((one.view for one in proved if one.view < hiding and _is_whole(one)), default=0)
        for entry in self._log:
            if is_gone(entry.event) and entry.position > whole:
                return entry.position
            if is_effects(entry.event) and _says(entry.event, lane.agent):
                return entry.position
        return 0

    def _look_at_receipts(self, lane: LaneId, receipts: Mapping[int, Receipt]) -> set[int]:
        """Look through the requests that receipts name; return the answers of those that are the same."""
        proved: set[int] = set()
        # Other policies show no more, but for one that has others' voices as its own, and earlier pipelines.
        shown = visible(self._log, lane)
        self._read |= shown if receipts else set()
        for proof, request in rebuilt(self._whole, within=receipts, **self._means) if receipts else ():
            place = (proof.position, lane.address, proof.view)
            if request is None or proof.outcome != "same":
                if self._subject.texts or proof.view >= self._subject.first or proof.outcome == "differs":
                    self._unproved.append(Unproved(*place, proof.reason))
                continue
            proved.add(proof.position)
            if self._is_enough:
                break
            receipt = receipts[proof.position]
            is_usual = receipt.pipeline == PIPELINE and policy(receipt.policy).voices is None
            near = shown if is_usual else None
            if found := self._subject.shown_by(request, near):
                self._shown.append(Showing(*place, *found))
            elif self._subject.is_among(receipt.transport):
                self._shown.append(Showing(*place, "words"))
            elif why := self._elsewhere(lane, proof, request):
                self._unproved.append(Unproved(*place, why))
            else:
                self._requests.append(CertifiedRequest(*place, proof.api, proof.found, proof.covers))
        return proved

    def _elsewhere(self, lane: LaneId, proof: Proof, request: Request) -> str:
        """Return why the provider may have had more than the body; "" if it had not."""
        api = FORMATS.get(proof.api.partition("@")[0])
        stored = api.read().stored if api and api.read else ()
        if named := [key for key in stored if request.body.get(key)]:
            return STORED.format(", ".join(named))
        response = request.body.get(FOLLOWED)
        if not response:
            return ""
        own = (
            entry.event.meta.get("tap")
            for entry in self._whole[: proof.view]
            if isinstance(entry.event, AssistantMessage) and lane.owns(entry.event)
        )
        known = any(isinstance(about, Mapping) and about.get("id") == response for about in own)
        return "" if known else UNKNOWN_RESPONSE

    def _look_at_possible(
        self,
        lane: LaneId,
        wanted: Callable[[Window], bool],
        proved: Collection[int],
        gone: int,
        under: PolicyLike,
    ) -> None:
        means, subject = self._means, self._subject
        try:
            for made in series(self._log, lane, under, means["counters"], means["blobs"]):
                window = made.window
                if self._is_enough or not (may_be_asked(window) and wanted(window)):
                    continue
                request, at = made.request(), window.position
                if at not in proved:
                    self._possible.add((lane, at))
                in_window = {entry.position for entry in window.entries}
                self._read |= in_window
                if found := subject.shown_by(request, in_window):
                    self._shown.append(Showing(0, lane.address, at, *found))
                elif 0 < gone <= at and at not in proved:
                    why = f"the words of the entry at {gone} are gone"
                    self._unproved.append(Unproved(0, lane.address, at, why))
        except StenologError as error:
            self._unproved.append(Unproved(0, lane.address, self._last, str(error)))

    @property
    def _is_enough(self) -> bool:
        return len(self._shown) >= MOST


def _is_whole(receipt: Receipt) -> bool:
    """Return whether a receipt's policy leaves out nothing."""
    chosen = policy(receipt.policy)
    return chosen.budget is None and chosen.rewrites is None and chosen.history.kind == "full"


def _hides(event: Event) -> bool:
    """Return whether an event takes others out of requests."""
    match event:
        case ModeSwitch():
            return event.hides is not UNCHANGED or event.context_from is not UNCHANGED
        case UserMessage() | AssistantMessage():
            return event.replaces is not None or bool(getattr(event, "covers", ()))
        case _:
            return False


def _says(event: Event, agent: str) -> bool:
    """Return whether a mode switch gives an agent words."""
    has_card = isinstance(event, ModeSwitch) and event.cards.get(agent) is not None
    return has_card or isinstance(getattr(event, "active_run", None), WorkflowRun)
