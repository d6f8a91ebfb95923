"""Each rule of a policy, alone and beside a limit: after each entry a session gives the builder's request."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from stenolog import (
    AgentCard,
    AssistantMessage,
    Entry,
    Event,
    ModeSwitch,
    TextPart,
    Tool,
    ToolCall,
    ToolResult,
    UserMessage,
)
from stenolog.context import (
    Attribution,
    Budget,
    FullHistory,
    LastN,
    MemoriesAndRecent,
    MissedMessages,
    Pins,
    Prompt,
    Reminder,
    SinceLastTurn,
    SinceLastTurnOrRecent,
    SummaryAndRecent,
    Transforms,
    TruncateToolOutput,
    policy,
    register_transform,
)
from stenolog.domain.policy import HISTORIES, RULES
from stenolog.events import PositionRange
from stenolog.projections.formats import FORMATS
from stenolog.projections.messages.message import Message
from stenolog.projections.requests import LaneId
from stenolog.projections.requests.pipeline.attribution import TRANSFORMS
from tests.requests.given import log as entries
from tests.requests.policies import AROUND
from tests.requests.windows.test_session_equals_builder import compare

EXAMPLES: tuple[Any, ...] = (
    *(FullHistory(), SinceLastTurn(), LastN(3), LastN(6, step=3)),
    *(SinceLastTurnOrRecent(3), SummaryAndRecent(3), MemoriesAndRecent(2)),
    Pins(positions=(3,), authors=("Ada",), tags=("goal",)),
    *(Budget(tokens=300, cut_to=60), Budget(characters=900, bytes=4_000, reserve=0)),
    TruncateToolOutput(over=20, head=8, tail=4),
    *(Attribution(others="💬 {name}", pass_token="pass"), Attribution(role="assistant", own_passes=False)),
    MissedMessages(),
    *(Reminder(2, text="Mind the goal"), Reminder(1, persona=False)),
    Transforms(("shout@1",)),
    AROUND,
    Prompt(banner="[{mode}]", place="first", scope_note=True, tools_in={"run": ["shell"]}),
)
AGENTS = "coder", "tester"
PINNED = Pins(tags=("goal",))
LIMITS: tuple[Any, ...] = (
    None,
    PINNED,
    Budget(tokens=400) | PINNED,
    Budget(messages=8),
    SummaryAndRecent(4) | PINNED,
)


@pytest.fixture(autouse=True)
def _shout() -> Iterator[None]:
    with TRANSFORMS.restored():
        register_transform("shout@1", "words are in capitals")(_in_capitals)
        yield


def _in_capitals(message: Message, entry: Entry) -> Message:
    parts = (TextPart(text=p.text.upper()) if isinstance(p, TextPart) else p for p in message.parts)
    return message._replace(parts=tuple(parts))


def test_every_rule_has_an_example_here() -> None:
    assert {type(example) for example in EXAMPLES} == {*RULES.values(), *HISTORIES.values()}


def _turns() -> Iterator[Event]:
    """Yield turns of two agents that ask for every rule: pins, facts, summaries, passes, modes, sessions."""
    tools = [Tool(name="shell", description="Run a command")]
    cards: dict[str, AgentCard | None] = {
        name: AgentCard(model="m", persona=f"You are {name}.", tools=tools) for name in AGENTS
    }
    yield ModeSwitch(mode="chat", joins=AGENTS, cards=cards)
    yield UserMessage(text="The goal is a shorter report. " * 8, tags=["goal"], author="Ada")
    for turn in range(5):
        call = ToolCall(id=f"c{turn}", name="shell", arguments="{}")
        session = f"s{turn // 2}"
        yield UserMessage(text=f"Do step {turn} now", author="Ada", to=["coder"])
        yield AssistantMessage(agent="coder", tool_calls=[call], session=session)
        yield ToolResult(call_id=call.id, name="shell", text="a line of the report " * 20)
        yield UserMessage(text=f"Check step {turn}", author="Ben", to=["tester"])
        yield AssistantMessage(agent="tester", text="pass" if turn % 2 else f"Step {turn} is checked")
        yield AssistantMessage(agent="coder", text=f"Step {turn} is done", session=session)
        yield AssistantMessage(agent="coder", purpose="memory", text=f"Fact {turn} about the report")
        if turn % 3 == 1:
            yield ModeSwitch(mode="run" if turn < 3 else "chat", cards={"coder": AgentCard(model="n")})
            covered = [PositionRange(first=2, last=turn * 5)]
            yield AssistantMessage(agent="coder", purpose="summary", covers=covered, text="So far, so good")
        yield UserMessage(text="Go on", author="Ada")


@pytest.mark.parametrize("rule", EXAMPLES, ids=lambda rule: f"{rule.slot} {rule.json}"[:60])
def test_under_each_rule_a_session_gives_the_builders_requests(rule: Any) -> None:
    log = entries(*_turns())
    for limit in LIMITS:
        assert compare(log, LaneId("coder"), policy(rule) | limit, FORMATS) == len(log)
