"""Events of the messages in a request: what a user, the client or a tool said, and answers of the model.

An answer of the model that the log has already is recognised by its `AnswerMark`, whatever form the client
gives it in.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import groupby
from typing import Any, NamedTuple

from stenolog.apps.tap.exchanges.wire import MessageRead
from stenolog.domain.events import AssistantMessage, AuthorKind, Known, ToolResult, UserMessage
from stenolog.domain.parts import (
    AssistantPart,
    RefusalPart,
    TextPart,
    ToolCall,
    UserPart,
)
from stenolog.projections.formats.reading import Result, Spoken
from stenolog.projections.programs import PROGRAMS

# Readers of answers number the calls to which a provider gives no id.
MADE_UP = re.compile(r"(call_\d+)?")
"""The ids of calls that have none of their provider's."""


class Addressee(NamedTuple):
    """The agent that messages are for, the model that answers, and the names of its calls' tools."""

    agent: str
    model: str
    tool_names: Mapping[str, str]


class AnswerMark(NamedTuple):
    """The parts of an answer that are the same in every form: its words without blanks, and its calls.

    `ids` are the calls' ids, "" for one that its provider gave none, and `acts` their names and arguments.
    """

    words: str
    ids: tuple[str, ...] = ()
    acts: tuple[tuple[str, str], ...] = ()

    def __bool__(self) -> bool:
        return bool(self.words or self.ids)

    def fits(self, other: AnswerMark) -> bool:
        """Return whether both are of one answer; a client may have left the words beside calls out."""
        if not (self and other) or len(self.ids) != len(other.ids):
            return False
        same = all(
            mine == theirs if mine and theirs else act == their_act
            for mine, theirs, act, their_act in zip(self.ids, other.ids, self.acts, other.acts, strict=True)
        )
        return same and (self.words == other.words or bool(self.ids and not (self.words and other.words)))


def mark_of(parts: Sequence[AssistantPart]) -> AnswerMark:
    """Return the mark of an answer's parts."""
    texts = [part.text for part in parts if isinstance(part, TextPart | RefusalPart)]
    calls = [part for part in parts if isinstance(part, ToolCall)]
    acts = tuple((call.name, _arguments(call.arguments)) for call in calls)
    ids = tuple("" if MADE_UP.fullmatch(call.id) else call.id for call in calls)
    return AnswerMark("".join("".join(texts).split()), ids, acts)


def _arguments(raw: str) -> str:
    """Return arguments in one form, since clients write them anew."""
    try:
        return json.dumps(json.loads(raw), sort_keys=True)
    except (ValueError, RecursionError):
        return raw


def answer_event(parts: Sequence[AssistantPart], to: Addressee) -> AssistantMessage:
    """Return the event of an answer that a client has in its history, and that was not recorded.

    It is no call of a model that the tap has seen: the client may have written it itself.
    """
    meta: dict[str, Any] = {"stenolog": {"restated": True}}
    return AssistantMessage(agent=to.agent, parts=parts, model=to.model, to=("user",), meta=meta)


def events_of(message: MessageRead, to: Addressee) -> Iterator[Known]:
    """Yield the events of a message that is none of the model's."""
    for item in message.items:
        if isinstance(item, Result):
            name = to.tool_names.get(item.call_id, "") or item.name
            yield ToolResult(
                call_id=item.call_id, name=name, parts=item.parts, is_error=item.is_error, to=(to.agent,)
            )
        elif isinstance(item, Spoken):
            yield from _user_messages(item, to)


def _user_messages(said: Spoken, to: Addressee) -> Iterator[Known]:
    for by_client, run in groupby(said.parts, key=_is_by_client):
        kind: AuthorKind = "system" if by_client or said.role == "system" else "person"
        yield UserMessage(parts=tuple(run), author_kind=kind, to=(to.agent,))


def is_by_client(text: str) -> bool:
    """Return whether a text of a user's message is the client's own, such as a reminder."""
    return _wrapped(PROGRAMS.changes).match(text) is not None


@cache
def _wrapped(_changes: int) -> re.Pattern[str]:
    """Return the pattern of how texts begin that programs add, as of some changes of their registry."""
    found = [pattern for program in PROGRAMS.values() for pattern in program.wrapped]
    return re.compile("|".join(found) or r"(?!)")


def _is_by_client(part: UserPart) -> bool:
    return isinstance(part, TextPart) and is_by_client(part.text)


def as_of_client(event: Known) -> Known:
    """Return the event with the client itself as the author of what was said."""
    return replace(event, author_kind="system") if isinstance(event, UserMessage) else event
