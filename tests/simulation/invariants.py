"""The invariants: a watcher checks them after each commit, on connections of its own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce

import stenolog
from stenolog import AssistantMessage, Conversation, Entry, LlmError, Log, State, ToolResult, evolve
from stenolog.adapters.conversation.verifying.integrity import verify
from stenolog.adapters.engine.journal.live_state import queue
from stenolog.adapters.store.claims import OpenClaim
from stenolog.domain.entry import GENESIS, make_record
from stenolog.domain.erasure import erasure_of, is_gone
from stenolog.domain.lanes.decide import CANCELLED, LEFT, REFUSED
from stenolog.domain.lanes.lifecycle import BUSY
from stenolog.domain.lanes.step import INITIAL
from stenolog.engine import LaneState
from stenolog.projections.requests.builder import build_reference
from stenolog.requests import Request, validate

from .orders import Orders
from .world import World

TEAM = ("ann", "bob")
"""The agents whose lanes every run works on; only its caller runs a worker's lane."""
NOT_RUN = (CANCELLED, LEFT, REFUSED)
FORKED = "not run in this fork"


class BrokenInvariantError(AssertionError):
    """An invariant is broken: its name, a colon, and what was found."""


@dataclass
class Known:
    """The watcher's knowledge of a conversation: its entries, their fold, and the effects that have ended."""

    orders: Orders
    entries: list[Entry] = field(default_factory=list)
    digest: str = GENESIS.hex()
    state: State = INITIAL
    outcomes: Counter[tuple[object, ...]] = field(default_factory=Counter)
    inherited: int = 0
    to_edit: list[int] = field(default_factory=list)
    is_of_summariser: bool = False
    """True for a fork in which others than the summariser stay at rest, whatever they were at."""
    is_erased: bool = False
    """True if words of it were erased: processes that have it open may still have them in memory."""


