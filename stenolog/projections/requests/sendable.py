"""The finished request, and whether it may be sent."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import NamedTuple

from stenolog.domain.base.near_names import closest
from stenolog.domain.errors import AgentNotFoundError
from stenolog.domain.lanes.state import PAUSED, LaneState, blocked_error
from stenolog.projections.formats.base import Format
from stenolog.projections.formats.body_builder import OPENING
from stenolog.projections.formats.plain import write as plain
from stenolog.projections.formats.readable import texts
from stenolog.projections.messages.body_digest import MessageHash, conversation
from stenolog.projections.messages.explanation import Explanation, Omission, RequestPart
from stenolog.projections.messages.message import DEFAULT_MODEL, PIPELINE, Body, Message
from stenolog.projections.messages.rules import CUTS
from stenolog.projections.messages.sizes import Size

from .pipeline.budget import limits
from .pipeline.must_stay import must_keep, positions_of
from .pipeline.omissions import merge_runs
from .pipeline.tool_groups import PREVIEW_RULE
from .pipeline.view import Contents, View
from .request import Request, RequestCode

SHORTER = "shorten it by a summary (summary=AutoSummary()), or by a policy such as Budget(tokens=…)"
NOTHING = "nothing"
"""The beginning of the reasons that no one can do anything about: all was answered."""
NOTHING_SAID = f"{NOTHING} has been said to it"
STOPPED = "it was stopped; any message to it, such as 'continue', lets it go on"
MANY_TOOLS = 100
"""Without a picture and with so many tools no provider's limits are exceeded."""
LIKENESS = 0.6
"""The likeness of an agent's name to that of a known one, from 0 to 1, from which on it may be a slip."""


class NotSent(NamedTuple):
    """The reason why a lane's request waits: code, words, and positions concerned."""

    code: RequestCode = ""
    words: str = ""
    places: tuple[int, ...] = ()


GOES_ON = NotSent()
ADDED = Size(messages=1, characters=100, tokens=100, bytes=200)
"""More than any message that an API puts into a body of its own accord."""


def check_askable(view: View) -> None:
    """Raise `UnsupportedVersionError`, `CorruptLogError` or `AgentNotFoundError` if it cannot be built."""
    if view.state.blocked is not None:
        raise blocked_error(view.state.blocked)
    if not may_be_asked(view):
        raise AgentNotFoundError(unknown_agent(view.lane.agent, agent_names(view)))


def finished(
    view: View,
    api: Format,
    body: Body,
    explain: Callable[[], Explanation],
    end: Message | None,
    contents: Callable[[], Contents],
    renamed: Mapping[str, str],
    *,
    surely_fits: Callable[[Size | None], bool] = lambda _: False,
    has_media: bool = True,
    encoded: MessageHash | None = None,
) -> Request:
    """Return the request of a view with its body, and the reason if it may not be sent.

    `end` is the last message of the conversation, `contents` gives what is shown, for an error to name.
    `renamed` are the sent names of tools, each with the card's.
    `surely_fits`: whether the budget is known to be kept with so much more.
    `has_media` False: there is no picture or file.
    """
    code, waits, places = _unsendable(view, end)
    no_model = "" if waits else unnamed(view, body, api.name)
    request = Request(
        agent=view.lane.agent,
        task=view.lane.task,
        at=view.position,
        api=f"{api.name}@{api.version}",
        body=body,
        sendable=not (waits or no_model),
        reason=waits or no_model,
        obstacle=no_model if waits.startswith(NOTHING) else waits or no_model,
        explain=explain,
        pipeline=view.policy.pipeline or PIPELINE,
        policy=view.policy,
        counter=view.counter.id,
        cuts=view.cuts,
        cut=_cut(view.left_out) if view.cuts else (),
        ready=not waits,
        encoded=encoded,
        messages_key=api.messages,
        tool_names=renamed,
        code="no-model" if no_model else code,
        places=places,
        rate=view.rate,
    )
    over, large = "", tuple[int, ...]()
    # The size is measured only where it may matter: it needs the explanation of every part.
    if view.policy.budget is not None and not surely_fits(ADDED if _has_more(request) else None):
        over, large = over_budget(view, request, contents)
    limit = view.settings.card_of(view.lane.agent).context_limit
    if limit and not over and not view.policy.history.delta and request.tokens > limit:
        over = f"too long: {request.tokens:,} tokens, where its model takes {limit:,} at most; {SHORTER}"
    if api.limits is not None and (has_media or len(body.get("tools", ())) > MANY_TOOLS):
        over = "; ".join([*filter(None, [over]), *(f"{what} ({at or '/'})" for at, what in api.limits(body))])
    if not over:
        return request
    reason = "; ".join(filter(None, (waits, over)))
    obstacle = over if waits.startswith(NOTHING) else reason
    return replace(
        request,
        sendable=False,
        ready=False,
        reason=reason,
        obstacle=obstacle,
        code="over-budget" if obstacle == over else code,
        places=(*dict.fromkeys((*places, *large)),),
    )


