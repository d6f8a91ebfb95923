"""Open calls of a conversation: as their models made them, and as they run."""

from __future__ import annotations

from stenolog.adapters.conversation.log import Conversation
from stenolog.domain.events import AssistantMessage, UserMessage
from stenolog.domain.lanes.effects import ref
from stenolog.domain.lanes.state import OpenCall
from stenolog.domain.parts import ToolCall
from stenolog.domain.values import ToolQuestion
from stenolog.domain.verdict import verdict_of

from .base import ToolOutput

USER = "The user"


def call_at(conversation: Conversation, call: OpenCall) -> ToolCall:
    """Return an open call as its model made it."""
    made = conversation.entry(call.position).event
    assert isinstance(made, AssistantMessage), "open calls are of answers"
    return made.tool_calls[call.nth]


def as_approved(conversation: Conversation, made: ToolCall, call: OpenCall) -> ToolCall:
    """Return a call as it runs: with the arguments of its approval, if that changed them."""
    if not call.edited:
        return made
    said = conversation.entry(call.approved).event
    assert isinstance(said, UserMessage), "approvals are messages"
    control = said.control
    assert control is not None, "approvals are controls"
    assert control.call == ref(call), "the approval names this call"
    return ToolCall(id=made.id, name=made.name, arguments=control.arguments)


def question_at(conversation: Conversation, position: int) -> ToolQuestion | None:
    """Return the question of a position; None if it cannot be read any more."""
    said = conversation.entry(position).event
    return said.control.question if isinstance(said, UserMessage) and said.control else None


def answered_questions(conversation: Conversation, call: OpenCall) -> list[tuple[ToolQuestion, str]]:
    """Return a call's questions that have an answer, with the JSON of it, in their order."""
    asked: ToolQuestion | None = None
    answered: list[tuple[ToolQuestion, str]] = []
    for entry in conversation.entries(call.position) if call.questions else ():
        said = entry.event.control if isinstance(entry.event, UserMessage) else None
        if said is None or said.call != ref(call):
            continue
        if said.action == "ask":
            asked = said.question
        elif said.action == "answer" and asked is not None:
            answered.append((asked, said.answer))
            asked = None
    return answered


def editor_of(conversation: Conversation, call: OpenCall) -> str:
    """Return who changed the arguments of a call, in words."""
    return editor_in_words(conversation.entry(call.approved).event)


def editor_in_words(approval: object) -> str:
    """Return who changed the arguments of a call by an approval."""
    verdict = verdict_of(approval)
    return f"The check {verdict.by} ({verdict.reason})" if verdict else USER


def with_metadata(outcome: ToolOutput, ran: ToolCall, call: OpenCall, by: str = USER) -> ToolOutput:
    """Return a call's result; if its arguments were changed, it begins with those used."""
    if not call.edited:
        return outcome
    return outcome._replace(content=(note_of(ran, by), *outcome.content))


def note_of(ran: ToolCall, by: str = USER) -> str:
    """Return the words that begin the result of a call whose arguments were changed."""
    return f"[{by} changed the arguments of this call. It ran with {ran.arguments}]"
