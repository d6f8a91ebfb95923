"""Messages of opencode in units, and their parts as parts of events.

An answer may have several steps: each is one model response and its calls' results.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from heapq import merge
from typing import Any, Literal, TypeAlias

from stenolog import importers
from stenolog.events import ErrorCategory, Usage
from stenolog.importers import Blobs, Json, JsonObject, as_dict, as_int, as_list, as_str, compact_json
from stenolog.parts import (
    AssistantPart,
    ReasoningPart,
    TextPart,
    ToolCall,
    UserPart,
)

from .stored import SessionTree, StoredMessage, part_id

Kind: TypeAlias = Literal["user", "step", "result", "retry", "error", "summary"]
_SPOKEN = ("text", "reasoning", "tool", "file")
"""The types of parts that an answer is made of."""
_DONE = ("completed", "error", "success")
"""The states of a call that has its result."""


@dataclass
class Unit:
    """A unit of a message: its step's `number`, its `parts`, its tokens in `about`."""

    kind: Kind
    session: str
    message: StoredMessage
    time: int
    parts: list[JsonObject] = field(default_factory=list)
    number: int = 0
    about: JsonObject = field(default_factory=dict)
    others: list[JsonObject] = field(default_factory=list)
    """The parts that say nothing, to be counted."""

    @property
    def id(self) -> str:
        return part_id(self.parts[0]) if self.parts else self.message.id


def units(tree: SessionTree) -> Iterator[Unit]:
    """Yield all sessions' units in order of time; those of one session in its order."""
    found = [_of_session(id, messages) for id, messages in tree.messages.items()]
    return merge(*found, key=lambda unit: unit.time)


def _of_session(session: str, messages: list[StoredMessage]) -> Iterator[Unit]:
    time = 0
    for nth, message in enumerate(messages):
        for unit in _of_message(session, message, is_last=nth == len(messages) - 1):
            time = unit.time = max(time, unit.time)
            yield unit


def _of_message(session: str, message: StoredMessage, *, is_last: bool) -> Iterator[Unit]:
    role = message.info.get("role")
    if role != "assistant":
        yield Unit("user", session, message, message.created, message.parts)
        return
    is_open = is_last and message.is_open
    parts = _written(message.parts) if is_open else message.parts
    if message.info.get("summary") is True and not message.info.get("error"):
        waiting = is_open or not parts
        yield Unit("summary", session, message, message.created, [] if waiting else parts)
        return
    error = as_dict(message.info.get("error"))
    steps = _steps(message, parts)
    for nth, step in enumerate(steps):
        calls = [part for part in step if part.get("type") == "tool"]
        failed = bool(error) and nth == len(steps) - 1 and not calls
        yield from _of_step(session, message, step, nth, failed=failed)
    if not steps and not error:
        yield Unit("step", session, message, message.created)
    if error and not (steps and not any(part.get("type") == "tool" for part in steps[-1])):
        yield Unit("error", session, message, _time(message.info, "completed") or message.created)
    if is_open and len(parts) < len(message.parts):
        others = [{"type": "unfinished"}]
        yield Unit("step", session, message, message.created, number=len(steps), others=others)


def _of_step(
    session: str, message: StoredMessage, step: list[JsonObject], number: int, *, failed: bool
) -> Iterator[Unit]:
    spoken = [part for part in step if part.get("type") in _SPOKEN]
    others = [part for part in step if part.get("type") not in _SPOKEN]
    begun = next((time for part in spoken if (time := _begun(part))), 0) or message.created
    for part in others:
        if part.get("type") == "retry":
            yield Unit("retry", session, message, _time(part, "created") or begun, [part], number)
    others = [part for part in others if part.get("type") != "retry"]
    about = next((part for part in others if part.get("type") == "step-finish"), {})
    if failed:
        yield Unit("error", session, message, begun, spoken, number, about, others)
        return
    yield Unit("step", session, message, begun, spoken, number, about, others)
    calls = [part for part in spoken if part.get("type") == "tool"]
    done = [part for part in calls if as_dict(part.get("state")).get("status") in _DONE]
    for part in sorted(done, key=lambda part: _time(as_dict(part["state"]), "end")):
        time = _time(as_dict(part["state"]), "end") or begun
        yield Unit("result", session, message, time, [part], number)


def _written(parts: list[JsonObject]) -> list[JsonObject]:
    settled = [nth for nth, part in enumerate(parts) if part.get("type") in ("tool", "step-finish")]
    return parts[: settled[-1] + 1] if settled else []


def _steps(message: StoredMessage, parts: list[JsonObject]) -> list[list[JsonObject]]:
    steps: list[list[JsonObject]] = [[]]
    for part in parts:
        if part.get("type") == "step-start" and any(each.get("type") in _SPOKEN for each in steps[-1]):
            steps.append([])
        steps[-1].append(part)
    return [step for step in steps if step]


def _time(value: JsonObject, name: str) -> int:
    return as_int(as_dict(value.get("time")).get(name))


def _begun(part: JsonObject) -> int:
    return _time(part, "start") or _time(as_dict(part.get("state")), "start")


def told_prompt(part: JsonObject) -> tuple[str, str]:
    """Return the session that a call ran, and its prompt; empty if none."""
    state = as_dict(part.get("state"))
    run = as_str(as_dict(state.get("metadata")).get("sessionId"))
    return run, as_str(as_dict(state.get("input")).get("prompt"))


def attachments(part: JsonObject) -> list[JsonObject]:
    """Return the files of a tool's result."""
    return [as_dict(each) for each in as_list(as_dict(part.get("state")).get("attachments")) if each]


