"""What is particular to the client of both models of OpenAI: which key it sends, and by which it is known."""

from __future__ import annotations

import asyncio

import pytest

from stenolog import TextPart
from tests.llms.api import KEY, Api
from tests.llms.apis import both_of_openai, closed_after
from tests.llms.listening import ask, prompt
from tests.llms.server import Reply, Server

pytestmark = both_of_openai


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


def test_the_name_of_the_effect_goes_as_the_idempotency_key(server: Server, api: Api) -> None:
    model = api.at(server)
    server.add(Reply(api.frames(api.answer(TextPart(text="Hello")))))

    asyncio.run(closed_after(model, prompt(model, key="talk/büro/7")))

    assert server.received[0].headers["idempotency-key"] == "talk/b%C3%BCro/7"
