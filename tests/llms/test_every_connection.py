"""The connections of every model: cancelled, closed, shared, and used in one event loop after the other."""

from __future__ import annotations

import asyncio
import gc
from contextlib import aclosing

from stenolog import TextPart
from stenolog.models import ModelResponse, Outgoing
from tests.llms.api import Api
from tests.llms.apis import WAIT, cancelled_when, closed_after, every
from tests.llms.listening import ask, heard, prompt
from tests.llms.server import SILENCE, Reply, Server

pytestmark = every
HELLO = TextPart(text="Hello there, it's me.")


def test_cancelling_who_waits_for_a_silent_server_ends_the_request(server: Server, api: Api) -> None:
    server.add(SILENCE)

    asyncio.run(cancelled_when(api.at(server), lambda _: bool(server.received)))

    assert server.received[0].left.wait(WAIT)


def test_cancelling_in_mid_stream_ends_the_request(server: Server, api: Api) -> None:
    server.add(Reply(list(api.frames(api.answer(HELLO)))[:4], end="hang"))

    asyncio.run(cancelled_when(api.at(server), bool))

    assert server.received[0].left.wait(WAIT)


def test_who_stops_listening_ends_the_request(server: Server, api: Api) -> None:
    server.add(Reply(list(api.frames(api.answer(HELLO)))[:4], end="hang"))
    model = api.at(server)

    async def main() -> None:
        async with aclosing(model.stream(prompt(model))) as pieces:
            async for piece in pieces:
                if not isinstance(piece, Outgoing):
                    break
        assert await asyncio.to_thread(server.received[0].left.wait, WAIT)  # before the model is closed
        await model.close()

    asyncio.run(main())


def test_a_model_serves_one_event_loop_after_the_other(server: Server, api: Api) -> None:
    answer = api.answer(HELLO)
    model = api.at(server)
    server.add(*[Reply(list(api.frames(answer)))] * 3)

    async def twice() -> list[ModelResponse]:  # and nobody closes the model: the loop's end does
        return [(await heard(model, prompt(model))).answer for _ in range(2)]

    assert asyncio.run(twice()) == [answer] * 2
    assert ask(model).answer == answer
    gc.collect()  # a connection left open would be told of here


def test_a_closed_model_may_be_used_again(server: Server, api: Api) -> None:
    answer = api.answer(HELLO)
    model = api.at(server)
    server.add(*[Reply(list(api.frames(answer)))] * 2)

    async def main() -> list[ModelResponse]:
        return [await closed_after(model, prompt(model)) for _ in range(2)]

    assert asyncio.run(main()) == [answer] * 2


def test_a_model_answers_many_at_the_same_time(server: Server, api: Api) -> None:
    answer = api.answer(HELLO)
    model = api.at(server)
    server.otherwise = lambda _: Reply(api.frames(answer), pause=0.001)

    async def main() -> list[ModelResponse]:
        found = await asyncio.gather(*(heard(model, prompt(model)) for _ in range(8)))
        await model.close()
        return [each.answer for each in found]

    assert asyncio.run(main()) == [answer] * 8
