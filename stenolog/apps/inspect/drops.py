"""Files that are dropped on a page: into a folder of the import, which reads them as it reads any."""

from __future__ import annotations

import asyncio
import re
from contextlib import ExitStack
from pathlib import Path
from shutil import rmtree
from uuid import uuid4

from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response

from .guard import Permission
from .importing import Importing

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
