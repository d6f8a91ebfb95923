"""A person edits what they said, before, during and after the answer: the edit is always answered."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from stenolog import Conversation, Entry, LlmError, Team, ToolResult, UserMessage
from stenolog.engine import Agent, EntryAppended, StreamDelta
from stenolog.errors import IllegalCommandError
from stenolog.events import CallRef
from stenolog.models import ModelRequest, Scripted
from stenolog.projections.requests.pipeline.edits import ANEW
from stenolog.tools import tool
from tests.engine.given import Clock, answers, call, opened, outline, results, run, run_team

EDITED = UserMessage(text="Two, edited", replaces=2)


def asked(model: Scripted) -> list[list[str]]:
    """Return the messages sent to the model, request by request."""
    return [[message["content"] for message in prompt.body["messages"]] for prompt in model.prompts]


def test_an_edit_before_the_answer_is_all_that_the_model_is_asked(tmp_path: Path) -> None:
    model = Scripted("First.")
    with opened(tmp_path / "t.db") as conversation:
        team = Team([Agent("coder", llm=model)])
        run(team.send(conversation, "Two"))
        run(run_team(team, conversation, EDITED))

    assert asked(model) == [["Two, edited"]]


def test_an_edit_after_the_answer_is_answered_too(tmp_path: Path) -> None:
    model = Scripted("First.", "Second.")
    with opened(tmp_path / "t.db") as conversation:
        team = Team([Agent("coder", llm=model)])
        run(run_team(team, conversation, "Two"))
        run(run_team(team, conversation, EDITED))

        assert [text for _, text in outline(conversation)] == [
            "Two",
            "First.",
            "Two, edited",
            "Second.",
        ]
    assert asked(model) == [["Two"], ["Two", "First.", ANEW, "Two, edited"]]


def test_an_edit_while_the_answer_is_written_is_answered_next(tmp_path: Path) -> None:
    def first(prompt: ModelRequest) -> str:
        conversation.submit(EDITED)
        return "First."

    model = Scripted(first, "Second.")
    with opened(tmp_path / "t.db") as conversation:
        run(run_team(Team([Agent("coder", llm=model)]), conversation, "Two"))

        assert [text for _, text in outline(conversation)] == [
            "Two",
            "Two, edited",
            "First.",
            "Second.",
        ]
    assert asked(model) == [["Two"], ["Two", "First.", ANEW, "Two, edited"]]


# A message that waits for the lanes to come to rest, and is erased before it is said.


def test_a_message_that_is_erased_while_it_waits_is_not_said_and_stops_no_run(tmp_path: Path) -> None:
    async def main() -> None:
        async for happened in team.run(conversation, "Go"):
            if isinstance(happened, StreamDelta) and not waits:
                waits.extend(await team.send(conversation, "a secret", on_input="queue"))
            elif isinstance(happened, EntryAppended) and happened.entry in waits:
                await asyncio.to_thread(conversation.erase, happened.entry.position)

    waits: list[Entry] = []
    team = Team([Agent("coder", llm=Scripted("one two three", piece=4, pause=0.1))])
    with opened(tmp_path / "t.db") as conversation:
        run(main())
        events = [entry.event for entry in conversation.entries()]
        said = [event.text for event in events if isinstance(event, UserMessage) and event.in_context]

        assert said == ["Go"]
        assert [answer.text for answer in answers(conversation)] == ["one two three"]


# Who may stop, approve, refuse or interrupt a run, and how the log says so.


async def until(team: Team, conversation: Conversation, kind: type, then: Any, *said: Any) -> None:
    """Run a team; once something of a kind is told of, do `then`, and go on to the end."""
    done = False
    async for happened in team.run(conversation, *said):
        event = happened.entry.event if isinstance(happened, EntryAppended) else happened
        if not done and isinstance(event, kind):
            done = True
            await then()


def test_a_run_that_is_cancelled_in_mid_stream_keeps_what_was_said(tmp_path: Path) -> None:
    team = Team([Agent("coder", llm=Scripted("one two three four", piece=4, pause=1.0))])
    with opened(tmp_path / "t.db") as conversation:
        run(until(team, conversation, StreamDelta, lambda: team.cancel(conversation), "Go"))
        events = [entry.event for entry in conversation.entries()]
        state = conversation.state().lane("coder")

    error = events[-1]
    assert isinstance(error, LlmError)
    assert (error.category, error.text) == ("cancelled", "one ")
    assert error.receipt is not None
    assert isinstance(events[-2], UserMessage)
    assert events[-2].control is not None
    assert state.status == "idle"


def test_a_tool_that_is_cancelled_is_stopped_and_its_call_closed(tmp_path: Path) -> None:
    ended: list[str] = []

    @tool
    async def slow() -> str:
        """Take long."""
        begun.set()
        try:
            await asyncio.sleep(10)
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise
        return "done"

    async def main() -> None:
        working = asyncio.create_task(run_team(team, conversation, "Go"))
        await begun.wait()
        await team.cancel(conversation)
        await working

    begun = asyncio.Event()
    team = Team([Agent("coder", llm=Scripted([call("slow")], "never"), tools=[slow])])
    with opened(tmp_path / "t.db") as conversation:
        run(main())
        results = [
            entry.event.text for entry in conversation.entries() if isinstance(entry.event, ToolResult)
        ]

    assert ended == ["cancelled"]
    assert results == ["Cancelled by the user before a result was there."]


def test_a_lane_that_waits_to_try_again_can_be_cancelled(tmp_path: Path) -> None:
    from stenolog.errors import ModelError

    team = Team([Agent("coder", llm=Scripted(ModelError("overloaded", "busy", retry_after=500.0), "never"))])
    with opened(tmp_path / "t.db") as conversation:
        run(until(team, conversation, LlmError, lambda: team.cancel(conversation), "Go"))

        assert conversation.state().lane("coder").status == "idle"


def test_a_call_waits_for_approval_over_a_restart_and_runs_when_it_is_given(tmp_path: Path) -> None:
    shipped: list[str] = []

    @tool(approval=True)
    def ship(to: str) -> str:
        """Ship it."""
        shipped.append(to)
        return "shipped"

    def team(*turns: Any) -> Team:
        return Team([Agent("coder", llm=Scripted(*turns), tools=[ship])])

    with opened(tmp_path / "t.db") as conversation:
        run(run_team(team([call("ship", arguments='{"to": "live"}')]), conversation, "Ship"))
        assert shipped == []
        assert conversation.state().lane("coder").status == "awaiting_approval"
    with opened(tmp_path / "t.db") as conversation:
        (_, waiting) = conversation.state().open_calls()[0]
        again = team("Shipped.")
        run(again.approve(conversation, CallRef(entry=waiting.entry, index=waiting.nth)))
        run(run_team(again, conversation))

        assert shipped == ["live"]
        assert outline(conversation)[-2:] == [
            ("tool_result", "shipped"),
            ("assistant_message", "Shipped."),
        ]


def test_a_refused_call_is_not_run_and_its_agent_is_told(tmp_path: Path) -> None:
    @tool(approval=True)
    def ship() -> str:
        """Ship it."""
        raise AssertionError("it was refused")

    team = Team([Agent("coder", llm=Scripted([call("ship")], "As you wish."), tools=[ship])])
    with opened(tmp_path / "t.db") as conversation:
        run(run_team(team, conversation, "Ship"))
        (_, waiting) = conversation.state().open_calls()[0]
        run(team.reject(conversation, CallRef(entry=waiting.entry, index=waiting.nth)))
        run(run_team(team, conversation))

        assert [kind for kind, _ in outline(conversation)][-2:] == [
            "tool_result",
            "assistant_message",
        ]


def test_a_policy_may_wave_a_call_through_and_the_log_says_that_it_did(tmp_path: Path) -> None:
    def dangerous(arguments: Mapping[str, Any]) -> bool:
        return str(arguments["path"]).startswith("/etc")

    @tool(approval=dangerous)
    def read(path: str) -> str:
        """Read a file."""
        return path

    model = Scripted([call("read", arguments='{"path": "a"}')], [call("read", "c2", '{"path": "/etc/x"}')])
    with opened(tmp_path / "t.db") as conversation:
        run(run_team(Team([Agent("coder", llm=model, tools=[read])]), conversation, "Read"))
        approvals = [
            e.event for e in conversation.entries() if isinstance(e.event, UserMessage) and e.event.control
        ]
        waiting = conversation.state().lane("coder")

    assert [(each.author, each.author_kind) for each in approvals] == [("approval policy", "system")]
    assert waiting.status == "awaiting_approval"


@pytest.mark.parametrize(
    ("on_input", "kinds"),
    [
        ("next", ["Go", "more", "first", "second"]),
        ("queue", ["Go", "more", "first", "more", "second"]),
        ("cancel", ["Go", "", "more", "first", "second"]),
    ],
)
def test_words_that_come_during_a_run(tmp_path: Path, on_input: Any, kinds: list[str]) -> None:
    model = Scripted("first" + " and so on" * 5, "second", piece=5, pause=0.04)
    team = Team([Agent("coder", llm=model)])
    with opened(tmp_path / "t.db") as conversation:
        run(
            until(
                team,
                conversation,
                StreamDelta,
                lambda: team.send(conversation, "more", on_input=on_input),
                "Go",
            )
        )

        assert [text.partition(" ")[0] for _, text in outline(conversation)] == kinds
        assert conversation.state().lane("coder").status == "idle"
    seen = [message["content"] for message in model.prompts[1].body["messages"]]
    assert "more" in seen[-1]
    assert not any("more" in str(prompt.body) for prompt in model.prompts[:1])


def test_a_message_that_waits_is_heard_after_a_crash(tmp_path: Path) -> None:
    from stenolog.adapters.engine.journal.live_state import enqueue

    with opened(tmp_path / "t.db") as conversation:
        conversation.append(enqueue(UserMessage(text="and then?")))
        run(run_team(Team([Agent("coder", llm=Scripted("this"))]), conversation))

        assert outline(conversation)[-1] == ("assistant_message", "this")


def test_whoever_stops_listening_leaves_a_log_that_the_next_run_goes_on_from(tmp_path: Path) -> None:
    clock = Clock()
    team = Team(
        [Agent("coder", llm=Scripted("one two three", " and four", piece=4, pause=0.02))], world=clock.world
    )

    async def listen_a_little() -> None:
        running = team.run(conversation, "Count")
        async for happened in running:
            if isinstance(happened, StreamDelta):
                break
        await running.aclose()

    with opened(tmp_path / "t.db", clock) as conversation:
        run(listen_a_little())
        error = list(conversation.entries())[-1].event
        assert isinstance(error, LlmError)
        assert (error.category, error.attempt, error.text) == ("cancelled", 0, "one ")
        run(run_team(team, conversation))

        assert outline(conversation)[-1] == ("assistant_message", " and four")


def test_a_stop_that_comes_as_the_answer_has_ended_stops_nothing_and_is_no_error(tmp_path: Path) -> None:
    team = Team([Agent("coder", llm=Scripted("Hi"))])
    with opened(tmp_path / "t.db") as conversation:
        run(team.ask(conversation, "Hello"))
        before = conversation.position

        assert run(team.cancel(conversation)) == []
        assert conversation.position == before
        assert run(team.cancel(conversation, "coder")) == []
        with pytest.raises(IllegalCommandError):
            run(team.cancel(conversation, "stranger"))


def test_a_result_of_a_tool_that_ends_the_run_is_the_last_word_unless_it_failed(tmp_path: Path) -> None:
    outcomes = [ValueError("not yet"), "over"]

    @tool(ends_run=True)
    async def finish() -> str:
        """Finish."""
        outcome = outcomes.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        return str(outcome)

    model = Scripted(call("finish"), call("finish", "c2"), "never said")
    with opened(tmp_path / "t.db") as conversation:
        run(run_team(Team([Agent("coder", llm=model, tools=[finish])]), conversation, "Go."))

        assert [result.text for result in results(conversation)] == ["ValueError: not yet", "over"]
        assert (len(model.prompts), conversation.state().lane("coder").status) == (2, "idle")
