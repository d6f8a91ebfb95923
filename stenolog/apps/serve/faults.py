"""Errors as other programs get them: class name, message, and the protocols' numbers."""

from __future__ import annotations

import logging
from typing import Any

from pydantic import ValidationError

from stenolog.adapters.plugins import plugin_at_fault
from stenolog.domain import errors
from stenolog.domain.errors import StenologError

LOGGER = logging.getLogger(__name__)
FAILED = -32_000
"""JSON-RPC's code of an error of the log; the class is in its data."""
PARSE_ERROR, INVALID_REQUEST, NO_METHOD, INVALID_PARAMS, INTERNAL = -32700, -32600, -32601, -32602, -32603


class MethodNotFoundError(errors.CallerError, LookupError):
    """The service has no method of that name."""


class ParseError(errors.CallerError, ValueError):
    """A call is no JSON."""


class InvalidCallError(errors.CallerError, ValueError):
    """A call is JSON, but not JSON-RPC."""


class InvalidParamsError(errors.CallerError, ValueError):
    """The parameters of a call are not those of its method."""


class TooManyCallsError(errors.CallerError, RuntimeError):
    """More calls wait than the service has threads."""


HTTP: tuple[tuple[type[BaseException], int], ...] = (
    (MethodNotFoundError, 404),
    (errors.ConversationNotFoundError, 404),
    (errors.PositionNotFoundError, 404),
    (errors.AgentNotFoundError, 404),
    (errors.BlobNotFoundError, 404),
    (errors.VersionConflictError, 409),
    (errors.DuplicateIdError, 409),
    (errors.ConversationExistsError, 409),
    (errors.ClaimLostError, 409),
    (errors.IllegalCommandError, 409),
    (TooManyCallsError, 503),
    (errors.CallerError, 400),
    (errors.StoreTimeoutError, 503),
)
CODES: tuple[tuple[type[BaseException], int], ...] = (
    (ParseError, PARSE_ERROR),
    (InvalidCallError, INVALID_REQUEST),
    (MethodNotFoundError, NO_METHOD),
    (InvalidParamsError, INVALID_PARAMS),
    (StenologError, FAILED),
)


def http_status(error: BaseException) -> int:
    """Return the HTTP status of an error: 500 for our own."""
    return next((status for cls, status in HTTP if isinstance(error, cls)), 500)


def rpc_code(error: BaseException) -> int:
    """Return JSON-RPC's code of an error."""
    return next((code for cls, code in CODES if isinstance(error, cls)), INTERNAL)


def error_data(error: BaseException) -> dict[str, Any]:
    """Return an error as JSON: `type`, `message`; for a version conflict what was expected and found."""
    if not isinstance(error, StenologError):
        plugin = plugin_at_fault(error)
        whose = f"the plugin {plugin}" if plugin else "a defect of stenolog"
        LOGGER.error("a call has failed by %s", whose, exc_info=error)
        # Words of a defect may hold anything, also what was sent.
        return {"type": "InternalError", "message": f"{whose}: {type(error).__name__}"}
    data: dict[str, Any] = {"type": type(error).__name__, "message": str(error)}
    if isinstance(error, errors.VersionConflictError):
        data |= {"expected": error.expected, "found": error.found}
    return data


def invalid_params(error: ValidationError) -> InvalidParamsError:
    """Return the first complaint about parameters: place, expected, found."""
    first = error.errors(include_url=False, include_context=False)[0]
    place = "".join(f"/{step}" for step in first["loc"])
    if first["type"] == "missing":
        return InvalidParamsError(f"{place}: expected a value, found none")
    if first["type"] == "extra_forbidden":
        return InvalidParamsError(f"{place}: no such field")
    expected = first["msg"].replace("Input should be", "expected", 1)
    return InvalidParamsError(f"{place or '/'}: {expected}, found {first['input']!r:.60}")
