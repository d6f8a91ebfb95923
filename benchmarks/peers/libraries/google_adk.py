"""Google's ADK: SqliteSessionService, used as its Runner does.

The session is loaded when a turn begins, each event is appended to it, and the contents of a request are made
of its events by the function that its own flows call.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, ClassVar

from google.adk.events.event import Event as Stored  # type: ignore[import-untyped]
from google.adk.flows.llm_flows.contents import _get_contents  # type: ignore[import-untyped]
from google.adk.sessions.sqlite_session_service import (  # type: ignore[import-untyped]
    SqliteSessionService,
)
from google.genai.types import Content, FunctionCall, FunctionResponse, Part

from benchmarks.peers.peer import AsyncPeer
from benchmarks.peers.workload import STEPS, Event, Said

AGENT = "assistant"


class GoogleADK(AsyncPeer):
    packages: ClassVar[tuple[str, ...]] = ("google-adk",)
    prepared: ClassVar[bool] = True

    def open(self, path: Path) -> None:
        self.service = SqliteSessionService(str(path))
        self.sessions: dict[str, Any] = {}

    def close(self) -> None:
        self.wait(self.service.close())

    async def started(self, conversation: str) -> None:
        key = {"app_name": "peers", "user_id": "someone", "session_id": conversation}
        found = await self.service.get_session(**key)
        self.sessions[conversation] = found or await self.service.create_session(**key)

    async def put(self, event: Event) -> None:
        await self.service.append_event(self.sessions[event.conversation], stored(event))

    async def built(self, conversation: str, upto: int | None = None) -> list[Content]:
        if conversation not in self.sessions:
            await self.started(conversation)
        return list(_get_contents(None, self.sessions[conversation].events[:upto], AGENT))

    def said(self, messages: Any) -> list[Said]:
        return [said for content in messages for said in read(content)]

    def kept(self, conversation: str) -> list[Said]:
        self.begin(conversation)
        return self.said([event.content for event in self.sessions[conversation].events if event.content])

    def at(self, conversation: str, turn: int) -> list[Content]:
        """Return the loaded list, cut here: the library loads everything."""
        self.begin(conversation)
        return self.wait(self.built(conversation, turn * STEPS))


def stored(event: Event) -> Any:
    """Return an event as one of ADK's."""
    match event.kind:
        case "user":
            content = Content(role="user", parts=[Part(text=event.text)])
        case "result":
            given = FunctionResponse(id=event.answers, name=event.tool, response={"result": event.text})
            content = Content(role="user", parts=[Part(function_response=given)])
        case "calls":
            calls = [
                FunctionCall(id=call.id, name=call.name, args=json.loads(call.arguments))
                for call in event.calls
            ]
            content = Content(role="model", parts=[Part(function_call=call) for call in calls])
        case "answer":
            content = Content(role="model", parts=[Part(text=event.text)])
    author = "user" if event.kind == "user" else AGENT
    invocation = f"{event.conversation}/{event.turn}"
    return Stored(author=author, invocation_id=invocation, content=content)


def read(content: Content) -> list[Said]:
    """Return a content as it is compared: the results of several calls may stand in one."""
    parts = content.parts or []
    calls = [part.function_call for part in parts if part.function_call]
    found: list[Said] = []
    if calls:
        given = ((call.id, call.name, json.dumps(call.args, ensure_ascii=False)) for call in calls)
        found.append(("calls", *given))
    for part in parts:
        if answer := part.function_response:
            found.append(("result", answer.id, (answer.response or {})["result"]))
        elif part.text is not None:
            found.append(("user" if content.role == "user" else "answer", part.text))
    return found
