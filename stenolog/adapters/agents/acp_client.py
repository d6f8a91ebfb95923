"""Client side of the Agent Client Protocol: agents' updates become parts of the answer being built.

It also passes permission requests on to the application. `acp_session` connects it to an agent's process.
"""

from __future__ import annotations

import asyncio
import inspect
import json
from typing import Any

from acp.schema import (
    AgentMessageChunk,
    AgentThoughtChunk,
    AllowedOutcome,
    ContentChunk,
    Cost,
    DeniedOutcome,
    PermissionOption,
    RequestPermissionResponse,
    TextContentBlock,
    ToolCallProgress,
    ToolCallStart,
    ToolCallUpdate,
    UsageUpdate,
)
from pydantic import BaseModel

from .answer_buffer import ResponseBuilder
from .permission import PermissionRequest, Permit
from .session_pool import SessionPlace

ANSWERS = {True: ("allow_once", "allow_always"), False: ("reject_once", "reject_always")}


class Client:
    """Tells the turn under way what the agent says and does; what it tells outside of one is dropped, such as
    the whole history of a session that is taken up. `news` is set whenever something has come."""

    def __init__(self, place: SessionPlace, permit: Permit | None) -> None:
        self.turn: ResponseBuilder | None = None
        self.news = asyncio.Event()
        self._place = place
        self._permit = permit
        self._message: str | None = None
        self._calls: dict[str, dict[str, Any]] = {}
        self._asking: set[asyncio.Future[bool]] = set()

    def begin(self, session: str) -> ResponseBuilder:
        """Listen to a turn."""
        self._message, self._calls = None, {}
        self.turn = ResponseBuilder("acp", session, resumes=True)
        return self.turn

    def withdraw(self) -> None:
        """Withdraw the permission requests that are not decided yet."""
        for asking in self._asking:
            asking.cancel()

    # What the protocol's library calls

    async def session_update(self, session_id: str, update: object, **_: Any) -> None:
        """The agent tells something."""
        if self.turn is not None and session_id == self.turn.session:
            self._tell(self.turn, update)
            self.turn.alive = True
            self.news.set()

    async def request_permission(
        self, session_id: str, tool_call: ToolCallUpdate, options: list[PermissionOption], **_: Any
    ) -> RequestPermissionResponse:
        """The agent asks for a permission."""
        call = self._call_details(tool_call)
        allowed = await self._decision(call)
        call["permission"] = {True: "allowed", False: "refused", None: "withdrawn"}[allowed]
        if self.turn is not None:
            self.turn.add_note(call, tool_call.tool_call_id)
            self.news.set()
        for kind in () if allowed is None else ANSWERS[allowed]:
            for option in options:
                if option.kind == kind:
                    chosen = AllowedOutcome(outcome="selected", option_id=option.option_id)
                    return RequestPermissionResponse(outcome=chosen)
        return RequestPermissionResponse(outcome=DeniedOutcome(outcome="cancelled"))

    def _tell(self, turn: ResponseBuilder, update: object) -> None:
        match update:
            case AgentMessageChunk() | AgentThoughtChunk():
                if update.message_id != self._message:
                    turn.break_part()
                self._message = update.message_id
                self._chunk(turn, update)
            case ToolCallStart() | ToolCallProgress():
                turn.add_note(self._call_details(update), update.tool_call_id)
            case UsageUpdate(cost=Cost(amount=amount, currency="USD")):
                turn.costs(amount)
            case _:
                pass  # plans, modes, commands: for a screen of the agent's own

    def _chunk(self, turn: ResponseBuilder, chunk: ContentChunk) -> None:
        if not isinstance(chunk.content, TextContentBlock):
            turn.add_note(_dumped(chunk.content))
        elif isinstance(chunk, AgentThoughtChunk):
            turn.add_reasoning(chunk.content.text)
        else:
            turn.add_text(chunk.content.text)

    def _call_details(self, call: ToolCallStart | ToolCallUpdate) -> dict[str, Any]:
        """All that was told of a call so far."""
        known = self._calls.setdefault(call.tool_call_id, {})
        known |= _dumped(call)
        known.pop("sessionUpdate", None)
        return known

    async def _decision(self, call: dict[str, Any]) -> bool | None:
        """Return whether the agent may; None if the question was withdrawn."""
        asking = asyncio.ensure_future(self._ask_permission(call))
        self._asking.add(asking)
        try:
            await asyncio.wait([asking])
        finally:
            self._asking.discard(asking)
            asking.cancel()
        return None if asking.cancelled() else asking.exception() is None and asking.result()

    async def _ask_permission(self, call: dict[str, Any]) -> bool:
        if self._permit is None:
            return False
        title, kind = str(call.get("title", "")), str(call.get("kind", ""))
        arguments = json.dumps(call.get("rawInput"), ensure_ascii=False)
        said = self._permit(
            PermissionRequest(title, kind, arguments, self._place.lane, self._place.conversation)
        )
        return bool(await said if inspect.isawaitable(said) else said)


def _dumped(model: BaseModel) -> dict[str, Any]:
    return model.model_dump(mode="json", by_alias=True, exclude_none=True)
