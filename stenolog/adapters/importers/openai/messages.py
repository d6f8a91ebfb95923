"""OpenAI chat messages as events: one list is one conversation.

A file holds a list of messages, an object with one, a list of tau-bench trajectories, or JSON Lines of
messages or such objects.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any, BinaryIO

from stenolog.adapters.importers.conversion.converter import RecordConverter, SourceConversation
from stenolog.adapters.importers.conversion.event_writer import EventWriter
from stenolog.adapters.importers.conversion.steps import ExistingLog, Step
from stenolog.adapters.importers.door.json_lines import JsonLinesReader, Record, Skipped
from stenolog.adapters.importers.door.record_spool import StreamedRecords
from stenolog.adapters.importers.door.times import as_time
from stenolog.domain.card import AgentCard
from stenolog.domain.entry import EPOCH
from stenolog.domain.events import AssistantMessage, ModeSwitch, ToolResult, UserMessage
from stenolog.domain.parts import AssistantPart, ReasoningPart, ToolCall
from stenolog.domain.values import Origin
from stenolog.projections.formats.openai_chat.read import (
    ROLES,
    answer_parts,
    calls_in,
    first_choice,
    is_message,
    other_fields,
    user_parts,
)
from stenolog.projections.formats.reading import SYSTEM_ROLES, read_tool
from stenolog.projections.messages.json_fields import Blobs, Json, as_dict, as_list, as_str

MAIN = "assistant"


class OpenAIChat(RecordConverter):
    """Converter of an OpenAI chat.

    `card` is the agent's card from the file's other fields. A message without a time gets
    1970-01-01T00:00:00Z, so that imports are the same on every day.
    """

    def __init__(self, log: ExistingLog, card: AgentCard, agent: str = MAIN) -> None:
        self.agent = agent
        super().__init__(EventWriter("openai", agent, log))
        self._card = card
        self._opened = False
        self._at = EPOCH

    def take(self, record: Record) -> list[Step]:
        message = record.value
        key, role = f"#{record.line}", as_str(message.get("role"))
        if role not in ROLES:
            self.ignored[f"role {role or message.get('role')!r}"] += 1
            return []
        self._at = as_time(message.get("timestamp"), self._at)
        persona = persona_of(message) if role in SYSTEM_ROLES and not self._opened else None
        self._open(key, persona, role if persona is not None else "system")
        match role:
            case "assistant":
                self._assistant(key, message)
            case "tool" | "function":
                self._tool(key, role, message)
            case _:
                if persona is None:
                    self._user(key, role, message)
        return self.writer.drain()

    def _open(self, key: str, persona: str | None, role: str) -> None:
        if self._opened:
            return
        self._opened = True
        card = self._card
        dealt = AgentCard(
            model=card.model, provider="openai", persona=persona or card.persona, tools=card.tools
        )
        lines = (key,) if persona is not None else ()
        switch = ModeSwitch(
            mode="chat",
            joins=(self.agent,),
            cards={self.agent: dealt},
            source=self.writer.source("", role, *lines),
        )
        self.writer.write(switch, f"{key}:settings", self._at)

    def _source(self, key: str, role: str) -> Origin:
        return self.writer.source(key, role, key)

    def _user(self, key: str, role: str, message: dict[str, Any]) -> None:
        blobs: Blobs = {}
        said = UserMessage(
            parts=user_parts(message.get("content"), blobs),
            author=as_str(message.get("name")),
            author_kind="person" if role == "user" else "system",
            meta=_other_fields(message),
            source=self._source(key, role),
        )
        self.writer.write(said, key, self._at, blobs)

    def _assistant(self, key: str, message: dict[str, Any]) -> None:
        parts = [*answer_parts(message), *calls_in(message, key)]
        said = AssistantMessage(
            agent=self.agent,
            parts=tuple(parts),
            model=as_str(message.get("model")) or (self._card.model if _goes_back(parts) else ""),
            meta=_other_fields(message),
            source=self._source(key, "assistant"),
        )
        self.writer.say(said, key, self._at)

    def _tool(self, key: str, role: str, message: dict[str, Any]) -> None:
        blobs: Blobs = {}
        name = as_str(message.get("name"))
        given_id = message.get("tool_call_id")  # an empty one is that of an orphan, as an export writes it
        call_id = self.writer.call_before(name) if given_id is None else as_str(given_id)
        result = ToolResult(
            call_id=call_id,
            call=self.writer.answered(call_id),
            name=name,
            parts=user_parts(message.get("content"), blobs),
            meta=_other_fields(message),
            source=self._source(key, role),
        )
        self.writer.write(result, key, self._at, blobs)


def card_of(document: dict[str, Any]) -> AgentCard:
    """Return a document's card: model, tools, and a prompt beside its messages."""
    called_with = as_dict(document.get("kwargs"))
    tools = document.get("tools") or called_with.get("tools")
    model = as_str(document.get("model")) or as_str(called_with.get("model"))
    known = tuple(map(read_tool, as_list(tools)))
    return AgentCard(
        model=model or as_str(as_dict(document.get("response")).get("model")),
        persona=as_str(document.get("system_prompt")),
        tools=known or None,
    )


