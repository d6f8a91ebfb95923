"""Forks in which an agent works on what a conversation held at a position, and what comes back of it."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

from stenolog.adapters.log import Conversation
from stenolog.domain.decide import decide
from stenolog.domain.entry import Entry
from stenolog.domain.errors import ConversationExistsError, VersionConflictError
from stenolog.domain.events import AssistantMessage, ModeSwitch
from stenolog.domain.values import PositionRange


def fork_of(conversation: Conversation, after: int, name: str) -> Conversation:
    """The fork of that name, which may be there from an earlier run."""
    with suppress(ConversationExistsError):
        return conversation.fork(after=after, name=name)
    return conversation.log[name]


def at(spans: Iterable[PositionRange], last: int) -> tuple[PositionRange, ...]:
    """Return the spans up to a position."""
    return tuple(PositionRange(first=s.first, last=min(s.last, last)) for s in spans if s.first <= last)


def hidden(fork: Conversation, context_from: int, hides: tuple[PositionRange, ...]) -> None:
    """See that nobody is shown there what is out of context by now: before `context_from`, or in `hides`."""
    start = min(context_from, fork.position + 1)
    there = fork.settings()
    if (there.context_from, there.hides) != (start, hides):
        fork.submit(ModeSwitch(context_from=start or None, hides=hides))


def merged(conversation: Conversation, made: AssistantMessage, id: str) -> Entry:
    """Append to the conversation a message made in a fork, if its state still allows the message."""
    while True:
        state = conversation.state()
        decide(state, made)
        with suppress(VersionConflictError):
            return conversation.append(made, id=id, expected=state.position)
