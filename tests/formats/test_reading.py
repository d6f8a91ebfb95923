"""Laws of readers, over all formats: what is written is read back, and what is read breaks no rule."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import stenolog
from stenolog import AgentCard, AssistantMessage, ModeSwitch, Request, Tool, ToolResult, UserMessage
from stenolog.errors import CallerError
from stenolog.importers import events_from
from stenolog.models import answer_from
from stenolog.parts import ProviderPart, ReasoningPart, RefusalPart, TextPart, ToolCall
from stenolog.projections.formats import FORMATS, reader_of
from stenolog.projections.formats.failures import category, overflow
from stenolog.projections.requests.as_sent import without_marks
from stenolog.projections.requests.builder import build_reference
from stenolog.requests import build, lanes, validate
from stenolog.testing import entries
from tests.formats.reading import READ, messages_of, written_again
from tests.llms.apis import APIS
from tests.requests.histories import BLOBS, history
from tests.requests.judging import MODELS, SHARED

SEEDS = range(40)


def requests(api: str) -> list[Request]:
    """Return the request of every lane of some random histories."""
    logs = (history(seed) for seed in SEEDS)
    return [
        build(log, lane.agent, task=lane.task, api=api, blobs=BLOBS) for log in logs for lane in lanes(log)
    ]


def plain(api: str, body: dict[str, Any]) -> str:
    """Return the messages without marks of the cache, and what quotes a note that is not stenolog's own."""
    messages = messages_of(api, without_marks(body)[0])
    return json.dumps(messages).replace("\\\\[", "[").replace("\\\\<", "<")


@pytest.mark.parametrize("api", READ)
def test_a_body_that_is_read_is_written_again_to_the_byte_and_breaks_no_rule(api: str) -> None:
    for request in requests(api):
        again = written_again(api, request.body)

        assert plain(api, again.body) == plain(api, request.body)
        assert validate(api, again.body) == []


RECORDED = SHARED / "transcripts" / "api_wire"
NOT_SAID = {"id", "call_id", "tool_use_id", "tool_call_id", "type", "role", "status", "signature", "detail"}
"""Keys whose values name things, or say in which form something is said."""


def said_in(value: Any) -> Iterator[str]:
    """Yield the texts in a message, without the names of things and the alphabet of base64."""
    if isinstance(value, str):
        yield value.replace("\\", "")
    for key, each in (
        value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    ):
        if key not in NOT_SAID:
            yield from said_in(each)


@pytest.mark.skipif(not RECORDED.is_dir(), reason="the recorded requests are not beside this checkout")
@pytest.mark.parametrize("api", [api for api in READ if api in MODELS])
def test_what_a_recorded_request_says_is_written_again_or_named(api: str) -> None:
    for line in (RECORDED / f"{api.replace('-', '_')}.jsonl").read_text().splitlines():
        body = {"model": MODELS[api], **json.loads(line)["request"]}
        again = written_again(api, body)
        written = json.dumps(again.body, ensure_ascii=False).replace("\\", "")
        lost = [
            text
            for text in said_in(messages_of(api, body))
            if not any(
                map(
                    written.__contains__, (text, json.dumps(text, ensure_ascii=False)[1:-1].replace("\\", ""))
                )
            )
        ]
        named = [
            *(cut.rule for cut in again.omissions),
            *(part.rule for part in again.parts if part.disposition == "reworded"),
        ]

        assert not lost or named, (line[:80], lost)
        assert validate(api, again.body) == []


CALL = {"name": "look", "arguments": '{"at":1}'}
CALLED = ToolCall(id="call_0", name="look", arguments='{"at":1}')
THOUGHT = ReasoningPart(text="Hm.", provider="openai")
SIGNED = ReasoningPart(provider="gemini", signature="sig")


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


