"""The calls that a person is to approve, wherever they stand: workers have conversations of their own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from stenolog.adapters.conversation import Conversation
from stenolog.domain.effects import ToolRun, ref
from stenolog.domain.events import AssistantMessage
from stenolog.domain.parts import ToolCall
from stenolog.domain.state import Lane, OpenCall
from stenolog.domain.values import CallRef
from stenolog.projections.showing import call_code

from .delegate import mark_of
from .scribe import tool_key


class Waiting(NamedTuple):
    """A call that a person is to approve: whose it is, which it is, the tool with the model's raw arguments,
    and the name of the conversation that it stands in, where it is approved."""

    lane: str
    call: CallRef
    name: str
    arguments: str
    conversation: str

    @property
    def code(self) -> str:
        """What a person names it by: other arguments have another code."""
        return call_code(self.call, self.name, self.arguments)


def waiting(talk: Conversation) -> list[Waiting]:
    """The calls that wait for a person in a conversation, and in those of the workers that it waits for."""
    return [call for each, _ in _conversations(talk) for call in _waiting(each)]


def workers(talk: Conversation) -> dict[str, int]:
    """Return the conversations of the workers that one waits for: for each the position of the answer in
    `talk` by which it, or the worker above it, was called."""
    return {each.name: position for each, position in _conversations(talk) if position}


def _conversations(talk: Conversation) -> Iterator[tuple[Conversation, int]]:
    """Yield a conversation with 0, and those of its workers; names are listed only where a call is open."""
    yield talk, 0
    if _called(talk):
        children = {name.rpartition("~")[2]: name for name in talk.log.names(archived=True, like="~")}
        yield from _children(talk, children, 0)


def _children(
    talk: Conversation, children: Mapping[str, str], root: int
) -> Iterator[tuple[Conversation, int]]:
    for lane, call in _called(talk):
        if child := children.get(mark_of(tool_key(talk, ToolRun(lane, call)))):
            position = root or call.position
            yield talk.log[child], position
            yield from _children(talk.log[child], children, position)


def _called(talk: Conversation) -> list[tuple[Lane, OpenCall]]:
    """Return the open calls that wait for nobody's approval: a worker may be behind each."""
    return [(lane, call) for lane, call in talk.state().open_calls() if not call.approval]


def _waiting(talk: Conversation) -> Iterator[Waiting]:
    for lane, call in talk.state().open_calls():
        if call.approval:
            made = call_at(talk, call)
            yield Waiting(lane.address, ref(call), call.name, made.arguments, talk.name)


def call_at(talk: Conversation, call: OpenCall) -> ToolCall:
    """Return an open call as its model made it."""
    made = next(talk.entries(call.position - 1, call.position)).event
    assert isinstance(made, AssistantMessage), "open calls are of answers"
    return made.tool_calls[call.nth]
