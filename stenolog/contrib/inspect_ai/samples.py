"""Evaluation logs of inspect_ai: each sample is a conversation, in `.eval` archives and as JSON.

The messages are those of the sample; its model events have their tokens, times and tools. Scores are tags of
a note at the end.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, BinaryIO

from stenolog import importers
from stenolog.errors import UnknownFormatError
from stenolog.events import Usage, UserMessage
from stenolog.importers import (
    Blobs,
    Json,
    JsonLinesReader,
    JsonObject,
    Record,
    as_dict,
    as_int,
    as_list,
    as_str,
    as_time,
    compact_json,
    openai_user_parts,
)
from stenolog.parts import AssistantPart, ProviderPart, ReasoningPart, TextPart, ToolCall, UserPart

SYSTEM = "inspect-ai"
MAIN = "assistant"
HEADERS = ("header.json", "_journal/start.json")
SAMPLES = "samples/"
ATTACHMENT = "attachment://"
MOST_ATTACHED = 64 * 1024 * 1024
"""Characters that references may bring into a sample: each is short, and may be repeated without end."""
FACTS = ("id", "epoch", "target", "choices", "metadata", "limit", "uuid")
"""Fields of a sample beside its messages, for `meta`."""
OURS = "stenolog"


class SampleConverter(importers.SessionConverter):
    """Converter of a sample; its records are its messages."""

    system, main = SYSTEM, MAIN

    def __init__(self, log: importers.ExistingLog, sample: JsonObject, about: JsonObject) -> None:
        super().__init__(log)
        self._sample = sample
        self._about = about
        self._attachments = as_dict(sample.get("attachments"))
        calls = [
            event for event in map(as_dict, as_list(sample.get("events"))) if event.get("event") == "model"
        ]
        self._made = {id: event for event in calls if (id := as_str(_answer_in(event).get("id")))}
        self.time = as_time(sample.get("started_at"))
        tools = next((tools for event in calls if (tools := as_list(event.get("tools")))), [])
        found = {tool.name: tool for tool in map(importers.read_tool, tools) if tool.name}
        self.setup.card(MAIN, model=as_str(about.get("model")), tools=tuple(found.values()) or None)
        self.setup.title = importers.title_of(as_str(about.get("task"))) or None
        self._has_prompt = False
        self._taken: set[str] = set()
        self._spent = 0

    def take(self, record: Record) -> list[importers.Step]:
        """Return the steps for a message."""
        message = record.value
        key = importers.key_of(as_str(message.get("id"))) or f"#{record.number}"
        if key in self._taken:
            self.ignored["repeated message"] += 1
            return []
        self._taken.add(key)
        blobs: Blobs = {}
        content = self._with_attachments(message.get("content"))
        match as_str(message.get("role")):
            case "assistant":
                self._answer(key, message, content)
            case "tool":
                self._result(key, message, [*_user_contents(content, blobs)], blobs)
            case "system" if not self._has_prompt and isinstance(content, str):
                self.setup.card(MAIN, persona=content)
            case role:
                kind: Any = "system" if role == "system" else "person"
                self.write_user(key, [*_user_contents(content, blobs)], kind, role=role, blobs=blobs)
        self._has_prompt = True
        return self.writer.drain()

    def end(self) -> list[importers.Step]:
        """Return the steps for the error, the scores and the facts of the sample."""
        self.time = as_time(self._sample.get("completed_at"), self.time)
        if error := as_dict(self._sample.get("error")):
            self.write_error("error", as_str(error.get("message"))[:10_000], "other")
        scores = as_dict(self._sample.get("scores"))
        if scores and self.positions:
            tags = [f"{name}={_score_text(as_dict(score).get('value'))}" for name, score in scores.items()]
            words = "\n".join(
                f"{tag}: {why}" if (why := as_str(as_dict(score).get("explanation"))) else tag
                for tag, score in zip(tags, scores.values(), strict=True)
            )
            note = UserMessage(
                text=words,
                author_kind="system",
                in_context=False,
                tags=tags,
                meta={SYSTEM: {"scores": scores}},
                source=self.writer.source("scores", "score", "scores"),
            )
            self.put(note, "scores")
        self.write_facts({name: self._sample.get(name) for name in FACTS} | self._about, "about")
        return super().end()

    def _answer(self, key: str, message: JsonObject, content: Json) -> None:
        event = self._made.get(as_str(message.get("id")), {})
        self.time = as_time(event.get("completed") or event.get("timestamp"), self.time)
        choice = as_dict(next(iter(as_list(as_dict(event.get("output")).get("choices"))), None))
        self.write_whole(
            key,
            [*_answer_contents(content), *self._calls(key, message)],
            model=as_str(message.get("model")),
            finish_reason=as_str(choice.get("stop_reason")),
            usage=_usage(as_dict(as_dict(event.get("output")).get("usage"))),
        )

    def _calls(self, key: str, message: JsonObject) -> Iterator[ToolCall]:
        for nth, call in enumerate(map(as_dict, as_list(message.get("tool_calls")))):
            given = self._with_attachments(call.get("arguments"))
            yield ToolCall(
                id=as_str(call.get("id")) or f"{key}-{nth}",
                name=as_str(call.get("function")),
                arguments=importers.arguments(given),
            )

    def _result(self, key: str, message: JsonObject, parts: list[UserPart], blobs: Blobs) -> None:
        error = as_dict(message.get("error"))
        if error and not any(getattr(part, "text", "") for part in parts):
            parts = [TextPart(text=as_str(error.get("message")))]
        self.write_result(
            key,
            as_str(message.get("tool_call_id")),
            parts,
            name=as_str(message.get("function")),
            blobs=blobs,
            is_error=bool(error),
        )

    def _with_attachments(self, value: Json) -> Json:
        """Return a value with its attachments in their places."""
        match value:
            case str() if value.startswith(ATTACHMENT):
                return self._attached(value)
            case dict():
                return {name: self._with_attachments(inner) for name, inner in value.items()}
            case list():
                return [self._with_attachments(inner) for inner in value]
            case _:
                return value

    def _attached(self, reference: str) -> Json:
        """Return the text that a reference names; the reference itself beyond `MOST_ATTACHED`."""
        content = self._attachments.get(reference.removeprefix(ATTACHMENT), reference)
        self._spent += len(str(content))
        if self._spent > MOST_ATTACHED:
            self.ignored["attachment beyond 64 Mi characters in a sample"] += 1
            return reference
        return content


def _answer_in(event: JsonObject) -> JsonObject:
    choices = as_list(as_dict(event.get("output")).get("choices"))
    return as_dict(as_dict(next(iter(choices), None)).get("message"))


def _score_text(value: Json) -> str:
    return (value if isinstance(value, str) else compact_json(value))[:100]


def _usage(counted: JsonObject) -> Usage | None:
    read, wrote = (as_int(counted.get(f"input_tokens_cache_{kind}")) for kind in ("read", "write"))
    used = Usage(
        input=as_int(counted.get("input_tokens")) + read + wrote,
        output=as_int(counted.get("output_tokens")),
        cache_read=read,
        cache_write=wrote,
        reasoning=as_int(counted.get("reasoning_tokens")),
        cost=importers.micro_dollars(counted.get("total_cost")),
    )
    return used if used != Usage() else None


def _user_contents(content: Json, blobs: Blobs) -> Iterator[UserPart]:
    if isinstance(content, str):
        if content:
            yield TextPart(text=content)
        return
    for part in map(as_dict, as_list(content)):
        if part.get("type") == "image":
            found = {"type": "image_url", "image_url": {"url": part.get("image")}}
            yield from openai_user_parts([found], blobs)
        elif part:
            yield from openai_user_parts([part], blobs)


def _answer_contents(content: Json) -> Iterator[AssistantPart]:
    for part in [{"type": "text", "text": content}] if isinstance(content, str) else as_list(content):
        fields = as_dict(part)
        match fields.get("type"):
            case "text" if isinstance(fields.get("text"), str):
                if fields["text"].strip():
                    yield TextPart(text=fields["text"])
            case "reasoning":
                words = as_str(fields.get("summary")) or as_str(fields.get("reasoning"))
                yield ReasoningPart(
                    text=words, signature="" if fields.get("redacted") else as_str(fields.get("signature"))
                )
            case _:
                if fields:
                    yield ProviderPart(provider=SYSTEM, raw=compact_json(part))


def is_log(value: Json) -> bool:
    """Return whether a document is an evaluation log."""
    found = as_dict(value)
    return {"version", "status", "eval"} <= found.keys() and "task" in as_dict(found["eval"])


def is_archive(first: bytes, stream: BinaryIO) -> bool:
    """Return whether an archive is an evaluation log."""
    return first.startswith(importers.ZIP) and not {*HEADERS}.isdisjoint(importers.zip_names(stream))


def read(stream: BinaryIO, reading: JsonLinesReader) -> Iterator[importers.SourceConversation]:
    """Yield a conversation for each sample of a log."""
    stream.seek(0)
    if stream.read(len(importers.ZIP)) == importers.ZIP:
        yield from _of_archive(stream, reading)
        return
    stream.seek(0)
    document = as_dict(reading.document(stream))
    for sample in map(as_dict, as_list(document.get("samples"))):
        yield conversation_of(sample, as_dict(document.get("eval")))


def _of_archive(stream: BinaryIO, reading: JsonLinesReader) -> Iterator[importers.SourceConversation]:
    about: JsonObject = {}
    for _, content in importers.zip_members(stream, *HEADERS):
        about = as_dict(as_dict(reading.document(content)).get("eval")) or about
    if not about:
        raise UnknownFormatError("expected the header of an evaluation log, found none")
    for _, content in importers.zip_members(stream, SAMPLES):
        yield conversation_of(as_dict(reading.document(content)), about)


def conversation_of(sample: JsonObject, about: Mapping[str, Json]) -> importers.SourceConversation:
    """Return a sample's conversation, named by its task, id and epoch, and the evaluation's id."""
    messages = as_list(sample.get("messages"))
    given = sample.get("input")
    if not messages:
        messages = [{"role": "user", "content": given}] if isinstance(given, str) else as_list(given)
    names = (about.get("task"), sample.get("id"), sample.get("epoch"), as_str(about.get("eval_id"))[:8])
    facts: JsonObject = {name: about.get(name) for name in ("task", "model", "eval_id", "run_id", "created")}
    records = [
        Record(str(number), message)
        for number, message in enumerate(messages, 1)
        if isinstance(message, dict)
    ]
    source = importers.SourceConversation(
        " ".join(str(name) for name in names if name not in (None, "")),
        records,
        partial(SampleConverter, sample=sample, about=facts),
    )
    return importers.restored(sample, as_dict(sample.get("metadata")), source)


INSPECT_AI = importers.Importer("inspect-ai", read=read, is_document=is_log, is_start=is_archive)