ANSWERS: list[tuple[str, dict[str, Any], tuple[Any, ...]]] = [
    ("openai-chat", {"content": [{"type": "refusal", "refusal": "No."}]}, (RefusalPart(text="No."),)),
    ("openai-chat", {"content": None, "function_call": CALL}, (CALLED,)),
    ("openai-chat", {"content": "", "tool_calls": [{"type": "function", "function": CALL}]}, (CALLED,)),
    ("openai-chat", {"content": "x", "reasoning_content": "Hm."}, (THOUGHT, TextPart(text="x"))),
    ("openai-chat", {"content": "x", "reasoning": "Hm."}, (THOUGHT, TextPart(text="x"))),
    (
        "openai-chat",
        {"content": [{"type": "thinking", "thinking": [text("Hm.")]}, text("x")]},
        (THOUGHT, TextPart(text="x")),
    ),
    (
        "anthropic",
        {"content": [text(""), {"type": "tool_use", "name": "look", "input": {"at": 1}}]},
        (CALLED,),
    ),
    (
        "anthropic",
        {"content": [{"type": "text", "text": "x", "citations": [{"a": 1}]}]},
        (TextPart(text="x", provider="anthropic", raw='{"citations":[{"a":1}]}'),),
    ),
    (
        "anthropic",
        {"content": [{"type": "new", "a": 1}, text("x")]},
        (ProviderPart(provider="anthropic", model="m", raw='{"type":"new","a":1}'), TextPart(text="x")),
    ),
    ("gemini", {"parts": [{"text": "x", "thoughtSignature": "sig"}]}, (SIGNED, TextPart(text="x"))),
    (
        "gemini",
        {"parts": [{"functionCall": {"name": "look", "args": {"at": 1}}, "thoughtSignature": "sig"}]},
        (SIGNED, CALLED),
    ),
    (
        "gemini",
        {"parts": [{"text": "x"}, {"text": "", "thoughtSignature": "sig"}]},
        (TextPart(text="x"), SIGNED),
    ),
    (
        "gemini",
        {"parts": [{"executableCode": {"code": "1"}}]},
        (ProviderPart(provider="gemini", model="m", raw='{"executableCode":{"code":"1"}}'),),
    ),
    (
        "openai-responses",
        {"type": "web_search_call", "id": "w", "status": "completed"},
        (
            ProviderPart(
                provider="openai",
                raw='{"type":"web_search_call","id":"w","status":"completed"}',
            ),
        ),
    ),
]
"""Answers by their format, and the parts that everybody reads in them."""


@pytest.mark.parametrize(("api", "fields", "parts"), ANSWERS)
def test_an_answer_of_an_sdk_and_one_in_a_list_are_what_their_format_reads(
    api: str, fields: dict[str, Any], parts: tuple[Any, ...]
) -> None:
    role = {} if "type" in fields else {"role": "model" if api == "gemini" else "assistant"}
    message = {**role, **fields}

    (read,) = reader_of(api).message(message, "m", {})
    *_, event = events_from([APIS[api].asked, message], model="m")

    assert read.parts == parts
    assert isinstance(event, AssistantMessage)
    assert event.parts == parts
    assert answer_from(WHOLE[api](message), agent="coder").parts == parts


WHOLE: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "openai-chat": lambda said: {"model": "m", "choices": [{"message": said, "finish_reason": "stop"}]},
    "openai-responses": lambda said: {
        "object": "response",
        "model": "m",
        "status": "completed",
        "output": [said],
    },
    "anthropic": lambda said: {"type": "message", "model": "m", "stop_reason": "end_turn", **said},
    "gemini": lambda said: {"modelVersion": "m", "candidates": [{"content": said, "finishReason": "STOP"}]},
}
"""Answers as the providers' SDKs return them."""


def test_calls_without_an_id_are_named_by_the_number_of_those_before() -> None:
    call = {"type": "function", "function": CALL}
    given = [call, {**call, "id": "call_0"}, call]

    (read,) = reader_of("openai-chat").message({"role": "assistant", "tool_calls": given}, "m", {})

    assert [part.id for part in read.parts if isinstance(part, ToolCall)] == ["call_0", "call_0", "call_2"]


def test_a_result_of_gemini_without_an_id_is_that_of_the_open_call_of_its_tool() -> None:
    called = {"role": "model", "parts": [{"functionCall": {"name": "look", "args": {}}}]}
    done = {"role": "user", "parts": [{"functionResponse": {"name": "look", "response": {"output": "x"}}}]}

    *_, result = events_from([APIS["gemini"].asked, called, done], model="gemini-3-pro")

    assert (result.call_id, result.name, result.text) == ("call_0", "look", "x")  # type: ignore[union-attr]


