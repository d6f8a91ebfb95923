"""Exchanges of programs with providers, made by hand in their style and fed to a recording."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import stenolog
from stenolog import Entry, Log
from stenolog.apps.tap.exchanges.exchange import RecordedExchange
from stenolog.apps.tap.recording.transcriber import Transcriber

Json = dict[str, Any]
BEGIN = datetime(2026, 1, 5, 9, 0, tzinfo=UTC)
PATHS: Mapping[str, str] = {
    "anthropic": "/v1/messages?beta=true",
    "openai-chat": "/v1/chat/completions",
    "openai-responses": "/v1/responses",
    "gemini": "/v1beta/models/gemini-2.5-flash:generateContent",
}
CLIENTS: Mapping[str, str] = {
    "anthropic": "claude-cli/2.1.0 (external, cli)",
    "openai-chat": "opencode/1.0",
    "openai-responses": "codex_cli_rs/0.9.0",
    "gemini": "GeminiCLI/0.9.0",
}
SESSIONS: Mapping[str, str] = {
    "anthropic": "x-claude-code-session-id",
    "openai-chat": "x-session-id",
    "openai-responses": "session_id",
    "gemini": "x-session-id",
}


@dataclass
class Tap:
    """A recording, and the clock of the exchanges that it is fed."""

    log: Log = field(default_factory=lambda: stenolog.open(":memory:"))
    time: datetime = BEGIN
    number: int = 0

    def __post_init__(self) -> None:
        self.recording = Transcriber(self.log)

    def ask(
        self,
        api: str,
        body: Json | bytes,
        answer: Json | bytes,
        *,
        session: str = "s1",
        client: str = "",
        headers: Mapping[str, str] | None = None,
        path: str = "",
        status: int = 200,
        seconds: float = 10,
    ) -> Entry:
        """Record a request and its answer, so many seconds after the last; return the answer's entry."""
        self.time += timedelta(seconds=seconds)
        self.number += 1
        begun = int(self.time.timestamp() * 1e9)
        content = body if isinstance(body, bytes) else written(body)
        exchange = RecordedExchange(
            f"x{self.number:04}",
            self.time,
            "POST",
            path or PATHS[api],
            "upstream",
            headers={
                "user-agent": client or CLIENTS[api],
                "content-type": "application/json",
                SESSIONS[api]: session,
                **(headers or {}),
            },
            content=content,
            status=status,
            answer_headers={"content-type": "application/json"},
            answer=bytearray(answer if isinstance(answer, bytes) else written(answer)),
            begun_ns=begun,
            first_ns=begun + 10**8,
            ended_ns=begun + 2 * 10**8,
        )
        assert self.recording.request(exchange), "it asks a model"
        place = self.recording.places[exchange.id]
        self.recording.answer(exchange)
        conversation = place.session.conversation
        return conversation.entry(conversation.position)


def written(body: Any) -> bytes:
    """Return JSON as most programs write it."""
    return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()


def answered(
    api: str,
    text: str,
    *,
    model: str = "model",
    id: str = "r1",
    tokens: int = 2_000,
    read: int = 0,
    wrote: int = 0,
    hour: int = 0,
    verdict: str = "",
) -> Json:
    """Return an answer of a provider, in whole: `tokens` are all of the request, `hour` part of `wrote`."""
    match api:
        case "anthropic":
            usage: Json = {
                "input_tokens": tokens - read - wrote,
                "cache_read_input_tokens": read,
                "cache_creation_input_tokens": wrote,
                "cache_creation": {"ephemeral_1h_input_tokens": hour},
                "output_tokens": 5,
            }
            content = [{"type": "text", "text": text}]
            head: Json = {"id": id, "type": "message", "role": "assistant", "model": model}
            if verdict:
                reason = {"type": verdict, "cache_missed_input_tokens": tokens}
                head["diagnostics"] = {"cache_miss_reason": reason}
            return {**head, "content": content, "stop_reason": "end_turn", "usage": usage}
        case "openai-chat":
            details = {"cached_tokens": read}
            usage = {"prompt_tokens": tokens, "completion_tokens": 5, "prompt_tokens_details": details}
            message = {"role": "assistant", "content": text}
            choice = {"index": 0, "message": message, "finish_reason": "stop"}
            return {
                "id": id,
                "object": "chat.completion",
                "model": model,
                "choices": [choice],
                "usage": usage,
            }
        case "openai-responses":
            usage = {
                "input_tokens": tokens,
                "output_tokens": 5,
                "input_tokens_details": {"cached_tokens": read},
            }
            said_now: Json = {"type": "output_text", "text": text, "annotations": []}
            item = {"type": "message", "id": f"msg_{id}", "role": "assistant", "content": [said_now]}
            head = {"id": id, "object": "response", "status": "completed", "model": model}
            return {**head, "output": [item], "usage": usage}
        case _:
            usage = {
                "promptTokenCount": tokens,
                "candidatesTokenCount": 5,
                "cachedContentTokenCount": read,
            }
            candidate = {"content": {"role": "model", "parts": [{"text": text}]}, "finishReason": "STOP"}
            return {"candidates": [candidate], "usageMetadata": usage, "modelVersion": model}


