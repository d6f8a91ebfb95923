"""Clients made up: bodies as programs send them, answers as providers stream them, and a recording."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import stenolog
from stenolog import Conversation, Entry, Log
from stenolog.apps.tap.exchanges.exchange import RecordedExchange
from stenolog.apps.tap.recording.transcriber import GAPS, Transcriber
from stenolog.projections.requests.as_sent import Patches, as_sent
from stenolog.projections.requests.proofs import Proof, proofs

Json = dict[str, Any]
START = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
SECOND = 1_000_000_000
PATHS = {
    "anthropic": "/v1/messages",
    "openai-chat": "/v1/chat/completions",
    "openai-responses": "/v1/responses",
    "gemini": "/v1beta/models/gemini-2.5-pro:streamGenerateContent",
}
CLAUDE = {"user-agent": "claude-cli/2.1.197 (external, cli)"}
SYSTEM = "You are a baker. Answer in one sentence, and look before you answer."
TOOL = {"type": "object", "properties": {"cmd": {"type": "string"}}, "required": ["cmd"]}


def compact(body: Any) -> bytes:
    return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()


def sse(*events: Json) -> bytes:
    """Return events as a provider streams them."""
    named = (f"event: {event['type']}\n" if "type" in event else "" for event in events)
    lines = (f"{name}data: {json.dumps(event)}\n\n" for name, event in zip(named, events, strict=True))
    return "".join(lines).encode()


def anthropic(*messages: Json, tools: Sequence[str] = ("bash",), **fields: Any) -> Json:
    """Return a body in the order in which Claude Code writes it."""
    declared = [{"name": name, "description": f"Run {name}.", "input_schema": TOOL} for name in tools]
    system = [{"type": "text", "text": SYSTEM}]
    body = {"model": "claude-opus-4-8", "messages": [*messages], "system": system, "tools": declared}
    return {**body, "max_tokens": 4096, "stream": True, **fields}


def user(*content: Any) -> Json:
    """Return a message of a user: texts, and blocks as they are."""
    return {"role": "user", "content": [text(each) if isinstance(each, str) else each for each in content]}


def text(words: str) -> Json:
    return {"type": "text", "text": words}


def result(id: str, content: str = "3 loaves", **fields: Any) -> Json:
    return {"tool_use_id": id, "type": "tool_result", "content": content, **fields}


def assistant(*content: Any) -> Json:
    return {
        "role": "assistant",
        "content": [text(each) if isinstance(each, str) else each for each in content],
    }


def call(id: str, name: str = "bash", **input: Any) -> Json:
    return {"type": "tool_use", "id": id, "name": name, "input": input}


def said(words: str = "", *calls: Json, id: str = "msg_1", thinking: str = "", **usage: int) -> bytes:
    """Return an answer of Anthropic's, streamed."""
    used = {"input_tokens": 10, "output_tokens": 1, **usage}
    message = {"id": id, "type": "message", "role": "assistant", "model": "claude-opus-4-8", "usage": used}
    events: list[Json] = [{"type": "message_start", "message": {**message, "content": []}}]
    blocks: list[tuple[Json, Json]] = []
    if thinking:
        started = {"type": "thinking", "thinking": "", "signature": ""}
        blocks.append((started, {"type": "thinking_delta", "thinking": thinking}))
    if words:
        blocks.append((text(""), {"type": "text_delta", "text": words}))
    for each in calls:
        delta = {"type": "input_json_delta", "partial_json": json.dumps(each["input"])}
        blocks.append(({**each, "input": {}}, delta))
    for index, (block, delta) in enumerate(blocks):
        events.append({"type": "content_block_start", "index": index, "content_block": block})
        events.append({"type": "content_block_delta", "index": index, "delta": delta})
        if "thinking" in delta:
            signed = {"type": "signature_delta", "signature": "sig+="}
            events.append({"type": "content_block_delta", "index": index, "delta": signed})
        events.append({"type": "content_block_stop", "index": index})
    reason = "tool_use" if calls else "end_turn"
    events.append({"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": 7}})
    return sse(*events, {"type": "message_stop"})


