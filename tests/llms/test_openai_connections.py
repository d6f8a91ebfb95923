"""The client of both models of OpenAI: whose it is, and whose key it sends."""

from __future__ import annotations

import asyncio

import openai
import pytest

from stenolog import TextPart
from stenolog.models import ModelResponse, Timeouts
from tests.llms.api import KEY, Api
from tests.llms.apis import both_of_openai, closed_after, until_it_fails
from tests.llms.listening import ask, failure, prompt
from tests.llms.server import Reply, Server
from tests.llms.server import failure as refused

pytestmark = both_of_openai


def test_a_client_of_ones_own_is_used_without_its_retries_and_stays_open(server: Server, api: Api) -> None:
    answer = api.answer(TextPart(text="Hello"))
    server.add(refused(500, {"error": "oh"}), Reply(api.frames(answer)))

    async def main() -> tuple[str, ModelResponse, bool]:
        async with openai.AsyncOpenAI(base_url=f"{server.url}/v1", api_key=KEY, max_retries=5) as client:
            model = api.model(api.name, client=client)
            _, failed = await until_it_fails(model)
            return failed.category, await closed_after(model, prompt(model)), client.is_closed()

    assert asyncio.run(main()) == ("overloaded", answer, False)


def test_a_server_of_ones_own_needs_no_key_and_gets_the_one_in_the_environment(
    server: Server, api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.otherwise = lambda _: Reply(api.frames(api.answer(TextPart(text="Hello"))))
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    ask(api.at(server, api_key=None))
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    ask(api.at(server, api_key=None))

    sent = [request.headers["authorization"] for request in server.received]
    assert sent == ["Bearer no-key", f"Bearer {KEY}"]


def test_without_a_key_openai_is_not_asked(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_ADMIN_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)

    failed = failure(api.model(api.name))

    assert failed.category == "unauthorized"
    assert "OPENAI_API_KEY" in failed.message


def test_only_connecting_has_a_timeout_since_the_engine_keeps_the_others(server: Server, api: Api) -> None:
    server.add(Reply(api.frames(api.answer(TextPart(text="Hello")))))

    ask(api.at(server, timeouts=Timeouts(connect=3.0)))

    assert "x-stainless-read-timeout" not in server.received[0].headers


def test_the_name_of_the_effect_goes_as_the_idempotency_key(server: Server, api: Api) -> None:
    model = api.at(server)
    server.add(Reply(api.frames(api.answer(TextPart(text="Hello")))))

    asyncio.run(closed_after(model, prompt(model, key="talk/büro/7")))

    assert server.received[0].headers["idempotency-key"] == "talk/b%C3%BCro/7"
