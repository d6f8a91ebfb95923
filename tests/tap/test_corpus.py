"""The corpus: the same each time, recorded whole, and judged so that nothing wrong passes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

import anthropic
import httpx
import openai
import pytest
from google import genai
from google.genai import types
from websockets.sync.client import connect

import stenolog
from stenolog.apps.tap.exchanges.exchange import RecordedExchange
from stenolog.apps.tap.recording.transcriber import Transcriber
from tests.tap.corpus import Recorded, Unique, altered, judged, performed, recorded
from tests.tap.fake_provider import Provider, ragged
from tests.tap.plays import Play, plays
from tests.tap.raw_client import Sent
from tests.tap.running_tap import running_tap
from tests.tap.sdk_clients import run_sdks

SEED = 7
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def perform(what: list[Play], database: Path) -> tuple[list[Sent], list[Recorded]]:
    """Perform sessions against a provider, record what passes, and build it again from the log."""
    with stenolog.open(database) as log, Provider() as provider:
        recording = Transcriber(log)

        def observe(exchange: RecordedExchange, has_ended: bool) -> None:
            if has_ended:
                recording.answer(exchange)
            else:
                recording.request(exchange)

        urls = {"anthropic": provider.url, "openai": provider.url + "/v1", "gemini": provider.url}
        return asyncio.run(performed(what, urls, observe)), recorded(log)


def chosen(*names: str) -> list[Play]:
    """Return a short session without ids of each program."""
    found = {play.profile.name: play for play in plays(SEED, 3000) if play.requests == 4 and not play.has_ids}
    return [replace(found[name], feature="plain") for name in names]


def test_a_corpus_has_the_same_requests_and_answers_each_time(tmp_path: Path) -> None:
    runs = [perform(chosen("hermes", "genai"), tmp_path / name)[0] for name in ("one.db", "two.db")]

    one, two = (sorted((sent.body_sha256, sent.answer_sha256) for sent in run) for run in runs)
    assert one == two


@pytest.mark.slow
def test_every_request_is_in_the_log_as_it_was_sent_and_none_in_another_session(tmp_path: Path) -> None:
    names = ("claude", "codex", "hermes", "go", "gemini", "genai", "stored", "script")
    verdict = judged(*perform(chosen(*names), tmp_path / "log.db"))

    assert verdict.requests >= 30
    assert (verdict.missing, verdict.differs, verdict.merged, verdict.split) == (0, 0, 0, 0), verdict.wrong
    assert verdict.derived("claude", "codex") == 1


def test_a_request_in_another_sessions_conversation_is_a_merge(tmp_path: Path) -> None:
    sent, found = perform(chosen("hermes", "go"), tmp_path / "log.db")
    sessions = [*dict.fromkeys(one.label.session for one in sent)]
    home = {one.label.session: one for one in sent}
    conversation = {record.sent_sha256: record.conversation for record in found}
    other = conversation[home[sessions[0]].body_sha256]
    moved = home[sessions[1]].body_sha256
    found = [one._replace(conversation=other) if one.sent_sha256 == moved else one for one in found]

    verdict = judged(sent, found)

    assert (verdict.missing, verdict.merged, verdict.split) == (0, 1, 0)


def test_a_request_that_is_alone_is_split_and_one_that_is_nowhere_is_missing(tmp_path: Path) -> None:
    sent, found = perform(chosen("hermes"), tmp_path / "log.db")
    found = [found[0]._replace(conversation="elsewhere"), *found[1:-1]]

    verdict = judged(sent, found)

    assert (verdict.missing, verdict.merged, verdict.split) == (1, 0, 1)


@pytest.mark.slow
def test_bytes_are_the_same_at_both_ends_of_a_tap_and_a_single_other_one_is_found(tmp_path: Path) -> None:
    with running_tap(tmp_path) as running:
        sent = asyncio.run(performed(chosen("claude", "codex", "gemini", "go"), running.urls))
        sent += run_sdks(running.urls, SEED, 40)

    assert altered(sent, running.exchanges) == []
    first = running.exchanges[0]
    for name in ("body_sha256", "answer_sha256", "chunks_sha256", "headers"):
        wrong = [{**first, name: [] if name == "headers" else "0" * 64}, *running.exchanges[1:]]
        assert altered(sent, wrong)
    complete = sum(one.complete for one in sent)
    assert complete == len(sent)
    with stenolog.open(running.database) as log:
        verdict = judged(sent, recorded(log))
    assert (verdict.missing, verdict.differs, verdict.merged) == (0, 0, 0), verdict.wrong


def test_unique_content_counts_each_part_once_and_no_mark_of_the_cache() -> None:
    counted = Unique()
    bodies = (
        b'{"system":[{"type":"text","text":"be brief"}],"messages":[{"role":"user","content":"hi"}]}',
        b'{"system":[{"type":"text","text":"be brief","cache_control":{}}],"messages":[]}',
    )
    for body in bodies:
        counted.observe(RecordedExchange("", NOW, "POST", "", "", content=body), False)

    assert counted.bytes == len('{"text":"be brief","type":"text"}') + len('{"content":"hi","role":"user"}')
    assert counted.raw == sum(map(len, bodies))


# The local provider: answers of the script, a cache that counts as a real one, records of what passed.


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
