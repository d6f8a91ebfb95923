"""A call of a model in a loop of one's own is in the log however it ends."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator, Iterable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import openai
import pytest

import stenolog
from stenolog import AssistantMessage, Conversation, LlmError, TextPart, ToolResult, UserMessage
from stenolog.engine import RetryPolicy
from stenolog.errors import CallerError, ModelError
from stenolog.events import Tool
from stenolog.models import answer_from, calling, recording
from tests.llms.api import KEY
from tests.llms.apis import APIS
from tests.llms.server import Reply, Server, failure

API = APIS["openai-chat"]
SAID = TextPart(text="I look at the files.")
FRAMES = [*API.frames(API.answer(SAID))]


@pytest.fixture
def talk() -> Iterator[Conversation]:
    with stenolog.open(":memory:") as log:
        log["x"].join("coder", model="gpt-5")
        log["x"].append(UserMessage("Which files are here?"))
        yield log["x"]


def asked(talk: Conversation, server: Server, *, stop_at: int = 0, **how: Any) -> Any:
    """Ask as the guide does, and return the event that came of it; at chunk `stop_at` somebody presses ^C."""
    request = talk.request("coder")
    with (
        openai.OpenAI(base_url=f"{server.url}/v1", api_key=KEY, max_retries=0) as client,
        calling(talk, request, **how) as call,
    ):
        for nth, _ in enumerate(call.stream(client.chat.completions.create(**request.body, stream=True)), 1):
            if nth == stop_at:
                raise KeyboardInterrupt
    return talk[-1].event


def chunk(text: str, finish: str | None = None) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": finish}]}


def test_a_whole_stream_is_appended_as_the_answer_with_its_receipt(
    talk: Conversation, server: Server
) -> None:
    server.add(Reply(FRAMES))

    answer = asked(talk, server)

    assert isinstance(answer, AssistantMessage)
    assert (answer.text, answer.receipt is not None) == (SAID.text, True)


def test_a_connection_that_breaks_is_appended_with_the_text_and_raised(
    talk: Conversation, server: Server
) -> None:
    server.add(Reply(FRAMES[:4], end="cut"))

    with pytest.raises(Exception, match="Connection error"):
        asked(talk, server, attempt=3)

    failed = talk[-1].event
    assert isinstance(failed, LlmError)
    assert (failed.category, failed.attempt) == ("network", 3)
    assert failed.text
    assert SAID.text.startswith(failed.text)


def guided(talk: Conversation, server: Server, sleep: Any = time.sleep) -> None:
    """Call `patiently` of the page on loops of one's own, as it stands there."""
    page = (Path(__file__).parents[2] / "docs" / "how-to" / "own-loop.md").read_text()
    namespace: dict[str, Any] = {"chat": talk, "UserMessage": UserMessage, "openai": openai}
    # A connection that is left open would be a warning in whichever test runs when it is collected.
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key=KEY, max_retries=0) as namespace["client"]:
        for block in re.findall(r"```python\n(.*?)```", page, re.DOTALL):
            if "def stream(" in block or "def patiently(" in block:
                exec(block.partition("\nchat.append(")[0].replace('"guide"', '"coder"'), namespace)
        namespace["time"] = SimpleNamespace(sleep=sleep)
        namespace["patiently"](talk)


def test_an_attempt_after_a_connection_that_broke_is_the_same_request_byte_for_byte(
    talk: Conversation, server: Server
) -> None:
    server.add(Reply(FRAMES[:4], end="cut"), Reply(FRAMES[:4], end="cut"), Reply(FRAMES))

    guided(talk, server)

    first, *others = [request.content for request in server.received]
    assert others == [first, first]
    assert [getattr(entry.event, "text", "") for entry in talk][-1] == SAID.text
    assert talk.state().lane("coder").retry_at is None


def test_an_attempt_waits_as_long_as_the_provider_asks_for_also_in_the_next_program(
    talk: Conversation, server: Server
) -> None:
    waits: list[float] = []

    def stop_at_once(seconds: float) -> None:
        waits.append(seconds)
        raise SystemExit

    server.add(failure(429, {"error": {"message": "slow down"}}, retry_after="30"))
    for _ in range(2):
        with pytest.raises(SystemExit):
            guided(talk, server, stop_at_once)

    assert [25 < seconds <= 30 for seconds in waits] == [True, True]
    assert len(server.received) == 1


