"""A conversation of three agents as an engine writes it: every answer with its cause and its receipt."""

from __future__ import annotations

from typing import Any

from stenolog import (
    AgentCard,
    AssistantMessage,
    Entry,
    Event,
    ModeSwitch,
    Tool,
    ToolCall,
    ToolResult,
    UserMessage,
)
from stenolog.context import Budget
from stenolog.events import CallRef, Control
from stenolog.requests import build
from stenolog.testing import entries

SHELL, DEPLOY = Tool(name="shell"), Tool(name="deploy", approval=True)


class Pen:
    """Writes a log, with the receipts that an engine would keep."""

    def __init__(self, *events: Event) -> None:
        self.events = list(events)

    @property
    def log(self) -> list[Entry]:
        """What has been written so far."""
        return entries(*self.events)

    def write(self, *events: Event) -> None:
        """Write events as they are."""
        self.events += events

    def answer(self, agent: str, cause: int | None, *, view: int | None = None, **fields: Any) -> None:
        """Write an answer to the request that the agent had at `view` (None: now)."""
        receipt = build(self.log[:view], agent).receipt
        self.events.append(AssistantMessage(agent=agent, cause=cause, receipt=receipt, **fields))


def crew() -> list[Entry]:
    """Return a talk: Ada asks the planner, who asks the coder, who ships it and asks the reviewer."""
    pen = Pen(
        ModeSwitch(
            joins=("planner", "coder", "reviewer"),
            scope="addressed",
            cards={
                "planner": AgentCard(persona="You plan."),
                "coder": AgentCard(
                    model="gpt-5", persona="You code.", tools=(SHELL, DEPLOY), policy=Budget(tokens=460)
                ),
                "reviewer": AgentCard(persona="You review."),
            },
        ),
        UserMessage(text="Make the parser faster, then ship it.", author="Ada", to=("planner",)),
    )
    pen.answer("planner", 2, text="Profile it, and mend what is slowest.", to=("coder",))
    pen.answer("coder", 3, tool_calls=[_call("a", "shell", "profile"), _call("b", "shell", "ls")])
    pen.write(ToolResult(call_id="a", text="lexer 80 % " * 60), ToolResult(call_id="b", text="lexer.py"))
    pen.answer("coder", 6, text="The lexer it is.", tool_calls=[_call("a", "deploy", "live")])
    pen.write(
        UserMessage(author="Ada", control=Control(action="approve", call=CallRef(entry="e7"))),
        ToolResult(call_id="a", call=CallRef(entry="e7"), text="shipped " * 150),
    )
    pen.answer("coder", 9, text="Done. Reviewer, look.", to=("reviewer",))
    pen.write(UserMessage(text="How is the load?", author_kind="schedule", to=("coder",)))
    pen.answer("coder", 11, text="12 %")
    pen.answer("reviewer", 10, view=10, text="Good.")
    pen.write(UserMessage(text="Thank you all.", author="Ada"))
    return pen.log


def _call(id: str, name: str, what: str) -> ToolCall:
    return ToolCall(id=id, name=name, arguments=f'{{"what": "{what}"}}')
