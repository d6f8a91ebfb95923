"""The connections of both models of OpenAI: cancelled, closed, shared, and whose key they send."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable
from contextlib import aclosing
from typing import Any

import openai
import pytest

from stenolog import Text
from stenolog.adapters.llms.openai_shared import OpenAIModel
from stenolog.adapters.llms.port import Answer, Timeouts
from tests.llms.listening import ask, failure, heard, prompt
from tests.llms.openai_apis import KEY, MODEL, WAIT, Api, both, closed_after, until_it_fails
from tests.llms.server import SILENCE, Reply, Server
from tests.llms.server import failure as refused

pytestmark = both


def test_cancelling_who_waits_for_a_silent_server_ends_the_request(server: Server, api: Api) -> None:
    server.add(SILENCE)

    asyncio.run(cancelled_when(api.at(server), lambda _: bool(server.received)))

    assert server.received[0].left.wait(WAIT)


def test_cancelling_in_mid_stream_ends_the_request(server: Server, api: Api) -> None:
    server.add(Reply(list(api.frames(api.answer(Text(text="Hello there"))))[:4], end="hang"))

    asyncio.run(cancelled_when(api.at(server), bool))

    assert server.received[0].left.wait(WAIT)


def test_who_stops_listening_ends_the_request(server: Server, api: Api) -> None:
    server.add(Reply(list(api.frames(api.answer(Text(text="Hello there"))))[:4], end="hang"))
    model = api.at(server)

    async def main() -> None:
        async with aclosing(model.stream(prompt(model))) as pieces:
            async for _ in pieces:
                break
        assert await asyncio.to_thread(server.received[0].left.wait, WAIT)  # before the model is closed
        await model.close()

    asyncio.run(main())


def test_a_model_serves_one_event_loop_after_the_other(server: Server, api: Api) -> None:
    answer = api.answer(Text(text="Hello"))
    model = api.at(server)
    server.add(*[Reply(list(api.frames(answer)))] * 3)

    async def twice() -> list[Answer]:  # and nobody closes the model: the loop's end does
        return [(await heard(model, prompt(model))).answer for _ in range(2)]

    assert asyncio.run(twice()) == [answer] * 2
    assert ask(model).answer == answer
    gc.collect()  # a connection left open would be told of here


def test_a_closed_model_may_be_used_again(server: Server, api: Api) -> None:
    answer = api.answer(Text(text="Hello"))
    model = api.at(server)
    server.add(*[Reply(list(api.frames(answer)))] * 2)

    async def main() -> list[Answer]:
        return [await closed_after(model, prompt(model)) for _ in range(2)]

    assert asyncio.run(main()) == [answer] * 2


def test_a_model_answers_many_at_the_same_time(server: Server, api: Api) -> None:
    answer = api.answer(Text(text="Hello"))
    model = api.at(server)
    server.otherwise = lambda _: Reply(api.frames(answer), pause=0.001)

    async def main() -> list[Answer]:
        found = await asyncio.gather(*(heard(model, prompt(model)) for _ in range(8)))
        await model.close()
        return [each.answer for each in found]

    assert asyncio.run(main()) == [answer] * 8


def test_a_client_of_ones_own_is_used_without_its_retries_and_stays_open(server: Server, api: Api) -> None:
    answer = api.answer(Text(text="Hello"))
    server.add(refused(500, {"error": "oh"}), Reply(api.frames(answer)))

    async def main() -> tuple[str, Answer, bool]:
        async with openai.AsyncOpenAI(base_url=f"{server.url}/v1", api_key=KEY, max_retries=5) as client:
            model = api.model(MODEL, client=client)
            _, failed = await until_it_fails(model)
            return failed.category, await closed_after(model, prompt(model)), client.is_closed()

    assert asyncio.run(main()) == ("overloaded", answer, False)


def test_a_server_of_ones_own_needs_no_key_and_gets_the_one_in_the_environment(
    server: Server, api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.otherwise = lambda _: Reply(api.frames(api.answer(Text(text="Hello"))))
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    ask(api.at(server))
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    ask(api.at(server))

    sent = [request.headers["authorization"] for request in server.received]
    assert sent == ["Bearer no-key", f"Bearer {KEY}"]


def test_without_a_key_openai_is_not_asked(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_ADMIN_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)

    failed = failure(api.model(MODEL))

    assert failed.category == "unauthorized"
    assert "OPENAI_API_KEY" in failed.message


def test_only_connecting_has_a_timeout_since_the_engine_keeps_the_others(server: Server, api: Api) -> None:
    server.add(Reply(api.frames(api.answer(Text(text="Hello")))))

    ask(api.at(server, timeouts=Timeouts(connect=3.0)))

    assert "x-stainless-read-timeout" not in server.received[0].headers


async def cancelled_when(model: OpenAIModel, is_so: Callable[[list[Any]], bool]) -> None:
    """Cancel who listens, once it is so of what has been heard."""
    said: list[Any] = []

    async def listen() -> None:
        async for piece in model.stream(prompt(model)):
            said.append(piece)  # noqa: PERF401 - it is looked at meanwhile

    listening = asyncio.create_task(listen())
    while not is_so(said):
        await asyncio.sleep(0.005)
    listening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await listening
    await model.close()
