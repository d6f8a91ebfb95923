"""The call that a person means by `/approve` or `/refuse`: one that was shown to that person, no other."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import islice
from typing import Literal, NamedTuple, TypeAlias

from stenolog.adapters.engine.pending import PendingApproval
from stenolog.adapters.log import Conversation
from stenolog.domain.entry import Entry
from stenolog.domain.events import AssistantMessage, UserMessage
from stenolog.domain.values import CallRef
from stenolog.projections.showing import CODE_LENGTH, LETTERS, call_code

from .rendering import question

Action: TypeAlias = Literal["approve", "refuse"]
REMEMBERED, PAGE = 10_000, 256
CALL_CODE = re.compile(f"[{LETTERS}]{{{CODE_LENGTH}}}")


class Chosen(NamedTuple):
    """The call that is meant, and what is said about it: a reason, or other arguments."""

    call: PendingApproval
    rest: str


class Unclear(NamedTuple):
    """No call is meant for sure. `code` is the one that was named; empty where none was."""

    code: str = ""


def chosen(
    action: Action, calls: Sequence[PendingApproval], rest: str, about: str, shown: Collection[str]
) -> Chosen | Unclear:
    """Return the call that a person means, of those that wait.

    It is named by its code: as the first word of `rest`, or `about`, by a reply or a button. Without a code
    it is the only one that waits, where it is the only one in `shown`: the codes that were shown to the
    person since that person last said something.
    """
    first, behind = [*rest.split(maxsplit=1), "", ""][:2]
    word = first.casefold() if CALL_CODE.fullmatch(first.casefold()) else ""
    known = any(call.code == word for call in calls)
    if about and known and about != word:
        return Unclear(word)  # the reply names one call, and the words another
    if word and (known or action == "approve"):
        about, rest = word, behind
    if about:
        named = [call for call in calls if call.code == about]
        return Chosen(named[0], rest) if len(named) == 1 else Unclear(about)
    if action == "approve" and rest and not rest.startswith("{"):
        return Unclear()  # "yes, but …" is no approval
    if len(calls) == 1 and {calls[0].code} == {*shown}:
        return Chosen(calls[0], rest)
    return Unclear(word)


def questions(calls: Iterable[PendingApproval]) -> Iterator[str]:
    """Yield the question of each call that waits, in Markdown."""
    return (question(call.lane, call.code, call.name, call.arguments) for call in calls)


def was_there(conversation: Conversation, code: str) -> bool:
    """Return whether the code names one of the last calls of the conversation, decided or not."""
    for entry in islice(_backwards(conversation), REMEMBERED):
        if isinstance(entry.event, AssistantMessage):
            for nth, call in enumerate(entry.event.tool_calls):
                if call_code(CallRef(entry=entry.id, index=nth), call.name, call.arguments) == code:
                    return True
    return False


def last_word(conversation: Conversation, author: str) -> int:
    """Return the position of what an author said last, commands that decided something too; 0: nothing."""
    for entry in _backwards(conversation):
        match entry.event:
            case UserMessage(author=by, author_kind="person") if by == author:
                return entry.position
            case _:
                pass
    return 0


def _backwards(conversation: Conversation) -> Iterator[Entry]:
    at = conversation.position
    while at:
        after = max(0, at - PAGE)
        yield from reversed([*conversation.entries(after, at)])
        at = after
