"""System 2, one log under chat, agent and run mode: the requests side by side, within their budgets."""

from __future__ import annotations

import json

import pytest

from stenolog import (
    AgentCard,
    AssistantMessage,
    Event,
    LlmError,
    ModeSwitch,
    ToolCall,
    ToolResult,
    UserMessage,
)
from stenolog.context import Budget, Policy, Prompt, TruncateToolOutput, policy
from stenolog.events import PositionRange, WorkflowRun, dump_event
from stenolog.requests import FORMATS
from stenolog.tools import read_output, read_output_tool
from tests.systems.given import Room, around, left_out, roles, shown, words

PERSONA = "You are the architect."
AROUND = Prompt(
    base="Answer in English.",
    tools="Read before you write.",
    modes={"chat": "Talk only.", "agent": "Use tools.", "run": "Follow the run."},
    banner="[mode: {mode}]",
    persona_in=["agent", "run"],
)
OPENING = ModeSwitch(
    mode="chat", joins=["crew"], cards={"crew": AgentCard(model="gpt-5", persona=PERSONA, policy=AROUND)}
)
THE_RUN = WorkflowRun(
    id="r1",
    directive="RUN_DIRECTIVE: ship it.",
    node="n1",
    brief="NODE_BRIEF: tests.",
    context="Step 2 of 3.",
)
READ = ToolCall(id="c1", name="read", arguments='{"path": "a.py"}')
ASKED = UserMessage(text="Read it.")


def crew(text: str = "", *calls: ToolCall) -> AssistantMessage:
    return AssistantMessage(agent="crew", text=text, tool_calls=calls)


ONE_TURN: list[Event] = [
    OPENING,
    ASKED,
    crew("", READ),
    ToolResult(call_id="c1", text="import os"),
    crew("It imports os."),
    UserMessage(text="Go on.", run="r1", node="n1"),
]


def test_the_log_is_protocol_complete_and_comes_back_as_the_messages_that_went_in(room: Room) -> None:
    room.write(*ONE_TURN)

    call = {"id": "c1", "type": "function", "function": {"name": "read", "arguments": '{"path": "a.py"}'}}
    assert room.request("crew", policy=policy()).body["messages"][1:] == [
        {"role": "user", "content": "Read it."},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "import os"},
        {"role": "assistant", "content": "It imports os."},
        {"role": "user", "content": "Go on."},
    ]


def test_the_system_prompt_is_configuration_and_no_message_of_the_history(room: Room) -> None:
    room.write(*ONE_TURN)
    before = room.request("crew", policy=policy())
    room.write(ModeSwitch(cards={"crew": AgentCard(persona="You are the tester.")}))
    after = room.request("crew", policy=policy())

    assert roles(before)[0] == ("system", PERSONA)
    assert roles(after) == [("system", "You are the tester."), *roles(before)[1:]]
    with_persona = [e.position for e in room.entries() if PERSONA in str(dump_event(e.event))]
    assert with_persona == [1]
    assert [
        item.text for item in room.look(lambda conversation: conversation.timeline()) if PERSONA in item.text
    ] == []


SIDE_BY_SIDE = {
    "chat": ["base-rules", "tool-policy", "mode-rules", "mode-banner"],
    "agent": ["base-rules", "tool-policy", "persona", "mode-rules", "mode-banner"],
    "run": [
        "base-rules",
        "tool-policy",
        "persona",
        "mode-rules",
        "mode-banner",
        "run-directive",
        "node-brief",
        "step-context",
    ],
}


@pytest.mark.parametrize("mode", SIDE_BY_SIDE)
def test_a_mode_has_the_prefix_that_is_its_own(room: Room, mode: str) -> None:
    room.write(*ONE_TURN).write(ModeSwitch(mode=mode, active_run=THE_RUN))

    request = room.request("crew")

    assert [rule for rule, _ in around(request)] == SIDE_BY_SIDE[mode]
    said = json.dumps(request.body)
    assert (PERSONA in said, f"[mode: {mode}]" in said) == (mode != "chat", True)
    assert [text in said for text in (THE_RUN.directive, THE_RUN.brief, THE_RUN.context)] == [
        mode == "run"
    ] * 3


