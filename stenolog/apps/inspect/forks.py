"""Forks from a page: the only change that a page can make, if it is allowed.

Another site may have the browser send a form here, with its cookie. So a form needs the origin of these
pages, and a token that only they have.
"""

from __future__ import annotations

import hmac
import secrets
from hashlib import sha256
from urllib.parse import parse_qs, quote, urlencode, urlsplit

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response

from stenolog.adapters.conversation.log import Log
from stenolog.apps.views.positions import is_number
from stenolog.domain.errors import StenologError

MOST = 64_000
"""The most bytes of a form."""
SIDES = ("after", "before")


class Forks:
    """Forks of the conversations of one log; unless `allowed`, each is refused, and pages have no buttons."""

    def __init__(self, log: Log, *, allowed: bool) -> None:
        self._log = log
        self._allowed = allowed
        self._key = secrets.token_bytes(32)

    def token(self, name: str) -> str:
        """Return the token of a conversation's forms; "" if forks are not allowed."""
        return hmac.new(self._key, name.encode(), sha256).hexdigest() if self._allowed else ""

    async def answer(self, request: Request) -> Response:
        """Fork a conversation after or before a position, and redirect to the fork."""
        name = request.path_params["name"]
        if not self._allowed:
            return _refusal("nothing can be changed here; `stenolog inspect --allow-fork` allows forks")
        origin = urlsplit(request.headers.get("origin", ""))
        if not origin.netloc or origin.netloc != request.headers.get("host"):
            return _refusal("a form of another page may not fork here")
        form = await _form(request)
        if not hmac.compare_digest(form.get("token", "").encode(), self.token(name).encode()):
            return _refusal("this form is of an earlier time: open the page again")
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


def _refusal(why: str) -> Response:
    return PlainTextResponse(f"403: {why}\n", status_code=403)
