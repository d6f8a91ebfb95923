"""Failures that a provider states in its JSON, and their category."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from stenolog.domain.errors import ModelError
from stenolog.domain.events import ErrorCategory
from stenolog.projections.messages.json_fields import Json, as_str, compact_json

STATUS: Mapping[int, ErrorCategory] = {
    401: "unauthorized",
    402: "budget",
    403: "unauthorized",
    408: "timeout",
    409: "overloaded",
    413: "context_length",
    425: "overloaded",
    429: "rate_limited",
    504: "timeout",
}
WORDS: tuple[tuple[str, ErrorCategory], ...] = (
    (
        r"context.?(length|window|size|limit)|(prompt|input|request|messages?) (is |are )?too (long|large)"
        r"|too many (input )?tokens|reduce the length|exceeds? the maximum (number of )?tokens"
        r"|maximum prompt length|input tokens exceed|tokens \+ `max_new_tokens` must be",
        "context_length",
    ),
    (
        r"content.?(filter|policy|management policy)|usage.?polic|(bio|cyber|safety|misalignment)_?polic"
        r"|moderation|flagged|invalid_prompt",
        "refused",
    ),
)
"""Patterns that categorise a refused request by its code and message if its status says too little."""
_NUMBER = r"(\d[\d,]*)"
_LIMIT = (
    rf"maximum (?:context|prompt) length (?:is|of) {_NUMBER}|tokens? > {_NUMBER}|\+ *\d+ *> *{_NUMBER}"
    rf"|tokens allowed \({_NUMBER}|context size \({_NUMBER}|configured limit of {_NUMBER}"
    rf"|cannot exceed {_NUMBER}|with {_NUMBER} maximum context|must be <= {_NUMBER}",
)
_SIZE = (
    # First, as the total beside it has the answer too.
    rf"\({_NUMBER} (?:in the messages|of text input|in your prompt)",
    rf"too long: {_NUMBER}|limit: {_NUMBER} *\+|token count \({_NUMBER}\)|has {_NUMBER} input tokens"
    rf"|resulted in {_NUMBER}|request \({_NUMBER} tokens"
    rf"|received {_NUMBER}|contains {_NUMBER}|Given: {_NUMBER}"
    rf"|requested (?:about )?{_NUMBER}",
)
_ANSWER = (
    rf"{_NUMBER} (?:in|for) the (?:completion|output)|\+ *{_NUMBER} *>|too large: {_NUMBER}\. This model"
    rf"|and {_NUMBER} `max_new_tokens`",
)
REFUSED = frozenset({0, 400, 403, 404, 413, 422})
SPENT = re.compile(
    r"insufficient.?(quota|balance|credit|fund)|current quota|billing|credit balance", re.IGNORECASE
)
"""A pattern for messages that say that no waiting helps: there is no money left."""
LIMITED = frozenset({0, 400, 402, 403, 429})
CODES: tuple[tuple[str, int], ...] = (
    (r"rate.?limit", 429),
    (r"overload|unavailable", 529),
    (r"server.?error|internal", 500),
    (r"time.?out", 408),
    (r"auth|permission|api.?key", 401),
    (r"invalid|bad.?request|not.?found", 400),
)
"""The status that a code means, if an error comes in mid-stream and has none."""


class Stated(NamedTuple):
    """A provider's words for an error: its codes and types as `code`; `status` is 0 if it names none."""

    status: int
    code: str
    message: str


def stated(body: Json, status: int = 0) -> Stated:
    """Return what JSON says of an error, in any server's form."""
    match body:
        case [first, *_]:
            return stated(first, status)
        case {"error": dict() | str() as inner}:
            return stated(inner, status)
        case dict():
            named = [body[name] for name in ("code", "type", "status") if body.get(name)]
            numbers = (n for n in named if isinstance(n, int) and 400 <= n < 600)
            message = as_str(body.get("message")) or as_str(body.get("detail"))
            if not (message or named) and body:
                message = compact_json(body)
            return Stated(status or next(numbers, 0), " ".join(map(str, named)), message)
        case _:
            return Stated(status, "", as_str(body))


class Overflow(NamedTuple):
    """Sizes that a provider names when it refuses a request as too long, in its tokens; 0: not named.

    `answer` is the part of the limit that the request asked for its answer.
    """

    limit: int = 0
    size: int = 0
    answer: int = 0


def overflow(message: str) -> Overflow:
    """Return the sizes in the message of an error of the category `context_length`."""
    return Overflow(*(_number(patterns, message) for patterns in (_LIMIT, _SIZE, _ANSWER)))


def _number(patterns: tuple[str, ...], message: str) -> int:
    found = next(filter(None, (re.search(each, message, re.IGNORECASE) for each in patterns)), None)
    return int(next(filter(None, found.groups())).replace(",", "")) if found else 0


def failure(status: int, code: str, message: str) -> ModelError:
    """Return a provider's error, in its words, which may hold secrets."""
    return ModelError(
        category(status, code, message), message.strip() or code or f"HTTP status {status}", status=status
    )


def category(status: int, code: str, message: str) -> ErrorCategory:
    """Return an error's category by its status (0: none), code, or words."""
    said = f"{code} {message}"
    if status in LIMITED and SPENT.search(said):
        return "budget"
    if status in REFUSED:
        for pattern, named in WORDS:
            if re.search(pattern, said, re.IGNORECASE):
                return named
    status = status or _status(code)
    if status in STATUS:
        return STATUS[status]
    return "overloaded" if status >= 500 else "invalid_request" if status >= 400 else "other"


def _status(code: str) -> int:
    number = re.search(r"\b[45]\d\d\b", code)
    if number:
        return int(number[0])
    return next((status for pattern, status in CODES if re.search(pattern, code, re.IGNORECASE)), 0)
