"""The request of one lane at the end of a log: a pipeline of small rules, each of which is explained.

visible → voice → groups and seals → prefix → wire. Pure: the same log gives the same bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from stenolog.domain.entry import Entry
from stenolog.domain.errors import CallerError, UnknownAgent
from stenolog.domain.events import AssistantMessage, LlmError, ModeSwitch, ToolResult, UserMessage
from stenolog.domain.parts import Part
from stenolog.projections.context import Context, context

from .groups import seal
from .model import Dropped, Omitted, Request
from .prefix import prefix
from .tokens import count_parts
from .visible import Lane, visible
from .voice import voice
from .wires import WIRES
from .wires.sheet import EMPTY_BLOBS

DEFAULT_WIRE = "openai-chat"


def build(
    entries: Iterable[Entry],
    agent: str,
    *,
    task: str = "",
    wire: str = DEFAULT_WIRE,
    blobs: Mapping[str, bytes] = EMPTY_BLOBS,
) -> Request:
    """What the lane (agent, task) would be sent after these entries, on a wire.

    Raises `UnknownAgent` where no such agent takes part, `LaterRelease` where an entry needs one.
    """
    log = list(entries)
    if wire not in WIRES:
        raise CallerError(f"wire {wire!r} is unknown; expected one of {', '.join(WIRES)}")
    lane = Lane(agent, task)
    now = context(log)
    _check_agent(log, lane, now)
    seen = visible(log, lane, now)
    pieces, reason = seal(voice(seen, lane, now.pairing))
    heard = {position for piece in pieces for position in piece.positions}
    silent = {e.position: "nothing-said" for e in seen.shown if e.position not in heard}
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
        dropped=tuple(_runs(log, seen.left_out | silent, rendered.omitted)),
    )


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
    for positions, rule, tokens in omitted:
        yield Dropped(min(positions), max(positions), rule, tokens)