_PROVIDERS = {"google": "gemini", "vertex": "gemini", "bedrock": "anthropic"}
"""Providers whose name in a part's metadata is not that of their reasoning."""
_READ_ALOUD = ("text/plain", "application/x-directory")
"""The types of files whose content opencode adds as a text of its own."""
_CATEGORIES: dict[str, ErrorCategory] = {
    "MessageAbortedError": "cancelled",
    "ProviderAuthError": "unauthorized",
    "ContextOverflowError": "context_length",
    "StructuredOutputError": "invalid_response",
}


def _proof(part: JsonObject) -> tuple[str, JsonObject]:
    for name, facts in as_dict(part.get("metadata")).items():
        if isinstance(facts, dict):
            return _PROVIDERS.get(name, name), facts
    return "", {}


def _reasoning(part: JsonObject, _: importers.BlockContext) -> list[AssistantPart] | None:
    provider, facts = _proof(part)
    if not isinstance(text := part.get("text"), str):
        return None
    found = ReasoningPart(
        text=text,
        provider=provider,
        id=as_str(facts.get("itemId")),
        signature=as_str(facts.get("signature")) or as_str(facts.get("thoughtSignature")),
        encrypted=as_str(facts.get("redactedData")) or as_str(facts.get("reasoningEncryptedContent")),
    )
    return [found] if found.text or found.signature or found.encrypted else []


def _call(part: JsonObject, _: importers.BlockContext) -> list[AssistantPart]:
    provider, facts = _proof(part)
    signature = as_str(facts.get("thoughtSignature"))
    state = as_dict(part.get("state"))
    # A call that was cut off has only the beginning of its arguments, as text.
    raw = as_str(state.get("raw")) if not state.get("input") else ""
    call = ToolCall(
        id=as_str(part.get("callID")) or as_str(part.get("id")),
        name=as_str(part.get("tool")),
        arguments=raw or importers.arguments(state.get("input")),
    )
    return [ReasoningPart(provider=provider, signature=signature), call] if signature else [call]


def _text(part: JsonObject, _: importers.BlockContext) -> list[TextPart] | None:
    return importers.text_parts(text) if isinstance(text := part.get("text"), str) else None


ANSWERS = importers.PartTable[AssistantPart](
    "opencode", {"text": _text, "reasoning": _reasoning, "tool": _call}
)


def result_parts(part: JsonObject, blobs: Blobs) -> list[UserPart]:
    """Return the output of a call, or the words of its error."""
    state = as_dict(part.get("state"))
    if state.get("status") == "error":
        interrupted = as_str(as_dict(state.get("metadata")).get("output"))
        error = state.get("error")
        wording = as_str(error) or as_str(as_dict(error).get("message"))
        return [
            *importers.text_parts(wording),
            *(importers.text_parts(interrupted) if interrupted != wording else ()),
        ]
    output = state.get("output")
    wording = output if isinstance(output, str) else "" if output is None else compact_json(output)
    return [*importers.text_parts(wording), *(file_part(each, blobs) for each in attachments(part))]


def file_part(part: JsonObject, blobs: Blobs) -> UserPart:
    """Return a file or picture: its bytes if present, else its address."""
    url = as_str(part.get("url"))
    stored = importers.keep_data_url(url, blobs)
    media_type = as_str(part.get("mime")) or (stored[0] if stored else "") or "application/octet-stream"
    blob, url = (stored[1], "") if stored else ("", url)
    return importers.media_part(media_type, as_str(part.get("filename")), blob=blob, url=url)


def is_read_aloud(part: JsonObject) -> bool:
    """Return whether a text beside a file holds its content."""
    return part.get("type") == "file" and part.get("mime") in _READ_ALOUD


def user_part(part: JsonObject, blobs: Blobs) -> UserPart | None:
    """Return a person's part; None if it is empty."""
    match part:
        case {"type": "text", "text": str(text)}:
            return TextPart(text=text) if text else None
        case {"type": "subtask", "prompt": str(prompt)}:
            return TextPart(text=prompt)
        case {"type": "file", "url": str()}:
            return None if is_read_aloud(part) else file_part(part, blobs)
        case _:
            return None


def usage_of(about: JsonObject) -> Usage | None:
    """Return the tokens of a step or message; cached ones are counted beside the input.

    Since opencode has a total, reasoning is counted beside the output, before that in it.
    """
    counted = as_dict(about.get("tokens"))
    cache = as_dict(counted.get("cache"))
    read, write = as_int(cache.get("read")), as_int(cache.get("write"))
    sent, output, thought = (as_int(counted.get(name)) for name in ("input", "output", "reasoning"))
    if not (sent or read or write or output):
        return None
    all_of_them = sent + read + write + output + thought
    output += thought if as_int(counted.get("total")) >= all_of_them else 0
    return Usage(
        input=sent + read + write,
        output=output,
        cache_read=read,
        cache_write=write,
        reasoning=thought,
        cost=importers.micro_dollars(about.get("cost")),
    )


def failure(error: Json) -> tuple[str, ErrorCategory]:
    """Return the words of an error, and its category."""
    named = as_dict(error)
    data = as_dict(named.get("data"))
    name = as_str(named.get("name"))
    wording = as_str(data.get("message")) or as_str(named.get("message")) or as_str(error) or name
    return wording, _CATEGORIES.get(name) or importers.error_category(wording, as_int(data.get("statusCode")))


def model_of(info: JsonObject) -> dict[str, Any]:
    """Return a message's model and provider as card fields; empty if unknown."""
    model = as_dict(info.get("model"))
    name = as_str(info.get("modelID")) or as_str(model.get("modelID")) or as_str(model.get("id"))
    provider = as_str(info.get("providerID")) or as_str(model.get("providerID"))
    return {"model": name, "provider": provider} if name else {}