@pytest.mark.parametrize("api", FORMATS)
def test_a_switch_of_mode_keeps_the_history_and_changes_what_stands_around_it_alone(
    room: Room, api: str
) -> None:
    room.write(*ONE_TURN).write(ModeSwitch(active_run=THE_RUN))
    explained = {}
    for mode in ("chat", "agent", "run"):
        room.write(ModeSwitch(mode=mode))
        request = room.request("crew", api=api)
        explained[mode] = (shown(request), left_out(request))

    assert explained["chat"] == explained["agent"] == explained["run"]
    assert [position for position, _ in explained["run"][0]] == [(2,), (3,), (4,), (5,), (6,)]


def test_messages_are_tagged_with_their_run(room: Room) -> None:
    room.write(*ONE_TURN)

    assert [(e.event.run, e.event.node) for e in room.entries() if getattr(e.event, "run", "")] == [  # type: ignore[union-attr]
        ("r1", "n1")
    ]


def long_conversation(turns: int, size: int) -> list[Event]:
    """Return turns of four messages with a tool each, of so many characters, and a last question."""
    events: list[Event] = [OPENING]
    for turn in range(turns):
        said = f"{turn} ".ljust(size, "x")
        events += [
            UserMessage(text=said),
            crew(said, READ),
            ToolResult(call_id="c1", text=said),
            crew(said),
        ]
    return [*events, UserMessage(text="The latest.")]


BUDGETS = {
    "80 messages": Budget(messages=80),
    "120,000 characters": Budget(characters=120_000),
    "30,000 tokens": Budget(tokens=30_000),
    "all three": Budget(messages=80, characters=120_000, tokens=30_000),
}


@pytest.mark.parametrize("chosen", BUDGETS.values(), ids=BUDGETS)
def test_a_budget_keeps_the_latest_message_and_whole_groups_and_drops_the_oldest_first(
    room: Room, chosen: Budget
) -> None:
    room.write(*long_conversation(40, 1_000))

    request = room.request("crew", policy=chosen | AROUND)

    assert request.sendable
    assert request.size.messages <= (chosen.messages or 200)
    assert request.size.characters <= (chosen.characters or 200_000)
    assert request.size.tokens <= (chosen.tokens or 100_000)
    kept = [position for positions, _ in shown(request) for position in positions]
    assert kept == [*range(kept[0], 163)]
    assert left_out(request) == [(2, kept[0] - 1, "over-budget")]
    assert request.omissions[0].tokens >= 250 * (kept[0] - 2)
    assert words(request)[-2:] == ["The latest.", "Talk only.\n\n[mode: chat]"]
    first = next(message for message in request.body["messages"] if message["role"] != "system")
    assert first["role"] != "tool"


def test_eighty_messages_are_the_request_and_not_the_conversation_alone(room: Room) -> None:
    room.write(*long_conversation(19, 10))  # 77 messages, and one before and behind them

    assert room.request("crew", policy=Budget(messages=80) | AROUND).cuts == 0
    assert room.request("crew", policy=Budget(messages=79) | AROUND).cuts == 0
    assert room.request("crew", policy=Budget(messages=78) | AROUND).cuts == 1


FIVE_MB = "".join(f"{n:07} passed, all is well\n" for n in range(190_000))


def test_a_result_of_five_megabytes_costs_the_request_400_tokens_and_is_read_by_its_alias(
    room: Room,
) -> None:
    assert len(FIVE_MB) > 5 * 1024 * 1024
    card = AgentCard(persona=PERSONA, tools=[read_output_tool()], policy=TruncateToolOutput())
    room.write(ModeSwitch(joins=["crew"], cards={"crew": card}), ASKED, crew("", READ))
    before = room.request("crew")
    room.write(ToolResult(call_id="c1", name="read", text=FIVE_MB))

    after = room.request("crew")

    sealed = next(part.tokens_out for part in before.parts if part.rule == "placeholder-running")
    (preview,) = (part for part in after.parts if part.rule == "compact")
    assert preview.positions == (4,)
    assert (preview.tokens_in > 1_300_000, preview.tokens_out <= 400) == (True, True)
    assert after.size.tokens - before.size.tokens <= 400 - sealed
    alias = f"@state/logs/tool-results/{room.entries()[3].id}.json"
    assert alias in words(after)[-1]
    assert room.look(lambda conversation: conversation.outputs[alias]) == FIVE_MB
    read = ToolCall(id="c2", name="read_output", arguments=json.dumps({"path": alias, "limit": 28}))
    assert room.look(lambda conversation: read_output(conversation, read, "crew")).text.startswith(
        "0000000 passed, all is well\n"
    )


