"""Messages that a program holds in a list, in the form of OpenAI's or Anthropic's API, to events.

conversation.extend(events_from(messages, agent="coder", model="gpt-5.2"))
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import groupby
from typing import TYPE_CHECKING, Any

from stenolog.adapters.llms.sdk_answers import as_json
from stenolog.adapters.providers import anthropic_blocks, openai_items
from stenolog.adapters.tool_specs.given import ToolSpecLike, tool_specs
from stenolog.domain.card import AgentCard
from stenolog.domain.errors import CallerError
from stenolog.domain.events import AssistantMessage, Known, ModeSwitch, ToolResult, UserMessage
from stenolog.domain.parts import AssistantPart
from stenolog.domain.value_help import slips
from stenolog.domain.values import Origin
from stenolog.projections.messages.json_fields import Blobs, Json, as_dict, as_list, as_str

from .json_lines import Record
from .openai.messages import MAIN, ROLES, SYSTEM, OpenAIChat, persona_of
from .steps import Append, ExistingLog

if TYPE_CHECKING:
    from stenolog.adapters.log import Log

RESPONSES = ("input_text", "input_image", "input_file", "output_text")
"""The types of a part by which a list is known as items of OpenAI Responses."""
ANTHROPIC = ("tool_use", "tool_result", "thinking", "redacted_thinking", "image", "document")
"""The types of a block by which a list is known as messages of Anthropic."""

INSTRUCTIONS = {"role": "system", "content": "-"}

KEYS = {
    **dict.fromkeys(ROLES, ("content",)),
    "assistant": ("content", "tool_calls"),
    "tool": ("content", "tool_call_id"),
}
"""The keys of a message by which a slip is known, by its role; others are the provider's own."""


def events_from(
    messages: Iterable[object],
    *,
    agent: str = MAIN,
    model: str = "",
    tools: Iterable[ToolSpecLike] = (),
    log: Log | None = None,
) -> list[Known]:
    """Return the events of a list of messages: OpenAI chat, items of OpenAI Responses, or Anthropic.

    Messages are dictionaries or objects of the SDKs. `agent` is who answers in them. A system message at the
    beginning becomes the agent's instructions; they, `model` and `tools` are its card, as `join` would give
    it. Pictures and files are kept in `log`.

    Raises `CallerError` for what is no message, with its place, and for a picture where there is no log.
    """
    if isinstance(messages, str | bytes | Mapping) or not isinstance(messages, Iterable):
        raise CallerError(f"expected a list of messages, found {messages!r:.200}")
    given = [_plain(message, f"messages[{nth}]") for nth, message in enumerate(messages)]
    blobs: Blobs = {}
    card = AgentCard(model=model, tools=tool_specs(tools) or None)
    persona = persona_of(given[0]) if given and given[0].get("role") in SYSTEM else None
    if persona is not None:
        card, given = replace(card, persona=persona), given[1:]
    first = () if card == AgentCard() else (ModeSwitch(joins=(agent,), cards={agent: card}),)
    events: list[Known] = [*first, *_events(given, agent, model, blobs)]
    if blobs and log is None:
        raise CallerError("expected log=, for the messages have pictures or files, which are kept in a log")
    if log is not None:
        for content in blobs.values():
            log.blobs.put(content)
    return events


def _plain(value: object, place: str) -> dict[str, Any]:
    """Return a message as JSON, with the objects of SDKs in it. Raises `CallerError`."""
    message = as_dict(_json(value))
    is_item = isinstance(message.get("type"), str) and message["type"] != "message"
    if not is_item and message.get("role") not in ROLES:
        raise CallerError(
            f"{place}: expected a message of one of the roles {', '.join(ROLES)}, found {value!r:.200}"
        )
    if slip := "" if is_item else slips(message, KEYS[message["role"]]):
        raise CallerError(f"{place}: {slip}")
    return message


