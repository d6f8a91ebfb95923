"""How both models of OpenAI fail: errors of their servers, cut connections, garbage."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from stenolog import Reasoning, Text
from tests.llms.listening import failure
from tests.llms.openai_apis import KEY, MODEL, Api, both, until_it_fails
from tests.llms.server import CUT, SILENCE, Reply, Server, sse
from tests.llms.server import failure as refused

pytestmark = both


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
        (b"<html>\n  <h1>Bad gateway</h1>", "<html> <h1>Bad gateway</h1>"),
        (b"x" * 5_000, "x" * 999 + "…"),
        (b"", "HTTP status 400"),
        ([1, 2], "HTTP status 400"),
    ],
    ids=lambda value: str(value)[:20],
)
def test_the_errors_of_other_servers_are_told_too(server: Server, api: Api, body: Any, message: str) -> None:
    server.add(refused(400, body))

    assert failure(api.at(server)).message == message


def test_no_key_is_told(server: Server, api: Api) -> None:
    server.add(refused(401, {"error": {"message": f"Incorrect API key: {KEY}. Not sk-proj-****wxyz either"}}))

    failed = failure(api.at(server, api_key=KEY))

    assert failed.message == "Incorrect API key: …. Not … either"
    assert server.received[0].headers["authorization"] == f"Bearer {KEY}"
    assert KEY not in repr(api.at(server, api_key=KEY))


def test_an_error_in_mid_stream_leaves_what_had_come(server: Server, api: Api) -> None:
    error = sse({"error": {"message": "The server had an error", "type": "server_error", "code": None}})
    frames = list(api.frames(api.answer(Text(text="Hello there"))))
    server.add(Reply([*frames[:4], error]))

    said, failed = asyncio.run(until_it_fails(api.at(server)))

    assert (failed.category, failed.message) == ("overloaded", "The server had an error")
    assert "".join(piece.text for piece in said)[:5] == "Hello"


def test_a_connection_cut_in_mid_stream_is_the_networks_fault(server: Server, api: Api) -> None:
    server.add(Reply(list(api.frames(api.answer(Text(text="Hello there"))))[:4], end="cut"))

    said, failed = asyncio.run(until_it_fails(api.at(server)))

    assert failed.category == "network"
    assert "".join(piece.text for piece in said)[:5] == "Hello"


@pytest.mark.parametrize(
    "reply", [CUT, refused(500, {"error": "oh"})._replace(end="cut")], ids=["at once", "in error"]
)
def test_a_connection_cut_before_the_answer_is_the_networks_fault(
    server: Server, api: Api, reply: Reply
) -> None:
    server.add(reply)

    assert failure(api.at(server)).category == "network"


def test_nobody_there_is_the_networks_fault(api: Api) -> None:
    with Server() as gone:
        model = api.at(gone)

    assert failure(model).category == "network"


def test_a_timeout_of_the_connection_is_one(server: Server, api: Api) -> None:
    server.add(SILENCE)

    assert failure(api.at(server, timeout=0.05)).category == "timeout"


@pytest.mark.parametrize("address", ["127.0.0.1:9/v1", "http://127.0.0.1:port"])
def test_an_address_that_is_none_is_not_tried_again(api: Api, address: str) -> None:
    assert failure(api.model(MODEL, base_url=address)).category == "invalid_request"


SHAPES: list[Any] = [
    [],
    5,
    None,
    {"choices": "x", "usage": 7, "type": []},
    {"choices": [5, None, {"delta": [1]}, {"delta": {"tool_calls": [7], "content": {"a": 1}}}]},
    {"type": "response.output_item.done", "output_index": [], "item": 7},
    {"type": "response.output_text.delta", "output_index": {}, "delta": 7},
]
GARBAGE = {
    "no JSON": [b"data: nonsense\n\n"],
    "no UTF-8": [b"data: \xff\xfe\n\n"],
    "too deep": [b"data: " + b"[" * 100_000 + b"\n\n"],
    "no events": [b"<html>Hello</html>"],
    "nothing": [],
    "other shapes": [*map(sse, SHAPES)],
    "numbers too large": [
        sse('{"usage": {"prompt_tokens": 1e999}}'),
        sse('{"type": "response.completed", "response": {"usage": {"input_tokens": 1e999}}}'),
    ],
}


@pytest.mark.parametrize("frames", GARBAGE.values(), ids=GARBAGE.keys())
def test_garbage_is_an_invalid_response(server: Server, api: Api, frames: list[bytes]) -> None:
    server.add(Reply(frames))

    assert failure(api.at(server)).category == "invalid_response"


def test_a_stream_without_an_end_is_an_invalid_response(server: Server, api: Api) -> None:
    server.add(Reply([*api.frames(api.answer(Text(text="Hello there")))][:4]))

    assert failure(api.at(server)).category == "invalid_response"


@pytest.mark.parametrize(
    "parts", [(), (Text(text=" \n"),), (Reasoning(text="Hm.", id="rs_1", encrypted="e"),)]
)
def test_an_answer_with_nothing_in_it_is_an_invalid_response(server: Server, api: Api, parts: Any) -> None:
    server.add(Reply(api.frames(api.answer(*parts))))

    assert failure(api.at(server)).category == "invalid_response"


def test_an_answer_that_the_filter_kept_back_is_refused(server: Server, api: Api) -> None:
    server.add(Reply(api.frames(api.answer(finish_reason="content_filter"))))

    assert failure(api.at(server)).category == "refused"
