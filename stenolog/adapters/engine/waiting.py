"""The calls that a person is to approve, wherever they stand: workers have conversations of their own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from stenolog.adapters.conversation import Conversation
from stenolog.domain.effects import ToolRun, ref
from stenolog.domain.events import AssistantMessage
from stenolog.domain.values import CallRef

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


def waiting(talk: Conversation) -> list[Waiting]:
    """The calls that wait for a person in a conversation, and in those of the workers that it waits for."""
    children = {name.rpartition("~")[2]: name for name in talk.log.names(archived=True, like="~")}
    return list(_waiting(talk, children))


def _waiting(talk: Conversation, children: Mapping[str, str]) -> Iterator[Waiting]:
    for lane, call in talk.state().open_calls():
        if call.approval:
            made = next(talk.entries(call.position - 1, call.position)).event
            assert isinstance(made, AssistantMessage), "open calls are of answers"
            arguments = made.tool_calls[call.nth].arguments
            yield Waiting(lane.address, ref(call), call.name, arguments, talk.name)
        elif child := children.get(mark_of(tool_key(talk, ToolRun(lane, call)))):
            yield from _waiting(talk.log[child], children)
