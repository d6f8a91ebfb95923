"""The timeline: what a person is shown, each call with what became of it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given

from stenolog import (
    AgentCard,
    AssistantMessage,
    Entry,
    Event,
    LlmError,
    ModeSwitch,
    TextPart,
    Tool,
    ToolCall,
    ToolResult,
    UserMessage,
)
from stenolog.analysis import TimelineItem
from stenolog.context import Budget, LastN
from stenolog.domain.parts import text_of
from stenolog.events import CallRef, Control, ConversationRef, PositionRange, TurnPolicy, Unknown, WorkflowRun
from stenolog.parts import ReasoningPart
from stenolog.projections.views.timeline import changes, timeline
from stenolog.testing import entries, example_conversation
from tests.strategies import logs

SHELL = ToolCall(id="c1", name="shell", arguments='{"cmd":"ls"}')
DEPLOY = ToolCall(id="d1", name="deploy")
ASKED = UserMessage(text="Go", to=["coder"])
CALLED = AssistantMessage(agent="coder", text="I look.", tool_calls=[SHELL])
GOLDEN = """
1 mode system: mode chat; title A failing test; coder joins; reviewer joins; coder: gpt-5; reviewer: gpt-5
2 message user to coder: Which test fails? [hidden]
3 message coder: I run them. [hidden]
3+4 tool coder: shell {"cmd": "pytest"} (failed) 1 failed [hidden]
5 error coder: overloaded [hidden]
6 error coder: timeout: no token for 60 s: It is [hidden]
7 message user: continue
8 message coder to reviewer: It is test_dates. Reviewer? [hidden]
9 message reviewer: The parser reads local time.
10 mode system: mode agent
11 message user to coder: Ship it.
12+16 tool coder: deploy {"cmd": "test"} (ok) Shipped.
12+15 tool coder: deploy {"cmd": "live"} (failed) Refused.
12+17 tool coder: shell {"cmd": "ls"} (ok) README.md
13 message user: approve
14 message user: refuse
18 message coder: Now the docs.
18+19 tool coder: shell {"cmd": "make docs"} (failed) Cancelled.
20 message user: cancel
21 cut coder: summary of 2-9: test_dates fails.
22 mode system: reviewer leaves
23 message user: Thank you, all. [hidden]
24 message coder: You are welcome. [hidden]
25 cut system: hides 23-24; reviewer joins
"""


def of(*events: Event) -> list[TimelineItem]:
    return timeline(entries(*events))


def in_words(item: TimelineItem) -> str:
    """Return an item in one line."""
    where = f"{item.position}+{item.result}" if item.result else f"{item.position}"
    who = f"{item.author} to {', '.join(item.to)}" if item.to else item.author
    if item.kind == "tool":
        what = f"{item.detail} {item.text} ({item.status}) {text_of(item.output)}"
    else:
        what = ": ".join(filter(None, [item.detail, item.text]))
    return f"{where} {item.kind} {who}: {what}" + (" [hidden]" if item.hidden else "")


def test_the_story_of_a_conversation_is_shown_like_this() -> None:
    assert "\n".join(map(in_words, of(*example_conversation()))) == GOLDEN.strip()


def test_a_result_is_attached_to_its_call_and_takes_no_place_of_its_own() -> None:
    said, card, waiting = of(CALLED, ToolResult(call_id="c1", text="README.md", is_error=True))

    assert (said.kind, said.text) == ("message", "I look.")
    assert (card.kind, card.detail, card.text, card.call) == ("tool", "shell", '{"cmd":"ls"}', SHELL)
    assert (card.status, card.result, card.output) == ("failed", 2, (TextPart(text="README.md"),))
    assert waiting.kind == "running"


def test_results_in_any_order_find_their_cards() -> None:
    calls = [ToolCall(id=id, name=id) for id in ("a", "b", "a")]
    said = AssistantMessage(agent="coder", tool_calls=calls)
    cards = of(said, ToolResult(call_id="b"), ToolResult(call_id="a", call=CallRef(entry="e1", index=2)))

    assert [(card.detail, card.result) for card in cards] == [("a", 0), ("b", 2), ("a", 3)]


def test_a_result_without_a_call_stands_on_its_own() -> None:
    result = ToolResult(call_id="c1", text="lost")
    first, _, _, second, _ = of(
        result, CALLED, ToolResult(call_id="c1"), ToolResult(call_id="c1", name="shell")
    )

    assert (first.kind, first.status, first.call, first.output) == (
        "tool",
        "ok",
        None,
        (TextPart(text="lost"),),
    )
    assert first.detail == "tool: a result without its call (c1)"
    assert second.detail == "shell: a further result of a call that has one (c1)"


@pytest.mark.parametrize(
    ("events", "status"),
    [
        ([CALLED], "running"),
        ([CALLED, ASKED], "running"),
        ([CALLED, LlmError(agent="coder", category="timeout")], "running"),
        ([CALLED, LlmError(agent="coder", category="cancelled")], "no result"),
        ([CALLED, AssistantMessage(agent="coder", text="Never mind.")], "no result"),
        ([CALLED, AssistantMessage(agent="tester", text="Hm.")], "running"),
        ([CALLED, ModeSwitch(leaves=["coder"])], "no result"),
    ],
    ids=["open", "asked again", "failed", "cancelled", "went on", "another spoke", "left"],
)
def test_a_call_without_a_result_runs_until_its_lane_goes_on(events: list[Event], status: str) -> None:
    assert [item.status for item in of(*events) if item.call] == [status]


def test_a_call_that_a_person_must_approve_says_so() -> None:
    card = AgentCard(tools=[Tool(name="deploy", approval=True)])
    said = AssistantMessage(agent="coder", tool_calls=[SHELL, DEPLOY])
    approved = UserMessage(control=Control(action="approve", call=CallRef(entry="e2", index=1)))
    opened = ModeSwitch(cards={"coder": card})

    assert [item.status for item in of(opened, said) if item.call] == ["running", "awaiting approval"]
    assert [item.status for item in of(opened, said, approved) if item.call] == ["running", "running"]


def test_who_waits_for_its_model_comes_last() -> None:
    items = of(
        ModeSwitch(joins=["coder", "tester"]), UserMessage(text="Hi"), AssistantMessage(agent="tester")
    )

    assert (items[-1].kind, items[-1].author, items[-1].position) == ("running", "coder", 3)
    assert [item.kind for item in items].count("running") == 1


def test_what_an_agent_thought_before_its_calls_is_shown() -> None:
    [thought, card] = of(AssistantMessage(agent="coder", parts=[ReasoningPart(text="Hm."), SHELL]))

    assert (thought.kind, thought.parts) == ("message", (ReasoningPart(text="Hm."),))
    assert card.call == SHELL


def test_an_answer_that_says_nothing_is_still_a_message() -> None:
    assert [item.kind for item in of(AssistantMessage(agent="coder"))] == ["message"]


def test_what_was_received_before_an_error_is_kept_with_it() -> None:
    [error, _] = of(
        LlmError(agent="coder", task="docs", category="timeout", message="60 s", text="It is"), ASKED
    )[:2]

    assert (error.kind, error.author, error.text, error.detail) == (
        "error",
        "coder/docs",
        "It is",
        "timeout: 60 s",
    )


@pytest.mark.parametrize(
    ("said", "author"),
    [
        (UserMessage(text="Hi"), "user"),
        (UserMessage(text="Hi", author="Ada"), "Ada"),
        (UserMessage(text="Hi", author_kind="schedule"), "schedule"),
        (AssistantMessage(agent="coder", task="docs"), "coder/docs"),
        (Unknown(topic="poll@1", payload=b"{}"), ""),
    ],
)
def test_every_item_says_whose_it_is(said: Event, author: str) -> None:
    assert [item.author for item in of(said)] == [author]


@pytest.mark.parametrize(
    ("switch", "words"),
    [
        (ModeSwitch(mode="agent"), "mode agent"),
        (ModeSwitch(mode=None, title=None), "mode cleared; title cleared"),
        (ModeSwitch(mode="run", agents=["a", "b"], title="Cats"), "mode run for a, b; title Cats"),
        (ModeSwitch(scope="addressed"), "scope addressed"),
        (ModeSwitch(context_from=4), "only entries from 4 on are sent"),
        (
            ModeSwitch(hides=[PositionRange(first=1, last=2), PositionRange(first=4, last=4)]),
            "hides 1-2, 4",
        ),
        (ModeSwitch(hides=[]), "hides nothing"),
        (ModeSwitch(hides=None), "hides cleared"),
        (ModeSwitch(joins=["a"], leaves=["b"]), "a joins; b leaves"),
        (
            ModeSwitch(cards={"a": AgentCard(model="m"), "b": AgentCard(), "c": None}),
            "a: m; b: no settings; c: settings removed",
        ),
        (ModeSwitch(active_run=WorkflowRun(id="r7"), turns=TurnPolicy(rule="first")), "turns first; run r7"),
        (ModeSwitch(handoff="Yours."), "handoff Yours."),
        (ModeSwitch(parent=ConversationRef(conversation="p", position=4, digest="")), "child of p@4"),
        (
            ModeSwitch(parent=ConversationRef(conversation="p", position=4, digest=""), fork=True),
            "fork of p@4",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_mode_change_says_what_it_changes(switch: ModeSwitch, words: str) -> None:
    [item] = of(switch)

    assert (item.detail, item.kind) == (words, "cut" if words.startswith(("hides", "only")) else "mode")


def test_a_mode_switch_that_changes_nothing_is_not_shown() -> None:
    assert of(ModeSwitch(), ModeSwitch(meta={"app": {"checkpoint": 7}})) == []


@pytest.mark.parametrize(
    ("events", "hidden"),
    [
        ([ModeSwitch(context_from=3)], [1, 2, 2]),
        ([ModeSwitch(hides=[PositionRange(first=2, last=3)])], [2, 2]),
        ([UserMessage(text="Go on", replaces=1)], [1]),
        (
            [AssistantMessage(agent="coder", purpose="summary", covers=[PositionRange(first=1, last=3)])],
            [1, 2, 2],
        ),
    ],
    ids=["a reset", "a rewind", "an edit", "a summary"],
)
def test_what_is_out_of_context_is_shown_as_such(events: list[Event], hidden: list[int]) -> None:
    items = of(ASKED, CALLED, ToolResult(call_id="c1"), *events)

    assert [item.position for item in items if item.hidden] == hidden


@given(log=logs())
def test_the_timeline_shows_every_entry_once_and_in_order(log: list[Entry]) -> None:
    items = timeline(log)
    running = [item.kind == "running" for item in items]
    shown = [item.position for item in items if item.kind != "running"]
    attached = {item.result for item in items if item.result}

    assert running == sorted(running)
    assert shown == sorted(shown)
    assert set(shown) | attached == {entry.position for entry in log if _tells(entry)}


def _tells(entry: Entry) -> bool:
    return not isinstance(entry.event, ModeSwitch) or changes(entry.event) != ""


@given(log=logs())
def test_the_timeline_keeps_every_word(log: list[Entry]) -> None:
    items = timeline(log)
    for entry in log:
        parts = tuple(getattr(entry.event, "parts", ()))
        at_home = [item for item in items if entry.position in (item.position, item.result)]
        found = [part for item in at_home for part in (*item.parts, *item.output, item.call)]

        assert all(part in found for part in parts)


def test_of_a_changed_card_the_timeline_names_what_is_new_and_what_is_gone() -> None:
    search, run = Tool(name="search"), Tool(name="run")
    first = AgentCard(model="m", persona="Mend.", tools=[search], policy=Budget(tokens=16_000))
    changed = [
        replace(first, policy=LastN(40) | Budget(tokens=930)),
        replace(first, model="n", policy={}, tools=[run]),
        replace(first, persona="Write."),
        replace(first, persona="Write."),
        None,
        first,
    ]

    assert [item.detail for item in of(*(ModeSwitch(cards={"a": card}) for card in (first, *changed)))] == [
        "a: m, budget 16,000 tokens",
        "a: budget 930 tokens, 40 recent messages",
        "a: n, no budget, no limit on messages, tools run, without tools search",
        "a: m, budget 16,000 tokens, new instructions, tools search, without tools run",
        "a: m",
        "a: settings removed",
        "a: m, budget 16,000 tokens",
    ]
