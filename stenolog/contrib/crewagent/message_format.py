"""A message in any spelling as an event, and back with the old app's fields."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from hashlib import sha256
from typing import Any, NamedTuple

from stenolog import events, importers
from stenolog.errors import StenologError
from stenolog.events import AssistantMessage, Known, LlmError, ModeSwitch, ToolResult
from stenolog.importers import Blobs, Json, as_dict, as_list, as_str, compact_json
from stenolog.parts import says_something

from . import schema
from .output_files import NOWHERE, OutputFiles, WholeOutput
from .schema import (
    JOIN,
    MAIN,
    OURS,
    PURPOSES,
    SYSTEM,
    FieldDifference,
    Message,
    Shown,
    category_of,
    error_block,
    with_block,
)


class MessageReader:
    """Reader of one conversation's messages, in order.

    `mode` is the current one, `agent` speaks as the assistant, `shown` names what is sent besides, `files`
    has whole outputs. A system message before all others is the persona.
    """

    def __init__(self, shown: Shown, files: OutputFiles = NOWHERE) -> None:
        self.mode = events.DEFAULT_MODE
        self.agent = MAIN
        self._is_in_run = False
        self._shown = shown
        self._files = files
        self._is_begun = False
        self.is_missing = False
        """True if the result that was read last names a file that is not there."""

    def note(self, event: Known) -> None:
        """Remember an event's settings for later messages."""
        self.mode = mode_after(event, self.mode)
        self._is_begun |= not isinstance(event, ModeSwitch) or persona_of(event) is not None
        match event:
            case ModeSwitch(joins=joins, active_run=run):
                # Agents that an import finds on its way join; who speaks without an id stays the first.
                self.agent = joins[0] if joins and not is_late_join(event) else self.agent
                self._is_in_run = self._is_in_run if run is events.UNCHANGED else run is not None
            case AssistantMessage(agent=agent, source=None) | LlmError(agent=agent, source=None):
                self.agent = agent
            case _:
                pass

    def read(
        self, message: Message, id: str, time: datetime, blobs: Blobs, to: tuple[str, ...] = ()
    ) -> Known:
        """Return a message's event, other fields in `meta`; `blobs` gets what is stored apart.

        `to` are a person's default addressees. Raises `InvalidEventError` if no log can hold it, ValueError
        if it is no message.
        """
        ours = ours_of(message)
        plain, spelled = schema.read({n: v for n, v in message.items() if ours is None or n != OURS})
        event = self._read(plain, id, blobs, to)
        if not is_native(message):
            event = replace(event, source=events.Origin(system=SYSTEM, id=id, role=as_str(plain.get("role"))))
        place = WritePlace(id, time, as_str(plain.get("mode")) or self.mode, is_sent(event))
        meta = schema.extra_meta(written(event, place, blobs), plain, spelled)
        event = replace(event, meta={**event.meta, **meta})
        return event if ours is None else patched(event, ours)

    def _read(self, plain: Message, id: str, blobs: Blobs, to: tuple[str, ...]) -> Known:
        role, kind = as_str(plain.get("role")), as_str(plain.get("partType"))
        common: dict[str, Any] = {"run": as_str(plain.get("runId")), "node": as_str(plain.get("nodeId"))}
        if kind == "mode_switch":
            return self.switch(plain, **common)
        common["in_context"] = self._shown.in_context(plain)
        speaker = agent_of(plain) or self.agent
        if kind == "llm_error" or (role == "assistant" and _has_block(plain)):
            return _error(plain, speaker, common)
        if role in ("system", "developer"):
            return self._system(plain, common, blobs)
        if role == "assistant":
            return _answer(plain, kind, id, {**common, "agent": speaker})
        if role in ("tool", "function"):
            common["in_context"] &= self._shown.results
            return _result(plain, common, self._whole_output(plain), blobs)
        if not role:
            raise ValueError(f"expected a role, found {compact_json(plain.get('role'))}")
        known: dict[str, Any] = (
            {"to": list(to)} if role == "user" else {"author_kind": "system", "in_context": False}
        )
        return events.UserMessage(
            parts=importers.openai_user_parts(plain.get("content"), blobs),
            author=as_str(plain.get("name")),
            **{**common, **known},
        )

    def switch(self, plain: Message, **common: Any) -> ModeSwitch:
        """Return the switch to the mode of a message, and to its run."""
        id, node = as_str(plain.get("runId")), as_str(plain.get("nodeId"))
        run = events.WorkflowRun(id=id, node=node) if id else None if self._is_in_run else events.UNCHANGED
        return ModeSwitch(mode=as_str(plain.get("mode")) or events.UNCHANGED, active_run=run, **common)

    def _system(self, plain: Message, common: dict[str, Any], blobs: Blobs) -> Known:
        said, kind = plain.get("content"), as_str(plain.get("partType"))
        is_prompt = not self._is_begun and kind in ("", "text") and common["in_context"]
        if is_prompt and isinstance(said, str) and said:
            return ModeSwitch(
                cards={agent_of(plain) or self.agent: events.AgentCard(persona=said)},
                run=common["run"],
                node=common["node"],
            )
        parts = importers.openai_user_parts(said, blobs)
        return events.UserMessage(
            parts=parts, author=as_str(plain.get("name")), author_kind="system", **common
        )

    def _whole_output(self, plain: Message) -> WholeOutput | None:
        whole = self._files.find_whole(as_str(plain.get("content")), as_str(plain.get("tool_call_id")))
        self.is_missing = whole is not None and whole.content is None
        return whole