def _goes_back(parts: Iterable[AssistantPart]) -> bool:
    """Return whether an answer has parts that the document's model is sent back."""
    return any(
        isinstance(part, ReasoningPart) or (isinstance(part, ToolCall) and part.form) for part in parts
    )


def persona_of(message: dict[str, Any]) -> str | None:
    """Return a system message's text if that is all it has."""
    content = message.get("content")
    if isinstance(content, list) and len(content) == 1:
        content = as_dict(content[0]).get("text")
    return content if isinstance(content, str) and content and set(message) <= {"role", "content"} else None


def _other_fields(message: dict[str, Any]) -> dict[str, Json]:
    rest = other_fields(message)
    return {"openai": rest} if rest else {}


def are_messages(value: Json) -> bool:
    """Return whether a value lists messages, one of them a chat message in a known role."""
    found = [message for message in as_list(value) if is_message(message)]
    all_have_roles = all(isinstance(as_dict(message).get("role"), str) for message in as_list(value))
    no_other_api = all(is_message(m) or not as_list(as_dict(m).get("content")) for m in as_list(value))
    return all_have_roles and no_other_api and any(message["role"] in ROLES for message in found)


def conversations_in(document: Json) -> list[SourceConversation] | None:
    """Return a document's conversations; None if it holds no OpenAI chat messages."""
    if are_messages(document):
        return [_source_conversation("", _numbered(document))]
    if isinstance(document, dict) and are_messages(document.get("messages")):
        return [_of_object(document)]
    if (
        isinstance(document, list)
        and document
        and all(are_messages(as_dict(item).get("traj")) for item in document)
    ):
        return [_of_trajectory(trajectory) for trajectory in document]
    return None


def read(stream: BinaryIO, reading: JsonLinesReader) -> Iterator[SourceConversation]:
    """Yield the conversations of a recognised file."""
    lines = StreamedRecords(stream, reading)
    first = next(iter(lines), None)
    if (first is None or first.number != 1) and (document := lines.document()) is not None:
        yield from conversations_in(document) or ()
        return
    if first is not None and is_message(first.value):
        yield _source_conversation("", lines, unit="line")
        return
    for record in lines:
        found = conversations_in(record.value)
        if found is None:
            reading.skipped.append(Skipped(record.number, "holds no messages"))
        yield from found or ()


def _of_object(document: dict[str, Any]) -> SourceConversation:
    messages = list(document["messages"])
    answer = as_dict(first_choice(as_dict(document.get("response"))).get("message"))
    if answer.get("role") == "assistant":
        messages.append(answer)
    ignored = Counter(
        name for name in document if name not in ("messages", "model", "tools", "system_prompt")
    )
    return _source_conversation("", _numbered(messages), ignored, card_of(document))


def _of_trajectory(trajectory: dict[str, Any]) -> SourceConversation:
    name = f"task-{trajectory.get('task_id')}-trial-{trajectory.get('trial')}"
    ignored = Counter(key for key in trajectory if key not in ("traj", "task_id", "trial"))
    return _source_conversation(name, _numbered(trajectory["traj"]), ignored)


def _source_conversation(
    name: str,
    records: Iterable[Record],
    ignored: Counter[str] | None = None,
    card: AgentCard | None = None,
    unit: str = "message",
) -> SourceConversation:
    make = partial(OpenAIChat, card=card or AgentCard())
    return SourceConversation(name, records, make, Counter() if ignored is None else ignored, unit=unit)


def _numbered(messages: list[dict[str, Any]]) -> list[Record]:
    return [Record(str(number), message) for number, message in enumerate(messages, 1)]
