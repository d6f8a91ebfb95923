"""The log as a service for programs in other languages: JSON-RPC over standard input, and HTTP."""

from __future__ import annotations

from typing import TYPE_CHECKING, BinaryIO

from stenolog.domain.errors import MissingExtraError

if TYPE_CHECKING:
    from starlette.applications import Starlette

    from stenolog.adapters.conversation.log import Log


def application(log: Log, token: str) -> Starlette:
    """Return a log as an HTTP application, for holders of the token; the log stays open.

    Raises `MissingExtraError`.
    """
    try:
        from . import http
    except ModuleNotFoundError as error:
        raise MissingExtraError("serve", "starlette") from error
    return http.application(log, token)


def serve_stdio(log: Log, lines: BinaryIO, out: BinaryIO) -> None:
    """Answer the JSON-RPC calls in a stream of lines; the log stays open."""
    from . import service, stdio  # late: a program that wants HTTP needs neither

    stdio.serve(service.Service(log), lines, out)
