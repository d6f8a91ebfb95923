"""The errors that OpenAI and other servers of its APIs tell of, to both models."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from stenolog import TextPart
from tests.llms.api import Api
from tests.llms.apis import both_of_openai, until_it_fails
from tests.llms.listening import failure
from tests.llms.server import Reply, Server, sse
from tests.llms.server import failure as refused

pytestmark = both_of_openai


@pytest.mark.parametrize(
    ("status", "error", "headers", "expected"),
    [
        (400, {"message": "no", "type": "invalid_request_error"}, {}, ("invalid_request", None)),
        (400, {"message": "too much", "code": "context_length_exceeded"}, {}, ("context_length", None)),
        (400, {"message": "no", "code": "content_filter"}, {}, ("refused", None)),
        (400, {"message": "no", "code": "invalid_prompt"}, {}, ("refused", None)),
        (401, {"message": "who?"}, {}, ("unauthorized", None)),
        (403, {"message": "no"}, {}, ("unauthorized", None)),
        (404, {"message": "no such model", "code": "model_not_found"}, {}, ("invalid_request", None)),
        (408, {"message": "late"}, {}, ("timeout", None)),
        (409, {"message": "busy with it"}, {}, ("overloaded", None)),
        (413, {"message": "large"}, {}, ("context_length", None)),
        (422, {"message": "no"}, {}, ("invalid_request", None)),
        (429, {"message": "slow"}, {"retry_after": "2"}, ("rate_limited", 2.0)),
        (429, {"message": "slow"}, {"retry_after_ms": "150", "retry_after": "1"}, ("rate_limited", 0.15)),
        (429, {"message": "slow"}, {"retry_after": "Wed, 21 Oct 2015 07:28:00 GMT"}, ("rate_limited", 0.0)),
        (429, {"message": "slow"}, {"retry_after": "soon"}, ("rate_limited", None)),
        (429, {"message": "pay", "code": "insufficient_quota"}, {"retry_after": "9"}, ("budget", 9.0)),
        (500, {"message": "oh"}, {}, ("overloaded", None)),
        (503, {"message": "oh"}, {"retry_after": "20"}, ("overloaded", 20.0)),
        (504, {"message": "late"}, {}, ("timeout", None)),
        (529, {"message": "oh"}, {}, ("overloaded", None)),
    ],
    ids=str,
)
def test_an_error_has_a_category_and_the_providers_own_words(
    server: Server, api: Api, status: int, error: dict[str, str], headers: dict[str, str], expected: Any
) -> None:
    server.add(refused(status, {"error": error}, **headers))

    failed = failure(api.at(server))

    assert (failed.category, failed.retry_after) == expected
    assert (failed.message, failed.status) == (error["message"], status)
    assert len(server.received) == 1  # the engine tries again, not the SDK


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"error": "model 'x' not found"}, "model 'x' not found"),
        ({"object": "error", "message": "no", "code": 400}, "no"),
        ({"detail": "no"}, "no"),
        (b"", "HTTP status 400"),
        ([1, 2], "HTTP status 400"),
    ],
    ids=lambda value: str(value)[:20],
)
def test_the_errors_of_other_servers_are_told_too(server: Server, api: Api, body: Any, message: str) -> None:
    server.add(refused(400, body))

    assert failure(api.at(server)).message == message


def test_an_error_in_mid_stream_leaves_what_had_come(server: Server, api: Api) -> None:
    error = sse({"error": {"message": "The server had an error", "type": "server_error", "code": None}})
    frames = list(api.frames(api.answer(TextPart(text="Hello there"))))
    server.add(Reply([*frames[:4], error]))

    said, failed = asyncio.run(until_it_fails(api.at(server)))

    assert (failed.category, failed.message) == ("overloaded", "The server had an error")
    assert "".join(piece.text for piece in said)[:5] == "Hello"