def mode_after(event: Known, mode: str) -> str:
    """Return the conversation's mode after an event."""
    if not isinstance(event, ModeSwitch) or event.mode is events.UNCHANGED or event.agents:
        return mode
    return event.mode or events.DEFAULT_MODE


def ours_of(message: Message) -> Message | None:
    """Return the fields that an export added; None for the old app's message."""
    found = message.get(OURS)
    return found if isinstance(found, dict) else None


def is_native(message: Message) -> bool:
    """Return whether an export wrote the message, and never the old app."""
    return as_dict(message.get(OURS)).get("native") is True


def patched(event: Known, ours: Message) -> Known:
    """Return the event with its message's `stenolog` field applied, if it fits."""
    topic, payload = events.dump_event(event)
    found = FieldDifference(as_dict(ours.get("set")), tuple(map(str, as_list(ours.get("unset")))))
    fields = found.applied(json.loads(payload))
    try:
        whole = events.load_event(as_str(ours.get("topic")) or topic, json.dumps(fields).encode())
    except (StenologError, ValueError):
        return event
    return event if isinstance(whole, events.Unknown) else whole


def ignored(event: Known, heard: Known) -> Message:
    """Return the changes by which `patched` restores the event from its message."""
    (topic, payload), (heard_topic, heard_payload) = events.dump_event(event), events.dump_event(heard)
    found = schema.difference(json.loads(heard_payload), json.loads(payload))
    fields = {
        "topic": topic if topic != heard_topic else None,
        "set": found.sets,
        "unset": list(found.lacks),
    }
    return {name: value for name, value in fields.items() if value}


def agent_of(plain: Message) -> str:
    """Return the agent that a message names; empty if it names none."""
    named = as_str(plain.get("agentId"))
    return importers.agent_called(named) if named else ""


def is_late_join(event: ModeSwitch) -> bool:
    """Return whether an import made the switch for an agent found later."""
    source = event.source
    return source is not None and (source.system, source.role) == (SYSTEM, JOIN)


def _has_block(plain: Message) -> bool:
    said = plain.get("content")
    # Calls before the block were cut off with the answer, and never made.
    return isinstance(said, str) and error_block(said) is not None


def _answer(plain: Message, kind: str, id: str, common: dict[str, Any]) -> AssistantMessage:
    calls = importers.openai_calls(
        {**plain, "tool_calls": [*map(_call, as_list(plain.get("tool_calls")))]}, id
    )
    purpose: events.Purpose = next((each for each in PURPOSES if each == kind), "answer")
    return AssistantMessage(parts=[*importers.openai_answer_parts(plain), *calls], purpose=purpose, **common)


def _call(call: Any) -> dict[str, Any]:
    found = as_dict(call)
    if as_dict(found.get("function")) or as_dict(found.get("custom")):
        return found
    name = as_str(found.get("name")) or as_str(found.get("toolName"))
    function = {"name": name, "arguments": found.get("arguments", found.get("args", found.get("input")))}
    return {"id": found.get("id", found.get("toolCallId")), "function": function}


def _result(plain: Message, common: dict[str, Any], whole: WholeOutput | None, blobs: Blobs) -> ToolResult:
    def put(content: bytes) -> str:
        name = sha256(content).hexdigest()
        blobs[name] = content
        return name

    result = ToolResult(
        call_id=as_str(plain.get("tool_call_id")),
        name=as_str(plain.get("toolName")),
        parts=importers.openai_user_parts(plain.get("content"), blobs),
        is_error=plain.get("isError") is True,
        duration_ms=_milliseconds(plain.get("duration")),
        **common,
    )
    if whole is not None and whole.content is not None:
        return replace(result, blob=put(whole.content), meta={OURS: {"alias": whole.alias}})
    return importers.offload_large(result, put)


