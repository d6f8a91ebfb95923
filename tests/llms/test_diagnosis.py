"""A model that diagnoses has each request compared, and keeps what the provider says of its cache."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import pytest

from stenolog import TextPart
from stenolog.events import Usage
from stenolog.models import Model, ModelRequest
from tests.llms.api import Api
from tests.llms.apis import MESSAGES, RESPONSES
from tests.llms.listening import heard, prompt
from tests.llms.server import Reply, Server

MISSED = Usage(input=9_000, output=5, cache_verdict="tools_changed", cache_missed=8_000)
UNKNOWN = Usage(input=9_000, output=5, cache_verdict="unavailable")


class Field(NamedTuple):
    """The field that a request asks with: in the first request of a lane, and in one after an answer."""

    api: Api
    name: str
    first: Any
    later: Any


FIELDS = (
    Field(MESSAGES, "diagnostics", {"previous_message_id": None}, {"previous_message_id": "msg_1"}),
    Field(RESPONSES, "prompt_cache_options", None, {"comparison_response_id": "resp_1"}),
)
every = pytest.mark.parametrize("field", FIELDS, ids=lambda field: field.api.name)


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as one:
        yield one


def asked(
    server: Server,
    field: Field,
    usages: Sequence[Usage] = (MISSED, MISSED),
    change: Callable[[ModelRequest, int], ModelRequest] = lambda sent, nth: sent,
    **options: Any,
) -> list[Usage | None]:
    """Ask once for each usage, and return the usage of each answer."""
    server.add(
        *(Reply(field.api.frames(field.api.answer(TextPart(text="Yes."), usage=one))) for one in usages)
    )
    model = field.api.at(server, **options)

    async def all_of_them(model: Model) -> list[Usage | None]:
        try:
            sent = prompt(model)
            return [(await heard(model, change(sent, nth))).answer.usage for nth in range(len(usages))]
        finally:
            await model.close()

    return asyncio.run(all_of_them(model))


@every
def test_each_request_is_compared_with_the_answer_before_it(server: Server, field: Field) -> None:
    usages = asked(server, field, (MISSED, UNKNOWN), diagnose=True)

    assert [one.body.get(field.name) for one in server.received] == [field.first, field.later]
    assert usages == [MISSED, UNKNOWN]


@every
def test_a_model_that_was_not_asked_to_sends_nothing_of_it(server: Server, field: Field) -> None:
    asked(server, field)

    assert [one.body.get(field.name) for one in server.received] == [None, None]


@every
def test_lanes_and_conversations_are_not_compared_with_each_other(server: Server, field: Field) -> None:
    places = [("coder", "one"), ("coder/2", "one"), ("coder", "two"), ("coder", "one")]

    def change(sent: ModelRequest, nth: int) -> ModelRequest:
        return sent._replace(lane=places[nth][0], conversation=places[nth][1])

    asked(server, field, [MISSED] * 4, change, diagnose=True)

    found = [one.body.get(field.name) for one in server.received]
    assert found == [field.first, field.first, field.first, field.later]


def test_options_of_ones_own_stay_beside_the_comparison(server: Server) -> None:
    def change(sent: ModelRequest, nth: int) -> ModelRequest:
        return sent._replace(body={**sent.body, "prompt_cache_options": {"ttl": "12h"}})

    asked(server, FIELDS[1], change=change, diagnose=True)

    assert server.received[1].body["prompt_cache_options"] == {
        "comparison_response_id": "resp_1",
        "ttl": "12h",
    }


def test_a_comparison_that_is_not_done_yet_is_pending(server: Server) -> None:
    field = FIELDS[0]
    frames = list(field.api.frames(field.api.answer(TextPart(text="Yes."), usage=MISSED)))
    frames[0] = frames[0].replace(b'{"type": "tools_changed", "cache_missed_input_tokens": 8000}', b"null")
    server.add(Reply(frames))

    found = asyncio.run(heard(field.api.at(server), prompt(field.api.at(server)))).answer.usage
    assert found is not None
    assert (found.cache_verdict, found.cache_missed) == ("pending", 0)
