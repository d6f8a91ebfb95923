"""Conversations of a log as message histories of pydantic-ai, and the entries that a history adds.

    result = agent.run_sync("Which test fails?", message_history=to_pydantic_ai(conversation))
    append_pydantic_ai(conversation, result.all_messages())

Every message comes back as it was, with its times, ids, usage and whatever its provider said beside.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from dataclasses import replace as replaced
from typing import TYPE_CHECKING, Any, cast

from stenolog.adapters.conversation.log import Conversation, Pending
from stenolog.domain.card import AgentCard
from stenolog.domain.entry import EPOCH, Entry, NewEntry
from stenolog.domain.errors import InvalidEventError, MissingExtraError, VersionConflictError
from stenolog.domain.events import AssistantMessage, Event, ModeSwitch, ToolResult, UserMessage
from stenolog.domain.settings import NOTHING, Settings
from stenolog.domain.values import PositionRange
from stenolog.projections.messages.json_fields import Blobs, as_dict, as_str, compact_json

from .pydantic_ai_messages import OURS, Exchange, exchanges, read
from .pydantic_ai_parts import Json, lean, plain_response, request_events, response_event
from .shared import hidden, make_patch, whole_text

if TYPE_CHECKING:
    from pydantic import TypeAdapter
    from pydantic_ai import ModelMessage


AGENT = "assistant"


def to_pydantic_ai(
    conversation: Conversation, at: int | None = None, *, agent: str = AGENT, pending: Pending = "keep"
) -> list[ModelMessage]:
    """Return the messages in context, for `message_history=`.

    A history that ends with open calls is continued without a prompt, and they run. With a prompt,
    pydantic-ai refuses it, unless `pending` is "close": then it answers them with "interrupted". Instructions
    come from `agent`'s card. Raises `BlobNotFoundError`.
    """
    known = known_to(conversation, conversation.position if at is None else at, agent)
    messages = [message for exchange in known for message in exchange.messages]
    if pending == "close" and known and is_waiting(known[-1]):
        left = messages.pop() if known[-1].response is None else {"kind": "request", "parts": []}
        messages.append(left | {"state": "interrupted"})
    return validated(messages)


def append_pydantic_ai(
    conversation: Conversation, messages: Sequence[ModelMessage], *, agent: str = AGENT, replace: bool = False
) -> list[Entry]:
    """Append a history's missing messages in one transaction.

    Raises `VersionConflictError` if the histories differ: somebody appended, or it was rewritten. With
    `replace` the new one hides the logged one from the first difference on. Otherwise as
    `Conversation.extend`.
    """
    while True:
        position = conversation.position
        try:
            return written(conversation, messages, position, agent, replaces=replace)
        except VersionConflictError:
            if position == conversation.position:
                raise


def written(
    conversation: Conversation,
    messages: Sequence[ModelMessage],
    position: int,
    agent: str,
    *,
    replaces: bool,
    card: AgentCard | None = None,
    ends: bool = False,
) -> list[Entry]:
    """Append messages at a known position; return the entries. `ends`: the agent's run is over."""
    known = [
        _completed(each) if each.is_foreign else each for each in known_to(conversation, position, agent)
    ]
    given = exchanges(dumped(validated(dumped(messages))))  # as it will be read back: some of it is said once
    given[-1:] = [replaced(last, ends=ends) for last in given[-1:]]
    drafting = Drafting(agent, conversation.settings(at=position), card, conversation.log.blobs)
    drafts = drafting.to_write(known, given, position=position, replaces=replaces)
    if drafts is None:
        raise VersionConflictError(conversation.name, expected=drafting.same_up_to, found=position)
    conversation.log.blobs.put_all(drafting.blobs.values())
    return conversation.extend(drafts, expected=position)


def pydantic_ai_entries(messages: Sequence[Json], blobs: Blobs, *, agent: str = AGENT) -> list[NewEntry]:
    """Return the entries of a history in JSON, as `append_pydantic_ai` writes them.

    Pictures and files go to the blobs. Needs neither ids nor pydantic-ai's package.
    """
    drafting = Drafting(agent, NOTHING, None, {})
    drafts = drafting.to_write([], exchanges(messages), position=0, replaces=False)
    blobs.update(drafting.blobs)
    return drafts or []


def validated(messages: Sequence[Json]) -> list[ModelMessage]:
    """Return messages of pydantic-ai's from their JSON."""
    return adapter().validate_json(compact_json(messages))


def dumped(messages: Sequence[ModelMessage]) -> list[Json]:
    """Return the messages as JSON, with U+FFFD for half surrogate pairs.

    Raises `InvalidEventError` for what pydantic cannot write, such as bytes that are not UTF-8.
    """
    try:
        found: list[Json] = whole_text(adapter().dump_python(list(messages), mode="json"))
    except (ValueError, TypeError) as error:
        raise InvalidEventError(f"a message that cannot be written as JSON: {error}") from error
    return found


def _completed(exchange: Exchange) -> Exchange:
    messages = [lean(m) for m in dumped(validated(exchange.messages))]
    response = None if exchange.response is None else messages.pop()
    return replaced(exchange, requests=messages, response=response)


def known_to(conversation: Conversation, position: int, agent: str) -> list[Exchange]:
    """Return the exchanges that are in context at a position."""
    return read(
        conversation.entries(at=position), conversation.settings(at=position), agent, conversation.log.blobs
    )


