"""Whatever a tool gives back, the next turn goes on from the log, and nothing is said again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from pydantic import BaseModel
from pydantic_ai import Agent, ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

import stenolog
from stenolog import Conversation
from stenolog.errors import InvalidEventError
from stenolog.frameworks import PydanticAIRecorder, append_pydantic_ai, to_pydantic_ai
from tests.examples.harness import clean


class Broken(BaseModel):
    """What no JSON can hold, where it is not UTF-8."""

    data: bytes


RESULTS = {
    "bytes": b"\xff\xfe",
    "time": datetime(2020, 1, 1, tzinfo=UTC),
    "decimal": Decimal("1.0"),
    "uuid": UUID(int=1),
    "set": {1},
    "nothing": None,
    "half a surrogate pair": "a\udcff",
}


def scripted(messages: list[ModelMessage], _: AgentInfo) -> ModelResponse:
    """Call the tool, and then answer."""
    if any(isinstance(part, ToolReturnPart) for part in messages[-1].parts):
        return ModelResponse(parts=[TextPart("done")])
    return ModelResponse(parts=[ToolCallPart("get", {}, tool_call_id=f"c{len(messages)}")])


def agent(get: Callable[[], Any], *capabilities: Any) -> Agent[None, str]:
    made: Agent[None, str] = Agent(FunctionModel(scripted), capabilities=[*capabilities])
    made.tool_plain(get)
    return made


def by_hand(conversation: Conversation, get: Callable[[], Any]) -> None:
    """Append three turns, each when it is over."""
    for number in range(3):
        result = asyncio.run(agent(get).run(f"q{number}", message_history=to_pydantic_ai(conversation)))
        append_pydantic_ai(conversation, result.all_messages())


def recorded(conversation: Conversation, get: Callable[[], Any]) -> None:
    """Append three turns, each step when it happens."""
    for number in range(3):
        recorder = PydanticAIRecorder(conversation)
        asyncio.run(agent(get, recorder).run(f"q{number}", message_history=recorder.history()))


@pytest.mark.parametrize("take_down", [by_hand, recorded])
@pytest.mark.parametrize("result", RESULTS.values(), ids=RESULTS)
def test_the_next_turns_go_on_and_nothing_is_said_twice(
    tmp_path: Path, take_down: Callable[[Conversation, Callable[[], Any]], None], result: object
) -> None:
    def get() -> Any:
        return result

    with stenolog.open(tmp_path / "talks.db") as log:
        conversation = log["parser"]
        take_down(conversation, get)
        kinds = [entry.event.kind for entry in conversation.entries() if entry.event.kind != "mode_switch"]
        hides = conversation.settings().hides

    assert kinds == ["user_message", "assistant_message", "tool_result", "assistant_message"] * 3
    assert hides == ()
    clean(tmp_path / "talks.db")


def test_a_result_that_cannot_be_written_is_refused_by_the_name_of_its_tool(tmp_path: Path) -> None:
    def get() -> Broken:
        return Broken(data=b"\xff")

    with (
        stenolog.open(tmp_path / "talks.db") as log,
        pytest.raises(InvalidEventError, match="get: a result that cannot be written as JSON"),
    ):
        recorded(log["parser"], get)
