"""A conversation belongs to no framework: one goes on where another one, or the engine, has stopped."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest
from agents import Agent as SdkAgent
from agents import Runner, set_tracing_disabled
from agents.testing import ScriptedModel, assistant_message
from pydantic_ai import Agent as PydanticAgent
from pydantic_ai import ModelMessage, ModelMessagesTypeAdapter, ModelResponse, TextPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

import stenolog
from stenolog import Agent, Conversation, Team, ToolCall
from stenolog.errors import MissingExtraError
from stenolog.frameworks import OpenAIAgentsSession, PydanticAIRecorder, append_pydantic_ai, to_pydantic_ai
from stenolog.models import Scripted
from tests.examples.harness import clean

set_tracing_disabled(True)
CALL = ToolCall(id="t1", name="look", arguments="{}")


def look() -> str:
    """Look."""
    return "a shelf"


async def by_the_sdk(conversation: Conversation, words: str) -> list[Any]:
    model = ScriptedModel([[assistant_message(f"{words} by the SDK")]])
    await Runner.run(SdkAgent("a", model=model), words, session=OpenAIAgentsSession(conversation))
    return list(model.calls[0].input)


async def by_pydantic_ai(conversation: Conversation, words: str) -> list[ModelMessage]:
    def answer(_: list[ModelMessage], __: AgentInfo) -> ModelResponse:
        return ModelResponse(parts=[TextPart(f"{words} by pydantic-ai")])

    recorder = PydanticAIRecorder(conversation)
    agent = PydanticAgent(FunctionModel(answer), capabilities=[recorder])
    return (await agent.run(words, message_history=recorder.history())).all_messages()


async def by_the_engine(conversation: Conversation, words: str) -> None:
    team = Team([Agent("assistant", llm=Scripted([CALL], f"{words} by the engine"), tools=[look])])
    async for _ in team.run(conversation, words):
        pass


def test_each_goes_on_where_another_has_stopped(tmp_path: Path) -> None:
    async def go(conversation: Conversation) -> tuple[list[Any], list[ModelMessage]]:
        await by_the_sdk(conversation, "one")
        await by_pydantic_ai(conversation, "two")
        await by_the_engine(conversation, "three")
        return await by_the_sdk(conversation, "four"), await by_pydantic_ai(conversation, "five")

    with stenolog.open(tmp_path / "talks.db") as log:
        sent, messages = asyncio.run(go(log["shared"]))
        history = ModelMessagesTypeAdapter.dump_python(to_pydantic_ai(log["shared"]), mode="json")
        again = append_pydantic_ai(log["shared"], messages)
        said = [item.text for item in log["shared"].timeline() if item.kind == "message"]

    clean(tmp_path / "talks.db")
    assert history == ModelMessagesTypeAdapter.dump_python(messages, mode="json")
    assert again == []
    assert [item.get("role") or item["type"] for item in sent] == [
        *["user", "assistant"] * 2,
        *["user", "function_call", "function_call_output", "assistant", "user"],
    ]
    assert said == [
        *["one", "one by the SDK", "two", "two by pydantic-ai", "three", "three by the engine"],
        *["four", "four by the SDK", "five", "five by pydantic-ai"],
    ]


def test_without_the_package_an_error_names_the_line_that_installs_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "pydantic_ai", None)

    with stenolog.open(":memory:") as log, pytest.raises(MissingExtraError, match=r"stenolog\[pydantic-ai\]"):
        to_pydantic_ai(log["parser"])