def test_a_format_without_a_reader_says_so() -> None:
    with pytest.raises(
        CallerError, match=r"the format plain: expected a reader, Format\(…, read=…\), found none"
    ):
        reader_of("plain")


OWN: list[tuple[str, dict[str, Any]]] = [
    ("anthropic", {"type": "web_search_20260209", "name": "web_search"}),
    ("openai-responses", {"type": "mcp", "server_label": "dice", "server_url": "https://dice.example"}),
    ("gemini", {"googleSearch": {}}),
]
FUNCTION = {
    "name": "look",
    "input_schema": {"type": "object", "properties": {}},
    "defer_loading": True,
    "allowed_callers": ["code_execution_20260120"],
    "input_examples": [{}],
    "strict": True,
}


def declared(api: str, *tools: Any) -> Request:
    import stenolog

    with stenolog.open(":memory:") as log:
        log["x"].join("coder", model="m", tools=tools)
        log["x"].append(UserMessage("Hi"))
        made = log["x"].request("coder", api=api)
    assert validate(api, made.body) == []
    return made


@pytest.mark.parametrize(("api", "tool"), OWN)
@pytest.mark.parametrize("other", [name for name in FORMATS if name != "plain"])
def test_a_tool_of_a_providers_own_goes_to_it_as_declared_and_to_nobody_else(
    api: str, tool: dict[str, Any], other: str
) -> None:
    request = declared(other, tool)

    tools = without_marks(request.body)[0].get("tools", [])
    assert tools == ([tool] if other == api else [])
    assert [cut.rule for cut in request.omissions] == ([] if other == api else ["fields-not-carried"])


def test_fields_of_a_tool_go_to_its_provider_and_are_named_for_others() -> None:
    (tool,) = declared("anthropic", FUNCTION).body["tools"]
    other = declared("openai-chat", FUNCTION)

    assert tool == FUNCTION
    assert other.body["tools"][0]["function"].keys() == {"name", "parameters", "strict"}
    assert [(cut.rule, cut.what) for cut in other.omissions] == [
        ("fields-not-carried", "look: defer_loading, allowed_callers, input_examples")
    ]


def test_a_tool_without_fields_of_its_provider_is_stored_as_before() -> None:
    card = AgentCard(model="m", tools=[Tool(name="look")])
    (entry,) = entries(ModeSwitch(joins=["coder"], cards={"coder": card}))

    assert "raw" not in str(entry.event)


def test_a_program_that_waits_for_the_results_of_its_calls_goes_back_as_it_came() -> None:
    program = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "code_execution", "input": {}}
    caller = {"type": "code_execution_20260120", "tool_id": "srvtoolu_1"}
    call = {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {}, "caller": caller}
    given = {"type": "message", "model": "claude-opus-4-8", "container": {"id": "container_1"}}

    answer = answer_from({**given, "content": [program, call], "stop_reason": "tool_use"}, agent="coder")
    card = AgentCard(model="claude-opus-4-8")
    log = entries(
        ModeSwitch(joins=["coder"], cards={"coder": card}),
        UserMessage("Look."),
        answer,
        ToolResult(call_id="toolu_1", text="x"),
    )
    request = build(log, "coder", api="anthropic")
    asked_on = build(
        entries(*(each.event for each in log), UserMessage("Never mind.")), "coder", api="anthropic"
    )

    assert json.loads(answer.tool_calls[0].raw) == {"caller": caller, "container": "container_1"}
    assert request.body["messages"][1]["content"] == [program, call]
    assert request.body["container"] == "container_1"
    assert list(validate("anthropic", request.body)) == []
    # Anthropic goes on with a program only if nothing but its results is said.
    assert {cut.what for cut in asked_on.omissions} == {"server_tool_use", "caller, container"}
    assert list(validate("anthropic", asked_on.body)) == []