def test_after_the_last_attempt_the_error_is_raised_and_the_model_sees_the_half_answer(
    talk: Conversation, server: Server
) -> None:
    server.add(*[Reply(FRAMES[:4], end="cut")] * 2)
    twice = RetryPolicy(attempts={"network": 2}, base=0)

    for _ in range(2):
        with pytest.raises(openai.APIConnectionError):
            asked(talk, server, retries=twice)
    *_, half, note = talk.request("coder").body["messages"]

    assert talk.state().lane("coder").retry_at is None
    assert half["role"] == "assistant"
    assert SAID.text.startswith(half["content"])
    assert note["content"] == (
        "[your answer was cut off (network: the connection was closed before the answer was complete)]"
    )


def test_a_failure_that_no_waiting_helps_is_not_retried(talk: Conversation, server: Server) -> None:
    server.add(failure(401, {"error": {"message": "no"}}))

    with pytest.raises(openai.AuthenticationError):
        guided(talk, server)

    assert len(server.received) == 1


def fail(path: Path, error: BaseException) -> int:
    """Let a call fail in a program that ends then, and return what the next one reads of the attempts."""
    with stenolog.open(path) as log:
        if not log["x"].position:
            log["x"].join("coder", model="gpt-5")
            log["x"].append(UserMessage("Which files are here?"))
        with pytest.raises(type(error)), calling(log["x"], log["x"].request("coder")):
            raise error
    with stenolog.open(path) as log:
        return log["x"].state().lane("coder").attempt


def test_failures_in_a_row_are_counted_by_the_log_though_the_program_ends_in_between(tmp_path: Path) -> None:
    path = tmp_path / "a.db"

    assert [fail(path, TimeoutError("late")) for _ in range(3)] == [1, 2, 3]
    assert fail(path, KeyboardInterrupt()) == 3  # a call that was stopped is no failure
    with stenolog.open(path) as log:
        assert [getattr(entry.event, "attempt", 0) for entry in log["x"]] == [0, 0, 1, 2, 3, 3]
        log["x"].append(UserMessage("And now?"))
        assert log["x"].state().lane("coder").attempt == 0


def test_a_stream_that_closes_without_its_end_is_an_error_with_the_text(talk: Conversation) -> None:
    with pytest.raises(ModelError, match="finish reason"), calling(talk, talk.request("coder")) as call:
        for _ in call.stream([chunk("I look")]):
            pass

    failed = talk[-1].event
    assert isinstance(failed, LlmError)
    assert (failed.category, failed.text) == ("invalid_response", "I look")


def test_a_refusal_before_the_stream_begins_is_an_error_too(talk: Conversation, server: Server) -> None:
    server.add(failure(500, {"error": {"message": "no luck"}}))

    with pytest.raises(openai.InternalServerError):
        asked(talk, server)

    failed = talk[-1].event
    assert isinstance(failed, LlmError)
    assert (failed.text, "no luck" in failed.message) == ("", True)


def test_an_interrupt_keeps_what_had_arrived(talk: Conversation, server: Server) -> None:
    server.add(Reply(FRAMES))

    with pytest.raises(KeyboardInterrupt):
        asked(talk, server, stop_at=3)

    failed = talk[-1].event
    assert isinstance(failed, LlmError)
    assert failed.category == "cancelled"
    assert SAID.text.startswith(failed.text)
    assert "it was stopped; any message to it" in talk.request("coder").reason
    talk.append(UserMessage("continue"))
    assert talk.request("coder").sendable


@pytest.mark.parametrize("chunks", [[], [chunk("", "stop")]])
def test_a_stream_that_says_nothing_is_an_error(talk: Conversation, chunks: Iterable[Any]) -> None:
    with pytest.raises(ModelError), calling(talk, talk.request("coder")) as call:
        list(call.stream(chunks))

    assert isinstance(talk[-1].event, LlmError)


