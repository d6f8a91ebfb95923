"""The OpenAI Agents SDK: SQLiteSession, whose items its Runner mends and makes the input of the next call."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

from agents import SQLiteSession
from agents.run_internal.session_persistence import prepare_input_with_session

from benchmarks.peers.peer import AsyncPeer
from benchmarks.peers.workload import Alphabet, Event, Said, events


class OpenAIAgents(AsyncPeer):
    packages: ClassVar[tuple[str, ...]] = ("openai-agents",)

    def open(self, path: Path) -> None:
        self.path = path
        self.sessions: dict[str, SQLiteSession] = {}

    def close(self) -> None:
        for session in self.sessions.values():
            session.close()

    async def put(self, event: Event) -> None:
        await self.session(event.conversation).add_items(items(event))

    async def built(self, conversation: str) -> Any:
        mended, _ = await prepare_input_with_session([], self.session(conversation), None)
        return mended

    def kept(self, conversation: str) -> list[Said]:
        return self.said(self.wait(self.session(conversation).get_items()))

    def fill(self, conversation: str, turns: int, alphabet: Alphabet = "latin") -> None:
        everything = [item for event in events(conversation, turns, alphabet) for item in items(event)]
        self.wait(self.session(conversation).add_items(everything))

    def said(self, messages: Any) -> list[Said]:
        found: list[Said] = []
        for item in messages:
            call = item.get("type") == "function_call"
            if call and found and found[-1][0] == "calls" and _together(found[-1], item):
                found[-1] = (*found[-1], _call(item))
            else:
                found.append(("calls", _call(item)) if call else _read(item))
        return found

    def session(self, conversation: str) -> SQLiteSession:
        if conversation not in self.sessions:
            self.sessions[conversation] = SQLiteSession(conversation, self.path)
        return self.sessions[conversation]


def items(event: Event) -> list[Any]:
    """Return an event as items of the Responses API: each call is one of its own."""
    match event.kind:
        case "user":
            return [{"role": "user", "content": event.text}]
        case "result":
            return [{"type": "function_call_output", "call_id": event.answers, "output": event.text}]
        case "calls":
            return [
                {"type": "function_call", "call_id": call.id, "name": call.name, "arguments": call.arguments}
                for call in event.calls
            ]
        case "answer":
            text = {"type": "output_text", "text": event.text, "annotations": []}
            return [
                {"type": "message", "id": f"msg_{event.id}", "role": "assistant", "content": [text]},
            ]


def _together(calls: Said, item: dict[str, Any]) -> bool:
    """Return whether a call is of the same turn: two writers' calls may be side by side."""
    return str(calls[1][0]).rpartition("-")[0] == str(item["call_id"]).rpartition("-")[0]


def _call(item: dict[str, Any]) -> tuple[str, str, str]:
    return item["call_id"], item["name"], item["arguments"]


def _read(item: dict[str, Any]) -> Said:
    if item.get("type") == "function_call_output":
        return ("result", item["call_id"], item["output"])
    if item["role"] == "user":
        return ("user", item["content"])
    return ("answer", item["content"][0]["text"])
