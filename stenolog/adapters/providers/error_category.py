"""Category of a provider's failure, by its HTTP status and its words."""

from __future__ import annotations

import re

from stenolog.domain.events import ErrorCategory

_STATUS: dict[int, ErrorCategory] = {
    400: "invalid_request",
    401: "unauthorized",
    403: "unauthorized",
    408: "timeout",
    413: "context_length",
    422: "invalid_request",
    429: "rate_limited",
    503: "overloaded",
    504: "timeout",
    529: "overloaded",
}
_WORDS: tuple[tuple[str, ErrorCategory], ...] = (
    (r"prompt is too long|context.?(length|window)|too many tokens", "context_length"),
    (r"overloaded|at capacity", "overloaded"),
    (r"rate.?limit|usage.?limit|limit (was )?reached|too many requests", "rate_limited"),
    (r"credit balance|quota|billing", "budget"),
    (r"unauthori[sz]ed|authenticat|api key|log ?in|forbidden", "unauthorized"),
    (r"time[d]?[ -]?out|ETIMEDOUT", "timeout"),
    (r"connection|network|ECONN|ENOTFOUND|EAI_AGAIN|socket|stream disconnected|fetch failed", "network"),
    (r"interrupted|aborted|cancel", "cancelled"),
    (r"refus|content policy|flagged", "refused"),
    (r"invalid.?request|bad request", "invalid_request"),
)


def error_category(words: str, status: int = 0) -> ErrorCategory:
    """The category that the words name, else that of the HTTP status; `other` where neither tells."""
    if not status and (found := re.search(r"\b([45]\d\d)\b", words[:80])):
        status = int(found[1])
    for pattern, named in _WORDS:
        if re.search(pattern, words, re.IGNORECASE):
            return named
    return _STATUS.get(status, "other")
