"""The connections of every model: whose they are, cancelled, closed, shared, in one loop after the other."""

from __future__ import annotations

import asyncio
import gc
import os
import re
from contextlib import aclosing
from pathlib import Path

import pytest

from stenolog import TextPart
from stenolog.models import ModelResponse, Outgoing, Timeouts
from tests.llms.api import Api
from tests.llms.apis import WAIT, cancelled_when, closed_after, every, until_it_fails
from tests.llms.listening import ask, failure, heard, prompt
from tests.llms.server import SILENCE, Reply, Server
from tests.llms.server import failure as refused

pytestmark = every
PROVIDERS = re.compile("OPENAI_|ANTHROPIC_|GEMINI_|GOOGLE_|CO_")
HELLO = TextPart(text="Hello there, it's me.")


def test_cancelling_who_waits_for_a_silent_server_ends_the_request(server: Server, api: Api) -> None:
    server.add(SILENCE)

    asyncio.run(cancelled_when(api.at(server), lambda _: bool(server.received)))

    assert server.received[0].left.wait(WAIT)


def test_cancelling_in_mid_stream_ends_the_request(server: Server, api: Api) -> None:
    server.add(Reply(list(api.frames(api.answer(HELLO)))[:4], end="hang"))

    asyncio.run(cancelled_when(api.at(server), bool))

    assert server.received[0].left.wait(WAIT)


async def test_who_stops_listening_ends_the_request(server: Server, api: Api) -> None:
    server.add(Reply(list(api.frames(api.answer(HELLO)))[:4], end="hang"))
    model = api.at(server)

    async with aclosing(model.stream(prompt(model))) as pieces:
        async for piece in pieces:
            if not isinstance(piece, Outgoing):
                break
    assert await asyncio.to_thread(server.received[0].left.wait, WAIT)  # before the model is closed
    await model.close()


def test_a_model_serves_one_event_loop_after_the_other(server: Server, api: Api) -> None:
    answer = api.answer(HELLO)
    model = api.at(server)
    server.add(*[Reply(list(api.frames(answer)))] * 3)

    async def twice() -> list[ModelResponse]:  # and nobody closes the model: the loop's end does
        return [(await heard(model, prompt(model))).answer for _ in range(2)]

    assert asyncio.run(twice()) == [answer] * 2
    assert ask(model).answer == answer
    gc.collect()  # a connection left open would be told of here


async def test_a_closed_model_may_be_used_again(server: Server, api: Api) -> None:
    answer = api.answer(HELLO)
    model = api.at(server)
    server.add(*[Reply(list(api.frames(answer)))] * 2)

    found = [await closed_after(model, prompt(model)) for _ in range(2)]

    assert found == [answer] * 2


async def test_a_model_answers_many_at_the_same_time(server: Server, api: Api) -> None:
    answer = api.answer(HELLO)
    model = api.at(server)
    server.otherwise = lambda _: Reply(api.frames(answer), pause=0.001)

    found = await asyncio.gather(*(heard(model, prompt(model)) for _ in range(8)))
    await model.close()

    assert [each.answer for each in found] == [answer] * 8


async def test_a_client_of_ones_own_is_used_without_its_retries_and_stays_open(
    server: Server, api: Api
) -> None:
    opening = api.client
    if opening is None:
        pytest.skip("its model takes no client")
    answer = api.answer(HELLO)
    server.add(refused(500, {"error": {"message": "oh"}}), *[Reply(list(api.frames(answer)))] * 2)

    async with opening(server.url) as client:
        model = api.model(api.name, client=client)
        _, failed = await until_it_fails(model)
        found = [failed.message, *[await closed_after(model, prompt(model)) for _ in range(2)]]

    assert found == ["oh", answer, answer]
    assert len(server.received) == 3


def test_without_a_key_a_provider_is_not_asked(
    api: Api, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in filter(PROVIDERS.match, list(os.environ)):
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))  # a profile may stand there

    failed = failure(api.model(api.name))

    assert (failed.category, failed.status) == ("unauthorized", 0)
    assert re.search("api.?key", failed.message, re.IGNORECASE)


def test_only_connecting_has_a_timeout_since_the_engine_keeps_the_others(server: Server, api: Api) -> None:
    server.add(Reply(api.frames(api.answer(HELLO))))

    ask(api.at(server, timeouts=Timeouts(connect=3.0)))

    sent = server.received[0].headers
    if "x-stainless-lang" not in sent:
        pytest.skip("its SDK does not send its timeouts")
    assert "x-stainless-read-timeout" not in sent