def _json(value: object) -> Json:
    if isinstance(value, Mapping):
        return {str(name): _json(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_json(inner) for inner in value]
    return as_json(value) if hasattr(value, "model_dump") else value


def _events(given: list[dict[str, Any]], agent: str, model: str, blobs: Blobs) -> Iterator[Known]:
    types = {as_str(as_dict(part).get("type")) for each in given for part in as_list(each.get("content"))}
    if any(each.get("type", "message") != "message" for each in given) or not types.isdisjoint(RESPONSES):
        return _of_responses(given, agent, model, blobs)
    if not types.isdisjoint(ANTHROPIC) or any("type" in each for each in given):
        return _of_anthropic(given, agent, model, blobs)
    return _of_chat(given, agent, model, blobs)


def _of_chat(given: list[dict[str, Any]], agent: str, model: str, blobs: Blobs) -> Iterator[Known]:
    """Yield the events of chat messages, as the importer of files makes them, without their places there."""
    converter = OpenAIChat(ExistingLog(), AgentCard(), agent)
    converter.take(Record("0", INSTRUCTIONS))  # so that no later one is taken for them
    for nth, message in enumerate(given, 1):
        for step in converter.take(Record(str(nth), message)):
            if not isinstance(step, Append) or isinstance(step.draft.event, ModeSwitch):
                continue
            blobs.update(step.blobs)
            yield _placed_anew(step.draft.event, model)


def _placed_anew(event: Any, model: str) -> Known:
    source = Origin(system="openai", role=event.source.role)
    if isinstance(event, ToolResult):
        return replace(event, call=None, source=source)
    if isinstance(event, AssistantMessage):
        return replace(event, model=event.model or model, source=source)
    moved: Known = replace(event, source=source)
    return moved


def _of_responses(given: list[dict[str, Any]], agent: str, model: str, blobs: Blobs) -> Iterator[Known]:
    """Yield the events of items; those of an answer that follow each other are one message."""
    names: dict[str, str] = {}

    def is_answer(item: dict[str, Any]) -> bool:
        if item.get("type", "message") == "message":
            return item.get("role") == "assistant"
        return item["type"] not in openai_items.OUTPUTS

    for answers, run in groupby(given, key=is_answer):
        items = list(run)
        if answers:
            parts: list[AssistantPart] = []
            for nth, item in enumerate(items):
                parts += openai_items.assistant_parts({"type": "message", **item}, model, f"call_{nth}")
            names |= {as_str(item.get("call_id")): as_str(item.get("name")) for item in items}
            yield AssistantMessage(agent=agent, parts=parts, model=model, source=Origin(system="openai"))
            continue
        for item in items:
            source = Origin(system="openai", role=as_str(item.get("role")))
            if item.get("type") in openai_items.OUTPUTS:
                call_id = as_str(item.get("call_id"))
                made = openai_items.output_parts(item, blobs)
                yield ToolResult(call_id=call_id, name=names.get(call_id, ""), parts=made, source=source)
                continue
            said = [openai_items.user_part(part, blobs) for part in openai_items.content(item.get("content"))]
            yield _user_message(item, said, source)


def _of_anthropic(given: list[dict[str, Any]], agent: str, model: str, blobs: Blobs) -> Iterator[Known]:
    """Yield the events of messages; each result among a user's blocks is an event of its own."""
    names: dict[str, str] = {}
    for message in given:
        content = anthropic_blocks.blocks(message.get("content"))
        source = Origin(system="anthropic", role=as_str(message.get("role")))
        if message.get("role") == "assistant":
            names |= {as_str(block.get("id")): as_str(block.get("name")) for block in content}
            parts = [
                anthropic_blocks.assistant_part(b, model, f"call_{nth}") for nth, b in enumerate(content)
            ]
            yield AssistantMessage(agent=agent, parts=parts, model=model, source=source)
            continue
        for is_result, run in groupby(content, key=lambda block: block.get("type") == "tool_result"):
            if not is_result:
                said = [anthropic_blocks.user_part(block, blobs) for block in run]
                yield _user_message(message, said, source)
                continue
            for block in run:
                inner = anthropic_blocks.blocks(block.get("content"))
                yield ToolResult(
                    call_id=as_str(block.get("tool_use_id")),
                    name=names.get(as_str(block.get("tool_use_id")), ""),
                    parts=[anthropic_blocks.user_part(part, blobs) for part in inner],
                    is_error=block.get("is_error") is True,
                    source=source,
                )


def _user_message(message: dict[str, Any], parts: list[Any], source: Origin) -> UserMessage:
    kind = "person" if message.get("role") == "user" else "system"
    return UserMessage(parts=parts, author_kind=kind, source=source)  # type: ignore[arg-type]
