"""What is particular to Chat Completions, as OpenAI and the many other servers stream it."""

from __future__ import annotations

from typing import Any

import pytest

from stenolog import TextPart, ToolCall
from stenolog.adapters.models.openai import OpenAIChat
from stenolog.events import Usage
from stenolog.models import ModelResponse, ResponseDelta
from stenolog.parts import ReasoningPart
from stenolog.projections.formats.openai_chat.stream import OpenAIChatStream
from tests.llms.listening import Heard, ask, failure, streamed
from tests.llms.server import Reply, Server, sse
from tests.llms.server import failure as refused

WHOLE = '{"cmd": "ls"}'


def chunk(finish_reason: str | None = None, **delta: Any) -> dict[str, Any]:
    return {"model": "m", "choices": [{"index": 0, "delta": delta, "finish_reason": finish_reason}]}


def piece(arguments: Any = "", **named: Any) -> dict[str, Any]:
    """Return a piece of a call: of its arguments, and of what is named."""
    function = {"name": named.pop("name")} if "name" in named else {}
    return chunk(tool_calls=[{**named, "function": {**function, "arguments": arguments}}])


def told(*chunks: dict[str, Any]) -> Heard:
    """Return the deltas and the answer of these chunks and a finish."""
    reading = OpenAIChatStream("m")
    said = [said for each in (*chunks, chunk("stop")) for said in reading.read(each)]
    return Heard(said, reading.answer())


def calls(*chunks: dict[str, Any]) -> list[tuple[str, str, str]]:
    parts = told(*chunks).answer.parts
    return [(call.id, call.name, call.arguments) for call in parts if isinstance(call, ToolCall)]


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
def test_the_reasoning_of_other_servers_is_a_part_of_its_own(server: Server, field: str) -> None:
    chunks = [chunk(**{field: "Let me "}), chunk(**{field: "see."}), chunk(content="Yes."), chunk("stop")]
    server.add(Reply([*map(sse, chunks), sse("[DONE]")]))

    said, answer = ask(OpenAIChat("m", base_url=f"{server.url}/v1"))

    assert answer.parts == (ReasoningPart(text="Let me see.", provider="openai"), TextPart(text="Yes."))
    assert streamed(said) == [ResponseDelta(0, "reasoning", "Let me see."), ResponseDelta(1, "text", "Yes.")]


def test_reasoning_that_a_server_says_under_both_names_is_heard_once() -> None:
    answer = told(chunk(reasoning="Hm.", reasoning_content="Hm."), chunk(content="Yes.")).answer

    assert answer.parts[0] == ReasoningPart(text="Hm.", provider="openai")


