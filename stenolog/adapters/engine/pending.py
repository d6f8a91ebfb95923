"""The calls that a person is to approve, wherever they stand: workers have conversations of their own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import NamedTuple

from stenolog.adapters.log import Conversation
from stenolog.domain.effects import RunTool, ref
from stenolog.domain.errors import IllegalCommandError
from stenolog.domain.events import AssistantMessage, Event, UserMessage
from stenolog.domain.parts import ToolCall
from stenolog.domain.state import LaneState, OpenCall
from stenolog.domain.turn_taking import hearing
from stenolog.domain.values import CallRef, Control
from stenolog.projections.showing import call_code

from .effect_names import short_key, tool_key


class PendingApproval(NamedTuple):
    """A call that a person is to approve: whose it is, which it is, the tool with the model's raw arguments,
    and the name of the conversation that it stands in, where it is approved."""

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
    """The calls that wait for a person in a conversation, and in those of the workers that it waits for."""
    return [call for each, _ in _conversations(conversation) for call in _waiting(each)]


def workers(conversation: Conversation) -> dict[str, int]:
    """Return the conversations of the workers that one waits for: for each the position of the answer in
    `conversation` by which it, or the worker above it, was called."""
    return {each.name: lane.answered for each, lane in _conversations(conversation) if lane is not None}


def refuse_at_workers(conversation: Conversation, said: Event) -> None:
    """Refuse the calls of workers that wait for approval, where a person's words are for their callers."""
    if not isinstance(said, UserMessage) or said.control or said.author_kind != "person" or not said.parts:
        return
    hears = hearing(conversation.state(), said)
    called = [(lane, call) for lane, call in _called(conversation) if lane.address in hears]
    scopes = {short_key(tool_key(conversation, RunTool(lane, call))) for lane, call in called}
    for child, lane in _conversations(conversation):
        for call in _waiting(child):
            if call.lane.partition("/")[2] not in scopes if lane is None else lane.address not in hears:
                continue
            control = Control(action="refuse", call=call.call)
            reason = UserMessage(parts=said.parts, author=said.author, to=[call.lane], control=control)
            with suppress(IllegalCommandError):  # it was decided meanwhile
                child.submit(reason)


def _conversations(conversation: Conversation) -> Iterator[tuple[Conversation, LaneState | None]]:
    """Yield a conversation, and those of its workers, each with the lane of `conversation` that waits for
    it."""
    yield conversation, None
    if _called(conversation):
        children = {name.rpartition("~")[2]: name for name in conversation.log.names(archived=True, like="~")}
        yield from _children(conversation, children, None)


def _children(
    conversation: Conversation, children: Mapping[str, str], root: LaneState | None
) -> Iterator[tuple[Conversation, LaneState]]:
    for lane, call in _called(conversation):
        if child := children.get(short_key(tool_key(conversation, RunTool(lane, call)))):
            yield conversation.log[child], root or lane
            yield from _children(conversation.log[child], children, root or lane)


def _called(conversation: Conversation) -> list[tuple[LaneState, OpenCall]]:
    """Return the open calls that wait for nobody's approval: a worker may be behind each."""
    return [(lane, call) for lane, call in conversation.state().open_calls() if not call.approval]


def _waiting(conversation: Conversation) -> Iterator[PendingApproval]:
    for lane, call in conversation.state().open_calls():
        if call.approval:
            made = call_at(conversation, call)
            yield PendingApproval(lane.address, ref(call), call.name, made.arguments, conversation.name)


def call_at(conversation: Conversation, call: OpenCall) -> ToolCall:
    """Return an open call as its model made it."""
    made = conversation.entry(call.position).event
    assert isinstance(made, AssistantMessage), "open calls are of answers"
    return made.tool_calls[call.nth]
