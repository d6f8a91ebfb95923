"""System 4 with the engine: every step in a log that was just opened, as after a restart before each."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

import stenolog
from stenolog import (
    Agent,
    AssistantMessage,
    Conversation,
    Entry,
    LlmError,
    ModeSwitch,
    State,
    Team,
    TextPart,
    ToolResult,
    UserMessage,
    evolve,
    step,
)
from stenolog.context import Budget, Pins
from stenolog.engine import (
    AgentTool,
    Limits,
    UsageByLane,
    compact,
    delegated_usage,
    limit_reached,
    track_usage,
)
from stenolog.events import Usage, WorkflowRun
from stenolog.models import Model, ModelRequest, ModelResponse, Scripted
from stenolog.tools import tool
from tests.engine.given import call, run
from tests.systems.given import Room, left_out, roles, words

TASK = json.dumps({"task": "Count the cats."})


@tool(repeat="safe")
def ls() -> str:
    """List the files."""
    return "a.py"


def coder(llm: Model, **options: Any) -> Team:
    return Team([Agent("coder", llm=llm, tools=[ls], **options)])


def worked(room: Room, team: Team, question: str) -> None:
    """Say it, and do one effect after the other, each in a log that was just opened."""

    async def advanced() -> list[Entry]:
        with room.opened() as conversation:
            return await team.advance(conversation)

    async def said() -> None:
        with room.opened() as conversation:
            await team.send(conversation, question)

    run(said())
    while run(advanced()):
        pass


def history(room: Room) -> list[Entry]:
    """Return the messages, without the settings."""
    return [entry for entry in room.entries() if not isinstance(entry.event, ModeSwitch)]


def reasons(room: Room) -> list[str]:
    """Return the reasons for the ends of runs."""
    return [entry.event.message for entry in room.entries() if isinstance(entry.event, LlmError)]


def looks(prompt: ModelRequest) -> object:
    """Return a model that never has enough."""
    return call("ls", f"c{len(prompt.body['messages'])}")


def counted() -> Iterator[int]:
    yield from range(1, 100)


class TestTheStep:
    def test_the_history_grows_by_one_with_each_message_and_the_second_turn_is_sent_all_of_it(
        self, room: Room
    ) -> None:
        model = Scripted(call("ls"), "One file.", "It is a.py, as I said.")
        worked(room, coder(model), "What is here?")
        worked(room, coder(model), "What was its name?")
        prompts = [len(prompt.body["messages"]) for prompt in model.prompts]

        assert [entry.event.kind for entry in history(room)] == [
            "user_message",
            "assistant_message",
            "tool_result",
            "assistant_message",
            "user_message",
            "assistant_message",
        ]
        assert prompts == [1, 3, 5]
        assert words(room.request("coder", 6))[-2:] == ["One file.", "What was its name?"]

    def test_it_is_pure_and_a_restart_is_the_fold_of_the_log(self, room: Room) -> None:
        worked(room, coder(Scripted(call("ls"), "One file.")), "What is here?")
        entries, state = room.entries(), State()
        for entry in entries:
            before = repr(state)
            first, second = step(state, entry), step(state, entry)

            kept = room.look(partial(Conversation.state, at=entry.position))
            assert (first, repr(state)) == (second, before)
            assert (first.state, first.state) == (evolve(state, entry), kept)
            state = first.state

        assert room.look(Conversation.transitions) == [*_transitions(entries)]

    def test_no_state_can_be_changed_in_place(self, room: Room) -> None:
        room.write(ModeSwitch(joins=["coder"]), UserMessage(text="Go"))
        state = room.look(lambda conversation: conversation.state())
        (transition, *_) = room.look(lambda conversation: conversation.transitions())

        for value, name in (
            (state, "position"),
            (state.lane("coder"), "steps"),
            (transition, "decision"),
            (transition.decision, "do"),
            (room.entries()[1], "event"),
            (room.entries()[1].event, "parts"),
        ):
            with pytest.raises((AttributeError, TypeError)):
                setattr(value, name, None)


def _transitions(entries: list[Entry]) -> Iterator[object]:
    state = State()
    for entry in entries:
        state, made = step(state, entry)
        yield from made


class TestLimits:
    @pytest.mark.parametrize(
        ("limits", "reason"),
        [
            (Limits(max_steps=2), "max_steps: 2 steps since the last message"),
            (Limits(same_call=4), "stuck: ls({}) gave the same result 4 times"),
        ],
        ids=["max steps", "stuck"],
    )
    def test_a_run_is_ended_with_a_reason_which_a_restart_finds_in_the_log(
        self, room: Room, limits: Limits, reason: str
    ) -> None:
        team = coder(Scripted(looks, endless=True), limits=limits)
        worked(room, team, "Look around.")
        (*_, last) = room.look(lambda conversation: conversation.transitions())
        before = len(room.entries())
        with room.opened() as conversation:
            again = run(team.advance(conversation))

        assert reasons(room) == [reason]
        assert (last.decision.do, last.decision.reason) == ("wait", "failed: budget")
        assert (again, len(room.entries())) == ([], before)

    def test_a_loop_of_ones_own_comes_to_the_same_verdict_from_the_log_alone(self, room: Room) -> None:
        limits, accounts = Limits(same_call=3), UsageByLane()
        worked(room, coder(Scripted(looks, endless=True), limits=limits), "Look around.")
        verdicts = []
        for entry in room.entries():
            accounts = track_usage(accounts, entry)
            verdicts.append(limit_reached(limits, accounts.lane("coder")))

        assert [verdict for verdict in verdicts if verdict][:1] == reasons(room)

    def test_the_same_call_with_another_result_each_time_is_not_stuck(self, room: Room) -> None:
        numbers = counted()

        @tool(name="ls", repeat="safe")
        def count() -> str:
            """Count."""
            return str(next(numbers))

        team = Team(
            [Agent("coder", llm=Scripted(looks, endless=True), tools=[count], limits=Limits(max_steps=6))]
        )
        worked(room, team, "Count.")

        assert reasons(room) == ["max_steps: 6 steps since the last message"]


class TestContext:
    def test_a_long_run_is_condensed_and_pruned_and_keeps_the_recent_and_the_system(self, room: Room) -> None:
        team = coder(Scripted(*[looks] * 8, "Enough."), limits=Limits(same_call=None))
        summariser = Agent("brief", llm=Scripted("Four times the same file."))
        room.write(ModeSwitch(mode="agent"), UserMessage(author_kind="system", text="Never touch main."))
        worked(room, team, "Look around. " + "Everywhere. " * 20)
        with room.opened() as conversation:
            made = run(compact(conversation, "coder", summariser, over=100, keep=4))
        assert made is not None
        room.write(UserMessage(text="And now?"))
        pinned = room.request("coder", policy=Pins(authors=["system"]))
        pruned = room.request("coder", policy=Budget(tokens=130) | Pins(authors=["system"]))

        assert roles(pinned)[:3] == [
            ("system", "Never touch main."),
            ("user", "Look around. " + "Everywhere. " * 20),
            ("user", "<summary>\nFour times the same file.\n</summary>"),
        ]
        assert (words(pinned)[-2:], left_out(pinned)) == (["Enough.", "And now?"], [(5, 16, "covered")])
        assert [roles(pruned)[0], roles(pruned)[-1]] == [
            ("system", "Never touch main."),
            ("user", "And now?"),
        ]
        assert left_out(pruned) == [(4, 21, "over-budget")]
        assert (pruned.sendable, pruned.size.tokens <= 130) == (True, True)
        assert [entry.position for entry in room.entries()] == [*range(1, made.position + 2)]

    def test_every_entry_of_a_run_says_which_step_made_it(self, room: Room) -> None:
        room.write(ModeSwitch(mode="run", active_run=WorkflowRun(id="r1", node="look")))
        worked(room, coder(Scripted(call("ls"), "One file.")), "What is here?")
        made = {entry.id: entry.position for entry in room.entries()}
        stamps: list[tuple[int, str, str, int | None]] = []
        for entry in history(room):
            match entry.event:
                case UserMessage(run=which, node=node):
                    stamps.append((entry.position, which, node, None))
                case AssistantMessage(run=which, node=node, cause=cause):
                    stamps.append((entry.position, which, node, cause))
                case ToolResult(run=which, node=node, call=ref) if ref:
                    stamps.append((entry.position, which, node, made[ref.entry]))
                case _:
                    pass

        assert stamps == [
            (3, "r1", "look", None),
            (4, "r1", "look", 3),
            (5, "r1", "look", 4),
            (6, "r1", "look", 5),
        ]

    def test_a_message_is_said_once_though_the_run_has_gone_on_to_another_node(self, room: Room) -> None:
        room.write(ModeSwitch(mode="run", active_run=WorkflowRun(id="r1", node="look")))
        team = coder(Scripted("One file."))
        for node in ("look", "mend"):
            with room.opened() as conversation:
                conversation.append(
                    ModeSwitch(active_run=WorkflowRun(id="r1", node=node)), expected=conversation.position
                )
                run(team.ask(conversation, "What is here?", id="question"))

        assert [entry.event.kind for entry in history(room)] == ["user_message", "assistant_message"]


def lead(worker: Agent, calls: int = 1, **options: Any) -> Team:
    asks = [call("ask_reader", f"c{nth}", TASK) for nth in range(calls)]
    agent = Agent(
        "lead",
        llm=Scripted(asks, "There are three."),
        tools=[AgentTool(worker, **options)],
        limits=Limits(max_tokens=100_000),
    )
    return Team([agent])


class TestWorkers:
    @pytest.mark.parametrize("context", ["fork", "scope"])
    def test_a_worker_inherits_the_context_and_its_summary_is_merged_and_both_are_linked(
        self, room: Room, context: Any
    ) -> None:
        reader = Scripted("Three.")
        worked(room, lead(Agent("reader", llm=reader), context=context), "My house is full of cats.")
        (result,) = (entry.event for entry in room.entries() if isinstance(entry.event, ToolResult))
        meta: Any = result.meta["stenolog"]
        with stenolog.open(room.path) as log:
            child = log[meta["child"]["conversation"]]
            parent, copied = (
                child.settings().parent,
                [*child.entries(at=2)] == [*log["room"].entries(at=2)],
            )
            answer = next(child.entries(meta["child"]["position"] - 1)).event

        assert "My house is full of cats." in str(reader.prompts[0].body)
        assert isinstance(answer, AssistantMessage)
        assert (answer.text, result.text) == ("Three.", "Three.")
        assert ("tool", "Three.") in roles(room.request("lead"))
        if context == "fork":
            assert parent is not None
            assert (parent.conversation, parent.position, copied) == ("room", 2, False)
        else:
            assert (child.name, parent, meta["child"]["lane"][:7]) == ("room", None, "reader/")

    def test_workers_share_out_what_is_left_of_their_callers_budget(self, room: Room) -> None:
        def spends(prompt: ModelRequest) -> ModelResponse:
            return ModelResponse(
                (TextPart(text="Hm."), call("nothing")), usage=Usage(input=9_000, output=1_000)
            )

        endless = Limits(same_error=None, same_call=None)
        reader = Agent("reader", llm=Scripted(spends, endless=True), limits=endless)
        worked(room, lead(reader, calls=4), "Count.")
        results = [entry.event for entry in room.entries() if isinstance(entry.event, ToolResult)]
        used = [sum(u.input + u.output for _, u in delegated_usage(result)) for result in results]

        assert [re.findall(r"of (\d+),", result.text) for result in results] == [
            ["24"],
            ["23"],
            ["19"],
            ["19"],
        ]
        assert used == [30_000, 30_000, 20_000, 20_000]  # a call that has begun comes to its end