def _cut(runs: Iterable[Omission]) -> tuple[tuple[int, int], ...]:
    return tuple((run.first, run.last) for run in merge_runs(runs) if run.rule in CUTS)


def takes_part(view: View) -> bool:
    """Return whether the view's agent is known: it has a card, has joined, was addressed, or has spoken."""
    agent, state = view.lane.agent, view.state
    return (
        not view.memory.set_at.keys().isdisjoint(("card", "named"))
        or agent in state.members
        or any(lane.agent == agent for lane in state.lanes.values())
    )


def may_be_asked(view: View) -> bool:
    """Return whether a request of the view's agent can be built.

    A new name is a new agent, unless it may be a misspelling.
    """
    return takes_part(view) or not closest(view.lane.agent, agent_names(view), LIKENESS)


def agent_names(view: View) -> list[str]:
    """Return the known agents' names."""
    working = (lane.agent for lane in view.state.lanes.values())
    return [*dict.fromkeys([*view.settings.cards, *view.state.members, *working])]


def no_agent(agent: str, known: Sequence[str]) -> str:
    """Say which agents are known, and which may be meant."""
    near = closest(agent, known, LIKENESS)
    meant = f"; did you mean {near!r}?" if near else ""
    return f"no agent {agent!r} (known: {', '.join(known) or 'none yet'}){meant}"


def unknown_agent(agent: str, known: Sequence[str]) -> str:
    """Return an error message with the known agents, the likely one, and how to join."""
    words = no_agent(agent, known)
    return f"{words}{'' if words.endswith('?') else '.'} A new agent joins by conversation.join({agent!r})"


def unnamed(view: View, body: Body, api: str) -> str:
    """Return an error message if a body lacks a needed model, or ""."""
    # A prompt of plain text needs none: the program that it goes to has a model of its own.
    if body.get("model") != DEFAULT_MODEL or api == plain.NAME:
        return ""
    return (
        f"no model is named; to name one: conversation.join({view.lane.agent!r}, model=...), "
        "or AgentCard(model=...) on its card"
    )


