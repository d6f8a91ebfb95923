"""A local provider for real agents: Anthropic's Messages, OpenAI's Responses and Gemini, on loopback.

Its model calls the agent's shell for each `RUN «command»` of the conversation that was not run yet, as far as
the conversation shows, and says "done" then. At `STALL «name»` it first says "working" and hangs, once.
"""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

RUN, STALL, DID = re.compile("RUN «(.+?)»"), re.compile("STALL «(.+?)»"), re.compile(r"\[did (.+?)\]")
INPUT, CACHED, OUTPUT = 100, 20, 7
"""Tokens of each answer: input beside the cache, read from the cache, output."""
PATIENCE = 60.0


class Provider(ThreadingHTTPServer):
    """A server of its own port. `answered` counts the answers to requests that have tools."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answered = 0
        self.bodies: list[dict[str, Any]] = []
        self.stalled = threading.Event()
        self.names: set[str] = set()
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of an agent that hung up."""

    def plan(self, body: dict[str, Any]) -> str:
        """Return the next command; empty: all is done."""
        told = "\n".join(texts_of_users(body))
        did = "\n".join([*_called(body), *DID.findall(told)])
        return next((command for command in RUN.findall(told) if command not in did), "")

    def words(self, body: dict[str, Any]) -> str:
        """Return the words of an answer that calls nothing."""
        return "done"

    def stalls(self, body: dict[str, Any]) -> bool:
        """Return whether it hangs here."""
        for name in STALL.findall("\n".join(texts_of_users(body))):
            if name not in self.names:
                self.names.add(name)
                return True
        return False


class _Handler(BaseHTTPRequestHandler):
    server: Provider

    def log_message(self, format: str, *args: object) -> None:
        pass

    def do_HEAD(self) -> None:
        self.send_response(200)
        self.end_headers()

    def do_GET(self) -> None:
        self._json({"object": "list", "data": [], "models": []})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if "count_tokens" in self.path:
            self._json({"input_tokens": INPUT})
        elif "/messages" in self.path:
            self._answer(body, _messages)
        elif "streamGenerateContent" in self.path:
            self._answer(body, _gemini)
        elif "/responses" in self.path:
            self._answer(body, _responses)
        else:
            self._json({"error": {"type": "not_found_error", "message": self.path}}, 404)

    def _answer(self, body: dict[str, Any], events: Any) -> None:
        command, stalls, said = "", False, "done"
        if body.get("tools"):
            self.server.bodies.append(body)
            command = self.server.plan(body)
            stalls, said = not command and self.server.stalls(body), self.server.words(body)
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.end_headers()
        for nth, event in enumerate(events(command, "working" if stalls else said, body)):
            if stalls and nth == events.SAID:
                self.server.stalled.set()
                time.sleep(PATIENCE)
                return
            kind = f"event: {event['type']}\n" if "type" in event else ""
            self.wfile.write(f"{kind}data: {json.dumps(event)}\n\n".encode())
            self.wfile.flush()
        self.server.answered += bool(body.get("tools"))

    def _json(self, told: dict[str, Any], status: int = 200) -> None:
        data = json.dumps(told).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


def _messages(command: str, words: str, body: dict[str, Any]) -> Iterator[dict[str, Any]]:
    number = str(time.monotonic_ns())
    usage = {"input_tokens": INPUT, "cache_read_input_tokens": CACHED, "cache_creation_input_tokens": 0}
    message = {"id": f"msg_{number}", "type": "message", "role": "assistant", "model": body["model"]}
    rest: dict[str, Any] = {
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {**usage, "output_tokens": 1},
    }
    yield {"type": "message_start", "message": {**message, **rest}}
    if command:
        arguments = json.dumps({"command": command, "description": "work"})
        block = {"type": "tool_use", "id": f"toolu_{number}", "name": "Bash", "input": {}}
        delta = {"type": "input_json_delta", "partial_json": arguments}
    else:
        block, delta = {"type": "text", "text": ""}, {"type": "text_delta", "text": words}
    yield {"type": "content_block_start", "index": 0, "content_block": block}
    yield {"type": "content_block_delta", "index": 0, "delta": delta}
    yield {"type": "content_block_stop", "index": 0}
    reason = {"stop_reason": "tool_use" if command else "end_turn", "stop_sequence": None}
    yield {"type": "message_delta", "delta": reason, "usage": {"output_tokens": OUTPUT}}
    yield {"type": "message_stop"}


_messages.SAID = 3  # type: ignore[attr-defined]


def _responses(command: str, words: str, body: dict[str, Any]) -> Iterator[dict[str, Any]]:
    number = str(time.monotonic_ns())
    usage = {
        "input_tokens": INPUT + CACHED,
        "input_tokens_details": {"cached_tokens": CACHED},
        "output_tokens": OUTPUT,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": INPUT + CACHED + OUTPUT,
    }
    response = {"id": f"resp_{number}", "object": "response", "model": body["model"], "output": []}
    yield {"type": "response.created", "response": {**response, "status": "in_progress"}}
    item: dict[str, Any]
    if command:
        arguments = json.dumps({"cmd": command})
        item = {"type": "function_call", "call_id": f"call_{number}", "name": "exec_command"}
        item |= {"id": f"fc_{number}", "arguments": arguments, "status": "completed"}
    else:
        said = [{"type": "output_text", "text": words, "annotations": []}]
        item = {"id": f"msg_{number}", "type": "message", "role": "assistant", "content": said}
    yield {"type": "response.output_item.added", "output_index": 0, "item": {**item, "content": []}}
    yield {"type": "response.output_item.done", "output_index": 0, "item": item}
    done = {**response, "status": "completed", "output": [item], "usage": usage}
    yield {"type": "response.completed", "response": done}


_responses.SAID = 1  # type: ignore[attr-defined]


def _gemini(command: str, words: str, body: dict[str, Any]) -> Iterator[dict[str, Any]]:
    call = {"name": "run_shell_command", "args": {"command": command, "description": "work"}}
    parts = [{"functionCall": call} if command else {"text": words}]
    used = {"promptTokenCount": INPUT + CACHED, "cachedContentTokenCount": CACHED}
    used |= {"candidatesTokenCount": OUTPUT, "totalTokenCount": INPUT + CACHED + OUTPUT}
    answer = {"content": {"role": "model", "parts": parts}, "finishReason": "STOP", "index": 0}
    yield {"candidates": [answer], "usageMetadata": used, "modelVersion": "gemini-2.5-pro"}


_gemini.SAID = 1  # type: ignore[attr-defined]


def texts_of_users(body: dict[str, Any]) -> Iterator[str]:
    """Yield the texts of users in a request, among them an agent's own reminders."""
    for message in body.get("messages") or body.get("input") or body.get("contents") or []:
        if isinstance(message, dict) and message.get("role") == "user":
            content = message.get("content") or message.get("parts")
            blocks = [{"text": content}] if isinstance(content, str) else content or []
            yield from (block["text"] for block in blocks if isinstance(block.get("text"), str))


def _called(body: dict[str, Any]) -> Iterator[str]:
    """Yield the commands that the model has called for."""
    for item in body.get("input") or []:
        if isinstance(item, dict) and item.get("type") == "function_call":
            yield str(json.loads(item["arguments"]).get("cmd"))
    for content in body.get("contents") or []:
        calls = (part["functionCall"] for part in content["parts"] if "functionCall" in part)
        yield from (str(call["args"].get("command")) for call in calls)
    for message in body.get("messages") or []:
        blocks = message["content"] if isinstance(message["content"], list) else []
        yield from (str(block["input"].get("command")) for block in blocks if block["type"] == "tool_use")
