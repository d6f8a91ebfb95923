"""Recorded calls of models' APIs as HTTP archives, LiteLLM and Helicone have them, full of secrets."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.transcripts.given import Json

PNG = b"\x89PNG\r\n\x1a\n" + bytes(8)
SECRETS = ("sk-ant-api03-" + "a" * 40, "AIzaSy" + "b" * 33, "sessioncookie123", "Zm9vOmJhcg-secret")
PICTURE = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{b64encode(PNG).decode()}"}}
TOOL = {"type": "function", "function": {"name": "shelf", "parameters": {"type": "object", "properties": {}}}}
ASKED = [
    {"role": "system", "content": "You are a baker."},
    {"role": "user", "content": [{"type": "text", "text": "Which loaves are left?"}, PICTURE]},
]
CALLS = {
    "role": "assistant",
    "content": None,
    "tool_calls": [
        {"id": "c1", "type": "function", "function": {"name": "shelf", "arguments": '{"a":"rye"}'}}
    ],
}
LOOKED = [*ASKED, CALLS, {"role": "tool", "tool_call_id": "c1", "content": "12 loaves of rye"}]
SAID = {"role": "assistant", "content": "Twelve of rye."}
THANKED = [*LOOKED, SAID, {"role": "user", "content": "And tomorrow?"}]
ERROR = {"error": {"message": "Rate limit reached", "type": "rate_limit_error"}}


def completion(message: Json, n: int) -> Json:
    used = {"prompt_tokens": 100 * n, "completion_tokens": 10, "total_tokens": 100 * n + 10}
    choice = {
        "index": 0,
        "finish_reason": "tool_calls" if "tool_calls" in message else "stop",
        "message": message,
    }
    return {
        "id": f"chatcmpl-{n}",
        "object": "chat.completion",
        "model": "gpt-4o",
        "choices": [choice],
        "usage": used,
    }


EXCHANGES: list[tuple[list[Any], Json, int]] = [
    (ASKED, completion(CALLS, 1), 200),
    (LOOKED, completion(SAID, 2), 200),
    (THANKED, ERROR, 429),
    (THANKED, completion({"role": "assistant", "content": "Twenty."}, 4), 200),
]
"""The messages of each request, its answer, and the status."""


def body(messages: list[Any]) -> Json:
    return {"model": "gpt-4o", "messages": messages, "tools": [TOOL], "temperature": 0.5}


def at(n: int) -> str:
    return f"2026-03-01T09:{n:02}:00.250Z"


def entry(n: int, sent: Json, answer: bytes | Json, status: int = 200, url: str = "", **fields: Any) -> Json:
    """Return an entry of an archive, with secrets in all places that are made for them."""
    text = answer.decode() if isinstance(answer, bytes) else answer
    kind = "text/event-stream" if isinstance(text, str) else "application/json"
    text = text if isinstance(text, str) else json.dumps(text)
    headers = {"Authorization": f"Bearer {SECRETS[0]}", "x-api-key": SECRETS[0], "User-Agent": "curl/8"}
    headers |= {"Cookie": f"session={SECRETS[2]}", "Proxy-Authorization": f"Basic {SECRETS[3]}"}
    given = {"Content-Type": kind, "Set-Cookie": f"session={SECRETS[2]}", "Content-Encoding": "br"}
    request = {
        "method": "POST",
        "url": url or f"https://api.openai.com/v1/chat/completions?key={SECRETS[1]}",
        "headers": [{"name": name, "value": value} for name, value in headers.items()],
        "cookies": [{"name": "session", "value": SECRETS[2]}],
        "queryString": [{"name": "key", "value": SECRETS[1]}],
        "postData": {"mimeType": "application/json", "text": json.dumps(sent)},
    }
    response = {
        "status": status,
        "headers": [{"name": name, "value": value} for name, value in given.items()],
        "content": {"mimeType": kind, "text": text},
    }
    times = {"startedDateTime": at(n), "time": 2_000, "timings": {"send": 1, "wait": 499, "receive": 1_500}}
    return {**times, "request": request, "response": response, **fields}


HAR = [entry(n, body(said), answer, status) for n, (said, answer, status) in enumerate(EXCHANGES)]
PAGE: Json = {
    "startedDateTime": at(0),
    "request": {"method": "GET", "url": f"https://example.com/app?token={SECRETS[2]}"},
    "response": {"status": 200, "content": {"text": "<html>"}},
}


def archive(*entries: Json) -> bytes:
    return json.dumps({"log": {"version": "1.2", "creator": {"name": "x"}, "entries": entries}}).encode()


def payload(n: int, messages: list[Any], answer: Json, status: int) -> Json:
    """Return a call as LiteLLM's loggers get it."""
    made: Json = {"id": f"id-{n}", "trace_id": f"t-{n}", "call_type": "acompletion", "model": "gpt-4o"}
    made |= {"startTime": 1772355600 + 60 * n, "endTime": 1772355602 + 60 * n, "messages": messages}
    made |= {
        "model_parameters": {"tools": [TOOL], "temperature": 0.5, "api_key": SECRETS[0]},
        "status": "success",
    }
    made |= {"metadata": {"user_api_key_hash": SECRETS[3]}, "response": answer, "response_cost": 0.002}
    if status != 200:
        about = {"error_code": str(status), "error_message": answer["error"]["message"]}
        made |= {"status": "failure", "response": {}, "response_cost": 0, "error_information": about}
    return made


def row(n: int, messages: list[Any], answer: Json, status: int) -> Json:
    """Return a call as a row of LiteLLM's spend logs."""
    made = payload(n, messages, answer, status)
    sent = {**body(messages), "metadata": {"user_api_key": SECRETS[3], "user_id": "u"}, "api_key": SECRETS[0]}
    ended = made["response"] if status == 200 else {}
    about = {"error_information": made.get("error_information")} if status != 200 else {}
    times = {"startTime": at(n), "endTime": at(n), "completionStartTime": at(n)}
    return {
        "request_id": made["id"],
        "call_type": "acompletion",
        "api_key": SECRETS[3],
        "spend": 0.002,
        **times,
        "model": "gpt-4o",
        "messages": "{}",
        "response": json.dumps(ended),
        "metadata": about,
        "status": made["status"],
        "proxy_server_request": json.dumps(sent),
    }


def logged(n: int, messages: list[Any], answer: Json, status: int) -> Json:
    """Return a call as Helicone's tool exports it."""
    made: Json = {
        "request_id": f"r-{n}",
        "request_created_at": at(n),
        "response_status": status,
        "delay_ms": 900,
    }
    made |= {"request_body": body(messages), "response_body": answer, "request_path": "/v1/chat/completions"}
    made |= {"request_properties": {"Helicone-Session-Id": "bakery"}, "time_to_first_token": 300}
    return {**made, "costUSD": 0.002, "signed_body_url": f"https://example.com/?sig={SECRETS[3]}"}


def all_of(write: Callable[..., Json]) -> list[Json]:
    return [write(n, *exchange) for n, exchange in enumerate(EXCHANGES)]


def write_archive(folder: Path, entries: list[Any]) -> Path:
    (path := folder / "calls.har").write_bytes(archive(*entries))
    return path


PAYLOADS, LOGGED = all_of(payload), all_of(logged)
FILES = {
    "har": archive(*HAR, PAGE),
    "litellm": "\n".join(map(json.dumps, PAYLOADS)).encode(),
    "litellm-rows": json.dumps({"data": all_of(row)}).encode(),
    "litellm-callback": json.dumps([{"standard_logging_object": each} for each in PAYLOADS]).encode(),
    "helicone": json.dumps(LOGGED[::-1]).encode(),
}
