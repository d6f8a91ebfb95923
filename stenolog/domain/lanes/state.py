"""State of a conversation: counters, references and the summaries in force, never text.

A lane is (agent, task): one line of work. Its address is `agent`, or `agent/task`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Annotated, Literal, NamedTuple, TypeAlias

from stenolog.domain.base.model import FrozenDict
from stenolog.domain.base.schema import Check
from stenolog.domain.erasure import DAMAGED
from stenolog.domain.errors import CorruptLogError, StoredDataError, UnsupportedVersionError
from stenolog.domain.events import AssistantMessage, Event, ToolResult
from stenolog.domain.values import CallRef, PositionRange, Receipt, TurnPolicy

from .lifecycle import Status

Spans = Sequence[PositionRange]


class Summary(NamedTuple):
    """A summary at a position: its author's lane, the spans it covers, the lanes named.

    It was made for its author's lane and those in `to`: addresses, or names of agents for all their lanes. It
    hides nothing from others.
    """

    position: int
    author: str
    spans: tuple[PositionRange, ...]
    to: tuple[str, ...] = ()

    @property
    def last(self) -> int:
        """The last position that it covers."""
        return max(span.last for span in self.spans)

    def is_for(self, where: str) -> bool:
        """Return whether it was made for the lane of an address."""
        return where in (self.author, *self.to) or where.partition("/")[0] in self.to

    @property
    def lanes(self) -> tuple[str, ...]:
        """The addresses that it was made for, and names of agents."""
        return (self.author, *self.to)

    def covers(self, position: int) -> bool:
        """Return whether the summary replaces that position."""
        return any(span.first <= position <= span.last for span in self.spans)

    def holds(self, other: Summary) -> bool:
        """Return whether the summary covers all that the other one covers."""
        return all(
            any(outer.first <= span.first and span.last <= outer.last for outer in self.spans)
            for span in other.spans
        )

    def overlaps_partly(self, other: Summary) -> bool:
        """Return whether it covers some of the other one's positions, but not all."""
        touches = any(a.first <= b.last and b.first <= a.last for a in self.spans for b in other.spans)
        return touches and not self.holds(other)


def summary_of(position: int, event: Event, earlier: Iterable[Summary] = ()) -> Summary | None:
    """Return the summary that an entry makes, with the positions that its author was sent; else None.

    `earlier` are the summaries in force: an author that was sent one knows what it covers.
    """
    match event:
        case AssistantMessage(covers=(_, *_) as spans):
            summary = Summary(position, address(event.agent, event.task), tuple(spans), tuple(event.to))
            if event.receipt is not None:
                summary = _as_sent(summary, event.receipt, earlier)
            return summary if summary.spans else None
        case _:
            return None


def _as_sent(summary: Summary, receipt: Receipt, earlier: Iterable[Summary]) -> Summary:
    """Return a summary without what its author's request did not have: later or cut entries."""
    cut = [PositionRange(first=first, last=last) for first, last in cut_runs(receipt)]
    since = PositionRange(first=max(receipt.view + 1, 1), last=max(summary.position, receipt.view + 1))
    known = [
        other.spans
        for other in earlier
        if summary.holds(other) and other.is_for(summary.author) and other.position not in since
        if not any(other.position in run for run in cut)
    ]
    unsent = [span for run in cut for span in without([run], [span for spans in known for span in spans])]
    return summary._replace(spans=without(summary.spans, [*unsent, since]))


def cut_runs(receipt: Receipt) -> list[tuple[int, int]]:
    """Return the runs cut from a request; its plan may hold other things, too."""
    cut = receipt.plan.get("cut")
    found = []
    for run in cut if isinstance(cut, Sequence) else ():
        match run:
            case [int(first), int(last)] if 0 < first <= last:
                found.append((first, last))
            case _:
                pass
    return found


def without(spans: Iterable[PositionRange], holes: Spans) -> tuple[PositionRange, ...]:
    """Return the spans without the positions in some others."""
    gone = sorted((hole.first, hole.last) for hole in holes)
    left: list[PositionRange] = []
    for span in spans:
        first = span.first
        for begin, end in gone:
            if begin > span.last:
                break
            if first < begin:
                left.append(PositionRange(first=first, last=begin - 1))
            first = max(first, end + 1)
        if first <= span.last:
            left.append(PositionRange(first=first, last=span.last))
    return tuple(left)


def fault(summary: Summary, summaries: Iterable[Summary], open_calls: Iterable[int]) -> str:
    """Return why a summary must not replace the messages that it covers; "" if it may.

    `summaries` are those in force, `open_calls` the positions of calls without a result.
    """
    for span in summary.spans:
        if not span.first <= span.last < summary.position:
            return f"covers {span.first}-{span.last}, which is not within 1-{summary.position - 1}"
    # The result that is still to come would have lost its call.
    for position in open_calls:
        if summary.covers(position):
            return f"covers {in_words(summary.spans)}, and in it the open call at {position}"
    for other in summaries:
        # A part of a summary cannot be taken out of it.
        if _share(summary, other) and summary.overlaps_partly(other):
            covered, known = in_words(summary.spans), in_words(other.spans)
            return f"covers {covered}, and so a part of the summary of {known}"
    return ""