def thought(words: str) -> Json:
    return {"type": "thinking", "thinking": words, "signature": "sig+="}


class Tap:
    """A log that exchanges are recorded into, ten seconds apart, as a relay would hand them over."""

    def __init__(self, log: Log | None = None, headers: Mapping[str, str] | None = None) -> None:
        self.log = stenolog.open(":memory:") if log is None else log
        self.recording = Transcriber(self.log)
        self.headers = headers or {**CLAUDE, "x-claude-code-session-id": "s-1"}
        self.number = 0

    def exchange(self, body: Json | bytes, **fields: Any) -> RecordedExchange:
        """Return a request that has not been answered."""
        self.number += 1
        content = body if isinstance(body, bytes) else compact(body)
        begun = int(START.timestamp()) * SECOND + self.number * 10 * SECOND
        given: dict[str, Any] = {
            "id": f"run-{self.number}",
            "time": START + timedelta(seconds=10 * self.number),
            "method": "POST",
            "path": PATHS["anthropic"],
            "upstream": "anthropic",
            "headers": self.headers,
            "content": content,
            "begun_ns": begun,
        }
        return RecordedExchange(**{**given, **fields})

    def send(self, body: Json | bytes, answer: bytes | None = None, **fields: Any) -> RecordedExchange:
        """Record a request, and the answer to it. Without one it is "Done."."""
        exchange = self.exchange(body, **fields)
        self.recording.request(exchange)
        return self.answer(exchange, said("Done.") if answer is None else answer)

    def answer(self, exchange: RecordedExchange, answer: bytes, **fields: Any) -> RecordedExchange:
        """Record the answer to a request: a stream with the status 200, unless told otherwise."""
        given = {"status": 200, "answer_headers": {"content-type": "text/event-stream"}, **fields}
        for name, value in given.items():
            setattr(exchange, name, value)
        exchange.answer = bytearray(answer)
        exchange.first_ns, exchange.ended_ns = exchange.begun_ns + SECOND, exchange.begun_ns + 2 * SECOND
        self.recording.answer(exchange)
        return exchange

    def restarted(self) -> None:
        """Go on with a new recorder, which knows the log alone."""
        self.recording = Transcriber(self.log)

    @property
    def names(self) -> list[str]:
        return self.log.names()

    @property
    def conversation(self) -> Conversation:
        """The one conversation."""
        (name,) = self.names
        return self.log[name]

    def entries(self, name: str = "") -> list[Entry]:
        return list((self.log[name] if name else self.conversation).entries())

    def told(self, name: str = "") -> list[tuple[str, str]]:
        """Return kind and words of the entries, without settings."""
        events = (entry.event for entry in self.entries(name))
        return [(e.kind, getattr(e, "text", "")) for e in events if e.kind != "mode_switch"]

    def proofs(self) -> list[Proof]:
        assert GAPS not in self.names, [words for _, words in self.told(GAPS)]
        return [proof for name in self.names for proof in proofs(self.entries(name), blobs=self.log.blobs)]

    def sent_bodies(self, name: str = "") -> list[Json]:
        """Return the body of each request as its receipt gives it back."""
        entries, bodies = self.entries(name), []
        patches = Patches.of(entries)
        conversation = self.log[name] if name else self.conversation
        for entry in entries:
            receipt = getattr(entry.event, "receipt", None)
            if receipt is not None:
                agent, api = entry.event.agent, receipt.api.partition("@")[0]  # type: ignore[union-attr]
                built = conversation.request(agent, at=receipt.view, api=api)
                bodies.append(as_sent(built, receipt, patches, self.log.blobs).body)
        return bodies


def marked(body: Json, *pointers: Sequence[Any]) -> Json:
    """Return a body with marks of the cache at the ends of these ways."""
    made = copy.deepcopy(body)
    for way in pointers:
        here: Any = made
        for step in way:
            here = here[step]
        here["cache_control"] = {"type": "ephemeral"}
    return made


def outcomes(found: Iterable[Proof]) -> set[str]:
    return {proof.outcome + proof.reason for proof in found}