def test_content_may_be_a_list_of_texts_and_thoughts() -> None:
    thought = {"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]}

    answer = told(chunk(content=[thought]), chunk(content=[{"type": "text", "text": "Yes."}])).answer

    assert answer.parts == (ReasoningPart(text="Hm.", provider="openai"), TextPart(text="Yes."))


ONE = [("c1", "shell", WHOLE)]
NAMELESS = [("", "shell", WHOLE)] * 2
TWO = [("c1", "shell", WHOLE), ("c2", "shell", WHOLE)]
PIECES: dict[str, tuple[list[dict[str, Any]], list[tuple[str, str, str]]]] = {
    "in pieces by index": (
        [piece(id="c1", index=0, name="shell"), piece('{"cmd":', index=0), piece(' "ls"}', index=0)],
        ONE,
    ),
    "id and name in every piece": (
        [piece(some, id="c1", index=0, name="shell") for some in ('{"cmd":', ' "ls"}', "")],
        ONE,
    ),
    "an id of its own in every piece": (
        [piece(some, id=f"c{n}", index=0, name="shell") for n, some in enumerate(['{"cmd":', ' "ls"}'], 1)],
        ONE,
    ),
    "the id after the name": (
        [piece(index=0, name="shell"), piece(WHOLE, id="c1", index=0)],
        ONE,
    ),
    "arguments as an object": (
        [piece({"cmd": "ls"}, id="c1", index=0, name="shell")],
        [("c1", "shell", '{"cmd":"ls"}')],
    ),
    "no arguments": ([piece(None, id="c1", index=0, name="shell")], [("c1", "shell", "{}")]),
    "arguments that are no JSON": (
        [piece('{"cmd": ', id="c1", index=0, name="shell"), piece("oops", index=0)],
        [("c1", "shell", '{"cmd": oops')],
    ),
    "interleaved": (
        [
            *(piece('{"cmd":', id=f"c{n + 1}", index=n, name="shell") for n in (0, 1)),
            *(piece(' "ls"}', index=n) for n in (0, 1)),
        ],
        TWO,
    ),
    "whole, all with index 0": ([piece(WHOLE, id=id, index=0, name="shell") for id in ("c1", "c2")], TWO),
    "whole, without an index": ([piece(WHOLE, id=id, name="shell") for id in ("c1", "c2")], TWO),
    "in pieces, without an index": (
        [
            *(piece(id="c1", name="shell"), piece(WHOLE)),
            *(piece(id="c2", name="shell"), piece('{"cmd":'), piece(' "ls"}')),
        ],
        TWO,
    ),
    "whole, of one id": ([piece(WHOLE, id="c", name="shell") for _ in (1, 2)], [("c", "shell", WHOLE)] * 2),
    "whole, with no id": ([piece(WHOLE, id="", index=0, name="shell") for _ in (1, 2)], NAMELESS),
    "whole, with neither id nor index": ([piece(WHOLE, name="shell") for _ in (1, 2)], NAMELESS),
    "of two tools, with neither": (
        [piece("", name="shell"), piece("", name="look")],
        [("", "shell", "{}"), ("", "look", "{}")],
    ),
    "of one id, by index": (
        [piece(WHOLE, id="c", index=n, name="shell") for n in (0, 1)],
        [("c", "shell", WHOLE)] * 2,
    ),
    "without a name": ([piece(WHOLE, id="c1", index=0)], [("c1", "", WHOLE)]),
}  # fmt: skip


@pytest.mark.parametrize(("pieces", "expected"), PIECES.values(), ids=PIECES.keys())
def test_the_calls_of_other_servers_are_told_apart(
    pieces: list[dict[str, Any]], expected: list[tuple[str, str, str]]
) -> None:
    assert calls(*pieces) == expected


def test_several_calls_may_come_in_one_chunk() -> None:
    entries = [{"id": f"c{n}", "function": {"name": "shell", "arguments": WHOLE}} for n in (1, 2)]

    assert calls(chunk(tool_calls=entries)) == TWO


def test_what_other_choices_say_is_not_heard() -> None:
    other = {"choices": [{"index": 1, "delta": {"content": "no"}, "finish_reason": "stop"}]}

    assert told(chunk(content="Yes."), other).answer.parts == (TextPart(text="Yes."),)


def test_a_server_that_refuses_to_be_asked_for_the_usage_is_not_asked_again(server: Server) -> None:
    no = refused(400, {"error": {"message": "Unknown parameter: 'stream_options'."}})
    yes = Reply([sse(chunk(content="Yes.")), sse(chunk("stop"))])
    server.add(no, yes, yes)
    model = OpenAIChat("m", base_url=f"{server.url}/v1")

    answers = [ask(model).answer, ask(model).answer]

    assert answers == [ModelResponse((TextPart(text="Yes."),), "m", "stop")] * 2
    assert ["stream_options" in body for body in server.bodies] == [True, False, False]


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        (None, None),
        ({}, None),
        ({"prompt_tokens": 7, "completion_tokens": 2}, Usage(input=7, output=2)),
        (
            {"prompt_tokens": 7, "completion_tokens": "2", "prompt_tokens_details": None},
            Usage(input=7),
        ),
        (
            {"prompt_tokens": 7, "prompt_tokens_details": {"cached_tokens": 5, "cache_write_tokens": 1}},
            Usage(input=7, cache_read=5, cache_write=1),
        ),
    ],
)
def test_the_usage_is_what_the_server_tells_of_it(usage: Any, expected: Usage | None) -> None:
    assert told(chunk(content="Yes."), {"choices": [], "usage": usage}).answer.usage == expected


def test_the_usage_may_come_with_every_chunk() -> None:
    counted = [chunk(content="Yes.") | {"usage": {"completion_tokens": n}} for n in (1, 2)]

    assert told(*counted).answer.usage == Usage(output=2)


def test_a_finish_that_is_an_error_is_one(server: Server) -> None:
    choice = {"delta": {"content": ""}, "finish_reason": "error", "error": {"code": 429, "message": "slow"}}
    server.add(Reply([sse(chunk(content="Ye")), sse({"choices": [choice]})]))

    failed = failure(OpenAIChat("m", base_url=f"{server.url}/v1"))

    assert (failed.category, failed.message) == ("rate_limited", "slow")
