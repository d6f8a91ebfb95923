"""The request of one lane at the end of a log: a pipeline of small rules, each of which is explained.

visible → voice → groups and seals → prefix → wire. Pure: the same log gives the same bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from stenolog.domain.entry import Entry
from stenolog.domain.errors import CallerError, UnknownAgent
from stenolog.domain.events import AssistantMessage, LlmError, ModeSwitch, ToolResult, UserMessage
from stenolog.domain.parts import Part
from stenolog.domain.policy import PolicyLike
from stenolog.domain.state import State
from stenolog.domain.step import fold
from stenolog.projections.context import Context, context

from .groups import seal
from .model import Dropped, Omitted, Piece, Request
from .prefix import prefix
from .tokens import COUNTERS, Counter, count_part, count_parts
from .visible import Lane, visible
from .voice import voice
from .wires import WIRES
from .wires.sheet import EMPTY_BLOBS, NOT_CARRIED

DEFAULT_WIRE = "openai-chat"


def build(
    entries: Iterable[Entry],
    agent: str,
    *,
    task: str = "",
    wire: str = DEFAULT_WIRE,
    blobs: Mapping[str, bytes] = EMPTY_BLOBS,
    state: State | None = None,
    policy: PolicyLike = None,
    counters: Mapping[str, Counter] = COUNTERS,
) -> Request:
    """What the lane (agent, task) would be sent after these entries, on a wire.

    `state` is the state after the entries, where it is known already.

    Raises `UnknownAgent` where no such agent takes part, `LaterRelease` where an entry needs one.
    """
    log = list(entries)
    if wire not in WIRES:
        raise CallerError(f"wire {wire!r} is unknown; expected one of {', '.join(WIRES)}")
    lane = Lane(agent, task)
    now = context(log)
    _check_agent(log, lane, now)
    seen = visible(log, lane, now)
    said = voice(seen, lane, now.pairing)
    pieces = seal(said, {key for key, at in now.pairing.results.items() if at in seen.left_out})
    reason = _why_not(fold(log) if state is None else state, lane, pieces)
    heard = {position for piece in pieces for position in piece.positions}
    silent = {e.position: "nothing-said" for e in seen.shown if e.position not in heard}
    unsaid = [
        Omitted(p.positions, NOT_CARRIED[type(part)], count_part(part)) for p in said for part in p.unsaid
    ]
    front = prefix(log, lane, now.settings.cards.get(agent), pieces)
    rendered = WIRES[wire].render(pieces, front, blobs)
    return Request(
        agent=agent,
        task=task,
        upto=log[-1].position if log else 0,
        wire=f"{wire}@{WIRES[wire].version}",
        body=rendered.body,
        sendable=not reason,
        reason=reason,
        parts=rendered.parts,
        dropped=tuple(_runs(log, seen.left_out | silent, [*unsaid, *rendered.omitted])),
    )


def every_request(
    entries: Iterable[Entry],
    agent: str,
    *,
    task: str = "",
    wire: str = DEFAULT_WIRE,
    policy: PolicyLike = None,
    blobs: Mapping[str, bytes] = EMPTY_BLOBS,
    counters: Mapping[str, Counter] = COUNTERS,
) -> Iterator[Request]:
    """The lane's request after each entry from the first that it takes part in."""
    log = list(entries)
    for length in range(1, len(log) + 1):
        if Lane(agent, task) in lanes(log[:length]):
            yield build(
                log[:length], agent, task=task, wire=wire, policy=policy, blobs=blobs, counters=counters
            )


def _why_not(state: State, lane: Lane, pieces: Sequence[Piece]) -> str:
    """Why nobody would send this here: empty where the lane waits for its model, or may be told to go on."""
    if pieces[-1].rule == "preview-note":
        own = len(pieces) > 1
        return "nothing to answer: the last word is the agent's own" if own else "nothing has been said to it"
    stands = state.lane(lane.address)
    if lane.address not in state.lanes and stands.asked:
        return ""
    match stands.status:
        case "awaiting_llm" | "failed":
            return ""
        case "awaiting_tools":
            return f"{len(stands.calls)} of its calls have no result yet"
        case "awaiting_approval":
            return f"{sum(call.approval for call in stands.calls)} of its calls await approval"
        case "closed":
            return "the agent has left"
        case "idle":
            return "nothing to answer: the lane is idle"


def lanes(entries: Iterable[Entry]) -> tuple[Lane, ...]:
    """Every lane that has taken part or was addressed, in order of appearance."""
    log = list(entries)
    return tuple(dict.fromkeys(lane for entry in log for lane in _lanes_of(entry)))


def _lanes_of(entry: Entry) -> Iterator[Lane]:
    match entry.event:
        case AssistantMessage(agent=agent, task=task) | LlmError(agent=agent, task=task):
            yield Lane(agent, task)
        case UserMessage(to=to):
            for where in to:
                agent, _, task = where.partition("/")
                yield Lane(agent, task)
        case ModeSwitch(joins=joins, cards=cards):
            for agent in (*joins, *cards):
                yield Lane(agent)
        case _:
            pass


def _check_agent(log: Sequence[Entry], lane: Lane, now: Context) -> None:
    known = lanes(log)
    if lane not in known and lane.agent not in {other.agent for other in known}:
        names = ", ".join(other.address for other in known) or "nobody yet"
        where = log[-1].conversation if log else "the conversation"
        raise UnknownAgent(f"{where!r}: no agent {lane.agent!r} takes part; known are {names}")


def _parts(entry: Entry) -> tuple[Part, ...]:
    match entry.event:
        case UserMessage(parts=parts) | ToolResult(parts=parts):
            return tuple(parts)
        case AssistantMessage(parts=said) | LlmError(parts=said):
            return tuple(said)
        case _:
            return ()


def _runs(log: Sequence[Entry], left_out: Mapping[int, str], omitted: Sequence[Omitted]) -> Iterator[Dropped]:
    """What was left out, neighbours of one rule as one run; then what the wire could not carry."""
    run: Dropped | None = None
    for entry in log:
        rule = left_out.get(entry.position, "")
        if run is not None and (rule != run.rule or entry.position != run.last + 1):
            yield run
            run = None
        if rule and rule != "setting":
            tokens = count_parts(_parts(entry))
            first, before = (run.first, run.tokens) if run is not None else (entry.position, 0)
            run = Dropped(first, entry.position, rule, before + tokens)
    if run is not None:
        yield run
    for positions, rule, tokens, what in omitted:
        yield Dropped(min(positions), max(positions), rule, tokens, what)