WORDS = "the quick brown fox jumps over the lazy dog and bakes a loaf of rye bread before dawn "


def tool(api: str, name: str, description: str = "", **properties: Json) -> Json:
    """Return a tool as an API declares it."""
    about = description or f"{name}: {WORDS}"
    schema = {"type": "object", "properties": properties or {"path": {"type": "string"}}}
    match api:
        case "anthropic":
            return {"name": name, "description": about, "input_schema": schema}
        case "openai-chat":
            return {
                "type": "function",
                "function": {"name": name, "description": about, "parameters": schema},
            }
        case "openai-responses":
            return {"type": "function", "name": name, "description": about, "parameters": schema}
        case _:
            return {"name": name, "description": about, "parametersJsonSchema": schema}


def claude(messages: Sequence[Json], tools: Sequence[str] = ("Bash", "Read"), **fields: Any) -> Json:
    """Return a body in the style of Claude Code."""
    system = [
        {"type": "text", "text": "x-anthropic-billing-header: cc_version=2.1.0.abc;"},
        {"type": "text", "text": "You are an agent.", "cache_control": {"type": "ephemeral"}},
        {"type": "text", "text": f"Help with code. {WORDS}", "cache_control": {"type": "ephemeral"}},
    ]
    return {
        "model": "claude-sonnet-4-5",
        "messages": [*messages],
        "system": system,
        "tools": [tool("anthropic", name) for name in tools],
        "metadata": {"user_id": "u"},
        "max_tokens": 32_000,
        "thinking": {"type": "adaptive"},
        "stream": True,
        **fields,
    }


def codex(items: Sequence[Json], tools: Sequence[str] = ("shell", "plan"), **fields: Any) -> Json:
    """Return a body in the style of Codex."""
    return {
        "model": "gpt-5",
        "instructions": f"You are Codex. {WORDS}",
        "input": [*items],
        "tools": [tool("openai-responses", name) for name in tools],
        "tool_choice": "auto",
        "parallel_tool_calls": False,
        "store": False,
        "stream": True,
        "include": ["reasoning.encrypted_content"],
        "prompt_cache_key": "k",
        **fields,
    }


def gemini(contents: Sequence[Json], tools: Sequence[str] = ("read_file", "glob"), **fields: Any) -> Json:
    """Return a body in the style of Gemini CLI."""
    return {
        "contents": [*contents],
        "systemInstruction": {"role": "user", "parts": [{"text": f"You are a CLI. {WORDS}"}]},
        "tools": [{"functionDeclarations": [tool("gemini", name) for name in tools]}],
        "generationConfig": {"temperature": 1, "topP": 0.95},
        **fields,
    }


def chat(messages: Sequence[Json], tools: Sequence[str] = ("bash", "edit"), **fields: Any) -> Json:
    """Return a body of Chat Completions, in the style of programs that any provider serves."""
    return {
        "model": "gpt-5-mini",
        "max_tokens": 32_000,
        "messages": [{"role": "system", "content": f"You are opencode. {WORDS}"}, *messages],
        "tools": [tool("openai-chat", name) for name in tools],
        "tool_choice": "auto",
        "stream": True,
        **fields,
    }


BODIES: Mapping[str, Any] = {
    "anthropic": claude,
    "openai-chat": chat,
    "openai-responses": codex,
    "gemini": gemini,
}


def said(api: str, text: str, role: str = "user") -> Json:
    """Return a message in the form of an API."""
    match api:
        case "anthropic":
            return {"role": role, "content": [{"type": "text", "text": text}]}
        case "openai-responses":
            kind = "output_text" if role == "assistant" else "input_text"
            return {"type": "message", "role": role, "content": [{"type": kind, "text": text}]}
        case "gemini":
            return {"role": "model" if role == "assistant" else role, "parts": [{"text": text}]}
        case _:
            return {"role": role, "content": text}


def turns(api: str, texts: Sequence[str]) -> list[Json]:
    """Return messages of a user and an agent in turn, the user's first."""
    return [said(api, text, "assistant" if n % 2 else "user") for n, text in enumerate(texts)]


def conversation(tap: Tap, api: str, questions: Sequence[str], **fields: Any) -> list[Entry]:
    """Record a conversation of a program: each question with all that was before it; return the answers."""
    texts: list[str] = []
    answers = []
    for n, question in enumerate(questions):
        texts.append(question)
        reply = f"Answer {n}: {question}"
        body = BODIES[api](turns(api, texts), **fields)
        answers.append(tap.ask(api, body, answered(api, reply, id=f"r{n}", tokens=2_000 + 100 * n)))
        texts.append(reply)
    return answers
