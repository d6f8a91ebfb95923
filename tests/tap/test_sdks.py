"""The providers' own SDKs, and httpx, work through a tap as they do without one."""

from __future__ import annotations

import asyncio
import gzip
import json
import socket
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anthropic
import httpx
import openai
import pytest
import zstandard

from tests.tap.given import Recorded, Relay, read, read_head, relay, server

TEXT = ["Grüße, ", "世界 ", "🌍"]


def events(*values: dict[str, Any], named: bool = False) -> bytes:
    lines = []
    for value in values:
        name = f"event: {value['type']}\n" if named else ""
        lines.append(f"{name}data: {json.dumps(value, ensure_ascii=False)}\n\n")
    return "".join(lines).encode()


OPENAI = events(
    *({"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "m",
       "choices": [{"index": 0, "delta": {"content": text}, "finish_reason": None}]} for text in TEXT)
) + b"data: [DONE]\n\n"  # fmt: skip
ANTHROPIC = events(
    {"type": "message_start", "message": {"id": "m1", "type": "message", "role": "assistant", "model": "m",
     "content": [], "stop_reason": None, "stop_sequence": None,
     "usage": {"input_tokens": 1, "output_tokens": 1}}},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    *({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}}
      for text in TEXT),
    {"type": "content_block_stop", "index": 0},
    {"type": "message_delta", "delta": {"stop_reason": "end_turn", "stop_sequence": None},
     "usage": {"output_tokens": 3}},
    {"type": "message_stop"},
    named=True,
)  # fmt: skip
GEMINI = events(
    *({"candidates": [{"content": {"role": "model", "parts": [{"text": text}]}}]} for text in TEXT)
)
ANSWERS = {"/chat/completions": OPENAI, "/v1/messages": ANTHROPIC, "GenerateContent": GEMINI}


def compressed(content: bytes, accepted: str) -> tuple[bytes, str]:
    """Return a content as a provider compresses it for a client."""
    if "zstd" in accepted:
        return zstandard.compress(content), "Content-Encoding: zstd\r\n"
    if "gzip" in accepted:
        return gzip.compress(content), "Content-Encoding: gzip\r\n"
    return content, ""


def provider(connection: socket.socket) -> None:
    """Answer requests as the three providers do, in chunks of 7 bytes."""
    while head := read_head(connection).decode("latin-1"):
        headers = {
            name.lower(): value for name, _, value in (line.partition(": ") for line in head.split("\r\n"))
        }
        read(connection, int(headers.get("content-length", 0)))
        path = head.split(" ")[1]
        content = next(body for end, body in ANSWERS.items() if end.lower() in path.lower())
        content, coding = compressed(content, headers.get("accept-encoding", ""))
        connection.sendall(
            f"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n{coding}"
            "Transfer-Encoding: chunked\r\n\r\n".encode()
        )
        for at in range(0, len(content), 7):
            part = content[at : at + 7]
            connection.sendall(b"%x\r\n%s\r\n" % (len(part), part))
        connection.sendall(b"0\r\n\r\n")


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Relay]:
    with server(provider) as upstream, relay(tmp_path / "run", upstream.port) as made:
        yield made
        assert (upstream.faults, made.printed()) == ([], "")


def plain(recorded: Recorded) -> bytes:
    """Return the content of an answer without its coding."""
    headers = {name.lower(): value for name, value in recorded.json("response")["headers"]}
    content = recorded.content("data")
    coding = headers.get("content-encoding")
    if coding == "zstd":
        return zstandard.ZstdDecompressor().stream_reader(content).read()
    return gzip.decompress(content) if coding == "gzip" else content


def test_openai_s_sdk_streams_through_a_tap(running: Relay) -> None:
    with openai.OpenAI(base_url=running.url, api_key="sk-a-secret-key-of-openai") as client:
        stream = client.chat.completions.create(
            model="m", messages=[{"role": "user", "content": "Grüße"}], stream=True
        )
        texts = [chunk.choices[0].delta.content for chunk in stream]
    (recorded,) = running.ended(1)

    assert texts == TEXT
    assert plain(recorded) == OPENAI
    assert json.loads(recorded.content("body"))["messages"] == [{"role": "user", "content": "Grüße"}]
    assert "secret" not in str(recorded)


def test_anthropic_s_sdk_streams_through_a_tap(running: Relay) -> None:
    with (
        anthropic.Anthropic(base_url=running.url, api_key="sk-ant-a-secret-key") as client,
        client.messages.stream(
            model="m", max_tokens=9, messages=[{"role": "user", "content": "Hi"}]
        ) as stream,
    ):
        texts = list(stream.text_stream)
    (recorded,) = running.ended(1)

    assert texts == TEXT
    assert plain(recorded) == ANTHROPIC
    assert recorded.json("request")["path"] == "/v1/messages"
    assert "secret" not in str(recorded)


def test_google_s_sdk_streams_through_a_tap(running: Relay) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        from google import genai

        client = genai.Client(api_key="AIza-a-secret-key-of-google", http_options={"base_url": running.url})
        texts = [part.text for part in client.models.generate_content_stream(model="m", contents="Hi")]
        client.close()
    (recorded,) = running.ended(1)

    assert texts == TEXT
    assert plain(recorded) == GEMINI
    assert recorded.json("request")["path"].endswith("/models/m:streamGenerateContent?alt=sse")
    assert "secret" not in str(recorded)


def test_many_clients_at_once_get_their_own_answers(running: Relay) -> None:
    async def ask(client: httpx.AsyncClient, number: int) -> tuple[int, str]:
        path = ("/chat/completions", "/v1/messages")[number % 2]
        answer = await client.post(running.url + path, content=f"{number}".encode() * 1000)
        return number, answer.text

    async def all_at_once() -> list[tuple[int, str]]:
        limits = httpx.Limits(max_connections=16)
        async with httpx.AsyncClient(limits=limits, timeout=60) as client:
            return await asyncio.gather(*(ask(client, number) for number in range(200)))

    answers = asyncio.run(all_at_once())
    recorded = running.ended(200)
    bodies = {recorded_each.content("body"): plain(recorded_each) for recorded_each in recorded}

    assert [text for number, text in answers] == [
        (OPENAI, ANTHROPIC)[number % 2].decode() for number, _ in answers
    ]
    assert bodies == {f"{number}".encode() * 1000: (OPENAI, ANTHROPIC)[number % 2] for number in range(200)}


def test_a_client_s_retry_after_a_lost_connection_is_a_request_of_its_own(tmp_path: Path) -> None:

    def flaky(connection: socket.socket) -> None:
        if upstream.connections == 1:
            read_head(connection)
            return
        provider(connection)

    with server(flaky) as upstream, relay(tmp_path / "run", upstream.port) as running:
        with openai.OpenAI(base_url=running.url, api_key="k", max_retries=2) as client:
            stream = client.chat.completions.create(
                model="m", messages=[{"role": "user", "content": "Hi"}], stream=True
            )
            texts = [chunk.choices[0].delta.content for chunk in stream]
        recorded = running.ended(2)

    assert texts == TEXT
    assert [each.content("body") for each in recorded] == [recorded[0].content("body")] * 2
    assert [bool(each.json("end")["reason"]) for each in recorded] == [True, False]
