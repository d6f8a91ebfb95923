"""The pages as a Starlette application, to run or to mount.

    GET /                       conversations, newest activity first; ?q= searches, ?after= goes on
    GET /PAGE/NAME              a page of a conversation; ?at= ?agent=
    GET /PAGE.json/NAME         its twin: the --json of the command that shows the same
    GET /text/NAME              the whole of a long text
    GET /copy/NAME?as=          a request as a file
    GET /export/NAME            the whole conversation as one HTML file
    GET /tail/NAME              its head as server-sent events, while it grows
    GET /static/FILE            style and script of the pages
    POST /fork/NAME             a fork, if allowed
    POST /import?name=          a file that was dropped on a page, if allowed

`pages/` has a module for each page, found by its folder. Pages change nothing but for these two.
"""

from __future__ import annotations

import asyncio
import re
import secrets
from collections.abc import AsyncIterator, Callable, Hashable, Mapping
from contextlib import ExitStack, suppress
from functools import cache, partial
from importlib import import_module
from importlib.resources import files
from pathlib import Path
from pkgutil import iter_modules
from shutil import rmtree
from threading import Lock
from typing import Any
from uuid import uuid4
from weakref import WeakValueDictionary

from pydantic_core import to_json
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from stenolog.adapters.conversation.log import Conversation, Log
from stenolog.adapters.conversation.queries.overviews import title_of
from stenolog.apps.views.envelope import Diagnostic, envelope
from stenolog.apps.views.positions import is_number
from stenolog.domain.errors import CallerError, StenologError
from stenolog.projections.context_curve import plot
from stenolog.projections.views import lifecycle_picture

from . import pages
from .guard import Forks, Guard, Permission
from .importing import Importing
from .index_cache import IndexCache
from .page import Page, TextPage
from .query import Query
from .reading import markup
from .templating import environment

MOST_BYTES = 256 * 1024 * 1024
"""The bytes of the largest file."""
UPLOAD_SECONDS = 300
"""The seconds in which it must have arrived."""
HEADER = "x-stenolog-token"
"""The header of the token that only these pages have."""


class Drops:
    """Files dropped on a page; refused unless the import allows them."""

    def __init__(self, imports: Importing | None) -> None:
        self._imports = imports
        self._permission = Permission("--allow-import", allowed=imports is not None and imports.allows_drops)
        self.most = MOST_BYTES

    @property
    def token(self) -> str:
        """The token for the header; "" if files are refused."""
        return self._permission.token()

    async def answer(self, request: Request) -> Response:
        """Take a file, whose name is in the address."""
        given = request.headers.get(HEADER, "")
        if refusal := self._permission.refusal(request) or self._permission.mismatch(given):
            return refusal
        assert self._imports is not None, "it has allowed this"
        folder = self._imports.spool / uuid4().hex
        file = folder / safe_name(request.query_params.get("name", ""))
        with ExitStack() as undone:
            undone.callback(rmtree, folder, ignore_errors=True)
            try:
                folder.mkdir()
                async with asyncio.timeout(UPLOAD_SECONDS):
                    await _save(request, file)
            except (OSError, ClientDisconnect) as error:  # one of the two times out
                return PlainTextResponse(f"{error or 'it took too long to come'}\n", 413)
            try:
                self._imports.drop(file)
            except OSError:
                return PlainTextResponse("the import has ended: start the command again\n", 503)
            undone.pop_all()
        return PlainTextResponse("", 202)


def safe_name(written: str) -> str:
    """Return a file's name, without what could lead elsewhere."""
    return re.sub(r"[^\w.-]+", "-", written.rpartition("/")[2])[-60:].lstrip(".-") or "dropped"


async def _save(request: Request, file: Path) -> None:
    """Write the body of a request to a file. Raises OSError if it is too large."""
    size = 0
    with file.open("xb") as stream:
        async for chunk in request.stream():
            size += len(chunk)
            if size > MOST_BYTES:
                raise OSError(f"expected at most {MOST_BYTES >> 20} MiB: `stenolog import` takes more")
            stream.write(chunk)


