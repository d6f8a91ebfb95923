"""Programs that call the providers' SDKs themselves: answers, streams and exceptions become events."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import anthropic
import httpx2
import openai
import pytest
from google import genai

import stenolog
from stenolog import AssistantMessage, Conversation, LlmError, TextPart, ToolCall, UserMessage
from stenolog.errors import CallerError, ModelError
from stenolog.models import Recording, answer_from, error_from, recording
from stenolog.requests import proofs
from tests.llms import apis
from tests.llms.api import KEY, Api
from tests.llms.apis import APIS
from tests.llms.server import Reply, Server, failure

CALL = ToolCall(id="c1", name="shell", arguments='{"cmd":"ls -l"}')
SAID = TextPart(text="I look at the files.")
ASKED: Any = [{"role": "user", "content": "Which files are here?"}]


def chat(url: str, **options: Any) -> Any:
    with openai.OpenAI(base_url=f"{url}/v1", api_key=KEY, max_retries=0) as client:
        made = client.chat.completions.create(model="gpt-5", messages=ASKED, **options)
        return list(made) if options else made


def responses(url: str, **options: Any) -> Any:
    with openai.OpenAI(base_url=f"{url}/v1", api_key=KEY, max_retries=0) as client:
        made = client.responses.create(model="gpt-5", input="Which files are here?", **options)
        return list(made) if options else made


def messages(url: str, **options: Any) -> Any:
    with anthropic.Anthropic(base_url=url, api_key=KEY, max_retries=0) as client:
        made = client.messages.create(model="claude-opus-5", max_tokens=99, messages=ASKED, **options)
        return list(made) if options else made


def generate(url: str, **options: Any) -> Any:
    with genai.Client(api_key=KEY, http_options=genai.types.HttpOptions(base_url=url)) as client:
        if options:
            return list(client.models.generate_content_stream(model="gemini-3-pro", contents="Which files?"))
        return client.models.generate_content(model="gemini-3-pro", contents="Which files?")


class Sdk(NamedTuple):
    """An SDK by hand: how it is called, and the API that its server speaks."""

    call: Callable[..., Any]
    api: Api


SDKS = {
    "chat": Sdk(chat, apis.CHAT),
    "responses": Sdk(responses, apis.RESPONSES),
    "messages": Sdk(messages, apis.MESSAGES),
    "gemini": Sdk(generate, apis.GENERATE),
}
CHAT = apis.CHAT.whole(apis.CHAT.answer(SAID, CALL))
every = pytest.mark.parametrize("sdk", SDKS.values(), ids=SDKS.keys())


@pytest.fixture
def talk() -> Iterator[Conversation]:
    with stenolog.open(":memory:") as log:
        log["x"].append(UserMessage(text="Which files are here?"))
        yield log["x"]


def expected(sdk: Sdk) -> AssistantMessage:
    return AssistantMessage(
        agent="coder",
        parts=[SAID, CALL],
        model=sdk.api.name,
        finish_reason=sdk.api.finish,
        usage=sdk.api.tokens,
    )


@every
def test_the_object_of_an_sdk_is_the_event_of_its_answer(sdk: Sdk, server: Server) -> None:
    server.add(failure(200, sdk.api.whole(sdk.api.answer(SAID, CALL))))

    assert answer_from(sdk.call(server.url), agent="coder") == expected(sdk)


@every
def test_a_stream_is_passed_on_and_is_the_event_that_the_builtin_model_makes(
    sdk: Sdk, server: Server
) -> None:
    api = sdk.api
    server.add(Reply(api.frames(api.answer(SAID, CALL))))
    chunks = sdk.call(server.url, stream=True)
    stream = recording(chunks, agent="coder")

    assert [*stream] == chunks
    assert stream.text == SAID.text
    assert stream.answer() == expected(sdk)


def test_an_async_stream_is_recorded_alike(server: Server) -> None:
    api = APIS["openai-chat"]
    server.add(Reply(api.frames(api.answer(SAID))))

    async def run() -> AssistantMessage:
        async with openai.AsyncOpenAI(base_url=f"{server.url}/v1", api_key=KEY) as client:
            made = await client.chat.completions.create(model="gpt-5", messages=ASKED, stream=True)
            stream = recording(made, agent="coder")
            assert {chunk.object async for chunk in stream} == {"chat.completion.chunk", None}
            return stream.answer()

    assert asyncio.run(run()).text == SAID.text


def test_a_stream_that_breaks_off_is_an_error_with_what_had_arrived(server: Server) -> None:
    api = APIS["openai-chat"]
    server.add(Reply([*api.frames(api.answer(SAID))][:4], end="cut"))
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key=KEY, max_retries=0) as client:
        made = client.chat.completions.create(model="gpt-5", messages=ASKED, stream=True)
        stream = recording(made, agent="coder")
        with pytest.raises(Exception, match="Connection error") as broken:
            list(stream)

    event = stream.error(broken.value, attempt=2)

    assert (event.category, event.text, event.attempt) == ("network", "I look at the f"[: len(event.text)], 2)
    assert event.text
    with pytest.raises(ModelError, match="expected a finish reason"):
        stream.answer()


async def first(stream: Recording[Any]) -> object:
    return await anext(aiter(stream))


def test_a_stream_of_the_wrong_kind_is_refused() -> None:
    with pytest.raises(CallerError, match="expected a stream for `async for`"):
        asyncio.run(first(recording([CHAT], agent="a")))
    with pytest.raises(CallerError, match="expected a chunk or an event of openai-chat"):
        list(recording([{"words": 1}], agent="a"))


@every
@pytest.mark.parametrize(
    ("status", "category"), [(401, "unauthorized"), (429, "rate_limited"), (500, "overloaded")]
)
def test_an_exception_of_an_sdk_is_an_error_event_without_the_key(
    sdk: Sdk, server: Server, status: int, category: str
) -> None:
    body = {"error": {"type": "x", "code": status, "message": f"no good key: {KEY}", "status": "X"}}
    server.otherwise = lambda _: failure(status, body)
    with pytest.raises(Exception, match="no good key") as failed:
        sdk.call(server.url)

    event = error_from(failed.value, agent="coder", text="Half of")

    assert (event.agent, event.category, event.text) == ("coder", category, "Half of")
    assert event.message.startswith("no good key")
    assert KEY not in repr(event)


def test_an_odd_key_that_the_provider_repeats_is_hidden_too(server: Server) -> None:
    server.otherwise = lambda _: failure(401, {"error": {"message": "unknown: correct horse"}})
    with (
        openai.OpenAI(base_url=f"{server.url}/v1", api_key="correct horse", max_retries=0) as client,
        pytest.raises(openai.AuthenticationError) as failed,
    ):
        client.chat.completions.create(model="gpt-5", messages=ASKED)

    assert "horse" not in error_from(failed.value, agent="coder").message


def test_a_refused_connection_is_a_network_error() -> None:
    with pytest.raises(openai.APIConnectionError) as failed:
        chat("http://127.0.0.1:9")

    assert error_from(failed.value, agent="coder").category == "network"


@pytest.mark.parametrize(
    ("error", "category"),
    [
        (TimeoutError("too late"), "timeout"),
        (httpx2.ConnectError("no route"), "network"),
        (httpx2.ReadTimeout("late"), "timeout"),
        (ConnectionResetError("gone"), "network"),
        (KeyboardInterrupt(), "cancelled"),
        (asyncio.CancelledError(), "cancelled"),
        (RuntimeError("odd"), "other"),
        (ModelError("refused", "no"), "refused"),
    ],
)
def test_any_other_exception_has_a_category_too(error: BaseException, category: str) -> None:
    assert error_from(error, agent="coder").category == category


def test_the_stream_helpers_of_the_sdks_are_recorded_too(server: Server) -> None:
    chats, claude = APIS["openai-chat"], APIS["anthropic"]
    server.add(Reply(chats.frames(chats.answer(SAID))), Reply(claude.frames(claude.answer(SAID, CALL))))
    with (
        openai.OpenAI(base_url=f"{server.url}/v1", api_key=KEY) as client,
        client.chat.completions.stream(model="gpt-5", messages=ASKED) as events,
    ):
        said = recording(events, agent="coder")
        assert [*said]
    with (
        anthropic.Anthropic(base_url=server.url, api_key=KEY) as asked,
        asked.messages.stream(model="claude-opus-5", max_tokens=9, messages=ASKED) as stream,
    ):
        heard = recording(stream, agent="coder")
        assert [*heard]

    assert said.answer().parts == (SAID,)
    assert heard.answer().parts == (SAID, CALL)


def test_a_call_in_the_form_of_older_servers_is_kept() -> None:
    message = {"content": None, "function_call": {"name": "shell", "arguments": "{}"}}
    event = answer_from({"choices": [{"message": message, "finish_reason": "function_call"}]}, agent="coder")

    assert event.tool_calls == (ToolCall(id="call_0", name="shell"),)


def test_an_answer_with_nothing_in_it_is_an_error(talk: Conversation) -> None:
    empty = {"choices": [{"index": 0, "finish_reason": "content_filter", "message": {"content": None}}]}
    with pytest.raises(ModelError) as nothing:
        answer_from(empty, agent="coder")

    event = error_from(nothing.value, talk.request("coder"))

    assert event.category == "refused"
    assert talk.append(event).event == event


def test_a_server_that_answers_with_an_error_of_its_own_is_told_as_such() -> None:
    with pytest.raises(ModelError, match="no credits"):
        answer_from({"error": {"code": 402, "message": "no credits"}}, agent="coder")


def test_with_the_request_the_event_has_its_receipt_and_is_proved(talk: Conversation) -> None:
    request = talk.request("coder")
    talk.append(answer_from(CHAT, request))
    again = talk.request("coder")
    talk.append(error_from(TimeoutError("late"), again))

    assert [(proof.position, proof.outcome) for proof in proofs([*talk.entries()])] == [
        (3, "same"),
        (4, "same"),
    ]
    assert isinstance(talk.entry(4).event, LlmError)


@pytest.mark.parametrize("made", [lambda: answer_from(CHAT), lambda: error_from(TimeoutError())])
def test_an_event_needs_an_agent(made: Callable[[], object]) -> None:
    with pytest.raises(CallerError, match="expected the request that was sent, or agent="):
        made()


@pytest.mark.parametrize("given", ["Hi", 42, {"role": "assistant"}, None])
def test_what_is_no_answer_is_refused(given: object) -> None:
    with pytest.raises(CallerError, match=r"openai-chat, openai-responses, .*anthropic"):
        answer_from(given, agent="coder")


def test_a_signature_of_gemini_is_kept_in_the_alphabet_of_its_api() -> None:
    signed = {"candidates": [{"content": {"parts": [{"text": "Hi", "thoughtSignature": "_-8="}]}}]}
    response = genai.types.GenerateContentResponse.model_validate(
        {**signed, "candidates": [{**signed["candidates"][0], "finishReason": "STOP"}]}
    )

    (thought, _) = answer_from(response, agent="coder").parts

    assert getattr(thought, "signature", "") == "/+8="


def test_custom_calls_and_thoughts_of_chat_servers_are_kept() -> None:
    message = {
        "role": "assistant",
        "reasoning_content": "Hm.",
        "tool_calls": [{"id": "c1", "type": "custom", "custom": {"name": "patch", "input": "*** Begin"}}],
    }
    event = answer_from({"choices": [{"message": message, "finish_reason": "tool_calls"}]}, agent="coder")

    assert [part.type for part in event.parts] == ["reasoning", "tool_call"]
    assert event.tool_calls == (ToolCall(id="c1", name="patch", arguments="*** Begin", form="custom"),)
