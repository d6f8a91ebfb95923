"""Answers of both models of OpenAI, through the real SDK from a server that speaks their APIs."""

from __future__ import annotations

import asyncio
from typing import Any

from stenolog import TextPart, ToolCall
from stenolog.models import ResponseDelta
from stenolog.parts import ReasoningPart, RefusalPart
from tests.llms.apis import CHAT, Api, both_of_openai, closed_after
from tests.llms.listening import ask, prompt, streamed
from tests.llms.server import Reply, Server
from tests.llms.talking import talked

pytestmark = both_of_openai
CALLS = (
    ToolCall(id="c1", name="shell", arguments='{"cmd": "ls -l"}'),
    ToolCall(id="c2", name="shell", arguments="{}"),
)


def test_parallel_calls_keep_their_raw_arguments_and_stream_in_pieces(server: Server, api: Api) -> None:
    answer = api.answer(TextPart(text="Two things."), *CALLS)
    server.add(Reply(api.frames(answer)))

    said, whole = ask(api.at(server))

    assert whole == answer
    assert streamed(said) == [
        ResponseDelta(0, "text", "Two things."),
        ResponseDelta(1, "tool_call", '{"cmd": "ls -l"}', "c1", "shell"),
        ResponseDelta(2, "tool_call", "{}", "c2", "shell"),
    ]


def test_a_refusal_is_an_answer(server: Server, api: Api) -> None:
    answer = api.answer(RefusalPart(text="I can't help with that."))
    server.add(Reply(api.frames(answer)))

    said, whole = ask(api.at(server))

    assert whole == answer
    assert streamed(said) == [ResponseDelta(0, "refusal", "I can't help with that.")]


def test_an_answer_cut_by_its_limit_says_so(server: Server, api: Api) -> None:
    answer = api.answer(TextPart(text="And then"), finish_reason="length")
    server.add(Reply(api.frames(answer)))

    assert ask(api.at(server)).answer == answer


def test_the_name_of_the_effect_goes_as_the_idempotency_key(server: Server, api: Api) -> None:
    model = api.at(server)
    server.add(Reply(api.frames(api.answer(TextPart(text="Hello")))))

    asyncio.run(closed_after(model, prompt(model, key="talk/büro/7")))

    assert server.received[0].headers["idempotency-key"] == "talk/b%C3%BCro/7"


def test_an_answer_goes_back_unharmed(server: Server, api: Api) -> None:
    thought = ReasoningPart(text="First look.\n\nThen say.", provider="openai", id="rs_1", encrypted="gAAA-=")
    first = api.answer(thought, *CALLS, finish_reason="tool_calls" if api is CHAT else "completed")
    second = api.answer(TextPart(text="There is one file: a.py"))
    server.add(*(Reply(api.frames(each)) for each in (first, second)))

    answers = talked(api.at(server))

    assert [answer.parts[-1] for answer in answers] == [CALLS[-1], second.parts[0]]
    assert went_back(server.bodies[1]) == (
        [] if api is CHAT else ["gAAA-="],
        ['{"cmd": "ls -l"}', "{}"],
    )


def went_back(body: dict[str, Any]) -> tuple[list[str], list[str]]:
    """Return the encrypted reasoning and the raw arguments in a body."""
    items = body.get("input", [])
    calls = [
        call["function"] for message in body.get("messages", []) for call in message.get("tool_calls", [])
    ]
    calls += [item for item in items if item["type"] == "function_call"]
    thoughts = [item["encrypted_content"] for item in items if item["type"] == "reasoning"]
    return thoughts, [call["arguments"] for call in calls]