WAIT = 15.0
"""The seconds after which a quiet stream of a conversation's end sends a comment."""
FOUND = [
    value
    for module in iter_modules(pages.__path__, f"{pages.__name__}.")
    for value in vars(import_module(module.name)).values()
]
PAGES = tuple(value for value in FOUND if isinstance(value, Page))
TEXTS = tuple(value for value in FOUND if isinstance(value, TextPage))
SCREENS = [page for page in sorted(PAGES, key=lambda page: page.rank) if page.link]
"""The pages of a conversation that lead to one another, in the order of the links."""
TYPES = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
"""The types of the files in the folder `static`, by their endings; others are not served."""
HEADINGS = {404: "Not found", 400: "That cannot be shown", 500: "The log could not be read"}
"""The headings of the page of an error, by its status."""
PICTURES = {"context_plot.css": plot.STYLE, "lifecycle.css": lifecycle_picture.STYLE}
"""Styles of pictures, which a picture in a file of its own has within it."""


def inspector(
    log: Log,
    token: str | None = None,
    *,
    allow_fork: bool = False,
    imports: Importing | None = None,
    editor: str = "",
) -> Starlette:
    """Return the pages of a log; arguments as in `stenolog.inspector`."""
    key = secrets.token_urlsafe(24) if token is None else token
    forks, drops = Forks(log, allowed=allow_fork), Drops(imports)
    shown = Inspector(log, {"fork_token": forks.token, "imports": imports, "drops": drops})
    routes = [Route(page.path, shown.html(page)) for page in PAGES]
    routes += [Route(page.twin_path, shown.json(page)) for page in PAGES if page.twin is not None]
    routes += [Route(text.path, shown.text(text)) for text in TEXTS]
    routes += [Route("/tail/{name:path}", shown.tail()), Route("/static/{file}", static_file)]
    routes += [Route("/fork/{name:path}", forks.answer, methods=["POST"])]
    routes += [Route("/import", drops.answer, methods=["POST"])]
    app = Starlette(routes=routes, middleware=[Middleware(Guard, token=key)])
    app.state.token, app.state.editor = key, editor
    return app


class Inspector:
    """Routes to the pages of one log; `known` are values that all templates know."""

    def __init__(self, log: Log, known: Mapping[str, object]) -> None:
        self._log = log
        self._indexes = IndexCache(markup.forget)
        self._locks = KeyedLocks()
        self._templates = environment()
        self._templates.globals["screens"] = SCREENS
        self._templates.globals |= known
        self._templates.globals["title_of"] = lambda name: title_of(log[name])

    def html(self, page: Page) -> Callable[..., Any]:
        """Return a route that shows a page as HTML."""
        template = page.template or f"{page.name}.html"

        def show(query: Query) -> Response:
            shown = {"root": query.root, "here": page.name, "wanted": query.conditions, "link": query.link}
            shown |= {**page.view(query), "streams": page.streams}
            if page.of_conversation and page.twin is not None:
                shown["screens"] = [each for each in SCREENS if each is page or each.applies(query)]
            if page.streams:
                pieces = self._templates.get_template(template).generate(**shown)
                return StreamingResponse(pieces, media_type="text/html; charset=utf-8")
            return HTMLResponse(self._filled(template, **shown))

        def refuse(query: Query, error: StenologError) -> Response:
            words = {"error": HEADINGS[_status(error)], "message": str(error), "root": query.root, "here": ""}
            return HTMLResponse(self._filled("error.html", streams=False, **words), _status(error))

        return self._route(show, refuse)

    def json(self, page: Page) -> Callable[..., Any]:
        """Return a route to a page's twin, in the envelope of the command line."""
        assert page.twin is not None, "a page without a twin has no such route"
        twin = page.twin

        def show(query: Query) -> Response:
            answer = twin(query)
            return _json(envelope("failed" if answer.failed else "ok", answer.data, answer.diagnostics))

        def refuse(query: Query, error: StenologError) -> Response:
            note = Diagnostic("error", type(error).__name__, str(error))
            return _json(envelope("error", None, [note]), _status(error))

        return self._route(show, refuse)

    def text(self, text: TextPage) -> Callable[..., Any]:
        """Return a route that gives a text as it is."""

        def show(query: Query) -> Response:
            file = text.file(query)
            return Response(file.content, media_type=file.type, headers=file.headers)

        return self._route(show, _plain_refusal)

    def tail(self) -> Callable[..., Any]:
        """Return a route that streams the head of a conversation as it grows."""
        return self._route(_tail, _plain_refusal)

    def _route(
        self, show: Callable[[Query], Response], refuse: Callable[[Query, StenologError], Response]
    ) -> Callable[..., Any]:
        def answer(request: Request) -> Response:
            query = Query(self._log, self._indexes, request)
            try:
                # Work for a page that was left goes on: who loads it again waits for that, and finds it kept.
                with self._locks.of(str(request.url)):
                    return show(query)
            except StenologError as error:
                return refuse(query, error)

        return partial(_in_thread, answer)

    def _filled(self, template: str, **shown: Any) -> str:
        return self._templates.get_template(template).render(**shown)