def test_a_program_and_its_end_go_back_over_all_turns_in_which_it_called_tools() -> None:
    program = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "code_execution", "input": {}}
    caller = {"type": "code_execution_20260120", "tool_id": "srvtoolu_1"}
    end = {"type": "code_execution_tool_result", "tool_use_id": "srvtoolu_1", "content": {"stdout": "2"}}
    calls = [
        {"type": "tool_use", "id": f"t{n}", "name": "look", "input": {}, "caller": caller} for n in (1, 2)
    ]
    said = {"type": "text", "text": "Two."}
    given = {"type": "message", "model": "claude-opus-4-8", "container": {"id": "container_1"}}
    turns = [[program, calls[0]], [calls[1]], [end, said]]
    with stenolog.open(":memory:") as log:
        talk = log["x"]
        talk.join("coder", model="claude-opus-4-8")
        for event in (
            UserMessage("Look."),
            answer_from({**given, "content": turns[0]}, agent="coder"),
            ToolResult(call_id="t1", text="1"),
            answer_from({**given, "content": turns[1]}, agent="coder"),
            ToolResult(call_id="t2", text="1"),
            answer_from({**given, "content": turns[2]}, agent="coder"),
            UserMessage("Thanks."),
        ):
            talk.append(event)
            request = talk.request("coder", api="anthropic")
            assert request.body == build_reference(talk.entries(), "coder", api="anthropic").body
            assert list(validate("anthropic", request.body)) == []
            answers = [each["content"] for each in request.body["messages"] if each["role"] == "assistant"]
            assert answers == turns[: len(answers)]
            assert ("container" in request.body) is (0 < len(answers) < 3)


# As the providers word it; the numbers are examples.
SAID = {
    "prompt is too long: 210000 tokens > 200000 maximum": (200_000, 210_000, 0),
    "input length and `max_tokens` exceed context limit: 178959 + 64000 > 200000, decrease input length or "
    "`max_tokens` and try again": (200_000, 178_959, 64_000),
    "This model's maximum context length is 8192 tokens. However, your messages resulted in 8545 tokens. "
    "Please reduce the length of the messages.": (8_192, 8_545, 0),
    "This model's maximum context length is 8191 tokens, however you requested 10346 tokens (10341 in your "
    "prompt; 5 for the completion). Please reduce your prompt; or completion length.": (8_191, 10_341, 5),
    "This endpoint's maximum context length is 131072 tokens. However, you requested about 132463 tokens "
    "(1463 of text input, 131000 in the output).": (131_072, 1_463, 131_000),
    "'max_tokens' or 'max_completion_tokens' is too large: 2000. This model's maximum context length is 4096 "
    "tokens and your request has 2104 input tokens (2000 > 4096 - 2104).": (4_096, 2_104, 2_000),
    "The input token count (1200293) exceeds the maximum number of tokens allowed (1048576).": (
        1_048_576,
        1_200_293,
        0,
    ),
    "Input tokens exceed the configured limit of 272000 tokens. Your messages resulted in 300,000 tokens.": (
        272_000,
        300_000,
        0,
    ),
    "This model's maximum prompt length is 131072 but the request contains 150000 tokens.": (
        131_072,
        150_000,
        0,
    ),
    "request (9000 tokens) exceeds the available context size (8192 tokens), try increasing it": (
        8_192,
        9_000,
        0,
    ),
    "too many tokens: total number of tokens in the request cannot exceed 4081 - received 5000.": (
        4_081,
        5_000,
        0,
    ),
    "Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 maximum context "
    "length": (32_768, 40_000, 0),
    "`inputs` tokens + `max_new_tokens` must be <= 8193. Given: 9000 `inputs` tokens and 512 "
    "`max_new_tokens`": (8_193, 9_000, 512),
    "Your input exceeds the context window of this model. Please adjust your input and try again.": (0, 0, 0),
    "Input is too long for requested model.": (0, 0, 0),
}


@pytest.mark.parametrize(("words", "sizes"), SAID.items())
def test_the_limit_and_the_size_are_read_from_the_words_of_providers(
    words: str, sizes: tuple[int, int, int]
) -> None:
    assert (category(400, "", words), overflow(words)) == ("context_length", sizes)