def is_waiting(last: Exchange) -> bool:
    """Return whether calls are left without a result at the end."""
    if last.response is not None:
        return any(part["part_kind"] == "tool-call" for part in last.response["parts"])
    parts = (part for message in last.requests for part in message["parts"])
    return bool(set(last.calls) - {part.get("tool_call_id") for part in parts})


def adapter() -> TypeAdapter[list[Any]]:
    """Return pydantic-ai's type adapter for messages. Raises `MissingExtraError`."""
    try:
        from pydantic_ai import ModelMessagesTypeAdapter
    except ImportError:
        raise MissingExtraError("pydantic-ai", "pydantic-ai") from None
    return ModelMessagesTypeAdapter


class Drafting:
    """Converter of exchanges to entries; pictures and files are collected in `blobs`.

    `card` has the agent's model, provider and tools; without it the messages do, with its instructions.
    `same_up_to` is the position up to which log and history agree.
    """

    def __init__(
        self, agent: str, settings: Settings, card: AgentCard | None, stored: Mapping[str, bytes]
    ) -> None:
        self.agent = agent
        self.settings = settings
        self.card = settings.card_of(agent)
        if card is not None:
            self.card = replace(self.card, model=card.model, provider=card.provider, tools=card.tools)
        self.blobs: Blobs = {}
        self.same_up_to = 0
        self._known = settings.cards.get(agent)
        self._blobs = ChainMap(self.blobs, cast(Blobs, stored))

    def to_write(
        self, known: Sequence[Exchange], given: Sequence[Exchange], *, position: int, replaces: bool
    ) -> list[NewEntry] | None:
        """Return the entries that turn known exchanges into given ones; None on conflict.

        With `replaces`, known ones are hidden instead. `ends` is recorded on the last exchange.
        """
        same = _number_of_same(known, given)
        logged, new = known[same:], given[same:]
        self.same_up_to = max(logged[0].first - 1, 0) if logged else position
        if not new or not logged:
            return self._all(new)
        if len(logged) == 1 and (rest := self._missing(logged[0], new[0])) is not None:
            return [*rest, *self._all(new[1:])]
        if len(new) == 1 and new[0].messages == logged[0].messages[: len(new[0].messages)]:
            return []
        if not replaces:
            return None
        hides = hidden(self.settings, PositionRange(first=logged[0].first, last=position))
        return [NewEntry(ModeSwitch(hides=hides)), *self._all(new)]

    def _all(self, given: Sequence[Exchange]) -> list[NewEntry]:
        return [draft for each in given for draft in self._missing(Exchange(), each) or ()]

    def _missing(self, logged: Exchange, given: Exchange) -> Iterator[NewEntry] | None:
        if logged.response is not None:
            return None
        asked = [draft for message in given.requests for draft in request_events(message, self.blobs)]
        for draft in logged.run:
            found = next((new for new in asked if _is_same(new.event, draft.event)), None)
            if found is None:
                return None
            asked.remove(found)
        return self._written(logged, asked, given)

    def _written(self, logged: Exchange, asked: list[NewEntry], given: Exchange) -> Iterator[NewEntry]:
        if logged.messages == given.messages and logged.ends == given.ends:
            return
        yield from self._dealt(given)
        whole = Exchange(given.calls, run=[*logged.run, *asked])
        beyond = make_patch(whole.plain(0, self.card.persona, self._blobs), given.requests)
        note: Json = {} if logged.requests == given.requests else {"requests": beyond}
        note |= {"ends": True} if given.ends else {}
        if given.response is not None:
            yield from asked
            yield self._answer(given.response, note)
        elif asked:
            yield from asked[:-1]
            yield _noted(asked[-1], note)
        else:
            yield NewEntry(ModeSwitch(meta={OURS: note}))

    def _dealt(self, given: Exchange) -> Iterator[NewEntry]:
        results = [
            as_str(message.get("instructions")) for message in given.requests if "instructions" in message
        ]
        response = as_dict(given.response)
        self.card = replace(
            self.card,
            persona=results[-1] if results else self.card.persona,
            model=self.card.model or as_str(response.get("model_name")),
            provider=self.card.provider or as_str(response.get("provider_name")),
        )
        if self.card != self._known:
            joins = [self.agent] if self._known is None else []
            self._known = self.card
            yield NewEntry(ModeSwitch(joins=joins, cards={self.agent: self.card}))

    def _answer(self, response: Json, note: Json) -> NewEntry:
        draft = response_event(response, self.agent)
        assert isinstance(draft.event, AssistantMessage)
        beyond = make_patch(plain_response(draft.event, draft.time or EPOCH), response)
        return _noted(draft, note | ({"response": beyond} if beyond else {}))


def _number_of_same(known: Sequence[Exchange], given: Sequence[Exchange]) -> int:
    """Count the exchanges that are over and the same in both."""
    pairs = enumerate(zip(known, given, strict=False))
    others = (n for n, (a, b) in pairs if a.response is None or a.messages != b.messages)
    return next(others, min(len(known), len(given)))


def _is_same(new: Event, logged: Event) -> bool:
    match new, logged:
        case (ToolResult(), ToolResult()):
            return new.call_id == logged.call_id and new.parts == logged.parts
        case (UserMessage(), UserMessage()):
            return new.author_kind == logged.author_kind and new.parts == logged.parts
        case _:
            return False


def _noted(draft: NewEntry, note: Json) -> NewEntry:
    event: Any = draft.event
    return draft._replace(event=replace(event, meta={OURS: note})) if note else draft
