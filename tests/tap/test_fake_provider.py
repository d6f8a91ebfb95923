"""The local provider: answers of the script, a cache that counts as a real one, records of what passed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from hashlib import sha256
from typing import Any

import anthropic
import httpx
import openai
import pytest
from google import genai
from google.genai import types
from websockets.sync.client import connect

from tests.tap.fake_provider import Provider, ragged

TOOL = {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]}
TWO = "RUN «echo one» RUN «echo two» THINK «let me see»"
LARGE = "word " * 2000
"""More than the least that is cached."""


@pytest.fixture
def provider() -> Iterator[Provider]:
    with Provider() as one:
        yield one


def post(provider: Provider, path: str, body: Any, **headers: str) -> httpx.Response:
    """Send a body that is bytes, or that becomes JSON."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    with httpx.Client(headers=headers) as client:
        return client.post(provider.url + path, content=content, timeout=20.0)


def claude(*messages: Any, **fields: Any) -> dict[str, Any]:
    """Return a request of Anthropic's API."""
    return {"model": "m", "max_tokens": 9, "messages": [*messages], **fields}


def marked(text: str) -> dict[str, Any]:
    """Return a user's message whose end is a breakpoint of the cache."""
    block = {"type": "text", "text": text, "cache_control": {"type": "ephemeral"}}
    return {"role": "user", "content": [block]}


@pytest.fixture
def opened() -> Iterator[ExitStack]:
    """Close the clients of a test at its end."""
    with ExitStack() as stack:
        yield stack


def test_the_sdk_of_anthropic_reads_thoughts_text_and_the_call_that_the_script_asks_for(
    provider: Provider, opened: ExitStack
) -> None:
    client = opened.enter_context(anthropic.Anthropic(base_url=provider.url, api_key="none"))
    tools: Any = [{"name": "Bash", "input_schema": TOOL}]
    ask: Any = [{"role": "user", "content": TWO}]
    with client.messages.stream(model="m", max_tokens=9, messages=ask, tools=tools) as stream:
        answer = stream.get_final_message()
    thought, text, call = answer.content
    assert (thought.type, text.type, call.type) == ("thinking", "text", "tool_use")
    assert call.type == "tool_use"
    assert call.input == {"command": "echo one"}
    result = {"type": "tool_result", "tool_use_id": call.id, "content": "one"}
    ask += [{"role": "assistant", "content": answer.content}, {"role": "user", "content": [result]}]
    after = client.messages.create(model="m", max_tokens=9, messages=ask, tools=tools)
    assert [block.input for block in after.content if block.type == "tool_use"] == [{"command": "echo two"}]


def test_the_sdk_of_openai_reads_both_of_its_apis(provider: Provider, opened: ExitStack) -> None:
    client = opened.enter_context(openai.OpenAI(base_url=provider.url + "/v1", api_key="none"))
    functions: Any = [{"type": "function", "function": {"name": "run", "parameters": TOOL}}]
    chunks = client.chat.completions.create(
        model="m",
        messages=[{"role": "user", "content": TWO}],
        tools=functions,
        stream=True,
        stream_options={"include_usage": True},
    )
    calls = [c.choices[0].delta.tool_calls for c in chunks if c.choices and c.choices[0].delta.tool_calls]
    assert json.loads("".join(call.function.arguments or "" for [call] in calls if call.function)) == {
        "command": "echo one"
    }
    tools: Any = [{"type": "function", "name": "run", "parameters": TOOL}]
    first = client.responses.create(model="m", input=TWO, tools=tools)
    call = first.output[-1]
    assert call.type == "function_call"
    result: Any = {"type": "function_call_output", "call_id": call.call_id, "output": "one"}
    after = client.responses.create(model="m", input=[result], previous_response_id=first.id, tools=tools)
    assert after.output[-1].to_dict()["arguments"] == '{"command": "echo two"}'


def test_the_sdk_of_google_reads_a_stream_and_a_whole_answer(provider: Provider, opened: ExitStack) -> None:
    client = genai.Client(api_key="none", http_options=types.HttpOptions(base_url=provider.url))
    opened.callback(client.close)
    run = types.FunctionDeclaration(name="run", parameters_json_schema=TOOL)
    off = types.AutomaticFunctionCallingConfig(disable=True)
    tools: Any = [types.Tool(function_declarations=[run])]
    config = types.GenerateContentConfig(tools=tools, automatic_function_calling=off)
    complete = client.models.generate_content(model="m", contents=TWO, config=config)
    assert complete.function_calls
    assert complete.function_calls[0].args == {"command": "echo one"}
    pieces = client.models.generate_content_stream(model="m", contents=TWO, config=config)
    assert [call.args for part in pieces for call in part.function_calls or ()] == [{"command": "echo one"}]


def test_a_prefix_up_to_a_breakpoint_is_written_once_and_read_afterwards(provider: Provider) -> None:
    first = post(provider, "/v1/messages", claude(marked(LARGE))).json()["usage"]
    assert first["cache_read_input_tokens"] == 0
    assert first["cache_creation_input_tokens"] > 2000
    answer = {"role": "assistant", "content": "ok"}
    plain = {"role": "user", "content": LARGE}
    after = post(provider, "/v1/messages", claude(plain, answer, marked("more"))).json()["usage"]
    assert after["cache_read_input_tokens"] == first["cache_creation_input_tokens"]
    assert 0 < after["cache_creation_input_tokens"] < 50


