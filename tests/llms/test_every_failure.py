"""How every model fails: cut connections, silence, garbage, and what is told of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import pytest

from stenolog import TextPart
from stenolog.models import Timeouts
from stenolog.parts import ReasoningPart
from tests.llms.api import KEY, Api
from tests.llms.apis import every, until_it_fails
from tests.llms.listening import failure
from tests.llms.server import CUT, SILENCE, Reply, Server, sse
from tests.llms.server import failure as refused

pytestmark = every
HELLO = TextPart(text="Hello there, it's me.")


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"<html>\n  <h1>Bad gateway</h1>", "<html> <h1>Bad gateway</h1>"),
        (b"x" * 5_000, "x" * 999 + "…"),
        ({"error": "model 'x' not found"}, "model 'x' not found"),
        ({"object": "error", "message": "no", "code": 400}, "no"),
        ({"detail": "no"}, "no"),
        (b"", "HTTP status 400"),
        ([1, 2], "HTTP status 400"),
    ],
    ids=["a page", "long", "a text", "no object of its own", "a detail", "nothing", "a list"],
)
def test_the_errors_of_other_servers_are_told_in_one_bounded_line(
    server: Server, api: Api, body: Any, message: str
) -> None:
    server.add(refused(400, body))

    failed = failure(api.at(server))

    # In the place of nothing, Google's SDK has the words of the status line.
    told = failed.message.replace("Bad Request", "HTTP status 400")
    assert (failed.category, told, failed.status) == ("invalid_request", message, 400)


@pytest.mark.parametrize(
    "body", [b" ", [1, 2], 5, None, {}, {"error": "no"}, {"error": {"message": 5}}], ids=str
)
def test_an_error_of_any_shape_has_the_category_of_its_status(server: Server, api: Api, body: Any) -> None:
    server.add(refused(503, body))

    failed = failure(api.at(server))

    assert (failed.category, failed.status, bool(failed.message)) == ("overloaded", 503, True)


STATUSES = {
    400: "invalid_request",
    401: "unauthorized",
    403: "unauthorized",
    404: "invalid_request",
    408: "timeout",
    409: "overloaded",
    413: "context_length",
    422: "invalid_request",
    429: "rate_limited",
    500: "overloaded",
    503: "overloaded",
    504: "timeout",
    529: "overloaded",
}


@pytest.mark.parametrize(("status", "category"), STATUSES.items())
def test_an_error_has_the_category_of_its_status_and_the_providers_own_words(
    server: Server, api: Api, status: int, category: str
) -> None:
    server.add(refused(status, {"message": "Oh", "error": {"message": "Oh"}}))

    failed = failure(api.at(server))

    assert (failed.category, failed.message, failed.status) == (category, "Oh", status)
    assert failed.retry_after is None
    assert len(server.received) == 1  # the engine tries again, not the SDK


def test_what_a_provider_says_of_an_error_tells_more_than_its_status(server: Server, api: Api) -> None:
    for status, body, category, wait in api.refused:
        server.add(refused(status, body, retry_after="9"))

        failed = failure(api.at(server))

        assert (failed.category, failed.status) == (category, status), body
        assert failed.message == body.get("error", body)["message"]
        assert failed.retry_after == (9.0 if wait is None else wait)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry_after": "2"}, 2.0),
        ({"retry_after_ms": "150", "retry_after": "1"}, 0.15),
        ({"retry_after": "Wed, 21 Oct 2015 07:28:00 GMT"}, 0.0),
        ({"retry_after": "soon"}, None),
    ],
    ids=str,
)
@pytest.mark.parametrize("status", [429, 503])
def test_a_header_may_say_how_long_to_wait(
    server: Server, api: Api, headers: dict[str, str], seconds: float | None, status: int
) -> None:
    server.add(refused(status, {}, **headers))

    assert failure(api.at(server)).retry_after == seconds


def test_an_error_in_mid_stream_has_its_category_and_leaves_what_had_come(server: Server, api: Api) -> None:
    for frame, category, status in api.broke:
        server.add(Reply([*list(api.frames(api.answer(HELLO)))[:4], frame]))

        said, failed = asyncio.run(until_it_fails(api.at(server)))

        assert (failed.category, failed.message, failed.status) == (category, "Oh", status), frame
        assert "".join(piece.text for piece in said)[:5] == "Hello"


def test_no_key_is_told(server: Server, api: Api) -> None:
    words = f"Incorrect API key: {KEY}. Not sk-proj-****wxyz either"
    error = {"type": "authentication_error", "status": "UNAUTHENTICATED", "message": words}
    server.add(refused(401, {"error": error}))
    model = api.at(server)

    failed = failure(model)

    assert (failed.category, failed.message) == ("unauthorized", "Incorrect API key: …. Not … either")
    assert any(KEY in value for value in server.received[0].headers.values())
    assert KEY not in repr(model)


ODD = "my-odd-key-77777"
ECHOES = {
    "refused": lambda words: refused(401, {"error": {"type": "x", "status": "X", "message": words}}),
    "page": lambda words: refused(502, f"<html>{words}</html>".encode()),
    "in mid-stream": lambda words: Reply([sse({"type": "error", "error": {"message": words}})]),
    "garbage": lambda words: Reply([sse(f"no json {words}")]),
    "long garbage": lambda words: Reply([sse("no json " + "x" * 70 + words)]),
    "a header's value": lambda words: refused(500, words.encode(), x_echo=words),
}


@pytest.mark.parametrize("echo", ECHOES.values(), ids=ECHOES.keys())
@pytest.mark.parametrize("key", [KEY, ODD], ids=["usual", "odd"])
def test_no_key_is_kept_of_whatever_a_provider_echoes(
    server: Server, api: Api, echo: Callable[[str], Reply], key: str
) -> None:
    server.add(echo(f"died for {key} ({key!r}, {quote(key)})"))

    failed = failure(api.at(server, api_key=key))

    assert key not in failed.message
    assert key[:12] not in failed.message
    assert key not in str(failed)


def test_a_connection_cut_in_mid_stream_is_the_networks_fault(server: Server, api: Api) -> None:
    server.add(Reply(list(api.frames(api.answer(HELLO)))[:4], end="cut"))

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


def test_a_timeout_of_the_sdk_is_one(server: Server, api: Api) -> None:
    server.add(SILENCE)

    assert failure(api.at(server, **api.hurried)).category == "timeout"


def test_who_takes_too_long_to_connect_to_is_timed_out(server: Server, api: Api) -> None:
    failed = failure(api.at(server, timeouts=Timeouts(connect=1e-9)))

    assert (failed.category, server.received) == ("timeout", [])


@pytest.mark.parametrize("address", ["127.0.0.1:9/v1", "http://127.0.0.1:port"])
def test_an_address_that_is_none_is_not_tried_again(api: Api, address: str) -> None:
    assert failure(api.model(api.name, base_url=address, api_key=KEY)).category == "invalid_request"


SHAPES: list[Any] = [
    [],
    5,
    None,
    {"choices": "x", "usage": 7, "type": []},
    {"choices": [5, None, {"delta": [1]}, {"delta": {"tool_calls": [7], "content": {"a": 1}}}]},
    {"type": "response.output_item.done", "output_index": [], "item": 7},
    {"type": "response.output_text.delta", "output_index": {}, "delta": 7},
    {"type": "content_block_start", "index": {}, "content_block": [7]},
    {"type": "message_start", "message": 7},
    {"candidates": 7, "promptFeedback": [], "usageMetadata": "x", "modelVersion": 7},
    {"candidates": [{"content": {"parts": [7, {"functionCall": 7}, {"text": 7, "thoughtSignature": 7}]}}]},
]
GARBAGE = {
    "no JSON": [b"data: nonsense\n\n"],
    "no UTF-8": [b"data: \xff\xfe\n\n"],
    "too deep": [b"event: x\ndata: " + b"[" * 100_000 + b"\n\n"],
    "no events": [b"<html>Hello</html>"],
    "nothing": [],
    "other shapes": [*map(sse, SHAPES)],
    "other shapes, named": [sse(shape, "x") for shape in SHAPES],
    "numbers too large": [
        sse('{"usage": {"prompt_tokens": 1e999}}'),
        sse('{"type": "response.completed", "response": {"usage": {"input_tokens": 1e999}}}'),
        sse('{"usageMetadata": {"promptTokenCount": 1e999}}'),
    ],
}


@pytest.mark.parametrize("frames", GARBAGE.values(), ids=GARBAGE.keys())
def test_garbage_is_an_invalid_response(server: Server, api: Api, frames: list[bytes]) -> None:
    server.add(Reply(frames))

    assert failure(api.at(server)).category == "invalid_response"


def test_a_stream_without_an_end_is_an_invalid_response(server: Server, api: Api) -> None:
    server.add(Reply([*api.frames(api.answer(HELLO))][:4]))

    assert failure(api.at(server)).category == "invalid_response"


@pytest.mark.parametrize(
    "parts",
    [(), (TextPart(text=" \n"),), (ReasoningPart(text="Hm.", id="rs_1", signature="c2ln"),)],
    ids=["nothing", "blank", "a thought"],
)
def test_an_answer_with_nothing_in_it_is_an_invalid_response(server: Server, api: Api, parts: Any) -> None:
    server.add(Reply(api.frames(api.answer(*parts))))

    assert failure(api.at(server)).category == "invalid_response"
