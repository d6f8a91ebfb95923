"""Approvals: the calls that a person decides about, and the arguments that the person changes."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any, NamedTuple

from stenolog.adapters.conversation.log import Conversation
from stenolog.adapters.tools.base import BaseTool
from stenolog.adapters.tools.calls import call_at
from stenolog.domain.errors import IllegalCommandError, InvalidEventError
from stenolog.domain.events import Event, UserMessage
from stenolog.domain.lanes.effects import Effect, RunTool, effects, ref
from stenolog.domain.lanes.state import LaneState, OpenCall, named_call
from stenolog.domain.lanes.turn_taking import hearing
from stenolog.domain.values import CallRef, Control
from stenolog.projections.json_checks import misfit
from stenolog.projections.terminal_text import call_code

from .agent import WorkerTool
from .journal.effect_names import short_key, tool_key


class PendingApproval(NamedTuple):
    """A call that a person has to approve.

    It has the lane, the call, the tool with the model's raw arguments, and the name of the conversation that
    the call is in, where it is approved.
    """

    lane: str
    call: CallRef
    name: str
    arguments: str
    conversation: str

    @property
    def code(self) -> str:
        """The code by which a person names the call; a call with other arguments has another code."""
        return call_code(self.call, self.name, self.arguments)


def waiting(conversation: Conversation) -> list[PendingApproval]:
    """Return the calls that wait for a person in a conversation, and in those of the workers it waits for."""
    return [call for each, _ in _conversations(conversation) for call in _waiting(each)]


def workers(conversation: Conversation) -> dict[str, int]:
    """Return the conversations of the workers that a conversation waits for, and the calling answers.

    The value is the position of the answer in `conversation` by which the worker, or the worker above it, was
    called.
    """
    return {each.name: lane.answered for each, lane in _conversations(conversation) if lane is not None}


def refuse_at_workers(conversation: Conversation, said: Event) -> None:
    """Refuse the calls of workers that wait for approval, where a person's words are for their callers."""
    if not isinstance(said, UserMessage) or said.control or said.author_kind != "person" or not said.parts:
        return
    hears = hearing(conversation.state(), said)
    called = [(lane, call) for lane, call in _called(conversation) if lane.address in hears]
    # A worker in a scope has no conversation of its own: its lane has the short key as its task.
    scopes = {short_key(tool_key(conversation, RunTool(lane, call))) for lane, call in called}
    for child, lane in _conversations(conversation):
        for call in _waiting(child):
            if call.lane.partition("/")[2] not in scopes if lane is None else lane.address not in hears:
                continue
            control = Control(action="refuse", call=call.call)
            reason = UserMessage(parts=said.parts, author=said.author, to=[call.lane], control=control)
            # Another process may have decided about the call since.
            with suppress(IllegalCommandError):
                child.submit(reason)


def are_delegates(under_way: Iterable[Effect], tools: Mapping[str, Mapping[str, BaseTool]]) -> bool:
    """Return whether something is under way, and all of it are calls of delegates."""
    found = [*under_way]
    return bool(found) and all(
        isinstance(each, RunTool)
        and isinstance(tools.get(each.lane.agent, {}).get(each.call.name), WorkerTool)
        for each in found
    )


def only_waits(conversation: Conversation, agent: str = "") -> bool:
    """Return whether a person has to go first, here and in each worker's conversation that is waited for.

    `agent`: the worker whose conversation it is; in a fork, lanes of its callers are busy, but not there.
    """
    state = conversation.state()
    found = [each for each in effects(state) if agent in ("", each.lane.agent) or each.lane.task]
    if not found:
        # Without an approval it has come to rest, and its caller is about to hear of it.
        return any(call.approval for _, call in state.open_calls())
    children = {name.rpartition("~")[2]: name for name in workers(conversation)}
    return all(_waits_below(conversation, effect, children) for effect in found)


def _waits_below(conversation: Conversation, effect: Effect, children: Mapping[str, str]) -> bool:
    """Return whether an effect is the call of a worker that waits for a person."""
    if not isinstance(effect, RunTool):
        return False
    worker = short_key(tool_key(conversation, effect))
    if worker in children:
        name = children[worker]
        return only_waits(conversation.log[name], name.rpartition("~")[0])
    # A worker in a scope has a lane here; while that works, it has effects of its own.
    lanes = conversation.state().lanes.values()
    return any(lane.task == worker and lane.status == "awaiting_approval" for lane in lanes)


def _conversations(conversation: Conversation) -> Iterator[tuple[Conversation, LaneState | None]]:
    """Yield a conversation and its workers' ones, each with the lane of `conversation` that waits for it."""
    yield conversation, None
    if _called(conversation):
        # By the short key behind the tilde, which is made of the call.
        children = {
            name.rpartition("~")[2]: name for name in conversation.log.names(archived=True, contains="~")
        }
        yield from _children(conversation, children, None)


def _children(
    conversation: Conversation, children: Mapping[str, str], root: LaneState | None
) -> Iterator[tuple[Conversation, LaneState]]:
    for lane, call in _called(conversation):
        if child := children.get(short_key(tool_key(conversation, RunTool(lane, call)))):
            yield conversation.log[child], root or lane
            yield from _children(conversation.log[child], children, root or lane)


def _called(conversation: Conversation) -> list[tuple[LaneState, OpenCall]]:
    """Return the open calls that need no approval: a worker may be behind each."""
    return [(lane, call) for lane, call in conversation.state().open_calls() if not call.approval]


def _waiting(conversation: Conversation) -> Iterator[PendingApproval]:
    for lane, call in conversation.state().open_calls():
        if call.approval:
            made = call_at(conversation, call)
            yield PendingApproval(lane.address, ref(call), call.name, made.arguments, conversation.name)


Arguments = Mapping[str, Any] | str
"""Arguments as an object, or as the JSON of one."""


def approval(conversation: Conversation, call: CallRef, arguments: Arguments | None = None) -> Control:
    """Return the approval of a call, with other arguments where some are given.

    Raises `InvalidEventError` where these are no JSON object, or do not fit the schema of the call's tool.
    """
    if arguments is None:
        return Control(action="approve", call=call)
    given = _object(arguments)
    if (found := named_call(conversation.state(), call)) is not None:
        lane, open_call = found
        tools = conversation.settings().card_of(lane.agent).tools or ()
        schema = next((dict(tool.parameters) for tool in tools if tool.name == open_call.name), {})
        if wrong := misfit(given, schema):
            raise InvalidEventError(f"arguments of {open_call.name}: {wrong}")
    return Control(action="approve", call=call, arguments=_json(given))


def _object(arguments: Arguments) -> dict[str, Any]:
    try:
        given = json.loads(arguments if isinstance(arguments, str) else _json(arguments))
        _json(given)
    except (ValueError, TypeError, RecursionError) as error:
        raise InvalidEventError(
            f"arguments: expected a JSON object: {error}, found {arguments!r:.100}"
        ) from None
    if not isinstance(given, dict):
        raise InvalidEventError(f"arguments: expected a JSON object, found {arguments!r:.100}")
    return given


def _json(given: Mapping[str, Any]) -> str:
    return json.dumps(given, ensure_ascii=False, allow_nan=False)