def test_a_change_before_a_breakpoint_reads_nothing_and_names_the_first_new_part(provider: Provider) -> None:
    post(provider, "/v1/messages", claude(marked(LARGE), system="at nine"))
    after = post(provider, "/v1/messages", claude(marked(LARGE), system="at ten")).json()["usage"]
    assert after["cache_read_input_tokens"] == 0
    assert provider.wait(2)[-1].new_from == "/system"


def test_openai_and_gemini_read_the_longest_common_prefix_in_steps_of_128_tokens(provider: Provider) -> None:
    def ask(*texts: str) -> dict[str, Any]:
        return {"model": "m", "messages": [{"role": "user", "content": text} for text in texts]}

    assert post(provider, "/v1/chat/completions", ask(LARGE, "a")).json()["usage"][
        "prompt_tokens_details"
    ] == {"cached_tokens": 0}
    usage = post(provider, "/v1/chat/completions", ask(LARGE, "b")).json()["usage"]
    cached = usage["prompt_tokens_details"]["cached_tokens"]
    assert cached % 128 == 0
    assert usage["prompt_tokens"] - 256 < cached < usage["prompt_tokens"]


@pytest.mark.parametrize("coding", ["gzip", "zstd", "br"])
def test_records_have_the_digest_of_the_bytes_in_both_directions(provider: Provider, coding: str) -> None:
    codings = set()
    for nth in range(12):
        content = json.dumps(claude(marked(f"LONG «60» {nth}"), stream=True)).encode()
        with httpx.stream(
            "POST",
            provider.url + "/v1/messages",
            content=content,
            headers={"accept-encoding": coding},
        ) as answer:
            raw = b"".join(answer.iter_raw())
        record = provider.wait(nth + 1)[-1]
        assert record.body_sha256 == sha256(content).hexdigest()
        assert record.answer_sha256 == sha256(raw).hexdigest()
        codings.add(answer.headers.get("content-encoding"))
    assert codings == {None, coding}


def test_faults_meet_the_first_attempt_alone(provider: Provider) -> None:
    for text, status in (("ERROR 529", 529), ("ERROR 429x2", 429)):
        assert post(provider, "/v1/messages", claude(marked(text))).status_code == status
    assert post(provider, "/v1/messages", claude(marked("ERROR 529"))).status_code == 200
    assert post(provider, "/v1/messages", claude(marked("ERROR 429x2"))).status_code == 429
    event = post(provider, "/v1/messages", claude(marked("ERROR EVENT"), stream=True))
    assert event.status_code == 200
    assert "overloaded_error" in event.text
    with pytest.raises(httpx.RemoteProtocolError):
        post(provider, "/v1/messages", claude(marked("CUT"), stream=True))
    assert provider.wait(6)[-1].end == "cut"


def test_a_client_that_hangs_up_on_a_stalled_answer_is_recorded(provider: Provider) -> None:
    content = json.dumps(claude(marked("STALL"), stream=True)).encode()
    with httpx.stream("POST", provider.url + "/v1/messages", content=content, timeout=20.0) as answer:
        next(answer.iter_raw())
    post(provider, "/v1/messages", claude(marked("next")))
    assert {exchange.fault: exchange.status for exchange in provider.wait(2)} == {"STALL": 200, "": 200}


def test_a_body_that_is_too_large_is_refused_before_it_is_read() -> None:
    with Provider(largest=1000) as provider:
        assert post(provider, "/v1/messages", claude(marked(LARGE))).status_code == 413


def test_two_attempts_have_two_answers_and_two_runs_the_same_ones() -> None:
    runs = []
    for _ in range(2):
        with Provider() as provider:
            runs.append([post(provider, "/v1/messages", claude(marked("hi"))).text for _ in range(2)])
    assert runs[0] == runs[1]
    assert runs[0][0] != runs[0][1]


def test_a_websocket_goes_on_from_a_stored_response_after_a_warm_up(provider: Provider) -> None:
    def ask(**fields: Any) -> list[dict[str, Any]]:
        socket.send(json.dumps({"type": "response.create", "model": "m", **fields}))
        events = [json.loads(socket.recv())]
        while events[-1]["type"] != "response.completed":
            events.append(json.loads(socket.recv()))
        return events

    tools = [{"type": "function", "name": "exec_command", "parameters": {"properties": {"cmd": {}}}}]
    with connect(provider.url.replace("http", "ws") + "/v1/responses") as socket:
        warm = ask(generate=False, tools=tools, input=[{"role": "user", "content": TWO}])
        assert warm[-1]["response"]["output"] == []
        turn = ask(previous_response_id=warm[-1]["response"]["id"], tools=tools, input=[])
    assert turn[-1]["response"]["output"][-1]["arguments"] == '{"cmd": "echo one"}'
    assert [exchange.status for exchange in provider.wait(2)] == [101, 101]


def test_ragged_pieces_are_the_same_bytes_and_end_within_characters() -> None:
    chunks = ["naïve 🎉 ".encode() * 50] * 20
    pieces = ragged(chunks, "seed")
    assert b"".join(pieces) == b"".join(chunks)
    assert any(part[-1] >= 0xC0 for part in pieces)
