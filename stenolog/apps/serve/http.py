"""The service over HTTP, as a Starlette application.

    POST /v1/METHOD       one JSON object in, one out; an error is {"error": {"type": ..., "message": ...}}
    GET  /v1/tail         the entries of a conversation as server-sent events; their ids are positions
    GET  /openapi.json    the OpenAPI document
    GET  /                the same as a page

Every request but the last two needs the token: `Authorization: Bearer TOKEN`.
"""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

from pydantic import ValidationError
from pydantic_core import to_json
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from stenolog.adapters.conversation.log import Log
from stenolog.adapters.tools.base import in_thread
from stenolog.apps.servers.limits import admit
from stenolog.domain.errors import CallerError

from .faults import InvalidParamsError, error_data, http_status, invalid_params
from .messages import TailParams
from .openapi import document, page
from .service import Service
from .waiting import AT_ONCE, WAITS, Waiting

LARGEST_BODY = 128 * 1024 * 1024
"""The most bytes of a request."""
SWEEP = 1.0
"""The seconds between two looks for leases that are over."""
LONGEST_NUMBER = 16
PATIENCE = 15.0
"""The seconds after which a quiet stream of events sends a comment, so that it is not taken for dead."""


def application(log: Log, token: str) -> Starlette:
    """Return the log as an application, to be run by itself or mounted.

    Holders of the token may read and write everything. The log stays open.
    """
    service = Service(log, is_leased=True)
    described, shown = to_json(document(service.methods)), page(service.methods)
    places, quick = Waiting(), asyncio.Semaphore(AT_ONCE)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        sweeping = asyncio.create_task(_sweep(service))
        try:
            yield
        finally:
            sweeping.cancel()
            await run_in_threadpool(service.close)

    async def call(request: Request) -> Response:
        if (refused := _refused(request, token)) is not None:
            return refused
        try:
            body = await _body(request)
            name = request.path_params["method"]
            work, thread = partial(service.call, name, body or b"{}"), f"stenolog {name:.32}"
            if name in WAITS:
                places.take()
                result = await in_thread(partial(places.done, work), thread)
            else:
                async with quick:
                    result = await in_thread(work, thread)
        except ClientDisconnect:
            raise
        except Exception as error:
            return _error(error)
        return Response(to_json(result), media_type="application/json")

    async def tail(request: Request) -> Response:
        if (refused := _refused(request, token)) is not None:
            return refused
        try:
            params = _tail_params(request)
            places.take()
        except CallerError as error:
            return _error(error)
        return _Stream(service, params, places)

    async def openapi(_: Request) -> Response:
        return Response(described, media_type="application/json")

    async def index(_: Request) -> Response:
        return HTMLResponse(shown)

    return Starlette(
        routes=[
            Route("/v1/tail", tail, methods=["GET"]),
            Route("/v1/{method}", call, methods=["POST"]),
            Route("/openapi.json", openapi),
            Route("/", index),
        ],
        lifespan=lifespan,
    )


async def _sweep(service: Service) -> None:
    while True:
        await asyncio.sleep(SWEEP)
        await run_in_threadpool(service.owners.end_lapsed)


async def _body(request: Request) -> bytes:
    """Return the body. Raises `InvalidParamsError` if it is too large."""
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > LARGEST_BODY:
            raise InvalidParamsError(f"expected at most {LARGEST_BODY} bytes; a large file goes by put_blob")
    return bytes(body)


def _refused(request: Request, token: str) -> Response | None:
    scheme, _, given = request.headers.get("authorization", "").partition(" ")
    # Compared in constant time: how long it takes must not tell how much of it was right.
    if scheme.lower() == "bearer" and hmac.compare_digest(given.strip().encode(), token.encode()):
        admit(request.scope)
        return None
    problem = {"type": "UnauthorizedError", "message": "expected the header Authorization: Bearer TOKEN"}
    return JSONResponse({"error": problem}, 401, {"WWW-Authenticate": "Bearer"})


def _error(error: Exception) -> Response:
    return JSONResponse({"error": error_data(error)}, http_status(error))


def _tail_params(request: Request) -> TailParams:
    """Return a stream's parameters; a browser that reconnects sends the last id it has."""
    last = request.headers.get("last-event-id") or request.query_params.get("after", "0")
    if not (last.isascii() and last.isdecimal() and len(last) <= LONGEST_NUMBER):
        raise InvalidParamsError(f"/after: expected a position, found {last!r:.60}")
    try:
        return TailParams(
            conversation=request.query_params.get("conversation", ""), after=int(last), wait=PATIENCE
        )
    except ValidationError as error:
        raise invalid_params(error) from None


class _Stream(StreamingResponse):
    """Entries as server-sent events; its place is freed however it ends."""

    def __init__(self, service: Service, params: TailParams, places: Waiting) -> None:
        super().__init__(_events(service, params), media_type="text/event-stream")
        self._places = places

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._places.leave()


async def _events(service: Service, params: TailParams) -> AsyncIterator[bytes]:
    while True:
        found = await in_thread(partial(service.tail, params), "stenolog tail")
        for entry in found.entries:
            yield b"id: %d\nevent: entry\ndata: %s\n\n" % (entry.position, to_json(entry))
        if not found.entries:
            yield b": nothing new\n\n"
        params = params.model_copy(update={"after": found.position})
