"""Answers of both models of OpenAI, through the real SDK from a server that speaks their wires."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import stenolog
from stenolog import AssistantMessage, Card, ModeSwitch, Reasoning, Refusal, Text, ToolCall, ToolResult
from stenolog.adapters.llms.openai_shared import OpenAIModel
from stenolog.adapters.llms.port import Answer, Prompt, Said
from stenolog.projections.requests.model import compact
from tests.llms.listening import HI, SHELL, ask, prompt, streamed
from tests.llms.openai_apis import APIS, CALLS, MODEL, Api, both, closed_after
from tests.llms.server import Reply, Server
from tests.requests.judging import complaints, needs_judges

pytestmark = both


def test_an_answer_streams_in_pieces_and_comes_whole_at_the_end(server: Server, api: Api) -> None:
    answer = api.answer(Text(text="Hello there, it's me."))
    server.add(Reply(api.frames(answer)))

    said, whole = ask(api.at(server))

    assert whole == answer
    assert [piece.text for piece in said] == ["Hello", " ther", "e, it", "'s me", "."]
    assert {piece.part for piece in said} == {0}


def test_parallel_calls_keep_their_raw_arguments_and_stream_in_pieces(server: Server, api: Api) -> None:
    answer = api.answer(Text(text="Two things."), *CALLS)
    server.add(Reply(api.frames(answer)))

    said, whole = ask(api.at(server))

    assert whole == answer
    assert streamed(said) == [
        Said(0, "text", "Two things."),
        Said(1, "tool_call", '{"cmd": "ls -l"}', "c1", "shell"),
        Said(2, "tool_call", "{}", "c2", "shell"),
    ]


def test_calls_of_one_id_stay_calls_of_their_own(server: Server, api: Api) -> None:
    answer = api.answer(CALLS[0], replace(CALLS[1], id="c1"), CALLS[0])
    server.add(Reply(api.frames(answer)))

    assert ask(api.at(server)).answer == answer


def test_arguments_of_10_mb_come_whole(server: Server, api: Api) -> None:
    arguments = json.dumps({"cmd": "x" * 10_000_000})
    answer = api.answer(ToolCall(id="c1", name="shell", arguments=arguments))
    server.add(Reply(api.frames(answer, 100_000)))

    said, whole = ask(api.at(server))

    assert whole == answer
    assert "".join(piece.text for piece in said) == arguments


def test_a_refusal_is_an_answer(server: Server, api: Api) -> None:
    answer = api.answer(Refusal(text="I can't help with that."))
    server.add(Reply(api.frames(answer)))

    said, whole = ask(api.at(server))

    assert whole == answer
    assert streamed(said) == [Said(0, "refusal", "I can't help with that.")]


def test_an_answer_cut_by_its_limit_says_so(server: Server, api: Api) -> None:
    answer = api.answer(Text(text="And then"), finish_reason="length")
    server.add(Reply(api.frames(answer)))

    assert ask(api.at(server)).answer == answer


def test_a_character_cut_in_two_is_one_again_and_half_a_character_is_marked(server: Server, api: Api) -> None:
    answer = api.answer(Text(text="so \ud83d\ude00 \ud83d!"), ToolCall(id="c\udc00", name="shell"))
    server.add(Reply(api.frames(answer, 1)))

    said, whole = ask(api.at(server))

    assert whole.parts == (Text(text="so \N{GRINNING FACE} \ufffd!"), ToolCall(id="c\ufffd", name="shell"))
    assert streamed(said)[0].text == "so \N{GRINNING FACE} \ufffd!"


def test_the_body_goes_out_as_the_receipt_has_it(server: Server, api: Api) -> None:
    model = api.at(server)
    server.add(Reply(api.frames(api.answer(Text(text="Hello")))))
    asked = prompt(model, key="talk/coder/7")

    ask(model)

    sent = server.bodies[0]
    assert sent.keys() - asked.body.keys() == api.added
    kept = {name: value for name, value in sent.items() if name not in api.added}
    assert compact(kept) == compact(asked.body)


def test_the_name_of_the_effect_goes_as_the_idempotency_key(server: Server, api: Api) -> None:
    model = api.at(server)
    server.add(Reply(api.frames(api.answer(Text(text="Hello")))))

    asyncio.run(closed_after(model, prompt(model, key="talk/büro/7")))

    assert server.received[0].headers["idempotency-key"] == "talk/b%C3%BCro/7"


@needs_judges
def test_an_answer_goes_back_unharmed_in_a_request_that_the_judge_finds_clean(
    server: Server, api: Api, tmp_path: Path
) -> None:
    thought = Reasoning(text="First look.\n\nThen say.", provider="openai", id="rs_1", encrypted="gAAA-=")
    first = api.answer(thought, *CALLS, finish_reason="tool_calls" if api is APIS[0] else "completed")
    second = api.answer(Text(text="There is one file: a.py"))
    server.add(Reply(api.frames(first)), Reply(api.frames(second)))
    model = api.at(server)
    with stenolog.open(tmp_path / "talks.db") as log:
        talk = log["parser"]
        talk.append(ModeSwitch(cards={"coder": Card(model=MODEL, persona="You code.", tools=[SHELL])}))
        talk.append(HI)
        for _ in range(2):
            body = talk.request("coder", wire=model.wire).body
            answer = ask_with(model, body)
            talk.append(AssistantMessage(agent="coder", parts=answer.parts, model=answer.model))
            for call in answer.parts:
                if isinstance(call, ToolCall):
                    talk.append(ToolResult(call_id=call.id, text="a.py"))
        said = [entry.event.parts for entry in talk.entries() if isinstance(entry.event, AssistantMessage)]

    assert [complaints(str(model.wire), body) for body in server.bodies] == [[], []]
    assert said[1] == second.parts
    assert went_back(server.bodies[1]) == (
        ["gAAA-="] if api is APIS[1] else [],
        ['{"cmd": "ls -l"}', "{}"],
    )


def ask_with(model: OpenAIModel, body: dict[str, Any]) -> Answer:
    return asyncio.run(closed_after(model, Prompt(body, "effect", "coder", "parser")))


def went_back(body: dict[str, Any]) -> tuple[list[str], list[str]]:
    """The encrypted reasoning and the raw arguments in a body."""
    items = body.get("input", [])
    calls = [
        call["function"] for message in body.get("messages", []) for call in message.get("tool_calls", [])
    ]
    calls += [item for item in items if item["type"] == "function_call"]
    thoughts = [item["encrypted_content"] for item in items if item["type"] == "reasoning"]
    return thoughts, [call["arguments"] for call in calls]
