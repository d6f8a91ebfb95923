"""Why a request cannot be sent, as a code that a loop can go by."""

from __future__ import annotations

from datetime import UTC, datetime

import stenolog
from stenolog import AgentCard, AssistantMessage, LlmError, ModeSwitch, ToolCall, ToolResult, UserMessage
from stenolog.context import Budget
from stenolog.events import Control
from stenolog.tools import tool


def test_a_loop_can_tell_done_from_what_it_waits_for() -> None:
    with stenolog.open(":memory:") as log:
        talk = log["talk"]

        def code() -> str:
            return talk.request("a").code

        talk.join("a", model="m")
        found = [code()]
        talk.append(UserMessage("Hi"))
        found.append(code())
        talk.append(LlmError(agent="a", category="network", retry_at=datetime(2027, 1, 1, tzinfo=UTC)))
        found.append(code())
        assert talk.request("a").sendable, "a person may have it sent at once"
        talk.append(AssistantMessage(agent="a", tool_calls=[ToolCall(id="k", name="look")]))
        found.append(code())
        talk.append(ToolResult(call_id="k", text="x"))
        talk.append(AssistantMessage(agent="a", text="Done."))
        found.append(code())
        talk.append(UserMessage("More"))
        talk.append(UserMessage(control=Control(action="cancel")))
        found.append(code())
        talk.append(ModeSwitch(leaves=["a"]), expected=talk.position)
        found.append(code())
    assert found == ["nothing-said", "", "backoff", "tools", "answered", "stopped", "left"]


def test_a_call_to_be_approved_a_model_and_a_budget_have_codes_too() -> None:
    with stenolog.open(":memory:") as log:
        for name, card, code in (
            ("none", AgentCard(), "no-model"),
            ("small", AgentCard(model="m", policy=Budget(tokens=1)), "over-budget"),
        ):
            log[name].append(ModeSwitch(joins=["a"], cards={"a": card}))
            log[name].append(UserMessage("Hi there, this is long"))
            assert log[name].request("a").code == code

        @tool(approval=True)
        def book() -> str:
            """Book it."""
            return "booked"

        talk = log["asks"]
        talk.join("a", model="m", tools=[book])
        talk.append(UserMessage("Book it"))
        talk.append(AssistantMessage(agent="a", tool_calls=[ToolCall(id="k", name="book")]))
        assert talk.request("a").code == "approval"
