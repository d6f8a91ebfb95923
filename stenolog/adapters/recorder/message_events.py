"""Events of the messages in a request: what a user, the client or a tool said, and answers of the model.

An answer of the model that the log has already is recognised by its `AnswerMark`, whatever form the client
gives it in.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any, NamedTuple

from stenolog.adapters.importers.gemini_content import assistant_part as gemini_assistant_part
from stenolog.adapters.importers.gemini_content import parts_in, responses
from stenolog.adapters.importers.gemini_content import user_part as gemini_user_part
from stenolog.adapters.providers import anthropic_blocks, openai_items
from stenolog.adapters.providers.openai_parts import openai_tool_call, openai_user_parts
from stenolog.domain.events import AssistantMessage, AuthorKind, Known, ToolResult, UserMessage
from stenolog.domain.parts import (
    AssistantPart,
    ProviderPart,
    ReasoningPart,
    RefusalPart,
    TextPart,
    ToolCall,
    UserPart,
)
from stenolog.projections.messages.json_fields import Blobs, Json, as_list, as_str

from .wire import MORE_TOOLS

_WRAPPED = re.compile(
    r"\s*<(system-reminder|environment_context|user_instructions|session_context|permissions instructions"
    r"|collaboration_mode|apps_instructions|skills_instructions|plugins_instructions|env|hook_context)\b"
    r"|\s*This is the [\w ]+\. We are setting up the context for our chat\."
)
"""The beginning of a text that a client adds to a user's messages by itself."""
# Readers of answers number the calls to which a provider gives no id.
MADE_UP = re.compile(r"(call_\d+)?")
"""The ids of calls that have none of their provider's."""
SYSTEM_ROLES = ("system", "developer")


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


def role_of(api: str, message: Mapping[str, Json]) -> str:
    """Return who says a message: "user", "assistant", "tool" or "system"."""
    role, kind = as_str(message.get("role")), as_str(message.get("type"))
    if kind == MORE_TOOLS:
        return "system"
    if api == "openai-responses" and kind not in ("", "message"):
        return "tool" if kind in openai_items.OUTPUTS else "assistant"
    if api == "gemini":
        is_result = any("functionResponse" in part for part in parts_in(message.get("parts")))
        return "assistant" if role == "model" else "tool" if is_result else "user"
    if api == "anthropic" and role == "user":
        kinds = {block.get("type") for block in anthropic_blocks.blocks(message.get("content"))}
        return "tool" if "tool_result" in kinds else "user"
    if role in SYSTEM_ROLES:
        return "system"
    return "tool" if role in ("tool", "function") else "assistant" if role == "assistant" else "user"


def answered_calls(api: str, message: Mapping[str, Json]) -> tuple[str, ...]:
    """Return the ids of the calls whose results a message has."""
    match api:
        case "anthropic":
            blocks = anthropic_blocks.blocks(message.get("content"))
            found = [as_str(each.get("tool_use_id")) for each in blocks if each.get("type") == "tool_result"]
        case "openai-chat":
            found = [as_str(message.get("tool_call_id"))]
        case "openai-responses":
            found = [as_str(message.get("call_id"))] if role_of(api, message) == "tool" else []
        case _:
            found = [each.call_id for each in responses(message.get("parts"), "gemini", {})]
    return tuple(filter(None, found))


def assistant_parts(api: str, message: Mapping[str, Json], model: str) -> tuple[AssistantPart, ...]:
    """Return the parts of an answer of the model, as the client has it in its history."""
    match api:
        case "anthropic":
            blocks = anthropic_blocks.blocks(message.get("content"))
            made = [anthropic_blocks.assistant_part(b, model, f"call_{n}") for n, b in enumerate(blocks)]
        case "openai-responses":
            made = openai_items.assistant_parts({"type": "message", **message}, model, "call")
        case "gemini":
            parts = parts_in(message.get("parts"))
            made = [gemini_assistant_part(part, "gemini", model, f"call_{n}") for n, part in enumerate(parts)]
        case _:
            made = _chat_parts(message)
    return tuple(made)


def _chat_parts(message: Mapping[str, Json]) -> list[AssistantPart]:
    made: list[AssistantPart] = []
    if thought := as_str(message.get("reasoning_content")):
        made.append(ReasoningPart(text=thought, provider="openai"))
    content = openai_user_parts(message.get("content"), {})
    made += [part for part in content if isinstance(part, TextPart | ProviderPart)]
    if refusal := as_str(message.get("refusal")):
        made.append(RefusalPart(text=refusal))
    calls = as_list(message.get("tool_calls"))
    return made + [openai_tool_call(call, f"call_{n}") for n, call in enumerate(calls)]