def _share(summary: Summary, other: Summary) -> bool:
    return any(map(summary.is_for, other.lanes)) or any(map(other.is_for, summary.lanes))


def joined(summaries: Iterable[Summary], summary: Summary) -> tuple[Summary, ...]:
    """Return the summaries in force after one more, which ends those that it contains for their lanes."""
    ended = [other for other in summaries if summary.holds(other) and all(map(summary.is_for, other.lanes))]
    return (*(other for other in summaries if other not in ended), summary)


def in_words(spans: Spans) -> str:
    """Return the spans as `1-4, 7`."""
    return runs_in_words((span.first, span.last) for span in spans)


def runs_in_words(runs: Iterable[tuple[int, int]]) -> str:
    """Return runs of positions, by first and last, as `1-4, 7`."""
    return ", ".join(f"{first}" if first == last else f"{first}-{last}" for first, last in runs)


def address(agent: str, task: str = "") -> str:
    """Return the address of a lane: `agent`, or `agent/task`."""
    return f"{agent}/{task}" if task else agent


PAUSED = "pause_turn"
"""The finish reason of an answer that its provider goes on with, once it is sent back."""


class OpenCall(NamedTuple):
    """A tool call without its result: the entry that holds it, and its index there.

    `approved` is the position of its approval (0: none), which gave other arguments if `edited`. `question`
    is the position of the question that its tool waits for (0: none), `questions` the number asked so far.
    `ends`: a result that is no error ends the agent's run.
    """

    entry: str
    position: int
    nth: int
    id: str
    name: str
    approval: bool = False
    approved: int = 0
    edited: bool = False
    question: int = 0
    questions: int = 0
    ends: bool = False

    @property
    def waits(self) -> bool:
        """True while a person has to approve it, or to answer its tool."""
        return self.approval or bool(self.question)


class LaneState(NamedTuple):
    """One line of work.

    `asked` is the position that the lane has to answer (a message or a tool result; 0: none), `answered` that
    of its last answer, and `seen` the view that this was built on. `calls` are its calls without a result,
    while the lane awaits tools or an approval. `steps` counts its answers since a person last spoke to it,
    `attempt` the failures in a row, the last of `category`. `response` is the foreign id of that answer:
    further messages of that id are parts of the same response. `has_ended`: a result has ended the run, and
    calls beside it are still open.
    """

    agent: str
    task: str = ""
    status: Status = "idle"
    asked: int = 0
    answered: int = 0
    calls: tuple[OpenCall, ...] = ()
    attempt: int = 0
    retry_at: datetime | None = None
    steps: int = 0
    session: str = ""
    seen: int = 0
    category: str = ""
    response: str = ""
    has_ended: bool = False

    @property
    def address(self) -> str:
        """`agent`, or `agent/task`."""
        return f"{self.agent}/{self.task}" if self.task else self.agent


class Blocked(NamedTuple):
    """The first entry that this release does not understand and may not pass over."""

    position: int
    topic: str
    needs: str


class TurnState(NamedTuple):
    """The turn order's state, under a rule that hands turns on; see `turns`.

    `holders` are the lanes that have the turn, `last_holder` is the last lane that got it, at `granted_at`.
    `last_person_at` is the position of a person's last message without an addressee. `turns_since`,
    `passes_in_row` and `failures_in_row` count from there. `last_answer_at` is the position of the last
    answer in turn that was no pass, `last_answer_by` its lane; `previous_answer_at` is that of the last one
    by another lane. `handed_to` are the lanes that the turn goes to next. `end_reason` says why no lane has
    the turn. `transfers` are calls of holders that hand on: the caller, and who takes over. `handed_by` are
    the lanes that have handed on so, the latest last, until the turn comes back to one.
    """

    holders: tuple[str, ...] = ()
    last_holder: str = ""
    granted_at: int = 0
    last_person_at: int = 0
    turns_since: int = 0
    passes_in_row: int = 0
    failures_in_row: int = 0
    last_answer_at: int = 0
    last_answer_by: str = ""
    previous_answer_at: int = 0
    handed_to: tuple[str, ...] = ()
    end_reason: str = ""
    transfers: tuple[tuple[str, str], ...] = ()
    handed_by: tuple[str, ...] = ()


