"""Google's models, through the real SDK against a server that speaks their API."""

from __future__ import annotations

from typing import Any

import pytest

from stenolog import TextPart, ToolCall
from stenolog.adapters.models.gemini import Gemini
from stenolog.events import Usage
from stenolog.models import ModelResponse
from stenolog.parts import ProviderPart, ReasoningPart
from stenolog.projections.messages.body_digest import compact
from tests.llms import wire_gemini as api
from tests.llms.apis import GENERATE
from tests.llms.listening import ask, failure
from tests.llms.server import Reply, Server, sse
from tests.llms.talking import talked

KEY = "AIzaSy0123456789abcdef"
MODEL = "gemini-3-pro"
TOKENS = Usage(input=120, output=30, cache_read=90, reasoning=20)
LS = ToolCall(id="fc-1", name="shell", arguments='{"cmd":"ls -l","b":1,"a":2.0}')
PWD = ToolCall(id="fc-2", name="shell", arguments='{"cmd":"pwd"}')
SAME = "/models/gemini-3-pro:streamGenerateContent?alt=sse"
CODE = {"executableCode": {"language": "PYTHON", "code": "1 + 1"}, "thoughtSignature": "Q29k/+=="}
RAN = {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "2"}}


def at(server: Server, **options: Any) -> Gemini:
    """Return the model at the server."""
    return Gemini(MODEL, base_url=server.url, **{"api_key": KEY, **options})


def thought(text: str = "", signature: str = "") -> ReasoningPart:
    return ReasoningPart(text=text, provider="gemini", signature=signature)


def opaque(raw: dict[str, Any]) -> ProviderPart:
    return ProviderPart(provider="gemini", model=MODEL, raw=compact(raw))


def answer(*parts: Any, finish_reason: str = "STOP", usage: Usage | None = TOKENS) -> ModelResponse:
    return ModelResponse(parts, MODEL, finish_reason, usage)


def chunks(*parts: dict[str, Any]) -> Reply:
    """Return a whole answer, each part in a chunk of its own."""
    return Reply(
        [*(sse(api.chunk(MODEL, part)) for part in parts), sse(api.chunk(MODEL, finishReason="STOP"))]
    )


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        (
            [
                {"text": "Hm", "thought": True},
                {"text": "Hel"},
                {"text": "lo"},
                {"text": "", "thoughtSignature": "A"},
            ],
            (thought("Hm"), TextPart(text="Hello"), thought("", "A")),
        ),
        (
            [{"text": "Hel", "thoughtSignature": "A"}, {"text": "lo"}],
            (thought("", "A"), TextPart(text="Hello")),
        ),
        (
            [{"text": "Hel"}, {"text": "lo", "thoughtSignature": "A"}],
            (TextPart(text="Hel"), thought("", "A"), TextPart(text="lo")),
        ),
        (
            [
                {"text": "Hm", "thought": True},
                {"functionCall": {"id": "c", "name": "f"}, "thoughtSignature": "A"},
            ],
            (thought("Hm", "A"), ToolCall(id="c", name="f")),
        ),
        (
            [
                {"text": "H", "thought": True},
                {"text": "m", "thought": True, "thoughtSignature": "A"},
                {"text": "Hi"},
            ],
            (thought("Hm", "A"), TextPart(text="Hi")),
        ),
        (
            [
                {"text": "Hm", "thought": True},
                {"text": "Hi"},
                {"text": "Hm!", "thought": True},
                {"text": "Ho"},
            ],
            (thought("Hm"), TextPart(text="Hi"), thought("Hm!"), TextPart(text="Ho")),
        ),
        ([{"text": "Hi"}, {"thoughtSignature": "A"}], (TextPart(text="Hi"), thought("", "A"))),
        ([{"text": "Hi"}, {}, {"text": ""}], (TextPart(text="Hi"),)),
    ],
    ids=[
        "at the end",
        "first",
        "in the middle",
        "of a call",
        "of the thought itself",
        "none",
        "of nothing",
        "nothing",
    ],
)
def test_a_signature_stays_directly_before_its_part(
    server: Server, parts: list[dict[str, Any]], expected: tuple[Any, ...]
) -> None:
    server.add(chunks(*parts))

    assert ask(at(server)).answer.parts == expected


def test_calls_without_ids_get_ids_of_their_own(server: Server) -> None:
    calls = [{"functionCall": {"name": "f", "id": id}} for id in ("", "call_1", "", "call_1")]
    server.add(chunks(*calls))

    ids = [part.id for part in ask(at(server)).answer.parts if isinstance(part, ToolCall)]

    assert ids == ["call_0", "call_1", "call_2", "call_1"]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (None, "{}"),
        ({"b": 1.0, "a": [1e2, "é"]}, '{"b":1.0,"a":[100.0,"é"]}'),
        ("text", "text"),
        ([1], "[1]"),
    ],
    ids=str,
)
def test_the_arguments_of_a_call_are_its_object_in_its_own_order(
    server: Server, given: Any, expected: str
) -> None:
    server.add(chunks({"functionCall": {"id": "c", "name": "f", "args": given}}))

    assert ask(at(server)).answer.parts == (ToolCall(id="c", name="f", arguments=expected),)


