"""A loop of a user's own over the SDKs, checked by pyright and mypy, both in strict mode."""

from __future__ import annotations

from typing import Any, assert_type

import anthropic
import openai
from anthropic.types import RawMessageStreamEvent
from openai.types.chat import ChatCompletionChunk

from stenolog import (
    AssistantMessage,
    AsyncConversation,
    Conversation,
    Entry,
    LlmError,
    Tool,
    ToolCall,
    ToolResult,
    UserMessage,
)
from stenolog.context import Budget
from stenolog.engine import RetryPolicy
from stenolog.importers import events_from
from stenolog.models import Recording, answer_from, calling, error_from, recording
from stenolog.tools import open_calls, run_call, run_call_async, run_calls, run_calls_async, tool

SCHEMA: dict[str, Any] = {"type": "function", "function": {"name": "clock", "parameters": {"type": "object"}}}


def weather(city: str) -> str:
    return f"Rain in {city}"


@tool
def shell(cmd: str) -> str:
    return cmd


def chat(client: openai.OpenAI, conversation: Conversation) -> None:
    entry = conversation.join(
        "guide", model="gpt-5.2", tools=[weather, shell, Tool(name="look"), SCHEMA], policy=Budget(8_000)
    )
    assert_type(entry, Entry | None)
    conversation.append(UserMessage("Rain?"))
    request = conversation.request("guide")
    try:
        # pyright cannot tell which overload of the SDK's method takes a body, and calls its result unknown
        completion = client.chat.completions.create(**request.body)  # pyright: ignore[reportUnknownVariableType]
        answer = answer_from(completion, request)  # pyright: ignore[reportUnknownArgumentType]
    except openai.APIError as error:
        assert_type(error_from(error, request), LlmError)
        return
    assert_type(answer, AssistantMessage)
    assert_type(run_calls(conversation, "guide", [weather, shell]), list[Entry])
    for call in open_calls(conversation, "guide"):
        assert_type(call, ToolCall)
        assert_type(run_call(call, [weather], conversation=conversation), ToolResult)
    conversation.extend(events_from([{"role": "user", "content": "Hi"}], agent="guide"))


def streams(client: openai.OpenAI, claude: anthropic.Anthropic) -> None:
    chunks = recording(
        client.chat.completions.create(model="m", messages=[{"role": "user", "content": "Hi"}], stream=True),
        agent="guide",
    )
    assert_type(chunks, Recording[ChatCompletionChunk])
    for chunk in chunks:
        assert_type(chunk, ChatCompletionChunk)
    events = recording(
        claude.messages.create(
            model="m", max_tokens=9, messages=[{"role": "user", "content": "Hi"}], stream=True
        ),
        agent="guide",
    )
    for event in events:
        assert_type(event, RawMessageStreamEvent)
    assert_type(events.answer(), AssistantMessage)
    assert_type(events.error(TimeoutError(), retries=RetryPolicy()), LlmError)
    assert_type(events.text, str)


def called(client: openai.OpenAI, conversation: Conversation) -> None:
    with calling(conversation, conversation.request("guide"), attempt=2) as call:
        chunks = client.chat.completions.create(
            model="m", messages=[{"role": "user", "content": "Hi"}], stream=True
        )
        for chunk in call.stream(chunks):
            assert_type(chunk, ChatCompletionChunk)
        assert_type(call.answer({}), AssistantMessage)


async def awaited(client: openai.AsyncOpenAI, conversation: AsyncConversation) -> None:
    assert_type(await conversation.join("guide", model="gpt-5.2", tools=[weather]), Entry | None)
    request = await conversation.request("guide")
    stream = await client.chat.completions.create(
        model="m", messages=[{"role": "user", "content": "Hi"}], stream=True
    )
    record = recording(stream, request)
    async for chunk in record:
        assert_type(chunk, ChatCompletionChunk)
    async with calling(conversation, request) as asked:
        async for chunk in asked.stream(stream):
            assert_type(chunk, ChatCompletionChunk)
    entry = await conversation.append(record.answer())
    assert isinstance(entry.event, AssistantMessage)
    for call in entry.event.tool_calls:
        assert_type(await run_call_async(call, [weather], conversation=conversation), ToolResult)
    assert_type(await run_calls_async(conversation, "guide", [weather]), list[Entry])
