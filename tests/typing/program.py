"""A user's program that does what the API promises, checked by pyright and mypy, both in strict mode.

A line that ends in two ignores is a mistake that both must find: an ignore that ignores nothing is an error.
"""

from __future__ import annotations

from typing import Any, NamedTuple, assert_never, assert_type

import stenolog
from stenolog import (
    UNCHANGED,
    Agent,
    AgentCard,
    AssistantMessage,
    Conversation,
    Entry,
    LlmError,
    ModeSwitch,
    Request,
    State,
    Team,
    Tool,
    ToolCall,
    ToolResult,
    UserMessage,
    fold,
)
from stenolog.analysis import Explanation, RequestDiff, TimelineItem, UsageTotals, diff, usage
from stenolog.context import Budget, LastN, Pins
from stenolog.engine import EntryAppended, StreamDelta
from stenolog.errors import VersionConflictError
from stenolog.events import Event, Unknown
from stenolog.models import Scripted
from stenolog.tools import ToolContext, tool


@fold(0, state=int)
def words(total: int, entry: Entry) -> int:
    match entry.event:
        case AssistantMessage(text=text):
            return total + len(text.split())
        case _:
            return total


def kind(event: Event) -> str:
    match event:
        case UserMessage() | AssistantMessage() | ToolResult() | LlmError() | ModeSwitch() | Unknown():
            return event.kind
        case _:
            assert_never(event)


def read(conversation: Conversation) -> None:
    for entry in conversation:
        assert_type(entry, Entry)
    assert_type(len(conversation), int)
    assert_type(conversation[-1], Entry)
    assert_type(conversation[2:5], list[Entry])
    assert_type(conversation.entry(5), Entry)
    assert_type(conversation.export("openai"), str)
    assert_type(conversation.explain(2), Explanation)
    assert_type(conversation.fold(words), int)
    assert_type(conversation.fold(usage).total, UsageTotals)
    assert_type(conversation.state(), State)
    assert_type(conversation.timeline(), list[TimelineItem])
    request = conversation.request("coder", policy=LastN(5) | Budget(1_000) | Pins(positions=[2]))
    assert_type(request, Request)
    assert_type(diff(request, conversation.request("coder", at=3)), RequestDiff)
    assert_type([hit.position for hit in conversation.search("tests")], list[int])


def write(conversation: Conversation) -> None:
    try:
        conversation.append(UserMessage("Which test fails?", author="Ada"), expected=0)
    except VersionConflictError as error:
        print(error)
    call = ToolCall(id="c1", name="shell", arguments="{}")
    conversation.extend(
        [
            AssistantMessage("I'll run the tests.", agent="coder", tool_calls=[call]),
            ToolResult("12 passed", call_id="c1"),
            LlmError(agent="coder", category="timeout", message="late"),
        ]
    )
    card = AgentCard(model="gpt-5.2", tools=[Tool(name="shell")])
    switch = ModeSwitch(cards={"coder": card}, title=UNCHANGED)
    conversation.append(switch, expected=conversation.position)


class Deps(NamedTuple):
    user: str


@tool
async def greet(call: ToolContext[Deps], untyped: ToolContext) -> str:
    assert_type(call.deps, Deps)
    assert_type(untyped.deps, Any)
    assert_type(await call.ask("Which?", choices=["a", "b"]), str)
    assert_type(call.ask_sync("How many?", schema=int), int)
    call.deps.name = ""  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]
    return call.deps.user


def mistakes(conversation: Conversation) -> None:
    UserMessage(content="Hi")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    UserMessage("Hi", "Ada")  # type: ignore[call-arg, arg-type]  # pyright: ignore[reportCallIssue]
    ToolResult("12 passed")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    LlmError(agent="coder", category="late")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    conversation.fold(len)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


async def work(conversation: Conversation) -> list[str]:
    team = Team([Agent("coder", llm=Scripted("Done."))])
    told: list[str] = []
    async for event in team.run(conversation, "Go on"):
        match event:
            case EntryAppended():
                told.append(event.entry.event.kind)
            case StreamDelta():
                told.append(event.text)
    return told


def main() -> None:
    with stenolog.open(":memory:") as log:
        write(log["demo"])
        read(log["demo"])


if __name__ == "__main__":
    main()
