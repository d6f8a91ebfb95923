"""Events of a request's messages: users', the client's, tools', and model answers."""

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
    """The agent that messages are for, the answering model, and the tools of its calls."""

    agent: str
    model: str
    tool_names: Mapping[str, str]


class AnswerMark(NamedTuple):
    """Parts of an answer that are the same in every form: words without blanks, and calls.

    `ids` are the calls' ids ("" if not given), `acts` their names and arguments.
    """

    words: str
    ids: tuple[str, ...] = ()
    acts: tuple[tuple[str, str], ...] = ()

    def __bool__(self) -> bool:
        return bool(self.words or self.ids)

    def fits(self, other: AnswerMark) -> bool:
        """Return whether both mark one answer; a client may omit words beside calls."""
        if not (self and other) or len(self.ids) != len(other.ids):
            return False
        same = all(
            mine == theirs if mine and theirs else act == their_act
            for mine, theirs, act, their_act in zip(self.ids, other.ids, self.acts, other.acts, strict=True)
        )
        return same and (self.words == other.words or bool(self.ids and not (self.words and other.words)))


def mark_of(parts: Sequence[AssistantPart]) -> AnswerMark:
    """Return an answer's mark."""
    texts = [part.text for part in parts if isinstance(part, TextPart | RefusalPart)]
    calls = [part for part in parts if isinstance(part, ToolCall)]
    acts = tuple((call.name, _arguments(call.arguments)) for call in calls)
    ids = tuple("" if MADE_UP.fullmatch(call.id) else call.id for call in calls)
    return AnswerMark("".join("".join(texts).split()), ids, acts)


def _arguments(raw: str) -> str:
    """Return canonical arguments; clients reformat them."""
    try:
        return json.dumps(json.loads(raw), sort_keys=True)
    except (ValueError, RecursionError):
        return raw


def answer_event(parts: Sequence[AssistantPart], to: Addressee) -> AssistantMessage:
    """Return the event of an answer in a client's history that was not recorded.

    It is no model call of this tap: the client may have written it.
    """
    meta: dict[str, Any] = {"stenolog": {"restated": True}}
    return AssistantMessage(agent=to.agent, parts=parts, model=to.model, to=("user",), meta=meta)


def events_of(message: MessageRead, to: Addressee) -> Iterator[Known]:
    """Yield the events of a message that is not the model's."""
    for item in message.items:
        if isinstance(item, Result):
            name = to.tool_names.get(item.call_id, "") or item.name
            yield ToolResult(
                call_id=item.call_id, name=name, parts=item.parts, is_error=item.is_error, to=(to.agent,)
            )
        elif isinstance(item, Spoken):
            yield from _user_messages(item, to)


def _user_messages(spoken: Spoken, to: Addressee) -> Iterator[Known]:
    for by_client, run in groupby(spoken.parts, key=_is_by_client):
        kind: AuthorKind = "system" if by_client or spoken.role == "system" else "person"
        yield UserMessage(parts=tuple(run), author_kind=kind, to=(to.agent,))


def is_by_client(text: str) -> bool:
    """Return whether a text in a user's message is the client's own, such as a reminder."""
    return _wrapped(PROGRAMS.changes).match(text) is not None


@cache
def _wrapped(_changes: int) -> re.Pattern[str]:
    """Return the pattern of how programs' added texts begin; `_changes` as of `_api_at`."""
    found = [pattern for program in PROGRAMS.values() for pattern in program.wrapped]
    return re.compile("|".join(found) or r"(?!)")


def _is_by_client(part: UserPart) -> bool:
    return isinstance(part, TextPart) and is_by_client(part.text)


def as_of_client(event: Known) -> Known:
    """Return the event with the client as its author."""
    return replace(event, author_kind="system") if isinstance(event, UserMessage) else event
