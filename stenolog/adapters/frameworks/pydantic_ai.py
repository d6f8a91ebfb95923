"""Conversations of a log as message histories of pydantic-ai, and what its agents did as entries.

    result = agent.run_sync("Which test fails?", message_history=to_pydantic_ai(talk))
    append_pydantic_ai(talk, result.all_messages())

Every message comes back as it was, with its times, ids, usage and whatever its provider said beside.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace as replaced
from typing import TYPE_CHECKING, Any

from stenolog.adapters.log import Conversation, Pending
from stenolog.adapters.providers.json_fields import compact_json
from stenolog.domain.card import AgentCard
from stenolog.domain.entry import Entry
from stenolog.domain.errors import InvalidEventError, MissingExtraError, VersionConflictError

from .json_patch import whole_text
from .pydantic_ai_drafts import Drafting
from .pydantic_ai_messages import Exchange, exchanges, read
from .pydantic_ai_parts import Json, lean

if TYPE_CHECKING:
    from pydantic import TypeAdapter
    from pydantic_ai import ModelMessage

AGENT = "assistant"


def to_pydantic_ai(
    conversation: Conversation, at: int | None = None, *, agent: str = AGENT, pending: Pending = "keep"
) -> list[ModelMessage]:
    """Return the messages in context, for `message_history=`.

    A history that ends with calls without results is continued without a prompt, and they are run; with a
    prompt, pydantic-ai refuses it, unless `pending` is "close": it answers the calls itself then, with
    "interrupted". The instructions come from the card of `agent`. Raises `BlobNotFoundError`.
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
    """Append what of a whole history is not there yet, in one transaction; nothing where all is.

    Raises `VersionConflictError` where the history is another one: somebody else has appended meanwhile, or
    it was rewritten. With `replace` it takes the place of what is there from the first difference on, which
    is hidden and not deleted. Otherwise as `Conversation.extend`.
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
    """Write messages at a known position and return the entries; `ends`: the agent's run is over."""
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


def validated(messages: Sequence[Json]) -> list[ModelMessage]:
    """Messages of pydantic-ai's from their JSON."""
    return adapter().validate_json(compact_json(messages))


def dumped(messages: Sequence[ModelMessage]) -> list[Json]:
    """The messages as JSON; half a pair of surrogates, which no file can hold, is U+FFFD there.

    Raises `InvalidEventError` for what pydantic cannot write, such as a model with bytes that are no UTF-8.
    """
    try:
        found: list[Json] = whole_text(adapter().dump_python(list(messages), mode="json"))
    except (ValueError, TypeError) as error:
        raise InvalidEventError(f"a message that cannot be written as JSON: {error}") from error
    return found


def _completed(exchange: Exchange) -> Exchange:
    """Return the exchange as pydantic-ai reads it back."""
    messages = [lean(m) for m in dumped(validated(exchange.messages))]
    response = None if exchange.response is None else messages.pop()
    return replaced(exchange, requests=messages, response=response)


def known_to(conversation: Conversation, position: int, agent: str) -> list[Exchange]:
    """The exchanges that are in context at a position."""
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