async def _in_thread(answer: Callable[[Request], Response], request: Request) -> Response:
    return await run_in_threadpool(answer, request)


def _plain_refusal(query: Query, error: StenologError) -> Response:
    return PlainTextResponse(f"{error}\n", _status(error))


def _json(content: object, status: int = 200) -> Response:
    return Response(to_json(content), status, media_type="application/json")


def _status(error: StenologError) -> int:
    if isinstance(error, LookupError):
        return 404
    return 400 if isinstance(error, CallerError) else 500


async def static_file(request: Request) -> Response:
    """Return the file that the path names, or 404."""
    found = _static_files().get(request.path_params["file"])
    if found is None:
        return Response("404: no such file\n", 404)
    content, type = found
    return Response(content, media_type=type, headers={"Cache-Control": "private, max-age=300"})


@cache
def _static_files() -> dict[str, tuple[bytes, str]]:
    found = {name: (style.encode(), TYPES[".css"]) for name, style in PICTURES.items()}
    for file in files(__package__).joinpath("static").iterdir():
        type = TYPES.get(file.name[file.name.rfind(".") :])
        if type:
            found[file.name] = file.read_bytes(), type
    return found


class KeyedLocks:
    """Locks by key: a page that is loaded again while it is made is not made twice at a time.

    A lock that no thread has or waits for is dropped.
    """

    def __init__(self) -> None:
        self._locks: WeakValueDictionary[Hashable, Lock] = WeakValueDictionary()
        self._own = Lock()

    def of(self, key: Hashable) -> Lock:
        """Return the lock of a key, the same one to concurrent threads."""
        with self._own:
            return self._locks.setdefault(key, Lock())


def _tail(query: Query) -> Response:
    """Stream the position of the last entry each time that the conversation grows.

    A browser that comes back sends `Last-Event-ID`; at first it sends `after`.
    """
    last = query.header("last-event-id")
    after = int(last) if is_number(last) else query.number("after", query.head)
    return StreamingResponse(_heads(query.conversation, after), media_type="text/event-stream")


async def _heads(talk: Conversation, after: int) -> AsyncIterator[bytes]:
    """Yield the head as an event each time that the conversation grows, until the log is closed.

    A quiet stream occupies no thread.
    """
    loop, grown = asyncio.get_running_loop(), asyncio.Event()
    recorder = talk.log.recorder
    with recorder.listening(lambda: loop.call_soon_threadsafe(grown.set)):
        while not recorder.closed:
            # Before reading: an entry that comes after the read sets it again.
            grown.clear()
            head = await run_in_threadpool(lambda: talk.position)
            if head > after:
                after = head
                yield b"id: %d\nevent: head\ndata: %d\n\n" % (after, after)
            else:
                yield b": quiet\n\n"
            with suppress(TimeoutError):
                async with asyncio.timeout(WAIT):
                    await grown.wait()