def test_events_that_are_for_the_screen_alone_are_left_out(room: Room) -> None:
    widget = UserMessage(text="[chart]", author_kind="system", in_context=False, meta={"ui": {"widget": 1}})
    room.write(OPENING, ASKED, widget, crew("Done."), ASKED)

    request = room.request("crew", policy=policy())

    assert words(request) == ["Read it.", "Done.", "Read it."]
    assert left_out(request) == [(3, 3, "not-in-context")]
    assert "[chart]" in [item.text for item in room.look(lambda conversation: conversation.timeline())]


@pytest.mark.parametrize("api", FORMATS)
def test_tool_results_that_are_not_to_be_included_leave_their_calls_answered(room: Room, api: str) -> None:
    secret = ToolResult(call_id="c1", text="the whole file", in_context=False)
    room.write(OPENING, ASKED, crew("", READ), secret, crew("Read."), ASKED)

    request = room.request("crew", api=api, policy=policy())

    assert "the whole file" not in request.bytes.decode()
    assert ((3,), "placeholder-hidden") in shown(request)
    assert left_out(request) == [(4, 4, "not-in-context")]


@pytest.mark.parametrize("api", FORMATS)
def test_after_a_timeout_in_mid_stream_continue_goes_on_from_the_partial_text(room: Room, api: str) -> None:
    room.write(OPENING, ASKED, LlmError(agent="crew", category="timeout", text="It imports o"))
    room.write(UserMessage(text="continue"))

    request = room.request("crew", api=api, policy=policy())

    assert shown(request) == [
        ((2,), "user"),
        ((3,), "partial"),
        ((3,), "cut-off-error-note"),
        ((4,), "user"),
    ]
    assert request.sendable
    places = [
        request.bytes.decode().index(text) for text in ("It imports o", "cut off (timeout)", "continue")
    ]
    assert places == sorted(places)


def test_a_cut_off_answer_is_in_the_timeline_with_its_words(room: Room) -> None:
    room.write(OPENING, ASKED, LlmError(agent="crew", category="timeout", text="It imports o"))

    items = room.look(lambda conversation: conversation.timeline())

    errors = [(item.kind, item.author, item.text, item.detail) for item in items if item.position == 3]
    assert errors == [("error", "crew", "It imports o", "timeout")]


def test_a_run_is_resumed_from_the_log_alone(room: Room) -> None:
    room.write(*ONE_TURN).write(ModeSwitch(mode="run", active_run=THE_RUN))
    sent = room.answer("crew", "", READ)
    room.write(ToolResult(call_id="c1", text="import sys"))

    request = room.request("crew")

    assert request.sendable
    assert words(request)[: len(words(sent)) - 1] == words(sent)[:-1]
    assert words(request)[-1] == words(sent)[-1]
    assert [rule for rule, _ in around(request)] == SIDE_BY_SIDE["run"]


@pytest.mark.parametrize("chosen", [policy(), policy(Budget(messages=80))])
def test_a_summary_of_what_was_trimmed_stands_in_its_place(room: Room, chosen: Policy) -> None:
    room.write(*ONE_TURN)
    summary = AssistantMessage(
        agent="crew", purpose="summary", covers=[PositionRange(first=2, last=5)], text="a.py imports os."
    )
    room.write(summary, ASKED)

    request = room.request("crew", policy=chosen)

    assert words(request) == ["<summary>\na.py imports os.\n</summary>", "Go on.", "Read it."]
    assert shown(request) == [((7,), "summary"), ((6,), "user"), ((8,), "user")]
    assert left_out(request) == [(2, 5, "covered")]
