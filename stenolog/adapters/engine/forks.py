"""Forks in which an agent works on what a conversation held at a position, and what comes back of it."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

from stenolog.adapters.conversation import Conversation
from stenolog.domain.decide import decide
from stenolog.domain.entry import Entry
from stenolog.domain.errors import ConversationInUse, StaleAppend
from stenolog.domain.events import AssistantMessage, ModeSwitch
from stenolog.domain.values import Span


def fork_of(talk: Conversation, after: int, name: str) -> Conversation:
    """The fork of that name, which may be there from an earlier run."""
    with suppress(ConversationInUse):
        return talk.fork(after=after, name=name)
    return talk.log[name]


def upto(spans: Iterable[Span], last: int) -> tuple[Span, ...]:
    """What of the spans is there at a position."""
    return tuple(Span(first=s.first, last=min(s.last, last)) for s in spans if s.first <= last)


def hidden(fork: Conversation, context_from: int, hides: tuple[Span, ...]) -> None:
    """See that nobody is shown there what is out of context by now: before `context_from`, or in `hides`."""
    start = min(context_from, fork.position + 1)
    there = fork.settings()
    if (there.context_from, there.hides) != (start, hides):
        fork.submit(ModeSwitch(context_from=start or None, hides=hides))


def merged(talk: Conversation, made: AssistantMessage, id: str) -> Entry:
    """What was made in a fork, in the conversation itself, where it may take that place."""
    while True:
        state = talk.state()
        decide(state, made)
        with suppress(StaleAppend):
            return talk.append(made, id=id, expected=state.position)
