"""Providers' failures as the engine's errors, without secrets.

For models called here, by SDK or HTTP: status and code say more than words. Programs and imported files have
only words, which `failures.error_category` reads.
"""

from __future__ import annotations

import json
import math
import re
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from email.utils import parsedate_to_datetime

from stenolog.domain.base.model import clean
from stenolog.domain.errors import ModelError
from stenolog.projections.formats.failures import failure

from .failures import hide, secrets_in

LONGEST = 1_000
"""The most characters kept of a provider's error message: it may be a whole page of HTML."""
CLOSED = "the connection was closed before the answer was complete"


def provider_error(
    status: int,
    code: str,
    message: str,
    *,
    headers: Mapping[str, str] | None = None,
    secrets: Iterable[str] = (),
) -> ModelError:
    """Return the engine's error for a provider's.

    `code` has the provider's names for it (codes and types).
    """
    return reported(failure(status, code, message), headers, secrets)


def reported(
    error: ModelError, headers: Mapping[str, str] | None = None, secrets: Iterable[str] = ()
) -> ModelError:
    """Return a provider's error without secrets, with the wait in its headers."""
    wait = retry_after(headers or {}) if error.retry_after is None else error.retry_after
    words = redact(error.message, secrets)
    return ModelError(error.category, words, retry_after=wait, status=error.status)


def connection_error(error: Exception, secrets: Iterable[str] = ()) -> ModelError:
    """Return the engine's error for a failed connection or an unreadable response."""
    import httpx2  # every SDK's HTTP client

    cause = error if isinstance(error, httpx2.HTTPError) else error.__cause__ or error
    words = redact(str(cause) or type(cause).__name__, secrets)
    match cause:
        case httpx2.InvalidURL() | httpx2.UnsupportedProtocol():
            return ModelError("invalid_request", words)
        case httpx2.TimeoutException():
            return ModelError("timeout", words)
        # A model that is sent half an answer would read words about sockets and chunks.
        case httpx2.ReadError():
            return ModelError("network", CLOSED)
        case httpx2.RemoteProtocolError() if re.search("peer closed|disconnected", words):
            return ModelError("network", CLOSED)
        case httpx2.HTTPError() | OSError():
            return ModelError("network", words)
        case json.JSONDecodeError(doc=found):
            return ModelError(
                "invalid_response",
                redact(f"expected JSON in the stream, found {_hidden(found, secrets)[:100]!r}"),
            )
        case _:
            return ModelError("invalid_response", f"garbage in the stream: {words}")


def redact(words: str, secrets: Iterable[str] = ()) -> str:
    """Return a provider's words without keys, in one line of bounded length."""
    line = " ".join(clean(_hidden(words, secrets)).split())
    return line if len(line) <= LONGEST else line[: LONGEST - 1] + "…"


@contextmanager
def hiding(secrets: Iterable[str]) -> Iterator[None]:
    """Raise an inner `ModelError` without these secrets, in one line of bounded length."""
    try:
        yield
    except ModelError as error:
        error.message = redact(error.message, secrets)
        error.args = (error.message,)
        raise


def secret_headers(headers: Mapping[str, object]) -> list[str]:
    """Return the values of headers that are secret by their names."""
    return [*secrets_in({name: value for name, value in headers.items() if isinstance(value, str)})]


def _hidden(words: str, secrets: Iterable[str]) -> str:
    return hide(words, secrets, mark="…")


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds to wait, by `retry-after-ms` or `retry-after` (or its date)."""
    milliseconds = _number(headers.get("retry-after-ms", ""))
    if milliseconds is not None:
        return milliseconds / 1000
    given = headers.get("retry-after", "")
    seconds = _number(given)
    if seconds is not None:
        return seconds
    try:
        return max(0.0, parsedate_to_datetime(given).timestamp() - time.time())
    except (ValueError, OverflowError):
        return None


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) and number >= 0 else None