def test_halves_of_characters_are_mended(server: Server) -> None:
    server.add(
        chunks(
            {"functionCall": {"id": "c\ud83d", "name": "f\udc00", "args": {"a": "\ud83d"}}},
            {"future": "\ud83d\ude00 \ud83d"},
        )
    )

    assert ask(at(server)).answer.parts == (
        ToolCall(id="c\ufffd", name="f\ufffd", arguments='{"a":"\ufffd"}'),
        opaque({"future": "\N{GRINNING FACE} \ufffd"}),
    )


@pytest.mark.parametrize(
    ("reason", "category"),
    [
        ("SAFETY", "refused"),
        ("PROHIBITED_CONTENT", "refused"),
        ("MALFORMED_FUNCTION_CALL", "invalid_response"),
    ],
)
def test_an_answer_with_nothing_in_it_says_why(server: Server, reason: str, category: str) -> None:
    server.add(Reply([sse(api.chunk(MODEL, finishReason=reason, finishMessage="It was like this."))]))

    failed = failure(at(server))

    assert failed.category == category
    assert reason in failed.message
    assert failed.message.endswith("It was like this.")


def test_a_prompt_that_is_blocked_is_refused(server: Server) -> None:
    blocked = {"blockReason": "PROHIBITED_CONTENT", "blockReasonMessage": "No."}
    server.add(Reply([sse({"promptFeedback": blocked, "usageMetadata": {"promptTokenCount": 7}})]))

    failed = failure(at(server))

    assert (failed.category, failed.message) == (
        "refused",
        "the prompt was blocked: PROHIBITED_CONTENT No.",
    )


def test_tokens_are_counted_with_thoughts_and_with_what_its_own_tools_read(server: Server) -> None:
    first = {"promptTokenCount": 7, "cachedContentTokenCount": 5}
    last = {
        "promptTokenCount": 7,
        "toolUsePromptTokenCount": 3,
        "candidatesTokenCount": 10,
        "thoughtsTokenCount": 20,
    }
    server.add(
        Reply(
            [
                sse(api.chunk(MODEL, {"text": "Hi"}, counted=first)),
                sse(api.chunk(MODEL, counted=last, finishReason="STOP")),
            ]
        )
    )

    assert ask(at(server)).answer.usage == Usage(input=10, output=30, cache_read=5, reasoning=20)


@pytest.mark.parametrize(
    ("name", "options", "path"),
    [
        (MODEL, {}, f"/v1{SAME}"),
        (MODEL, {"http_options": {"api_version": "v1beta"}}, f"/v1beta{SAME}"),
        (MODEL, {"vertexai": True}, f"/v1beta1/publishers/google{SAME}"),
        ("tunedModels/mine", {}, "/v1/tunedModels/mine:streamGenerateContent?alt=sse"),
    ],
)
def test_the_name_of_the_model_stands_in_the_path(
    server: Server, name: str, options: dict[str, Any], path: str
) -> None:
    server.add(chunks({"text": "Hello"}))

    ask(Gemini(name, base_url=server.url, api_key=KEY, **options))

    assert server.received[0].path == path
    assert "model" not in server.bodies[0]


def test_signatures_and_what_its_own_tools_did_go_back_unharmed(server: Server) -> None:
    first = answer(thought("Look first.", "c2ln/+=="), LS, PWD)
    second = answer(opaque(CODE), opaque(RAN), thought("", "Zmly+/=="), TextPart(text="Now this:"), LS)
    third = answer(TextPart(text="Done."), thought("", "ZW5k/+=="))
    server.add(*(Reply(api.frames(each)) for each in (first, second, third, answer(TextPart(text="Bye")))))

    assert talked(at(server), 3) == [first, second, third]

    _, calls, results, more, _ = server.bodies[2]["contents"]
    assert calls["parts"] == [
        {
            "functionCall": {"id": LS.id, "name": "shell", "args": {"cmd": "ls -l", "b": 1, "a": 2.0}},
            "thoughtSignature": "c2ln/+==",
        },
        {"functionCall": {"id": PWD.id, "name": "shell", "args": {"cmd": "pwd"}}},
    ]
    assert [part["functionResponse"]["id"] for part in results["parts"]] == [LS.id, PWD.id]
    assert more["parts"][:3] == [CODE, RAN, {"text": "Now this:", "thoughtSignature": "Zmly+/=="}]


def test_comments_in_a_stream_are_passed_over(server: Server) -> None:
    whole = b"".join(GENERATE.frames(GENERATE.answer(TextPart(text="Hello there."))))
    noisy = b": keepalive\n\n" + whole.replace(b"\n\n", b"\n\n: ping\n\n:\n\n")
    for frames in ([noisy], [bytes([byte]) for byte in noisy], [noisy.replace(b"\n", b"\r\n")]):
        server.add(Reply(frames))

        assert ask(GENERATE.at(server)).answer.parts == (TextPart(text="Hello there."),)
