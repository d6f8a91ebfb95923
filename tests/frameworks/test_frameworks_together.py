"""What frameworks have in common: one conversation for two, edits, and differences of their JSON."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from agents import Agent as SdkAgent
from agents import Runner, set_tracing_disabled
from agents.testing import ScriptedModel, assistant_message
from hypothesis import given
from hypothesis import strategies as st
from pydantic_ai import Agent as PydanticAgent
from pydantic_ai import ModelMessage, ModelMessagesTypeAdapter, ModelResponse, TextPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

import stenolog
from stenolog import Agent, AssistantMessage, Conversation, Team, ToolCall, UserMessage
from stenolog.adapters.frameworks.shared import apply_patch, make_patch
from stenolog.errors import MissingExtraError
from stenolog.frameworks import OpenAIAgentsSession, PydanticAIRecorder, append_pydantic_ai, to_pydantic_ai
from stenolog.models import Scripted
from tests.examples.harness import clean
from tests.strategies import json_values

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


@given(plain=json_values() | st.text(max_size=3), other=json_values())
def test_a_difference_makes_the_one_into_the_other(plain: Any, other: Any) -> None:
    written = json.loads(json.dumps(make_patch(plain, other)))

    assert json.dumps(apply_patch(plain, written), sort_keys=True) == json.dumps(other, sort_keys=True)


def test_what_is_the_same_is_not_said_again() -> None:
    plain = {"role": "user", "content": [{"type": "text", "text": "a long text"}], "id": ""}
    given = {"role": "user", "content": [{"type": "text", "text": "a long text", "n": 1}]}

    assert make_patch(plain, given) == {
        "in": {"content": {"in": {"0": {"in": {"n": {"is": 1}}}}}},
        "less": ["id"],
    }
    assert make_patch('{"a":1}', {"a": 1}) == {"json": True}
    assert make_patch(given, given) == {}


def test_true_is_not_one() -> None:
    assert (make_patch(1, True), apply_patch(1, make_patch(1, True))) == ({"is": True}, True)


@pytest.fixture
def conversation() -> Iterator[Conversation]:
    """Yield an edited question with its answer, a regenerated answer, and a new question."""
    with stenolog.open(":memory:") as log:
        conversation = log["demo"]
        conversation.append(UserMessage(text="v1"))
        conversation.append(AssistantMessage(agent="assistant", text="w1"))
        conversation.append(UserMessage(text="next"))
        conversation.append(UserMessage(text="v2", replaces=2))
        conversation.append(AssistantMessage(agent="assistant", text="w2", replaces=3))
        yield conversation


def items(conversation: Conversation) -> list[Any]:
    return asyncio.run(OpenAIAgentsSession(conversation).get_items())


def words(item: Any) -> str:
    content = item["content"]
    return content if isinstance(content, str) else "".join(part["text"] for part in content)


def test_a_session_gives_each_edit_once_in_its_place(conversation: Conversation) -> None:
    assert [words(item) for item in items(conversation)] == ["v2", "w2", "next"]


def test_a_history_gives_each_edit_once_in_its_place(conversation: Conversation) -> None:
    messages: list[Any] = to_pydantic_ai(conversation)

    assert [part.content for message in messages for part in message.parts] == ["v2", "w2", "next"]


def test_what_is_popped_does_not_bring_back_what_it_edited(conversation: Conversation) -> None:
    session = OpenAIAgentsSession(conversation)
    popped = [words(asyncio.run(session.pop_item())) for _ in range(3)]

    assert popped == ["next", "w2", "v2"]
    assert items(conversation) == []
    assert len([*conversation.entries()]) == 9
