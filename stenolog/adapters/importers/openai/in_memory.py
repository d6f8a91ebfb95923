"""Messages that a program holds in a list, in the form of a provider's API, to events.

conversation.extend(events_from(messages, agent="coder", model="gpt-5.2"))
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import TYPE_CHECKING, Any

from stenolog.adapters.models.sdk_answers import as_json
from stenolog.adapters.tool_specs.given import ToolSpecLike, tool_specs
from stenolog.domain.base.value_help import slips
from stenolog.domain.card import AgentCard
from stenolog.domain.errors import CallerError
from stenolog.domain.events import AssistantMessage, AuthorKind, Known, ModeSwitch, ToolResult, UserMessage
from stenolog.domain.parts import AssistantPart, RefusalPart, TextPart, ToolCall
from stenolog.domain.values import Origin
from stenolog.projections.formats import reader_for
from stenolog.projections.formats.openai_chat.read import SLIPPED
from stenolog.projections.formats.reading import SYSTEM_ROLES, Item, MessageReader, Reply, Result, call_name
from stenolog.projections.messages.json_fields import Blobs, Json, as_dict, as_str

from .messages import MAIN, persona_of

if TYPE_CHECKING:
    from stenolog.adapters.conversation.log import Log


def events_from(
    messages: Iterable[object],
    *,
    agent: str = MAIN,
    model: str = "",
    tools: Iterable[ToolSpecLike] = (),
    log: Log | None = None,
) -> list[Known]:
    """Return the events of messages: OpenAI chat, OpenAI Responses items, Anthropic, or Gemini.

    Messages are dictionaries or SDK objects. `agent` answers in them. A leading system message becomes its
    instructions; with `model` and `tools` they are its card, as `join` would set it. Pictures and files are
    kept in `log`.

    Raises `CallerError` for an invalid message, with its place, and for a picture without a log.
    """
    if isinstance(messages, str | bytes | Mapping) or not isinstance(messages, Iterable):
        raise CallerError(f"expected a list of messages, found {messages!r:.200}")
    given = [as_dict(_json(message)) for message in messages]
    if (reader := reader_for(given)).role == "role":
        for nth, message in enumerate(given):
            _check(message, f"messages[{nth}]")
    blobs: Blobs = {}
    card = AgentCard(model=model, tools=tool_specs(tools) or None)
    persona = persona_of(given[0]) if given and given[0].get("role") in SYSTEM_ROLES else None
    if persona is not None:
        card, given = replace(card, persona=persona), given[1:]
    first = () if card == AgentCard() else (ModeSwitch(joins=(agent,), cards={agent: card}),)
    events: list[Known] = [*first, *_events(reader, given, agent, model, blobs)]
    if blobs and log is None:
        raise CallerError("expected log=, for the messages have pictures or files, which are kept in a log")
    if log is not None:
        for content in blobs.values():
            log.blobs.put(content)
    return events


def _check(message: dict[str, Any], place: str) -> None:
    """Raise `CallerError` for a message of no shipped API, and for a slip in one."""
    is_item = isinstance(message.get("type"), str) and message["type"] != "message"
    if not is_item and message.get("role") not in SLIPPED:
        raise CallerError(
            f"{place}: expected a message of one of the roles {', '.join(SLIPPED)}, found {message!r:.200}"
        )
    if slip := "" if is_item else slips(message, SLIPPED[message["role"]]):
        raise CallerError(f"{place}: {slip}")


def _json(value: object) -> Json:
    if isinstance(value, Mapping):
        return {str(name): _json(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_json(inner) for inner in value]
    return as_json(value) if hasattr(value, "model_dump") else value


def _events(
    reader: MessageReader, given: list[dict[str, Any]], agent: str, model: str, blobs: Blobs
) -> Iterator[Known]:
    """Yield the messages' events; an answer in several items is one."""
    read = ((message, item) for message in given for item in reader.message(message, model, blobs))
    calls: dict[str, str] = {}

    for answers, run in groupby(read, key=lambda pair: isinstance(pair[1], Reply)):
        for message, item in _joined(run) if answers and reader.by_items else run:
            role, source = as_str(message.get(reader.role)), Origin(system=reader.provider)
            about: dict[str, Any] = {
                "meta": {reader.provider: dict(item.rest)} if item.rest else {},
                "source": replace(source, role=role) if role else source,
            }
            if isinstance(item, Result):
                id = item.call_id or next((id for id, name in calls.items() if name == item.name), "")
                name = calls.pop(id, "") or item.name
                yield ToolResult(call_id=id, name=name, parts=item.parts, is_error=item.is_error, **about)
            elif isinstance(item, Reply):
                calls |= {part.id: part.name for part in item.parts if isinstance(part, ToolCall)}
                by = as_str(message.get("model")) or model
                yield AssistantMessage(agent=agent, parts=item.parts, model=by, **about)
            else:
                kind: AuthorKind = "person" if item.role == "user" else "system"
                yield UserMessage(parts=item.parts, author=item.name, author_kind=kind, **about)


def _joined(pairs: Iterable[tuple[dict[str, Any], Item]]) -> Iterator[tuple[dict[str, Any], Reply]]:
    """Yield successive items as one answer, up to a second message; name calls without an id."""
    parts: list[AssistantPart] = []
    ids: list[str] = []
    for reply in (item for _, item in pairs if isinstance(item, Reply)):
        if parts and _is_message(parts[-1:]) and _is_message(reply.parts[:1]):
            yield {}, Reply(tuple(parts))
            parts, ids = [], []
        for part in reply.parts:
            if isinstance(part, ToolCall):
                part = replace(part, id=call_name(ids)) if part.id in ids else part
                ids.append(part.id)
            parts.append(part)
    yield {}, Reply(tuple(parts))


def _is_message(parts: Sequence[AssistantPart]) -> bool:
    return any(isinstance(part, TextPart | RefusalPart) for part in parts)