def answer_event(api: str, message: Mapping[str, Json], to: Addressee) -> AssistantMessage:
    """Return the event of an answer that a client has in its history, and that was not recorded.

    It is no call of a model that the tap has seen: the client may have written it itself.
    """
    parts = assistant_parts(api, message, to.model)
    meta: dict[str, Any] = {"stenolog": {"restated": True}}
    return AssistantMessage(agent=to.agent, parts=parts, model=to.model, to=("user",), meta=meta)


def events_of(api: str, message: Mapping[str, Json], to: Addressee, blobs: Blobs) -> Iterator[Known]:
    """Yield the events of a message that is none of the model's."""
    match api:
        case "anthropic":
            yield from _of_anthropic(message, to, blobs)
        case "openai-chat":
            yield from _of_chat(message, to, blobs)
        case "openai-responses":
            yield from _of_item(message, to, blobs)
        case _:
            yield from _of_gemini(message, to, blobs)


def is_by_client(text: str) -> bool:
    """Return whether a text of a user's message is the client's own, such as a reminder."""
    return _WRAPPED.match(text) is not None


def _is_by_client(part: UserPart) -> bool:
    return isinstance(part, TextPart) and is_by_client(part.text)


def _user(parts: list[UserPart], to: Addressee, kind: AuthorKind = "person") -> UserMessage:
    return UserMessage(parts=parts, author_kind=kind, to=(to.agent,))


def _of_anthropic(message: Mapping[str, Json], to: Addressee, blobs: Blobs) -> Iterator[Known]:
    blocks = anthropic_blocks.blocks(message.get("content"))
    by_system = message.get("role") == "system"

    def sort(block: dict[str, Any]) -> str:
        if block.get("type") == "tool_result":
            return "result"
        return "system" if by_system or is_by_client(as_str(block.get("text"))) else "person"

    for kind, run in groupby(blocks, key=sort):
        if kind != "result":
            parts = [anthropic_blocks.user_part(block, blobs) for block in run]
            yield _user(parts, to, "system" if kind == "system" else "person")
            continue
        for block in run:
            id = as_str(block.get("tool_use_id"))
            inner = anthropic_blocks.blocks(block.get("content"))
            parts = [anthropic_blocks.user_part(part, blobs) for part in inner]
            yield _result(id, parts, to, is_error=block.get("is_error") is True)


def _result(id: str, parts: list[UserPart], to: Addressee, *, is_error: bool = False) -> ToolResult:
    name = to.tool_names.get(id, "")
    return ToolResult(call_id=id, name=name, parts=parts, is_error=is_error, to=(to.agent,))


def _of_chat(message: Mapping[str, Json], to: Addressee, blobs: Blobs) -> Iterator[Known]:
    parts = list(openai_user_parts(message.get("content"), blobs))
    role = role_of("openai-chat", message)
    if role == "tool":
        yield _result(as_str(message.get("tool_call_id")), parts, to)
        return
    for by_client, run in groupby(parts, key=_is_by_client):
        yield _user(list(run), to, "system" if by_client or role == "system" else "person")


def _of_item(item: Mapping[str, Json], to: Addressee, blobs: Blobs) -> Iterator[Known]:
    if role_of("openai-responses", item) == "tool":
        yield _result(as_str(item.get("call_id")), list(openai_items.output_parts(dict(item), blobs)), to)
        return
    parts = [openai_items.user_part(part, blobs) for part in openai_items.content(item.get("content"))]
    by_system = item.get("role") in SYSTEM_ROLES
    for by_client, run in groupby(parts, key=_is_by_client):
        yield _user(list(run), to, "system" if by_client or by_system else "person")


def _of_gemini(message: Mapping[str, Json], to: Addressee, blobs: Blobs) -> Iterator[Known]:
    for is_result, run in groupby(
        parts_in(message.get("parts")), key=lambda part: "functionResponse" in part
    ):
        parts = list(run)
        if not is_result:
            made = [gemini_user_part(part, "gemini", blobs) for part in parts]
            for by_client, same in groupby(made, key=_is_by_client):
                yield _user(list(same), to, "system" if by_client else "person")
            continue
        for found in responses(parts, "gemini", blobs):
            result = _result(found.call_id, list(found.parts), to, is_error=found.is_error)
            yield result if result.name else replace(result, name=found.name)


def as_of_client(event: Known) -> Known:
    """Return the event with the client itself as the author of what was said."""
    return replace(event, author_kind="system") if isinstance(event, UserMessage) else event
