"""The web service: messages in, events out. It runs no agent, so it may have any number of processes.

    POST /talks/NAME                     {"text": …, "id": …}: say something; the same id again says it once
    GET  /talks/NAME/events              server-sent events: entries, whose ids are positions, and pieces
    POST /talks/NAME/cancel              stop what is at work
    POST /talks/NAME/calls/ENTRY/INDEX   {"approved": true}: let a call run, or refuse it
    GET  /                               a page to try it

The log is that of the environment variable STENOLOG_DB.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Header, Request
from fastapi.responses import FileResponse, JSONResponse, Response, StreamingResponse
from pydantic import BaseModel

import stenolog
from stenolog import AssistantMessage, AsyncConversation, Entry, LlmError, ToolResult, UserMessage
from stenolog.engine import EntryAppended, RunEvent
from stenolog.errors import (
    CallerError,
    DuplicateIdError,
    IllegalCommandError,
    OperationalError,
    PositionNotFoundError,
    StenologError,
)
from stenolog.events import CallRef
from stenolog.workers import approve, cancel, follow, reject, submit

PAGE = Path(__file__).with_name("page.html")
QUIET = 15.0
"""Seconds after which a quiet stream sends a comment, so that nobody takes it for dead."""


class Said(BaseModel):
    """What somebody says; whoever sends it makes the `id`, and sends it again with the same one."""

    text: str
    id: str = ""


class Verdict(BaseModel):
    """Whether a call may run."""

    approved: bool


@asynccontextmanager
async def opened(service: FastAPI) -> AsyncIterator[None]:
    """Have the log open while the service runs."""
    async with stenolog.open_async(os.environ["STENOLOG_DB"]) as log:
        service.state.log = log
        yield


app = FastAPI(title="Talks", lifespan=opened)


def talk(request: Request, name: str) -> AsyncConversation:
    """Return a conversation of the log."""
    found: AsyncConversation = request.app.state.log[name]
    return found


@app.get("/")
def page() -> FileResponse:
    """Return the page."""
    return FileResponse(PAGE)


@app.post("/talks/{name}", status_code=202)
async def say(request: Request, name: str, said: Said) -> dict[str, int]:
    """Append a message and wake a worker, in one transaction."""
    return {"position": await submit(talk(request, name), said.text, id=said.id)}


@app.post("/talks/{name}/cancel", status_code=202)
async def stop(request: Request, name: str) -> dict[str, int]:
    """Stop what is at work, wherever it runs."""
    return {"position": await cancel(talk(request, name))}


@app.post("/talks/{name}/calls/{entry}/{index}", status_code=202)
async def decide(request: Request, name: str, entry: str, index: int, verdict: Verdict) -> dict[str, int]:
    """Let a call run, or refuse it."""
    answer = approve if verdict.approved else reject
    return {"position": await answer(talk(request, name), CallRef(entry=entry, index=index))}


@app.get("/talks/{name}/events")
async def events(request: Request, name: str, last_event_id: int = Header(0)) -> StreamingResponse:
    """Send the entries behind the last one that the browser has, and what comes from now on."""
    conversation = talk(request, name)
    if last_event_id and not 0 < last_event_id <= await conversation.position():
        raise PositionNotFoundError(f"{name!r}: there is no position {last_event_id}")
    return StreamingResponse(stream(conversation, last_event_id), media_type="text/event-stream")


async def stream(conversation: AsyncConversation, after: int) -> AsyncGenerator[str, None]:
    """Yield the events behind a position as text, and now and then a comment, without end."""
    followed = follow(conversation, after=after)
    coming = asyncio.ensure_future(anext(followed))
    try:
        while True:
            done, _ = await asyncio.wait({coming}, timeout=QUIET)
            if done:
                yield sent(coming.result())
                coming = asyncio.ensure_future(anext(followed))
            else:
                yield ": quiet\n\n"
    except StopAsyncIteration:  # the log was closed
        return
    finally:
        coming.cancel()
        with suppress(asyncio.CancelledError, StopAsyncIteration, StenologError):
            await coming
        await followed.aclose()


def sent(event: RunEvent) -> str:
    """Return an event as text. A piece has no id: who comes back is sent the answer so far again."""
    if isinstance(event, EntryAppended):
        return f"id: {event.entry.position}\nevent: entry\ndata: {json.dumps(shown(event.entry))}\n\n"
    return f"event: piece\ndata: {json.dumps(event._asdict())}\n\n"


def shown(entry: Entry) -> dict[str, Any]:
    """Return what the page shows of an entry."""
    found: dict[str, Any] = {"position": entry.position, "kind": entry.event.kind}
    match entry.event:
        case UserMessage(text=text, control=control):
            found |= {"who": "user", "text": control.action if control else text}
        case AssistantMessage(agent=agent, text=text, cause=cause) as answer:
            calls = [
                {"entry": entry.id, "index": index, "name": call.name, "arguments": call.arguments}
                for index, call in enumerate(answer.tool_calls)
            ]
            found |= {"who": agent, "text": text, "cause": cause, "calls": calls}
        case ToolResult(name=name, text=text, call=call):
            found |= {"who": name, "text": text, "call": None if call is None else [call.entry, call.index]}
        case LlmError(agent=agent, message=message, cause=cause):
            found |= {"who": agent, "text": message, "cause": cause}
        case _:
            pass
    return found


@app.exception_handler(StenologError)
async def failed(_: Request, error: StenologError) -> Response:
    """Answer with the error's words: 409 where somebody was first, 503 where the store is away."""
    match error:
        case DuplicateIdError() | IllegalCommandError():
            status = 409
        case PositionNotFoundError():
            status = 404
        case CallerError():
            status = 422
        case OperationalError():
            status = 503
        case _:
            status = 500
    return JSONResponse({"error": type(error).__name__, "message": str(error)}, status)
