"""A moment exported as a program: the provider's own SDK sends the body, and holds no secret."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import stenolog
from stenolog import AgentCard, Log, ModeSwitch, TextPart, UserMessage
from stenolog.errors import CallerError
from stenolog.events import Receipt
from stenolog.projections.moments.as_python import as_python, docstring, literal
from stenolog.projections.moments.moment import Moment
from stenolog.projections.requests.transport import Transport
from stenolog.requests import FORMATS, Format, Writer
from stenolog.testing import example_conversation
from tests.llms.apis import APIS
from tests.llms.server import JSON, Received, Reply, Server
from tests.moments.test_curl import BASES, HOSTILE, KEYS, TEXTS

ANSWERS: dict[str, dict[str, Any]] = {
    "openai-chat": {
        "id": "a",
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "Hi"}}],
    },
    "openai-responses": {
        "id": "a",
        "object": "response",
        "created_at": 1,
        "model": "m",
        "output": [],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
    },
    "anthropic": {
        "id": "a",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": [{"type": "text", "text": "Hi"}],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 1, "output_tokens": 1},
    },
    "cohere": {
        "id": "a",
        "finish_reason": "COMPLETE",
        "message": {"role": "assistant", "content": [{"type": "text", "text": "Hi"}]},
    },
    "gemini": {
        "candidates": [{"content": {"role": "model", "parts": [{"text": "Hi"}]}, "finishReason": "STOP"}]
    },
}
PARAMETERS: dict[str, dict[str, Any]] = {
    "openai-chat": {"temperature": 0.5, "top_k": 4},
    "openai-responses": {"temperature": 0.5, "truncation": "auto"},
    "anthropic": {"temperature": 0.5, "container": "c1"},
    "cohere": {"temperature": 0.5, "raw_prompting": False},
    "gemini": {"generationConfig": {"temperature": 0.5, "maxOutputTokens": 99}},
}


@pytest.fixture
def log() -> Iterator[Log]:
    """Return a log whose conversation `team` has a coder with a tool."""
    with stenolog.open(":memory:") as made:
        made["team"].extend(example_conversation())
        yield made


def ran(program: str, folder: Path, *arguments: str, **variables: str) -> str:
    """Run the program by itself, and return what it printed."""
    file = folder / "moment.py"
    file.write_text(program)
    environment = {**os.environ, **KEYS, "NO_PROXY": "*", **variables}
    command = [sys.executable, str(file), *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def asked(program: str, folder: Path, api: str) -> Received:
    """Run the program against a server, and return the request that came."""
    with Server(lambda _: Reply([_json(ANSWERS[api])], headers=JSON)) as server:
        bases = {name: server.url + path for name, path in BASES.items()}
        out = ran(program, folder, **bases)
        assert api == "openai-responses" or "Hi" in out
        [received] = server.received
        return received


def as_sent(body: dict[str, Any], api: str = "") -> dict[str, Any]:
    """Return a body as it is compared: some SDKs rename a field, or add one that says nothing."""
    text = json.dumps({name: value for name, value in body.items() if (name, api) != ("model", "gemini")})
    sent: dict[str, Any] = json.loads(text.replace("parameters_json_schema", "parametersJsonSchema"))
    return {name: value for name, value in sent.items() if value != {} and (name, value) != ("stream", False)}


def _json(value: Any) -> bytes:
    return json.dumps(value).encode()


@pytest.mark.slow
@pytest.mark.parametrize("api", ANSWERS)
def test_the_sdk_sends_the_body(log: Log, tmp_path: Path, api: str) -> None:
    talk = log[api]
    card = AgentCard(model="gpt-5", persona=HOSTILE, parameters=PARAMETERS[api])
    talk.append(ModeSwitch(joins=["coder"], cards={"coder": card}))
    talk.append(UserMessage(text="\n".join(TEXTS.values()), to=["coder"]))
    request = talk.request("coder", api=api)

    received = asked(talk.export("python", agent="coder", api=api), tmp_path, api)

    assert as_sent(received.body) == as_sent(request.body, api)


@pytest.mark.slow
@pytest.mark.parametrize("api", ANSWERS)
def test_the_sdk_sends_calls_results_and_tools(log: Log, tmp_path: Path, api: str) -> None:
    request = log["team"].request("coder", 8, api)

    received = asked(log["team"].export("python", agent="coder", at=8, api=api), tmp_path, api)

    assert as_sent(received.body) == as_sent(request.body, api)


@pytest.mark.slow
@pytest.mark.parametrize("api", [api for api in ANSWERS if api != "gemini"])
def test_a_program_streams_as_its_sdk_does_what_was_streamed(log: Log, tmp_path: Path, api: str) -> None:
    request = log["team"].request("coder", 8, api)
    body = {**request.body, "stream": True}
    headers = {"x-of-its-own": "yes"}
    sent = Transport("POST", FORMATS[api].endpoint.path, headers=headers)  # type: ignore[union-attr]
    moment = Moment(
        "team", replace(request, body=body), receipt=Receipt(view=8, sha256="", transport=sent.json)
    )
    answer = APIS[api].answer(TextPart(text="Hi"))

    with Server(lambda _: Reply(APIS[api].frames(answer))) as server:
        bases = {name: server.url + path for name, path in BASES.items()}
        assert "Hi" in ran(as_python(moment), tmp_path, **bases)
        [received] = server.received

    assert received.body == body
    assert received.headers["x-of-its-own"] == "yes"


def test_a_program_is_given_the_prompt(log: Log, tmp_path: Path) -> None:
    request = log["team"].request("coder", 8, "plain")
    program = log["team"].export("python", agent="coder", at=8, api="plain")

    assert ran(program, tmp_path, sys.executable, "-c", "print(input())") == "User: Which test fails?\n"
    copy = "import sys; sys.stdout.buffer.write(sys.stdin.buffer.read())"
    assert ran(program, tmp_path, sys.executable, "-c", copy) == request.body["prompt"]


@pytest.mark.parametrize("api", [*ANSWERS, "plain"])
def test_a_program_is_whole_and_has_no_key_in_it(log: Log, api: str) -> None:
    program = log["team"].export("python", agent="coder", at=8, api=api)

    tree = ast.parse(program)
    assert (ast.get_docstring(tree) or "").startswith("The request of coder at 8 of team.")
    assert "api_key" not in program


def test_an_api_of_a_plugin_is_refused_by_name(log: Log) -> None:
    class Other(Writer):
        def close(self, messages: Any) -> dict[str, Any]:
            return {"model": "m", "messages": []}

        def write(self, messages: Any) -> None: ...

    FORMATS.add("other", Format("other", 1, writer=Other))
    try:
        with pytest.raises(CallerError, match=r"expected one of the APIs openai-chat, .*, found other"):
            log["team"].export("python", agent="coder", at=8, api="other")
    finally:
        FORMATS.remove("other")


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        -1.5,
        "",
        [],
        {},
        HOSTILE,
        *TEXTS.values(),
        "\n" * 500,
        "a line\n" * 40 + "\r\x85\u2028 and more",
        {"a": [1, {"b": "x" * 200}, [[]]], "it's": {"c": None}},
        [[["deep"] * 30] * 3],
    ],
)
def test_a_literal_is_the_value(value: Any) -> None:
    assert ast.literal_eval(literal(value)) == value
    assert all(each.isprintable() for each in literal(value).replace("\n", ""))


def test_a_deep_value_is_the_value_too() -> None:
    value: Any = "bottom"
    for _ in range(400):
        value = [value, {"more": 1}]

    assert eval(literal(value)) == value


@pytest.mark.parametrize("text", ['say "hi"', "it's", 'it\'s "x"', '"""', "\\", 'ends with "', "\x00\u202e"])
def test_a_docstring_is_one_whatever_stands_in_it(text: str) -> None:
    for paragraphs in ([text], [text, "more"], ["first", text]):
        tree = ast.parse(docstring(*paragraphs))

        assert ast.get_docstring(tree) is not None
        assert len(tree.body) == 1
