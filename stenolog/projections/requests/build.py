"""The request of one lane at the end of a log: a pipeline of small rules, each of which is explained.

visible → voice → groups and seals → window → what stands around → wire. Pure: the same log gives the same
bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from stenolog.domain.entry import Entry
from stenolog.domain.errors import CallerError, InvalidPolicy, LaterRelease, UnknownAgent
from stenolog.domain.events import AssistantMessage, LlmError, ModeSwitch, UserMessage
from stenolog.domain.policy import Policy, PolicyLike, policy
from stenolog.domain.settings import NOTHING, Settings, configure, settings
from stenolog.domain.state import blocked_reason

from . import around
from .away import with_away
from .caps import limits
from .groups import closed
from .left_out import neighbours
from .model import Dropped, Explained, Omitted, Piece, Request
from .prefix import prefix
from .stays import positions_of, stays
from .tokens import COUNTERS, Counter, count_part
from .visible import Lane
from .window import Shown, Window
from .window import window as window_of
from .wires import WIRES, Wire
from .wires.sheet import EMPTY_BLOBS, NOT_CARRIED

DEFAULT_WIRE = "openai-chat"


def build(
    entries: Iterable[Entry],
    agent: str,
    *,
    task: str = "",
    wire: str | Wire = DEFAULT_WIRE,
    policy: PolicyLike = None,
    blobs: Mapping[str, bytes] = EMPTY_BLOBS,
    counters: Mapping[str, Counter] = COUNTERS,
) -> Request:
    """What the lane (agent, task) would be sent after these entries, on a wire.

    `policy` None is the one on the agent's card. Raises `UnknownAgent` where no such agent takes part,
    `LaterRelease` where an entry needs one, `InvalidPolicy`.
    """
    log = list(entries)
    now = settings(log) if policy is None else NOTHING
    chosen, counter = choose(now, agent, policy, counters)
    return from_window(window_of(Lane(agent, task), chosen, log, counter, blobs), wire, blobs)


def every_request(
    entries: Iterable[Entry],
    agent: str,
    *,
    task: str = "",
    wire: str | Wire = DEFAULT_WIRE,
    policy: PolicyLike = None,
    blobs: Mapping[str, bytes] = EMPTY_BLOBS,
    counters: Mapping[str, Counter] = COUNTERS,
) -> Iterator[Request]:
    """The lane's request after each entry from the first that it takes part in. Raises as `build`."""
    log = list(entries)
    lane = Lane(agent, task)
    for window in windows(log, lane, policy, counters, blobs):
        if takes_part(window):
            yield from_window(window, wire, blobs)


def windows(
    log: Sequence[Entry],
    lane: Lane,
    given: PolicyLike,
    counters: Mapping[str, Counter] = COUNTERS,
    blobs: Mapping[str, bytes] = EMPTY_BLOBS,
) -> Iterator[Window]:
    """The lane's window after each entry: one window, unless the policy on its card changes.

    A policy that cannot be used has no windows until a later one mends it. Raises `InvalidPolicy` at the end
    where none did.
    """
    now, window = NOTHING, None
    refused: InvalidPolicy | None = None
    for length, entry in enumerate(log, 1):
        before, now = now, configure(now, entry)
        changed = before.card_of(lane.agent).policy != now.card_of(lane.agent).policy
        if length == 1 or (given is None and changed):
            window = refused = None
            try:
                chosen, counter = choose(now, lane.agent, given, counters)
                window = window_of(lane, chosen, log[:length], counter, blobs)
            except InvalidPolicy as error:
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
        raise InvalidPolicy(f"/budget/counter: expected one of {known}, found {chosen.counter!r}") from None


def from_window(window: Window, wire: str | Wire, blobs: Mapping[str, bytes] = EMPTY_BLOBS) -> Request:
    """The request of what is in a window."""
    out = _wire(wire)
    if window.state.blocked is not None:
        raise LaterRelease(blocked_reason(window.state.blocked))
    if not takes_part(window):
        raise UnknownAgent(_unknown(window))
    lane, card = window.lane, window.settings.card_of(window.lane.agent)
    shown = window.shown()
    units, delivered = _undelivered(window, shown)
    told = with_away(units, shown.entries, lane, window.policy.away, window.own.began)
    said = [piece for unit in told for piece in unit]
    around_it = [around.cut_note(window), *closed(said), around.last(window, card, shown.entries)]
    pieces = [piece for piece in around_it if piece is not None]
    front = prefix(
        lane.address,
        card,
        around.first(window, card),
        pieces,
        model=window.own.model,
        set_at=(window.own.set_at["card"],) if "card" in window.own.set_at else (),
        counter=window.counter,
    )
    rendered = out.render(pieces, front, blobs)
    request = Request(
        agent=lane.agent,
        task=lane.task,
        upto=window.position,
        wire=f"{out.name}@{out.version}",
        body=rendered.body,
        sendable=True,
        reason="",
        parts=rendered.parts,
        dropped=tuple(_dropped(window, shown, said, delivered, rendered.omitted)),
        policy=window.policy,
        counter=window.counter.id,
        cuts=window.cuts,
    )
    reasons = (_why_not(window, said), _over_budget(window, shown, request))
    reason = "; ".join(reason for reason in reasons if reason)
    return replace(request, sendable=not reason, reason=reason)


