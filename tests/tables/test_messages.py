"""The table of messages: who said what, and nothing that there is nothing to read of."""

from __future__ import annotations

from stenolog import AgentCard, AssistantMessage, Log, ModeSwitch, TextPart, ToolCall, ToolResult, UserMessage
from stenolog.contrib.workflow import conversation_messages
from stenolog.parts import ReasoningPart
from stenolog.tables import attach_table

CALL = ToolCall(id="c1", name="list", arguments='{"in": "."}')


def rows(
    log: Log, *events: UserMessage | AssistantMessage | ToolResult | ModeSwitch
) -> list[tuple[object, ...]]:
    for event in events:
        log["shop"].append(event)
    kept = attach_table(log, conversation_messages)
    return kept.select("SELECT role, content, agent FROM conversation_messages ORDER BY createdAt")


def test_the_agent_is_whoever_said_it_by_the_entry_alone(log: Log) -> None:
    found = rows(
        log,
        ModeSwitch(joins=["baker"], cards={"baker": AgentCard(persona="You bake.")}),
        UserMessage(text="Which files?", author="Ada"),
        AssistantMessage(agent="baker", task="files", parts=[TextPart(text="I look."), CALL]),
        ToolResult(call_id="c1", name="list", text="oven.py"),
        ToolResult(call_id="c1", text="oven.py"),
    )

    assert found == [
        ("system", "You bake.", "baker"),
        ("user", "Which files?", "Ada"),
        ("assistant", 'I look.\n→ list({"in": "."})', "baker/files"),
        ("tool", "oven.py", "list"),
        ("tool", "oven.py", None),
    ]


def test_a_call_without_words_is_a_line_and_what_says_nothing_is_no_row(log: Log) -> None:
    found = rows(
        log,
        AssistantMessage(agent="baker", parts=[TextPart(text=""), CALL]),
        AssistantMessage(agent="baker", parts=[ReasoningPart(text="Hm.")]),
        UserMessage(parts=[], in_context=False),
        UserMessage(text="for the screen", in_context=False),
    )

    assert found == [
        ("assistant", '→ list({"in": "."})', "baker"),
        ("user", "for the screen", None),
    ]