def _milliseconds(value: Json) -> int | None:
    is_time = isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e12
    return round(value) if is_time else None


def _error(plain: Message, agent: str, common: dict[str, Any]) -> LlmError:
    """Return a failed call.

    The content ends with the block; or `error` is the reason and the content a partial answer; or the content
    is the reason.
    """
    error, said = plain.get("error"), as_str(plain.get("content"))
    if not error and (block := error_block(said)) is not None:
        return LlmError(agent=agent, **block._asdict(), **common)
    words = as_str(error) or as_str(as_dict(error).get("message")) or ("" if error else said)
    category = category_of(as_str(as_dict(error).get("category")), words)
    return LlmError(agent=agent, category=category, message=words, text=said if error else "", **common)


BlobContents = Mapping[str, bytes]


class WritePlace(NamedTuple):
    """A message's id, time and mode, and whether models are sent it."""

    id: str
    time: datetime
    mode: str
    in_context: bool


def written(event: Known, place: WritePlace, blobs: BlobContents) -> Message:
    """Return an event's message. Raises `BlobNotFoundError`."""
    return {
        "id": place.id,
        "createdAt": iso(place.time),
        **_answer_message(event, place, blobs),
        "includeInContext": place.in_context,
        "partType": _part_type(event),
        "mode": place.mode,
        **({"runId": event.run} if event.run else {}),
        **({"nodeId": event.node} if event.node else {}),
    }


def is_sent(event: Known) -> bool:
    """Return whether the event is for the model, and has content for it."""
    match event:
        case ModeSwitch():
            return persona_of(event) is not None
        case events.UserMessage(parts=parts):
            return event.in_context and bool(parts)
        case AssistantMessage(parts=parts):
            return event.in_context and says_something(parts)
        case _:
            return event.in_context


def persona_of(switch: ModeSwitch) -> str | None:
    """Return the stored system message that the switch came from; None if there is none."""
    source = switch.source
    if source is None or source.system != SYSTEM or source.role not in ("system", "developer"):
        return None
    return next((card.persona for card in switch.cards.values() if card is not None), None)


def iso(time: datetime) -> str:
    """Return the time in UTC, to the millisecond if that is exact."""
    precision = "microseconds" if (time - events.EPOCH).microseconds % 1000 else "milliseconds"
    return time.isoformat(timespec=precision).replace("+00:00", "Z")


def _answer_message(event: Known, place: WritePlace, blobs: BlobContents) -> dict[str, Any]:
    match event:
        case events.UserMessage(parts=parts, author=author):
            is_note = event.source is not None and event.author_kind == "system"
            role = "system" if is_note else "user"
            named = {"name": author} if author else {}
            return {"role": role, "content": importers.openai_content(parts, blobs), **named}
        case AssistantMessage(agent=agent):
            return {**importers.openai_answer_message(event, blobs), **_agent_fields(agent)}
        case ToolResult(call_id=call_id, name=name):
            failed: dict[str, Any] = {"isError": True} if event.is_error else {}
            took = {} if event.duration_ms is None else {"duration": event.duration_ms}
            return {
                "role": "tool",
                "tool_call_id": call_id,
                **({"toolName": name} if name else {}),
                **took,
                "content": full_output(event, blobs),
                **failed,
            }
        case LlmError(agent=agent, category=category, message=message):
            content = with_block(event.text, category, message)
            return {"role": "assistant", "content": content, **_agent_fields(agent)}
        case ModeSwitch():
            persona = persona_of(event)
            return {"role": "system", "content": f"mode: {place.mode}" if persona is None else persona}


def full_output(result: ToolResult, blobs: BlobContents) -> Json:
    """Return the whole result of a tool, even if it is stored apart."""
    if result.blob:
        try:
            return blobs[result.blob].decode()
        except UnicodeDecodeError:
            pass  # no text: what stands for it in the event must do
    return importers.openai_content(result.parts, blobs)


def _agent_fields(agent: str) -> dict[str, str]:
    return {"agentId": agent} if agent != MAIN else {}


def _part_type(event: Known) -> str:
    match event:
        case AssistantMessage(purpose=purpose) if purpose != "answer":
            return purpose
        case AssistantMessage() if event.tool_calls:
            return "tool_call"
        case ToolResult():
            return "tool_result"
        case LlmError():
            return "llm_error"
        case ModeSwitch() if persona_of(event) is None:
            return "mode_switch"
        case _:
            return "text"