def fail_behind_an_answer(talk: Conversation) -> None:
    with calling(talk, talk.request("coder")) as call:
        list(call.stream([chunk("Done.", "stop")]))
        raise ZeroDivisionError


def test_a_whole_answer_is_kept_though_the_program_fails_behind_it(talk: Conversation) -> None:
    with pytest.raises(ZeroDivisionError):
        fail_behind_an_answer(talk)

    assert (talk[-1].event.kind, talk.position) == ("assistant_message", 3)


def test_an_answer_that_did_not_stream_is_appended_as_well_and_an_empty_one_is_an_error(
    talk: Conversation,
) -> None:
    message = {"role": "assistant", "content": None}
    with pytest.raises(ModelError), calling(talk, talk.request("coder")) as call:
        call.answer({"choices": [{"index": 0, "finish_reason": "stop", "message": message}]})
    with calling(talk, talk.request("coder")) as call:
        call.answer(
            {"choices": [{"index": 0, "finish_reason": "stop", "message": message | {"content": "Hi"}}]}
        )

    assert [entry.event.kind for entry in talk][2:] == ["llm_error", "assistant_message"]


def test_a_block_without_a_call_is_told_so(talk: Conversation) -> None:
    expected = r"expected call.answer\(...\) or call.stream\(...\)"
    with pytest.raises(CallerError, match=expected), calling(talk, talk.request("coder")):
        pass

    assert talk.position == 2


async def chunks_of(*given: dict[str, Any]) -> AsyncIterator[dict[str, Any]]:
    for each in given:
        yield each


def test_an_async_loop_writes_the_same(tmp_path: Path) -> None:
    async def run() -> list[tuple[str, int]]:
        async with stenolog.open_async(tmp_path / "a.db") as log:
            talk = log["x"]
            await talk.join("coder", model="m")
            await talk.append(UserMessage("Go"))
            for end in (None, None, "stop"):
                request = await talk.request("coder")
                try:
                    async with calling(talk, request) as call:
                        async for _ in call.stream(chunks_of(chunk("Hi", end))):
                            pass
                except ModelError:
                    pass
            return [
                (entry.event.kind, getattr(entry.event, "attempt", 0))
                for entry in (await talk.sync()).entries()
            ]

    assert asyncio.run(run())[2:] == [("llm_error", 1), ("llm_error", 2), ("assistant_message", 0)]


# Tools under names that providers refuse, in a loop of one's own.


@pytest.mark.parametrize("is_streamed", [False, True])
def test_a_tool_whose_name_no_provider_takes_is_called_by_its_own_name(
    is_streamed: bool,
) -> None:
    with stenolog.open(":memory:") as log:
        talk = log["x"]
        talk.append(UserMessage(text="Which files are here?"))
        tool = Tool(name="fs.read", description="Read a file.", parameters={"type": "object"})
        talk.join("coder", model="gpt-5.2", tools=[tool])
        request = talk.request("coder")
        [sent] = [each["function"]["name"] for each in request.body["tools"]]
        call = {"id": "c1", "type": "function", "function": {"name": sent, "arguments": "{}"}}
        if is_streamed:
            delta = {"role": "assistant", "tool_calls": [{"index": 0, **call}]}
            chunks = [
                {
                    "object": "chat.completion.chunk",
                    "choices": [{"index": 0, "delta": delta, "finish_reason": "tool_calls"}],
                }
            ]
            stream = recording(iter(chunks), request)
            assert len([*stream]) == 1
            answer = stream.answer()
        else:
            message = {"role": "assistant", "content": None, "tool_calls": [call]}
            answer = answer_from(
                {
                    "object": "chat.completion",
                    "choices": [{"index": 0, "finish_reason": "tool_calls", "message": message}],
                },
                request,
            )

        talk.append(answer)
        assert [each.name for each in answer.tool_calls] == ["fs.read"]
        talk.append(ToolResult(call_id="c1", name="fs.read", text="export {}"))
        following = talk.request("coder")
        assert [each["function"]["name"] for each in following.body["tools"]] == [sent], "no stub beside it"
        assert following.body["messages"][-2]["tool_calls"][0]["function"]["name"] == sent
