"""Values of the log as the messages of the service."""

from __future__ import annotations

from stenolog.adapters.conversation.log import Conversation
from stenolog.adapters.conversation.queries.plain_json import entry_data, plain, when
from stenolog.adapters.engine.journal.journal import ClaimedEffect
from stenolog.adapters.tools.calls import as_approved, call_at
from stenolog.domain.entry import Entry
from stenolog.domain.lanes import effects
from stenolog.domain.lanes.state import OpenCall
from stenolog.domain.parts import ToolCall
from stenolog.projections.requests import Request

from . import messages as m
from . import runner_messages as r

AS_THEY_ARE = ("agent", "task", "at", "api", "body", "sendable", "reason", "obstacle", "code", "sha256")
"""The fields of a request that its message has under the same names."""


def entry_message(entry: Entry) -> m.Entry:
    """Return an entry as JSON."""
    return m.Entry(**entry_data(entry))


def written_message(entries: list[Entry]) -> m.WrittenEntries:
    """Return entries that were written."""
    return m.WrittenEntries(position=entries[-1].position, entries=[entry_message(each) for each in entries])


def request_message(request: Request, *, text: bool = False, explained: bool = False) -> m.AgentRequest:
    """Return a request, with its text and its explanation if wanted."""
    explanation = (
        {name: plain(getattr(request, name)) for name in ("size", "parts", "omissions")}
        if explained
        else None
    )
    return m.AgentRequest(
        **{name: getattr(request, name) for name in AS_THEY_ARE},
        receipt=plain(request.receipt),
        text=request.bytes.decode() if text else None,
        explanation=explanation,
    )


def call_message(call: OpenCall, runs: ToolCall) -> m.Call:
    """Return an open call, as it runs."""
    return m.Call(
        id=runs.id,
        name=runs.name,
        arguments=runs.arguments,
        entry=call.entry,
        index=call.nth,
        position=call.position,
    )


def effect_message(conversation: Conversation, effect: effects.Effect) -> m.Effect:
    """Return an effect that the log asks for."""
    call, attempt, time = None, 1, None
    if isinstance(effect, effects.RunTool):
        call = call_message(
            effect.call, as_approved(conversation, call_at(conversation, effect.call), effect.call)
        )
    else:
        attempt, time = effect.attempt, effect.time
    left = 0.0 if time is None else (time - conversation.log.edge.clock()).total_seconds()
    return m.Effect(
        lane=effect.lane.address,
        effect=effect.name,
        cause=effect.cause,
        attempt=attempt,
        not_before=None if time is None else when(time),
        due=max(0.0, left),
        call=call,
    )


def claimed_message(each: ClaimedEffect) -> r.Claimed:
    """Return a claimed effect."""
    effect = each.effect
    call = None
    if isinstance(effect, effects.RunTool):
        assert each.call is not None, "a tool runs a call"
        call = call_message(effect.call, each.call)
    return r.Claimed(
        fence=each.claim.fence,
        lane=effect.lane.address,
        agent=effect.lane.agent,
        task=effect.lane.task,
        effect=effect.name,
        cause=effect.cause,
        attempt=each.claim.attempt,
        key=each.claim.key,
        request=None if each.request is None else request_message(each.request),
        call=call,
    )
