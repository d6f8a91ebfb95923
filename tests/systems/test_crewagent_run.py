"""System 2 at work: teams that are stopped and started again between any two steps, on one log in a file."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from itertools import pairwise
from pathlib import Path
from typing import Any

import stenolog
from stenolog import (
    Agent,
    AssistantMessage,
    LlmError,
    ModeSwitch,
    Request,
    Team,
    ToolCall,
    ToolResult,
    UserMessage,
)
from stenolog.context import Budget, TruncateToolOutput
from stenolog.contrib.crewagent import export_crewagent
from stenolog.domain.policy import PolicyLike
from stenolog.engine import EntryAppended, RetryPolicy, compact
from stenolog.events import WorkflowRun
from stenolog.importers import import_file
from stenolog.models import Model, ModelRequest, ModelResponse, ResponseDelta, Scripted, Timeouts
from stenolog.parts import FilePart
from stenolog.tools import ReadOutput, tool
from tests.systems.given import Room, around, left_out, shown, words
from tests.systems.test_crewagent import AROUND, FIVE_MB, PERSONA, SIDE_BY_SIDE, THE_RUN

EXAMPLE = Path(__file__).parents[2] / "docs" / "examples" / "crewagent"
LOOK = ToolCall(id="c1", name="look", arguments='{"path": "a.py"}')


@tool(repeat="safe")
def look(path: str) -> str:
    """Look at a file."""
    return "import os"


@tool(repeat="safe")
def print_much() -> str:
    """Print five megabytes."""
    return FIVE_MB


def crew(*turns: Any, policy: PolicyLike = AROUND, llm: Model | None = None, **fields: Any) -> Agent:
    """Return the agent with its tools, and a script that answers for its model."""
    model = llm or Scripted(*turns)
    tools = [look, print_much, ReadOutput()]
    return Agent("crew", llm=model, persona=PERSONA, tools=tools, policy=policy, **fields)


def work(room: Room, agent: Agent, *said: Any, **options: Any) -> None:
    """Start the program anew, say something, and let it go on until it waits for a person."""

    async def run() -> None:
        with room.opened() as conversation:
            async with Team([agent], mode="chat") as team, asyncio.timeout(20):
                async for _ in team.run(conversation, *said, **options):
                    pass

    asyncio.run(run())


def broken_off(room: Room, agent: Agent, *said: Any, after: type) -> None:
    """Run the program until the first event of a kind, and break it off there."""

    async def run() -> None:
        with room.opened() as conversation:
            async with Team([agent], mode="chat") as team, asyncio.timeout(20):
                async for happened in team.run(conversation, *said):
                    if isinstance(happened, EntryAppended) and isinstance(happened.entry.event, after):
                        return

    asyncio.run(run())


def switch(room: Room, **fields: Any) -> None:
    with room.opened() as conversation:
        conversation.append(ModeSwitch(**fields), expected=conversation.position)


def sent(room: Room) -> list[Request]:
    """Return the requests of all answers and errors, built again from their receipts."""
    events = [entry.event for entry in room.entries()]
    views = [event.receipt.view for event in events if getattr(event, "receipt", None)]  # type: ignore[union-attr]
    return [room.request("crew", view) for view in views]


# The three modes


def in_three_modes(room: Room) -> None:
    """Write a message in chat mode, one in agent mode with a tool, one in run mode, each by a new program."""
    work(room, crew("A parser."), "What is it?")
    switch(room, mode="agent")
    work(room, crew(["I look.", LOOK], "It imports os."), "Look.")
    switch(room, mode="run", active_run=THE_RUN)
    work(room, crew(LOOK, "Shipped."), "Go.")


def test_a_switch_of_mode_keeps_the_history_and_changes_the_prefix_alone(room: Room) -> None:
    in_three_modes(room)

    requests = sent(room)
    modes = ["chat", "agent", "agent", "run", "run"]
    assert [[rule for rule, _ in around(request)] for request in requests] == [
        SIDE_BY_SIDE[mode] for mode in modes
    ]
    for earlier, later in pairwise(requests):
        assert words(later)[: len(words(earlier)) - 1] == words(earlier)[:-1]
    assert [
        item.text for item in room.look(lambda conversation: conversation.timeline()) if PERSONA in item.text
    ] == []


def test_all_that_is_said_and_done_in_a_run_is_tagged_with_it(room: Room) -> None:
    in_three_modes(room)
    switch(room, mode="chat", active_run=None)
    work(room, crew("Bye."), "Thanks.")

    tagged = [(type(e.event), e.event.run, e.event.node) for e in room.entries() if e.position > 3]  # type: ignore[union-attr]
    assert tagged == [
        *(
            (kind, "", "")
            for kind in (ModeSwitch, UserMessage, AssistantMessage, ToolResult, AssistantMessage)
        ),
        (ModeSwitch, "", ""),
        *((kind, "r1", "n1") for kind in (UserMessage, AssistantMessage, ToolResult, AssistantMessage)),
        *((kind, "", "") for kind in (ModeSwitch, UserMessage, AssistantMessage)),
    ]


def test_a_call_without_words_is_sent_with_content_null_and_its_result_behind_it(room: Room) -> None:
    work(room, crew(LOOK, "It imports os."), "Look.")

    call = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": LOOK.arguments}}
    (_, asked, called, result, _) = sent(room)[-1].body["messages"]
    assert [asked, called, result] == [
        {"role": "user", "content": "Look."},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "import os"},
    ]


def test_the_next_node_of_a_run_has_a_brief_and_a_context_of_its_own(room: Room) -> None:
    nodes = [
        WorkflowRun(
            id="r1", directive="Ship it.", node=node, brief=f"Brief of {node}.", context=f"{step} of 2."
        )
        for step, node in enumerate(("build", "test"), 1)
    ]
    for node in nodes:
        switch(room, mode="run", active_run=node)
        work(room, crew(f"{node.node} is done."), f"Begin {node.node}.")

    last = [request.body["messages"][-1]["content"] for request in sent(room)]
    assert last == [
        "Follow the run.\n\n[mode: run]\n\nShip it.\n\nBrief of build.\n\n1 of 2.",
        "Follow the run.\n\n[mode: run]\n\nShip it.\n\nBrief of test.\n\n2 of 2.",
    ]


# Budgets, and what is large


def test_a_team_keeps_to_its_budget_and_tells_what_it_left_out(room: Room) -> None:
    small = Budget(messages=12, characters=4_000, tokens=2_000) | AROUND
    for turn in range(8):
        work(room, crew(LOOK, f"Answer {turn}.", policy=small), f"Question {turn}.")

    for request in sent(room):
        assert request.sendable
        assert request.size.messages <= 12
        assert request.size.tokens <= 2_000
        said = [m["content"] for m in request.body["messages"] if m["role"] == "user"]
        asked = [e.event.text for e in room.entries() if e.position <= request.at and _asks(e.event)]  # type: ignore[union-attr]
        assert said[-1] == asked[-1]
        assert said == asked[-len(said) :]
    last = sent(room)[-1]
    assert [(run.first, run.rule) for run in last.omissions] == [(2, "over-budget")]


def _asks(event: object) -> bool:
    return isinstance(event, UserMessage)


def test_five_megabytes_cost_400_tokens_and_are_read_by_their_alias(room: Room) -> None:
    def read(prompt: ModelRequest) -> ToolCall:
        shown = prompt.body["messages"][-2]["content"]
        path = shown.partition('path="')[2].partition('"')[0]
        return ToolCall(id="c2", name="read_output", arguments=json.dumps({"path": path, "limit": 28}))

    much = ToolCall(id="c1", name="print_much")
    work(room, crew(much, read, "All is well.", policy=TruncateToolOutput() | AROUND), "Run the tests.")

    before, after, _ = sent(room)
    assert after.size.tokens - before.size.tokens <= 400
    result, piece = (e for e in room.entries() if isinstance(e.event, ToolResult))
    alias = f"@state/logs/tool-results/{result.id}.json"
    assert room.look(lambda conversation: conversation.outputs[alias]) == FIVE_MB
    assert isinstance(piece.event, ToolResult)
    assert piece.event.text.startswith("0000000 passed, all is well\n\n[characters 0 to 28 of 5,320,000;")
    assert isinstance(result.event, ToolResult)
    assert len(result.event.text) < 2_000  # the event itself is small; the whole is a blob


def test_outputs_are_read_only_files_for_an_agent_that_reads_nothing_else(room: Room, tmp_path: Path) -> None:
    work(room, crew(ToolCall(id="c1", name="print_much"), "Done."), "Run the tests.")

    with room.opened() as conversation:
        (alias,) = conversation.outputs.write_files(tmp_path / "workspace")

    file = tmp_path / "workspace" / alias
    assert file.read_text() == FIVE_MB
    assert file.stat().st_mode & 0o222 == 0


def test_an_artifact_is_read_by_its_name(room: Room) -> None:
    name = "@project/artifacts/plan.md"
    with room.opened() as conversation:
        plan = FilePart(
            name=name, media_type="text/markdown", blob=conversation.log.blobs.put(b"1. Mend the parser.")
        )
        conversation.append(UserMessage(parts=[plan], author_kind="system", in_context=False))
    read = ToolCall(id="c1", name="read_output", arguments=json.dumps({"path": name}))

    work(room, crew(read, "I know the plan."), "What is the plan?")

    (result,) = (e.event for e in room.entries() if isinstance(e.event, ToolResult))
    assert result.text == "1. Mend the parser.\n[characters 0 to 19 of 19; this is the end]"


# A timeout in mid-stream


class Stalls(Scripted):
    """Streams what it has to say, and then nothing comes any more."""

    async def stream(self, prompt: ModelRequest) -> AsyncGenerator[ResponseDelta | ModelResponse, None]:
        async for said in super().stream(prompt):
            if isinstance(said, ModelResponse):
                await asyncio.sleep(3600)
            yield said


def cut_off(room: Room) -> None:
    """Let the model fall silent in the middle of a sentence, without a retry."""
    slow = Stalls("It imports o", timeouts=Timeouts(idle=0.05))
    work(room, crew(llm=slow, retries=RetryPolicy(attempts={})), "Which modules?")


def test_continue_goes_on_from_what_had_streamed_before_the_timeout(room: Room) -> None:
    cut_off(room)
    heard: list[ModelRequest] = []

    def go_on(prompt: ModelRequest) -> str:
        heard.append(prompt)
        return "s and sys."

    work(room, crew(go_on), "continue")

    said = [(m["role"], m["content"]) for m in heard[0].body["messages"][1:-1]]
    assert said[:2] == [("user", "Which modules?"), ("assistant", "It imports o")]
    assert "cut off (timeout: no token for 0.05 s)" in said[2][1]
    assert said[3] == ("user", "continue")
    texts = [getattr(entry.event, "text", "") for entry in room.entries()]
    assert texts[-3:] == ["It imports o", "continue", "s and sys."]


def test_the_timeout_is_in_the_timeline_and_ends_no_program(room: Room) -> None:
    cut_off(room)

    (error,) = (e.event for e in room.entries() if isinstance(e.event, LlmError))
    assert (error.category, error.text) == ("timeout", "It imports o")
    shown = [(item.kind, item.text) for item in room.look(lambda conversation: conversation.timeline())]
    assert ("error", "It imports o") in shown
    assert room.look(lambda conversation: conversation.state().lane("crew").status) == "failed"


# A restart in the middle of a run


def test_a_run_goes_on_after_a_restart_from_the_log_alone(room: Room) -> None:
    switch(room, mode="run", active_run=THE_RUN)
    broken_off(room, crew(["I look.", LOOK]), "Go.", after=AssistantMessage)

    work(room, crew("Shipped."))

    assert [(type(e.event).__name__, e.event.run) for e in room.entries()][-4:] == [  # type: ignore[union-attr]
        ("UserMessage", "r1"),
        ("AssistantMessage", "r1"),
        ("ToolResult", "r1"),
        ("AssistantMessage", "r1"),
    ]
    before, after = sent(room)
    assert words(after)[: len(words(before)) - 1] == words(before)[:-1]
    assert [rule for rule, _ in around(after)] == SIDE_BY_SIDE["run"]


def test_a_run_that_was_stopped_before_its_model_answered_asks_it_again(room: Room) -> None:
    switch(room, mode="run", active_run=THE_RUN)
    broken_off(room, crew("never said"), "Go.", after=UserMessage)

    work(room, crew("Shipped."))

    assert [getattr(entry.event, "text", "") for entry in room.entries()][-1] == "Shipped."


# What was trimmed


def test_a_summary_of_what_was_trimmed_stands_in_its_place_from_then_on(room: Room) -> None:
    policy = Budget(messages=10) | AROUND
    for turn in range(5):
        work(room, crew(f"Answer {turn}.", policy=policy), f"Question {turn}.")
    assert [run.rule for run in room.request("crew").omissions] == ["over-budget"]

    with room.opened() as conversation:
        summariser = Agent("summariser", llm=Scripted("Questions 0 to 3 were answered."))
        made = asyncio.run(compact(conversation, "crew", summariser, keep=2))
    work(room, crew("Answer 5.", policy=policy), "Question 5.")

    assert made is not None
    request = sent(room)[-1]
    assert words(request)[0] == "<summary>\nQuestions 0 to 3 were answered.\n</summary>"
    assert shown(request)[0] == ((made.position,), "summary")
    assert isinstance(made.event, AssistantMessage)
    covered = [position for span in made.event.covers for position in range(span.first, span.last + 1)]
    gone = [position for first, last, _ in left_out(request) for position in range(first, last + 1)]
    assert gone == covered
    hidden = [item.text for item in room.look(lambda conversation: conversation.timeline()) if item.hidden]
    assert hidden[:2] == ["Question 0.", "Answer 0."]


# The old app


def test_an_imported_conversation_goes_on_in_its_mode_and_is_taken_back(room: Room, tmp_path: Path) -> None:
    with stenolog.open(room.path) as log:
        import_file(log, EXAMPLE)
    parser = Room(room.path, "parser")
    work(parser, Agent("assistant", llm=Scripted("Mended."), persona=PERSONA, policy=AROUND), "Mend it.")

    request = parser.request("assistant", parser.entries()[-1].position - 1)
    assert [rule for rule, _ in around(request)][:5] == SIDE_BY_SIDE["run"][:5]
    assert [m["content"] for m in request.body["messages"] if m["role"] == "user"][-1] == "Mend it."

    with parser.opened() as conversation:
        export_crewagent(conversation, tmp_path / "out")
    old = json.loads((EXAMPLE / "conversations" / "parser" / "messages.json").read_text())
    new = json.loads((tmp_path / "out" / "parser" / "messages.json").read_text())
    assert new[: len(old)] == old
    assert [(m["role"], m["content"], m["mode"]) for m in new[len(old) :] if m["partType"] == "text"] == [
        ("user", "Mend it.", "run"),
        ("assistant", "Mended.", "run"),
    ]
