"""Guard of the pages: who may ask, by which host name, what a page may load, and what it may change.

Pages show texts of anybody's: models, tools and web pages wrote them. So no page has a script or a style in
it, and none may load anything from elsewhere.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Iterable
from hashlib import sha256
from urllib.parse import parse_qs, parse_qsl, quote, urlencode, urlsplit

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from stenolog.adapters.conversation.log import Log
from stenolog.apps.servers.limits import admit
from stenolog.apps.views.positions import is_number
from stenolog.domain.errors import StenologError

COOKIE = "stenolog"
LOCAL = ("127.0.0.1", "localhost", "[::1]")
"""The host names that a browser on this machine may call the pages by."""
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    # With no-referrer a browser would not say of which page a form is.
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}


class Guard:
    """An application behind a token, for a few host names; without a token it is open to those who mount it.

    The first URL has the token (`?token=`). It leads to a path that nobody can guess, with a cookie for that
    path. From then on both are needed: cookies know no ports, so a browser would send one for `/` to every
    other server of this machine, and the path alone may be seen on a screen.
    """

    def __init__(self, app: ASGIApp, token: str, hosts: Iterable[str] = LOCAL) -> None:
        self.app = app
        self._token = token
        self._place, self._cookie = f"/{_derived(token, 'path')[:24]}", _derived(token, "cookie")
        self._hosts = frozenset(hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        refused = self._refused(scope)
        if refused is not None:
            refused.headers.update(HEADERS)
            await refused(scope, receive, send)
            return
        admit(scope)
        if self._token:
            scope = {**scope, "root_path": scope.get("root_path", "") + self._place}

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                answered = MutableHeaders(scope=message)
                kept = answered.get("Cache-Control", HEADERS["Cache-Control"])
                answered.update({**HEADERS, "Cache-Control": kept})
            await send(message)

        await self.app(scope, receive, guarded)

    def _refused(self, scope: Scope) -> Response | None:
        """Return the refusal of a request, or the redirect that takes the token out of the address."""
        headers = Headers(scope=scope)
        # A page elsewhere may have its own host name lead here (DNS rebinding).
        if self._token and _host(headers.get("host", "")) not in self._hosts:
            return _no("this host name is not one of this machine's")
        origin = headers.get("origin")
        if origin is not None and urlsplit(origin).netloc != headers.get("host"):
            return _no("a page of another origin may not ask here")
        if not self._token or (self._is_inside(scope) and self._has_cookie(headers)):
            return None
        query = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        if not _same(dict(query).get("token", ""), self._token):
            return _no("open the address that `stenolog inspect` has printed")
        admit(scope)
        rest = urlencode([(name, value) for name, value in query if name != "token"])
        root = quote(scope.get("root_path", ""))
        path = _path(scope, root).removeprefix(self._place)
        answer = RedirectResponse(f"{root}{self._place}{path}{'?' if rest else ''}{rest}", status_code=303)
        place = root + self._place
        answer.set_cookie(COOKIE, self._cookie, path=place, httponly=True, samesite="strict")
        return answer

    def _is_inside(self, scope: Scope) -> bool:
        inside: str = scope["path"].removeprefix(scope.get("root_path", ""))
        return _same(inside[: len(self._place)], self._place) and inside[len(self._place) :][:1] == "/"

    def _has_cookie(self, headers: Headers) -> bool:
        # Another server of this machine may have set one of the same name: any of them counts.
        pairs = (pair.strip().partition("=") for pair in headers.get("cookie", "").split(";"))
        return any(name == COOKIE and _same(value, self._cookie) for name, _, value in pairs)


def _derived(token: str, purpose: str) -> str:
    return hmac.new(token.encode(), purpose.encode(), sha256).hexdigest()


def _same(given: str, right: str) -> bool:
    # In constant time: how long it takes must not tell how much of it was right.
    return hmac.compare_digest(given.encode(), right.encode())


def _path(scope: Scope, root: str) -> str:
    """Return the path below the root as it was written: decoded, a name such as `a?b` would be another.

    It begins with one slash: after two comes a host name.
    """
    written: bytes = scope.get("raw_path") or quote(scope["path"]).encode()
    path = written.partition(b"?")[0].decode("latin-1").removeprefix(root)
    return f"/{path.lstrip('/')}"


def _no(why: str) -> Response:
    return PlainTextResponse(f"403: {why}\n", status_code=403)


def _host(header: str) -> str:
    name, colon, port = header.rpartition(":")
    return name if colon and port.isdecimal() else header


MOST = 64_000
"""The most bytes of a form."""
SIDES = ("after", "before")


class Permission:
    """Permission for a change that pages can make, which an `option` of the command gives.

    Another site may have the browser send a form here, with its cookie. So a change needs the origin of these
    pages, and a token that only they have.
    """

    def __init__(self, option: str, *, allowed: bool) -> None:
        self._option = option
        self._allowed = allowed
        self._key = secrets.token_bytes(32)

    def token(self, subject: str = "") -> str:
        """Return the token for a change of a subject; "" if it is not allowed."""
        return hmac.new(self._key, subject.encode(), sha256).hexdigest() if self._allowed else ""

    def refusal(self, request: Request) -> Response | None:
        """Return the refusal of a request that is not allowed, or comes from elsewhere."""
        if not self._allowed:
            return _no(f"nothing can be changed here without `stenolog inspect {self._option}`")
        origin = urlsplit(request.headers.get("origin", ""))
        if not origin.netloc or origin.netloc != request.headers.get("host"):
            return _no("a page of another origin may change nothing here")
        return None

    def mismatch(self, token: str, subject: str = "") -> Response | None:
        """Return the refusal of a token that is not the subject's."""
        is_right = self._allowed and _same(token, self.token(subject))
        return None if is_right else _no("this page is of an earlier time: open it again")


class Forks:
    """Forks of the conversations of one log; unless `allowed`, each is refused, and pages have no buttons."""

    def __init__(self, log: Log, *, allowed: bool) -> None:
        self._log = log
        self._permission = Permission("--allow-fork", allowed=allowed)
        self.token = self._permission.token

    async def answer(self, request: Request) -> Response:
        """Fork a conversation after or before a position, and redirect to the fork."""
        name = request.path_params["name"]
        if refusal := self._permission.refusal(request):
            return refusal
        form = await _form(request)
        if refusal := self._permission.mismatch(form.get("token", ""), name):
            return refusal
        try:
            fork = await run_in_threadpool(self._fork, name, form)
        except (StenologError, ValueError) as error:
            return PlainTextResponse(f"400: {error}\n", status_code=400)
        query = urlencode({"agent": form["agent"]} if form.get("agent") else {})
        address = (
            f"{request.scope.get('root_path', '')}/c/{quote(fork, safe='')}{'?' if query else ''}{query}"
        )
        return RedirectResponse(address, status_code=303)

    def _fork(self, name: str, form: dict[str, str]) -> str:
        written, side = form.get("at", ""), form.get("side", "")
        if side not in SIDES or not is_number(written):
            raise ValueError("expected side=after or side=before, and a position as at=")
        at = self._log[name].checked(int(written), least=1)
        return self._log[name].fork(at if side == "after" else at - 1).name


async def _form(request: Request) -> dict[str, str]:
    """Return the fields of a small form; empty for a larger one."""
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > MOST:
            return {}
    return {name: values[-1] for name, values in parse_qs(body.decode("utf-8", "replace")).items()}
