"""A recorder for pydantic-ai, and results of every type that a tool gives back."""

from __future__ import annotations

import asyncio
import subprocess
import threading
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from pydantic import BaseModel
from pydantic_ai import (
    Agent,
    BinaryContent,
    ModelMessage,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturn,
    ToolReturnPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel

import stenolog
from stenolog import AgentCard, Conversation, ModeSwitch, ToolResult, UserMessage, VersionConflictError
from stenolog.context import Budget
from stenolog.errors import InvalidEventError
from stenolog.frameworks import PydanticAIRecorder, append_pydantic_ai, to_pydantic_ai
from tests.examples.harness import clean
from tests.forked import python
from tests.frameworks.pydantic_ai_runs import as_json, run

ROOT = Path(__file__).parents[2]


class Page(BaseModel):
    page: str


def scripted(messages: list[ModelMessage], _: AgentInfo) -> ModelResponse:
    """Call two tools at once, and then repeat their results."""
    returns = [part for part in messages[-1].parts if isinstance(part, ToolReturnPart)]
    if returns:
        return ModelResponse(parts=[TextPart("; ".join(part.model_response_str() for part in returns))])
    calls = [ToolCallPart(name, {}, tool_call_id=f"{name}-{len(messages)}") for name in ("fast", "slow")]
    return ModelResponse(parts=calls)


def librarian(
    recorder: PydanticAIRecorder, slow: Callable[[], Any] = lambda: Page(page="slow")
) -> Agent[None, str]:
    agent = Agent(FunctionModel(scripted), instructions="You know all books.", capabilities=[recorder])

    @agent.tool_plain
    def fast() -> ToolReturn[Page]:
        return ToolReturn(Page(page="fast"), content=["see", BinaryContent(b"\xff", media_type="image/png")])

    agent.tool_plain(name="slow")(slow)
    return agent


def kinds(conversation: Conversation) -> list[str]:
    return [entry.event.kind for entry in conversation.entries()]


TURN = ["user_message", "assistant_message", "tool_result", "tool_result"]


def test_what_it_takes_down_is_what_the_run_did(conversation: Conversation) -> None:
    recorder = PydanticAIRecorder(conversation)

    result = run(librarian(recorder), "Read")

    assert as_json(to_pydantic_ai(conversation)) == as_json(result.all_messages())
    assert kinds(conversation) == [
        "mode_switch",
        *TURN,
        "user_message",
        "assistant_message",
    ]  # the picture is a prompt
    assert (recorder.is_unfinished, append_pydantic_ai(conversation, result.all_messages())) == (False, [])


def test_one_run_follows_another(conversation: Conversation) -> None:
    recorder = PydanticAIRecorder(conversation)
    agent = librarian(recorder)

    run(agent, "Read")
    result = run(agent, "Again", message_history=recorder.history())

    assert as_json(to_pydantic_ai(conversation)) == as_json(result.all_messages())
    assert "hides" not in {field for item in conversation.timeline() for field in item.detail.split()}


def test_a_result_is_in_the_log_while_another_tool_still_runs(conversation: Conversation) -> None:
    seen: list[list[str]] = []

    def slow() -> str:
        wait = threading.Event()
        while len(seen) < 400 and kinds(conversation)[-1] != "tool_result":
            seen.append(kinds(conversation))
            wait.wait(0.05)
        return "slow"

    run(librarian(PydanticAIRecorder(conversation), slow), "Read")
    results = [e.event for e in conversation.entries() if isinstance(e.event, ToolResult)]

    assert len(seen) < 400
    assert [result.name for result in results] == ["fast", "slow"]


def test_an_answer_by_a_tool_ends_the_run(conversation: Conversation) -> None:
    def answer(*_: Any) -> ModelResponse:
        return ModelResponse(parts=[ToolCallPart("final_result", {"response": 3})])

    recorder = PydanticAIRecorder(conversation)
    agent = Agent(FunctionModel(answer), output_type=int, capabilities=[recorder])

    assert run(agent, "How many?").output == 3
    assert recorder.is_unfinished is False
    assert run(agent, "Again?", message_history=recorder.history()).output == 3


def test_the_card_tells_what_the_model_was_asked_with_and_keeps_what_was_set_there(
    conversation: Conversation,
) -> None:
    card = AgentCard(policy=Budget(tokens=8000), parameters={"temperature": 0})
    conversation.append(ModeSwitch(joins=["assistant"], cards={"assistant": card}), expected=0)

    run(librarian(PydanticAIRecorder(conversation)), "Read")
    now = conversation.settings().card_of("assistant")

    assert (now.policy, now.parameters) == (card.policy, card.parameters)
    assert (now.persona, now.model) == ("You know all books.", "function:scripted:")
    assert [tool.name for tool in now.tools or ()] == ["fast", "slow"]


def test_a_streamed_run_is_taken_down(conversation: Conversation) -> None:
    async def stream(*_: Any) -> AsyncIterator[str]:
        yield "Hello "
        yield "there"

    async def go() -> Any:
        recorder = PydanticAIRecorder(conversation)
        agent = Agent(FunctionModel(stream_function=stream), capabilities=[recorder])
        async with agent.run_stream("Hi") as result:
            async for _ in result.stream_text():
                pass
        return result.all_messages()

    assert as_json(asyncio.run(go())) == as_json(to_pydantic_ai(conversation))


def test_a_run_whose_model_failed_goes_on_without_a_prompt(conversation: Conversation) -> None:
    recorder = PydanticAIRecorder(conversation)

    def fail(*_: Any) -> ModelResponse:
        raise RuntimeError("overloaded")

    agent = librarian(recorder)
    with pytest.raises(RuntimeError):
        run(agent, "Read", model=FunctionModel(fail))
    was_unfinished = recorder.is_unfinished
    result = run(agent, message_history=recorder.history())

    assert was_unfinished
    assert as_json(to_pydantic_ai(conversation)) == as_json(result.all_messages())
    assert kinds(conversation).count("user_message") == 2


def test_somebody_who_appends_meanwhile_stops_the_run_and_keeps_his_words(conversation: Conversation) -> None:
    recorder = PydanticAIRecorder(conversation)

    def slow() -> str:
        conversation.append(UserMessage(text="And mine?"))
        return "slow"

    with pytest.raises(VersionConflictError):
        run(librarian(recorder, slow), "Read")

    assert "And mine?" in [item.text for item in conversation.timeline()]


def test_a_history_that_was_read_too_long_ago_is_refused(conversation: Conversation) -> None:
    recorder = PydanticAIRecorder(conversation)
    agent = librarian(recorder)
    run(agent, "Read")
    history = recorder.history()
    run(librarian(other := PydanticAIRecorder(conversation)), "Between", message_history=other.history())
    position = conversation.position

    with pytest.raises(VersionConflictError):
        run(agent, "Again", message_history=history)

    assert conversation.position == position


PROGRAM = """
import os, sys
sys.path.insert(0, {root!r})
import stenolog
from stenolog.frameworks import PydanticAIRecorder
from tests.frameworks.test_pydantic_ai_recorder import librarian, run

def slow():
    print("slow", flush=True)
    if sys.argv[2] == "die":
        while "tool_result" not in [entry.event.kind for entry in conversation.entries()]:
            pass
        os._exit(9)
    return "slow"

with stenolog.open(sys.argv[1]) as log:
    conversation = log["books"]
    recorder = PydanticAIRecorder(conversation)
    agent = librarian(recorder, slow)
    prompt = None if recorder.is_unfinished else "Read"
    print(run(agent, prompt, message_history=recorder.history()).output)
"""


def test_a_run_that_was_killed_goes_on_and_no_tool_with_a_result_runs_again(
    tmp_path: Path, conversation: Conversation
) -> None:
    def program(how: str) -> tuple[int, str]:
        words = ("-c", PROGRAM.format(root=str(ROOT)), str(tmp_path / "talks.db"), how)
        command = python(*words, modules=("stenolog.frameworks", "pydantic_ai"))
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode in (0, 9), done.stderr
        return done.returncode, done.stdout

    killed = program("die")
    before = kinds(conversation)
    went_on = program("live")
    names = [entry.event.name for entry in conversation.entries() if isinstance(entry.event, ToolResult)]

    assert (killed, before) == ((9, "slow\n"), ["mode_switch", *TURN[:3]])
    assert went_on == (0, 'slow\n{"page":"fast"}; slow\n')
    assert names == ["fast", "slow"]


def test_a_run_that_was_killed_can_be_followed_by_other_words(conversation: Conversation) -> None:
    def die() -> str:
        while kinds(conversation)[-1] != "tool_result":
            threading.Event().wait(0.01)
        raise KeyboardInterrupt

    recorder = PydanticAIRecorder(conversation)
    with pytest.raises(KeyboardInterrupt):
        run(librarian(recorder, die), "Read")
    agent = librarian(PydanticAIRecorder(conversation))
    history = to_pydantic_ai(conversation, pending="close")
    result = run(agent, "What now?", message_history=history)
    [fast, slow] = [p for p in result.all_messages()[2].parts if isinstance(p, ToolReturnPart)]

    assert (fast.content, slow.outcome) == ({"page": "fast"}, "interrupted")
    assert as_json(to_pydantic_ai(conversation)) == as_json(result.all_messages())


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


def scripted_pydantic_ai_results(messages: list[ModelMessage], _: AgentInfo) -> ModelResponse:
    """Call the tool, and then answer."""
    if any(isinstance(part, ToolReturnPart) for part in messages[-1].parts):
        return ModelResponse(parts=[TextPart("done")])
    return ModelResponse(parts=[ToolCallPart("get", {}, tool_call_id=f"c{len(messages)}")])


def agent(get: Callable[[], Any], *capabilities: Any) -> Agent[None, str]:
    made: Agent[None, str] = Agent(FunctionModel(scripted_pydantic_ai_results), capabilities=[*capabilities])
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
