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
import re
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from html import escape
from inspect import getdoc
from typing import Any

from pydantic import TypeAdapter, ValidationError
from pydantic.json_schema import models_json_schema
from pydantic_core import to_json
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from stenolog._version import __version__
from stenolog.adapters.conversation.log import Log
from stenolog.adapters.tools.base import in_thread
from stenolog.apps.servers.limits import admit
from stenolog.domain.codec import REGISTRY
from stenolog.domain.errors import CallerError

from .faults import HTTP, InvalidParamsError, error_data, http_status, invalid_params
from .messages import TailParams
from .service import PROTOCOL, Method, Service, Wake
from .waiting import AT_ONCE, WAITS, Waiting

LARGEST_BODY = 128 * 1024 * 1024
"""The most bytes of a request."""
SWEEP = 1.0
"""The seconds between two looks for leases that are over."""
LONGEST_NUMBER = 16
PATIENCE = 15.0
"""The seconds after which a quiet stream of events sends a comment, so that it is not taken for dead."""


def application(log: Log, token: str, wake: Wake = None) -> Starlette:
    """Return the log as an application, to be run by itself or mounted; `wake` as in `Service`.

    Holders of the token may read and write everything. The log stays open.
    """
    service = Service(log, is_leased=True, wake=wake)
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


TEMPLATE = "#/components/schemas/{model}"
ERROR = {
    "type": "object",
    "required": ["error"],
    "properties": {
        "error": {
            "type": "object",
            "required": ["type", "message"],
            "properties": {
                "type": {"type": "string", "description": "The name of the error's class in Python."},
                "message": {"type": "string", "description": "What was expected, what was found, and where."},
                "expected": {"type": "integer", "description": "Of a version conflict: the position."},
                "found": {"type": "integer", "description": "Of a version conflict: the position."},
            },
        }
    },
}


def schemas(methods: Iterable[Method], template: str = TEMPLATE) -> dict[str, Any]:
    """Return the JSON Schema of every parameter, result and event, by name."""
    listed = [*methods]
    models = {model: None for method in listed for model in (method.params, method.result)}
    _, found = models_json_schema([(model, "validation") for model in models], ref_template=template)
    schemas: dict[str, Any] = dict(found["$defs"])
    for topic, cls in REGISTRY.events.items():
        schema = TypeAdapter(cls).json_schema(ref_template=template)
        schemas |= schema.pop("$defs", {})
        schemas[cls.__name__] = {**schema, "description": f"The fields of {topic}, as they are stored."}
    return dict(sorted(schemas.items()))


def document(methods: Mapping[str, Method]) -> dict[str, Any]:
    """Return the OpenAPI document (3.1)."""
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Stenolog",
            "version": __version__,
            "description": f"Protocol {PROTOCOL}. Each method takes and returns one JSON object.",
        },
        "security": [{"token": []}],
        "paths": {f"/v1/{method.name}": {"post": _operation(method)} for method in methods.values()},
        "components": {
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            "schemas": {**schemas(methods.values()), "Error": ERROR},
        },
    }


def _operation(method: Method) -> dict[str, Any]:
    statuses = sorted({str(status) for _, status in HTTP} | {"401", "413", "500"})
    return {
        "operationId": method.name,
        "summary": method.help.partition("\n")[0],
        "requestBody": {"required": True, "content": _json(method.params.__name__)},
        "responses": {
            "200": {"description": getdoc(method.result), "content": _json(method.result.__name__)},
            **{status: {"description": "An error.", "content": _json("Error")} for status in statuses},
        },
    }


def _json(name: str) -> dict[str, Any]:
    return {"application/json": {"schema": {"$ref": TEMPLATE.format(model=name)}}}


HEAD = """<!doctype html><html lang="en"><meta charset="utf-8"><title>Stenolog</title><style>
body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}
h2{font-size:1.1rem;margin:2.5rem 0 .25rem}code,h2,td:first-child{font-family:ui-monospace,monospace}
table{border-collapse:collapse;width:100%;table-layout:fixed;margin:.5rem 0}
th:nth-child(1){width:11rem}th:nth-child(2){width:16rem}
td,th{border-bottom:1px solid #ddd;padding:.25rem .5rem;text-align:left;vertical-align:top}
td{overflow-wrap:anywhere}
@media(prefers-color-scheme:dark){body{background:#111;color:#ddd}a{color:#8bf}td,th{border-color:#444}}
</style>"""


def page(methods: Mapping[str, Method]) -> str:
    """Return the document as a page without scripts."""
    return "".join(_page([*methods.values()], schemas(methods.values())))


def _page(methods: Sequence[Method], found: Mapping[str, Any]) -> Iterator[str]:
    yield f"{HEAD}<h1>Stenolog {__version__}, protocol {PROTOCOL}</h1>"
    yield "<p>Each method is <code>POST /v1/METHOD</code> with a JSON object; fields with ? may be left out. "
    yield 'The same as <a href="/openapi.json">OpenAPI</a>.</p>'
    for method in methods:
        yield f'<h2 id="{method.name}">{method.name}</h2><p>{escape(method.help)}</p>'
        yield from _table("takes", found[method.params.__name__])
        yield from _table("returns", found[method.result.__name__])
    own = {method.params.__name__ for method in methods}
    yield "<h1>Values</h1>"
    for name in sorted(found.keys() - own):
        yield f'<h2 id="{name}">{name}</h2><p>{escape(found[name].get("description", ""))}</p>'
        yield from _table("field", found[name])


def _table(title: str, schema: Mapping[str, Any]) -> Iterator[str]:
    if not (fields := schema.get("properties", {})):
        return
    yield f"<table><tr><th>{title}<th>type<th>meaning</tr>"
    for name, each in fields.items():
        needed = "" if name in schema.get("required", ()) else "?"
        words = escape(each.get("description", ""))
        yield f"<tr><td>{name}{needed}<td>{_linked(type_of(each))}<td>{words}</tr>"
    yield "</table>"


def _linked(words: str) -> str:
    return re.sub(r"\b[A-Z][A-Za-z]+\b(?! object)", r'<a href="#\g<0>">\g<0></a>', escape(words))


def type_of(schema: Mapping[str, Any]) -> str:
    """Return the type of a schema in a few words."""
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    if "anyOf" in schema:
        return " or ".join(type_of(each) for each in schema["anyOf"])
    if "enum" in schema or "const" in schema:
        return " or ".join(f'"{each}"' for each in schema.get("enum", [schema.get("const")]))
    if schema.get("type") == "array":
        return f"list of {type_of(schema.get('items', {}))}"
    if schema.get("format") == "date-time":
        return "time"
    return {"string": "text", "object": "JSON object", "boolean": "true or false"}.get(
        str(schema.get("type", "anything")), str(schema.get("type", "anything"))
    )