def lanes(entries: Iterable[Entry]) -> tuple[Lane, ...]:
    """Every lane that has taken part or was addressed, in order of appearance."""
    return tuple(dict.fromkeys(lane for entry in entries for lane in _lanes_of(entry)))


def _wire(wire: str | Wire) -> Wire:
    if isinstance(wire, Wire):
        return wire
    if wire not in WIRES:
        raise CallerError(f"wire {wire!r} is unknown; expected one of {', '.join(WIRES)}")
    return WIRES[wire]


def takes_part(window: Window) -> bool:
    """Whether the window's agent is known: it has a card, has joined, was addressed, or has spoken."""
    agent, state = window.lane.agent, window.state
    return (
        not window.own.set_at.keys().isdisjoint(("card", "named"))
        or agent in state.members
        or any(lane.agent == agent for lane in state.lanes.values())
    )


def _unknown(window: Window) -> str:
    """Who is known, for those who asked for somebody else."""
    known = dict.fromkeys([*window.settings.cards, *window.state.members, *window.state.lanes])
    names = ", ".join(known) or "nobody yet"
    return f"no agent {window.lane.agent!r} takes part; known are {names}"


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


def _undelivered(window: Window, shown: Shown) -> tuple[list[tuple[Piece, ...]], set[int]]:
    """Under `Delta`, what the backend does not have yet, and the positions that it has; else all.

    It has its own words and what they were built on. An answer stays with results that it has not had.
    """
    own, seen = window.own, window.state.lane(window.lane.address).seen
    if not window.policy.history.delta or not own.answered or own.died >= own.answered:
        return shown.units, set()
    fresh, had = [], set[int]()
    for unit in shown.units:
        said_itself = unit[0].role == "assistant"
        if all(p <= seen or (said_itself and p <= own.answered) for p in positions_of(unit)):
            had |= positions_of(unit)
        else:
            fresh.append(unit)
    return fresh, had


def _dropped(
    window: Window, shown: Shown, said: Sequence[Piece], delivered: set[int], omitted: Sequence[Omitted]
) -> Iterator[Dropped]:
    """What is left out, neighbours of one rule as one run; then what a form or the wire cannot carry."""
    heard = {position for piece in said for position in piece.positions}
    rules = {entry.position: "nothing-said" for entry in shown.entries if entry.position not in heard}
    rules |= dict.fromkeys(delivered, "delivered") | shown.left_out
    runs = list(window.left_out)
    for row in window.rows:
        position = row.entry.position
        if position in rules:
            runs.append(Dropped(position, position, rules[position], row.tokens))
    yield from neighbours(runs)
    unsaid = (
        Omitted(piece.positions, NOT_CARRIED[type(part)], count_part(part, window.counter))
        for piece in said
        for part in piece.unsaid
    )
    for lost in (*unsaid, *omitted):
        first, last = min(lost.positions, default=0), max(lost.positions, default=0)
        yield Dropped(first, last, lost.rule, lost.tokens, lost.what)


def _why_not(window: Window, said: Sequence[Piece]) -> str:
    """Why nobody would send this here: empty where the lane waits for its model, or may be told to go on."""
    if not said or said[-1].role == "assistant":
        return (
            "nothing to answer: the last word is the agent's own" if said else "nothing has been said to it"
        )
    state, address = window.state, window.lane.address
    stands = state.lane(address)
    if address not in state.lanes and stands.asked:
        return ""
    match stands.status:
        case "awaiting_llm" | "failed":
            return ""
        case "awaiting_tools":
            return _calls(len(stands.calls), "has no result yet", "have no result yet")
        case "awaiting_approval":
            return _calls(sum(call.approval for call in stands.calls), "awaits approval", "await approval")
        case "closed":
            return "the agent has left"
        case "idle":
            return "nothing to answer: the lane is idle"


def _calls(number: int, does: str, do: str) -> str:
    return f"{number} of its calls {does if number == 1 else do}"


def _over_budget(window: Window, shown: Shown, request: Request) -> str:
    """What of a request is more than its budget has room for, and what must stay; empty where it fits."""
    budget = window.policy.budget
    if budget is None or request.size.fits(limits(budget)):
        return ""
    over = [
        f"{size:,} {name} of {limit:,}"
        for name, size, limit in zip(request.size._fields, request.size, limits(budget), strict=True)
        if size > limit
    ]
    reasons = {p: why for i, why in stays(window, shown).items() for p in positions_of(shown.units[i])}
    must = [part for part in request.parts if _stays(part, reasons)]
    largest = sorted(must, key=lambda part: -part.tokens_out)[:5]
    named = ", ".join(_named(part, reasons) for part in largest)
    return f"over budget ({', '.join(over)}), and this must stay: {named}"


def _stays(part: Explained, reasons: Mapping[int, str]) -> bool:
    """Whether no cut removes a part: it must stay, or it stands around the conversation."""
    return part.role in ("system", "tools", "parameters") or any(
        position in reasons for position in part.positions
    )


def _named(part: Explained, reasons: Mapping[int, str]) -> str:
    why = next((reasons[p] for p in part.positions if p in reasons), part.rule)
    where = f"position {part.positions[0]}" if part.positions else part.role
    return f"{where} ({why}, {part.tokens_out:,} tokens)"