class State(NamedTuple):
    """The state of the conversation after `position`; nothing in it can be changed.

    `waiting` is the position of a message that no agent was there to answer. `approvals` names, per agent,
    the tools whose calls a person must approve, `endings` those that end its run. `summaries` are those in
    force, until a larger one contains them, or an entry hides or resets their messages. `turns` is the turn
    rule as recorded, `turn_state` its state.
    """

    position: int = 0
    lanes: Annotated[Mapping[str, LaneState], Check(FrozenDict)] = FrozenDict()
    members: tuple[str, ...] = ()
    waiting: int = 0
    approvals: Annotated[Mapping[str, tuple[str, ...]], Check(FrozenDict)] = FrozenDict()
    endings: Annotated[Mapping[str, tuple[str, ...]], Check(FrozenDict)] = FrozenDict()
    summaries: tuple[Summary, ...] = ()
    blocked: Blocked | None = None
    anomalies: int = 0
    turns: TurnPolicy | None = None
    turn_state: TurnState = TurnState()

    def lane(self, where: str) -> LaneState:
        """Return the lane of an address; a new, idle one if it has not worked yet."""
        found = self.lanes.get(where)
        if found is not None:
            return found
        agent, _, task = where.partition("/")
        # A message may have come before any agent was there to answer it.
        return LaneState(agent, task, asked=self.waiting)

    def lanes_of(self, agent: str) -> tuple[LaneState, ...]:
        """Return the agent's own lane, be it a new one, and those of its tasks."""
        tasks = (lane for lane in self.lanes.values() if lane.task and lane.agent == agent)
        return (self.lane(agent), *tasks)

    def is_open(self, where: str) -> bool:
        """Return whether the agent of an address has not left, with all its tasks."""
        lane = self.lanes.get(where) or self.lanes.get(where.partition("/")[0])
        return lane is None or lane.status != "closed"

    def takes_part(self, where: str) -> bool:
        """Return whether the lane's agent joined, or the lane spoke, and the agent has not left."""
        known = where in self.lanes or where.partition("/")[0] in self.members
        return known and self.is_open(where)

    def open_calls(self) -> tuple[tuple[LaneState, OpenCall], ...]:
        """Return every call without a result, with its lane."""
        return tuple([(lane, call) for lane in self.lanes.values() for call in lane.calls])


def find_call(state: State, result: ToolResult) -> tuple[LaneState, OpenCall] | None:
    """Return the open call that a result belongs to: the one it names, else the nearest of its id."""
    if result.call is not None:
        return named_call(state, result.call)
    same = [(lane, call) for lane in state.lanes.values() for call in lane.calls if call.id == result.call_id]
    if len(same) < 2:
        return same[0] if same else None
    # Providers use ids again: the newest answer's call is meant, and of one answer the first.
    return max(same, key=lambda pair: (pair[1].position, -pair[1].nth))


def named_call(state: State, ref: CallRef) -> tuple[LaneState, OpenCall] | None:
    """Return the open call of that entry and index, with its lane."""
    for lane in state.lanes.values():
        for call in lane.calls:
            if call.nth == ref.index and call.entry == ref.entry:
                return lane, call
    return None


Do: TypeAlias = Literal["call_model", "run_tools", "ask_approval", "wait", "stop"]


class Decision(NamedTuple):
    """The one thing that a lane must do next.

    `cause` is the position that it answers; `time` the earliest time of the next attempt.
    """

    do: Do
    cause: int = 0
    calls: tuple[OpenCall, ...] = ()
    attempt: int = 0
    time: datetime | None = None
    reason: str = ""


def decision(state: State, lane: LaneState) -> Decision:
    """Return the lane's next action, derived from the state."""
    if state.blocked is not None:
        return Decision("stop", reason=blocked_reason(state.blocked))
    match lane.status:
        case "awaiting_llm":
            return Decision("call_model", cause=lane.asked, attempt=lane.attempt + 1, time=lane.retry_at)
        case "awaiting_tools":
            return Decision("run_tools", cause=lane.answered, calls=lane.calls)
        case "awaiting_approval":
            asks = tuple(call for call in lane.calls if call.waits)
            return Decision("ask_approval", cause=lane.answered, calls=asks)
        case "failed":
            why = f"failed: {lane.category}" if lane.category else "failed"
            reason = "; ".join(filter(None, (why, _quiet(state.turn_state))))
            return Decision("wait", cause=lane.asked, attempt=lane.attempt, reason=reason)
        case "closed":
            return Decision("stop", reason="the agent has left")
        case "idle":
            return Decision("wait", reason=_quiet(state.turn_state))


def _quiet(turn_state: TurnState) -> str:
    """Return the reason why an idle lane waits, under a rule that hands turns on."""
    if not turn_state.holders:
        return turn_state.end_reason
    return f"{', '.join(turn_state.holders)} {'has' if len(turn_state.holders) == 1 else 'have'} the turn"


def blocked_reason(blocked: Blocked) -> str:
    """Return why nothing can be decided after an unknown or damaged event, and what to do."""
    if blocked.topic == DAMAGED:
        return (
            f"the entry at position {blocked.position} is damaged ({blocked.needs}): fork after position "
            f"{blocked.position - 1}, restore a backup, or write what is intact into a new log with "
            "`stenolog db salvage`"
        )
    needs = f"stenolog {blocked.needs}" if blocked.needs else "a later release of stenolog"
    return f"{blocked.topic} at position {blocked.position} needs {needs}"


def blocked_error(blocked: Blocked) -> StoredDataError:
    """Return the error for a decision or a request after an unknown or damaged event."""
    kind = CorruptLogError if blocked.topic == DAMAGED else UnsupportedVersionError
    return kind(blocked_reason(blocked))