def _unsendable(view: View, end: Message | None) -> NotSent:
    """Return why the request is not sendable, if so. `end` is the last message."""
    if end is None:
        return NotSent("nothing-said", NOTHING_SAID)
    if end.role == "assistant" and end.rule != "shared" and end.stop != PAUSED:
        return NotSent("answered", f"{NOTHING} to answer: the agent has already answered")
    state, address = view.state, view.lane.address
    stands = state.lane(address)
    # A message has waited for an agent, and this new one would be asked as soon as it joins.
    if address not in state.lanes and stands.asked:
        return GOES_ON
    match stands.status:
        # A failed lane may go on with the same request, once a person says so.
        case "awaiting_llm" | "failed":
            return NotSent("backoff") if stands.retry_at else GOES_ON
        case "awaiting_tools":
            return NotSent(
                "tools", _calls(len(stands.calls), "has no result yet", "have no result yet"), _places(stands)
            )
        case "awaiting_approval":
            waiting = [call for call in stands.calls if call.waits]
            awaited = "an answer" if all(call.question for call in waiting) else "approval"
            words = _calls(len(waiting), f"awaits {awaited}", f"await {awaited}")
            return NotSent("approval", words, _places(stands))
        case "closed":
            return NotSent("left", "the agent has left")
        case "idle":
            is_stopped = stands.asked > stands.answered
            if newest := _for_a_stranger(view):
                why = f"the message at {newest.asked} is for {newest.agent}, who has not joined"
            else:
                why = STOPPED if is_stopped else "the lane is idle"
            places = (newest.asked,) if newest else ()
            return NotSent("stopped" if is_stopped else "answered", f"{NOTHING} to answer: {why}", places)


def _for_a_stranger(view: View) -> LaneState | None:
    state = view.state
    answered = state.lane(view.lane.address).answered
    waiting = [
        lane for lane in state.lanes.values() if lane.asked > answered and lane.status == "awaiting_llm"
    ]
    absent = [lane for lane in waiting if lane.agent not in state.members]
    return max(absent, key=lambda lane: lane.asked, default=None)


def _places(lane: LaneState) -> tuple[int, ...]:
    return tuple(dict.fromkeys(call.position for call in lane.calls))


def _calls(number: int, does: str, do: str) -> str:
    return f"{number} of its calls {does if number == 1 else do}"


def over_budget(
    view: View, request: Request, contents: Callable[[], Contents]
) -> tuple[str, tuple[int, ...]]:
    """Return the exceeded budgets and the parts that must stay, with positions; "" if the request fits."""
    budget = view.policy.budget
    if budget is None or request.size.fits(limits(budget)):
        return "", ()
    is_preview = any(part.rule == PREVIEW_RULE for part in request.parts)
    # The note of a preview is never sent.
    size = request.size.minus(Size(messages=is_preview))
    over = [
        f"{found:,} {name} of {limit:,}"
        for name, found, limit in zip(size._fields, size, limits(budget), strict=True)
        if found > limit
    ]
    if not over:
        return "", ()
    shown = contents()
    reasons = {p: why for i, why in must_keep(view, shown).items() for p in positions_of(shown.units[i])}
    must = [part for part in request.parts if _stays(part, reasons)]
    largest = sorted(must, key=lambda part: -part.tokens_out)[:5]
    named = ", ".join(_describe_part(part, reasons) for part in largest)
    places = tuple(part.positions[0] for part in largest if part.positions)
    return f"over budget ({', '.join(over)}), and this must stay: {named}", places


def _has_more(request: Request) -> bool:
    """Return whether the API put a message of its own into the body."""
    # The window does not count such a message, since it knows no API.
    messages = conversation(request.body, request.messages_key)
    if isinstance(messages, list) and OPENING in islice(texts(messages[:1]), 2):
        return True
    match request.body:
        case {"response_format": {"type": "json_object"}} | {"text": {"format": {"type": "json_object"}}}:
            # A note with the word that OpenAI wants to see.
            return True
        case _:
            return False


def _stays(part: RequestPart, reasons: Mapping[int, str]) -> bool:
    """Return whether no cut removes the part: it must stay, or is outside the conversation."""
    return part.role in ("system", "tools", "parameters") or any(
        position in reasons for position in part.positions
    )


def _describe_part(part: RequestPart, reasons: Mapping[int, str]) -> str:
    why = next((reasons[p] for p in part.positions if p in reasons), part.rule)
    where = f"position {part.positions[0]}" if part.positions else part.role
    return f"{where} ({why}, {part.tokens_out:,} tokens)"