class Watcher:
    """Reads the log after each commit, and compares it with what it read before and with other processes.

    `world` has the APIs of models, and the verdicts of checks. One in `every` of the requests that were sent
    is built again.
    """

    def __init__(self, path: str, world: World, every: int = 1) -> None:
        self.path = path
        self.world = world
        self.log: Log = stenolog.open(path, synchronous="normal")
        self.known: dict[str, Known] = {}
        self.apis = world.api
        self.every = every
        self._seen = 0

    def look(self) -> list[str]:
        """Read and check the new entries; return the names of the conversations that have grown."""
        new_ones = self.log.application.recorder.select_notifications(self._seen + 1, limit=1_000)
        self._seen = new_ones[-1].id if new_ones else self._seen
        grown = list(dict.fromkeys(str(one.originator_id) for one in new_ones))
        for name in grown:
            known = self.known.get(name)
            conversation = self.log[name]
            new = list(conversation.entries(after=len(known.entries) if known else 0))
            if known is None:
                known = self.known[name] = Known(Orders(self.apis), is_of_summariser=name.startswith("zoe~"))
                known.inherited = self._inherited(new)
            self._check_chain(conversation, known)
            for entry in new:
                self._take(name, known, entry)
            self._check_edits(name, known)
            if known.orders.owes:
                raise BrokenInvariantError(f"handoff: {name}: {known.orders.owes} has no message of it")
        return grown

    def acknowledged(self, entries: Iterable[Entry]) -> None:
        """Check entries that a process was told of: they stand in the log."""
        told = list(entries)
        if any(entry.position > self._length(entry) for entry in told):
            self.look()
        for entry in told:
            known = self.known.get(entry.conversation)
            found = (
                known.entries[entry.position - 1] if known and entry.position <= len(known.entries) else None
            )
            if found is None or found.digest != entry.digest:
                raise BrokenInvariantError(
                    f"acknowledged: not in the log: {entry!r:.200}; there is {found!r:.200}"
                )

    def check_states(self, name: str, logs: Sequence[Log]) -> None:
        """Check that each log gives the fold of the entries as a conversation's state."""
        known = self.known[name]
        for log in self._logs(known, logs):
            told = log[name].state()
            if told != known.state:
                raise BrokenInvariantError(
                    f"state: {name}: that of {log!r} is {told}, the fold {known.state}"
                )

    def check_requests(self, name: str, logs: Sequence[Log], number: int | None = None) -> None:
        """Check that each lane's request is valid, and the one that the builder makes from a fresh read.

        A `number` selects one of the lanes; it may be any number.
        """
        known = self.known[name]
        fresh = list(self.log[name].entries())
        if fresh != known.entries:
            raise BrokenInvariantError(f"entries: {name}: one that stood in the log has changed, or is gone")
        here = known.state.lanes.values()
        apis = {lane: self.apis.get(known.orders.card_of(lane.agent).model, "") for lane in here}
        lanes = [lane for lane in here if lane.status != "closed" and apis[lane]]
        for lane in lanes if number is None or not lanes else [lanes[number % len(lanes)]]:
            api = apis[lane]
            expected = build_reference(fresh, lane.agent, task=lane.task, api=api, blobs=self.log.blobs)
            if expected.sendable and (broken := validate(api, expected.body)):
                raise BrokenInvariantError(f"law: {name}: the request of {lane.address} breaks {broken[0]}")
            for log in self._logs(known, logs):
                found = log[name].request(lane.agent, api=api, task=lane.task)
                if found != expected:
                    what = difference(found, expected)
                    raise BrokenInvariantError(f"request: {name}: that of {lane.address} has another {what}")

    @property
    def unfinished(self) -> list[str]:
        """The conversations with something left to do: a busy lane, a claim, a message that waits."""
        claimed = {claim.conversation for claim in self._claims()}
        return [
            name
            for name, known in self.known.items()
            if name in claimed or self._busy(known) or (queue(known.entries) and not self._strangers(known))
        ]

    @property
    def waiting(self) -> list[str]:
        """The conversations in which a call waits for approval."""
        return [
            name
            for name, known in self.known.items()
            if any(lane.status == "awaiting_approval" for lane in known.state.lanes.values())
            and not known.is_of_summariser
        ]

    def check_end(self, number: int | None = None) -> None:
        """Check the end: no lane is busy, no message waits, no claim is left, and the whole log verifies."""
        self.look()
        for name, known in self.known.items():
            for lane in self._busy(known):
                raise BrokenInvariantError(f"waits: {name}: {lane.address} is {lane.status} for ever")
            if (waits := queue(known.entries)) and not self._strangers(known):
                raise BrokenInvariantError(f"waits: {name}: the messages at {waits} are never said")
            self.check_requests(name, [self.log], number)
            self.check_states(name, [self.log])
        if claims := self._claims():
            raise BrokenInvariantError(f"claims: some are left: {claims}")
        with stenolog.open(self.path, synchronous="normal") as log:
            report = verify(log)
        if not report.ok:
            raise BrokenInvariantError(f"verify: {report.problems[:2]}")

    def check_answers(self, told: Mapping[str, object]) -> None:
        """Check that tools were told the answers that stand in the log."""
        for name, known in self.known.items():
            here = {} if known.is_erased else known.orders.answers
            for question, answer in here.items():
                if question in told and told[question] != answer:
                    found = f"{question} was told {told[question]}, not {answer}"
                    raise BrokenInvariantError(f"answers: {name}: {found}")

    def close(self) -> None:
        """Close the watcher's log."""
        self.log.close()

    def _claims(self) -> list[OpenClaim]:
        """Return the claims on lanes that every run works on."""
        return [claim for claim in self.log.claims() if claim.lane.partition("/")[0] in TEAM]

    def _busy(self, known: Known) -> list[LaneState]:
        """Return the busy lanes that every run works on."""
        here = () if known.is_of_summariser else known.state.lanes.values()
        return [lane for lane in here if lane.status in BUSY and lane.agent in TEAM]

    def _strangers(self, known: Known) -> bool:
        """Return whether a lane is busy that no run works on, as those of imports may be."""
        lanes = known.state.lanes.values()
        return known.is_of_summariser or any(lane.status in BUSY and lane.agent not in TEAM for lane in lanes)

    def _logs(self, known: Known, logs: Sequence[Log]) -> Iterator[Log]:
        """Yield the logs to be asked: a new one, where the others may have erased words in memory."""
        if not known.is_erased:
            yield from logs
        else:
            with stenolog.open(self.path, synchronous="normal") as log:
                yield log

    def _length(self, entry: Entry) -> int:
        known = self.known.get(entry.conversation)
        return len(known.entries) if known else 0

    def _inherited(self, entries: Sequence[Entry]) -> int:
        forks = [e.position - 1 for e in entries if getattr(e.event, "fork", False)]
        return max(forks, default=0)

    def _check_chain(self, conversation: Conversation, known: Known) -> None:
        digest = bytes.fromhex(known.digest)
        position = len(known.entries)
        for record in conversation.records(after=position):
            position += 1
            again = make_record(
                digest, position, record.id, record.time, record.topic, record.salt, record.payload
            )
            if again != record and record.erased is None:
                raise BrokenInvariantError(
                    f"chain: {conversation.name}: it is broken at {position}: {record!r:.200}"
                )
            digest = record.digest

    def _take(self, name: str, known: Known, entry: Entry) -> None:
        known.entries.append(entry)
        known.digest = entry.digest
        known.state = evolve(known.state, entry)
        known.is_erased = known.is_erased or is_gone(entry.event)
        if erasure := erasure_of(entry.event):
            self._erase(name, known, erasure.positions)
        broken = known.orders.take(entry)
        if entry.position <= known.inherited:
            return
        if broken:
            rule, _, found = broken.partition(": ")
            raise BrokenInvariantError(f"{rule}: {name}: at {entry.position}: {found}")
        for outcome in self._outcomes(entry):
            known.outcomes[outcome] += 1
            if known.outcomes[outcome] > 1:
                raise BrokenInvariantError(
                    f"outcomes: {name}: two of one effect, {outcome}, at {entry.position}"
                )
        event = entry.event
        if isinstance(event, AssistantMessage) and event.agent in TEAM and event.purpose == "answer":
            self._check_verdict(name, known, event, entry.position)
        if isinstance(event, ToolResult) and (fault := self.world.judge.result_fault(event)):
            raise BrokenInvariantError(f"{fault}: {name}: at {entry.position}")
        if not isinstance(event, AssistantMessage | LlmError) or event.receipt is None:
            return
        if entry.position % self.every == 0 and not known.is_erased:
            self._check_receipt(name, known, entry, event)

    def _erase(self, name: str, known: Known, gone: Sequence[int]) -> None:
        """Check that exactly the erased entries have lost their words, and fold the rest anew."""
        fresh = list(self.log[name].entries(at=len(known.entries)))
        for old, new in zip(known.entries, fresh, strict=True):
            if is_gone(new.event) != (old.position in gone or is_gone(old.event)):
                raise BrokenInvariantError(f"erased: {name}: position {old.position} is {new.event!r:.200}")
            if new != (old._replace(event=new.event) if is_gone(new.event) else old):
                raise BrokenInvariantError(f"entries: {name}: {old!r:.200} has become {new!r:.200}")
        known.entries, known.state, known.is_erased = fresh, reduce(evolve, fresh, INITIAL), True
        known.orders = Orders(self.apis)
        for entry in fresh:
            known.orders.take(entry)

    def _outcomes(self, entry: Entry) -> Iterator[tuple[object, ...]]:
        match entry.event:
            case ToolResult(text=text, call=call) as result if call is not None and result.source is None:
                if text not in NOT_RUN and FORKED not in text:
                    yield "tool", call.entry, call.index
            case (
                AssistantMessage(agent=agent, task=task, receipt=receipt)
                | LlmError(agent=agent, task=task, receipt=receipt)
            ) if receipt is not None:
                yield "model", agent, task, receipt.view
            case _:
                pass

    def _check_edits(self, name: str, known: Known) -> None:
        """Check that answers that a check replaced have their edits behind them, in the same commit."""
        for position in known.to_edit:
            behind = known.entries[position].event if position < len(known.entries) else None
            if getattr(behind, "replaces", None) != position:
                raise BrokenInvariantError(f"checks: {name}: the answer at {position} was not replaced")
        known.to_edit.clear()

    def _check_verdict(self, name: str, known: Known, said: AssistantMessage, position: int) -> None:
        if fault := self.world.judge.fault(said, is_typed=self.world.is_typed[said.agent]):
            raise BrokenInvariantError(f"{fault}: {name}: at {position}")
        if said.receipt is not None and self.world.judge.verdicts.get(f"polite {said.text}") == "replace":
            known.to_edit.append(position)

    def _check_receipt(
        self, name: str, known: Known, entry: Entry, event: AssistantMessage | LlmError
    ) -> None:
        receipt = event.receipt
        assert receipt is not None
        api = receipt.api.partition("@")[0]
        built = build_reference(
            known.entries[: receipt.view],
            event.agent,
            task=event.task,
            api=api,
            policy=receipt.policy,
            blobs=self.log.blobs,
        )
        if built.sha256 != receipt.sha256:
            raise BrokenInvariantError(f"receipt: {name}: that at {entry.position} is of another request")
        limit = known.orders.card_of(event.agent, receipt.view).context_limit
        if 0 < limit < built.tokens and not built.policy.history.delta:
            raise BrokenInvariantError(f"limit: {name}: {built.tokens} of {limit} tokens at {entry.position}")


def difference(found: Request, expected: Request) -> str:
    """Describe the first difference between a request and the one that was built anew."""
    for what in ("body", "parts", "omissions", "sendable", "reason", "cuts", "cut", "at", "policy"):
        here, there = getattr(found, what), getattr(expected, what)
        if here != there:
            return f"{what}: {here}, built anew {there}"
    return "something"
