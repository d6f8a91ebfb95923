"""A team works on a conversation: what it records, what it tells of, and when it stops."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from pathlib import Path

import pytest

import stenolog
from stenolog import AssistantMessage, LlmError, ModeSwitch, Team, ToolResult, UserMessage
from stenolog.adapters.engine.model_calls import streaming
from stenolog.engine import Agent, CircuitBreaker, EntryAppended, Limits, RetryPolicy, RoundRobin
from stenolog.errors import CallerError, ModelError
from stenolog.events import Control, WorkflowRun
from stenolog.models import Scripted, Timeouts
from stenolog.tools import tool
from tests.engine.given import Clock, call, opened, outline, run, run_team, streamed


def look() -> str:
    """Look."""
    return "a cat"


def test_an_answer_with_a_call_is_followed_by_its_result_and_the_next_answer(tmp_path: Path) -> None:
    model = Scripted(["Let me look.", call("look")], "It is a cat.")
    with opened(tmp_path / "t.db") as conversation:
        entries = run(run_team(Team([Agent("coder", llm=model, tools=[look])]), conversation, "What is it?"))

        assert outline(conversation) == [
            ("user_message", "What is it?"),
            ("assistant_message", "Let me look."),
            ("tool_result", "a cat"),
            ("assistant_message", "It is a cat."),
        ]
        assert entries == list(conversation.entries())


def test_what_streams_comes_before_the_entry_that_it_becomes(tmp_path: Path) -> None:
    model = Scripted("A long answer, in several pieces.", piece=5)

    async def main() -> list[str]:
        return [
            each.entry.event.kind if isinstance(each, EntryAppended) else each.text
            async for each in Team([Agent("coder", llm=model)]).run(conversation, "Go")
        ]

    with opened(tmp_path / "t.db") as conversation:
        told_of = run(main())

    assert told_of[:2] == ["mode_switch", "user_message"]
    assert "".join(told_of[2:-1]) == "A long answer, in several pieces."
    assert told_of[-1] == "assistant_message"


def test_every_answer_has_the_receipt_of_the_request_that_the_model_got(tmp_path: Path) -> None:
    model = Scripted([call("look")], "It is a cat.")
    with opened(tmp_path / "t.db") as conversation:
        run(
            run_team(
                Team([Agent("coder", llm=model, tools=[look], persona="You are coder.")]), conversation, "Go"
            )
        )
        answers = [e.event for e in conversation.entries() if isinstance(e.event, AssistantMessage)]
        rebuilt = [conversation.request("coder", answer.receipt.view) for answer in answers if answer.receipt]

        assert [request.sha256 for request in rebuilt] == [a.receipt.sha256 for a in answers if a.receipt]
        assert [request.body for request in rebuilt] == [prompt.body for prompt in model.prompts]


def test_a_card_is_recorded_once_and_again_when_it_changes(tmp_path: Path) -> None:
    with opened(tmp_path / "t.db") as conversation:
        for persona in ("A", "A", "B"):
            run(run_team(Team([Agent("coder", llm=Scripted("ok"), persona=persona)]), conversation, "Go"))
        switches = [e.event for e in conversation.entries() if isinstance(e.event, ModeSwitch)]

    assert [switch.cards["coder"].persona for switch in switches if switch.cards["coder"]] == ["A", "B"]


def test_two_agents_of_one_name_are_refused() -> None:
    with pytest.raises(CallerError, match="same name"):
        Team([Agent("coder"), Agent("coder")])


def test_lanes_work_at_the_same_time(tmp_path: Path) -> None:
    both = asyncio.Barrier(2)

    @tool
    async def meet() -> str:
        """Wait for the other one."""
        await both.wait()
        return "met"

    agents = [Agent(name, llm=Scripted([call("meet")], "done"), tools=[meet]) for name in ("a", "b")]
    with opened(tmp_path / "t.db") as conversation:
        run(run_team(Team(agents), conversation, "Meet"))
        results = [e.event.text for e in conversation.entries() if isinstance(e.event, ToolResult)]

    assert results == ["met", "met"]


def test_a_failure_is_tried_again_after_the_wait_that_the_log_says(tmp_path: Path) -> None:
    clock = Clock()
    model = Scripted(ModelError("overloaded", "busy", retry_after=7.0), "There.")
    with opened(tmp_path / "t.db", clock) as conversation:
        run(run_team(Team([Agent("coder", llm=model)], world=clock.world), conversation, "Go"))
        error = next(e for e in conversation.entries() if isinstance(e.event, LlmError))

        assert isinstance(error.event, LlmError)
        assert error.event.retry_at is not None
        assert 6.9 < (error.event.retry_at - error.time).total_seconds() <= 7
        assert outline(conversation)[-1] == ("assistant_message", "There.")


def test_what_streamed_before_a_failure_is_kept_and_goes_on_with_continue(tmp_path: Path) -> None:
    clock = Clock()

    class Breaks(Scripted):
        async def stream(self, prompt):  # type: ignore[no-untyped-def]
            async for piece in super().stream(prompt):
                yield piece
                if self.remaining:
                    raise ModelError("invalid_request", "cut off")

    model = Breaks("The bug is in", " line 1.", piece=100)
    with opened(tmp_path / "t.db", clock) as conversation:
        team = Team([Agent("coder", llm=model)], world=clock.world)
        run(run_team(team, conversation, "Go"))
        run(run_team(team, conversation, UserMessage(control=Control(action="continue"))))

        assert [event.text for event in _errors(conversation)] == ["The bug is in"]
        assert outline(conversation)[-1] == ("assistant_message", " line 1.")


def _errors(conversation: stenolog.Conversation) -> list[LlmError]:
    return [entry.event for entry in conversation.entries() if isinstance(entry.event, LlmError)]


def test_a_category_that_is_not_tried_again_leaves_the_lane_failed(tmp_path: Path) -> None:
    model = Scripted(ModelError("unauthorized", "no such key"))
    with opened(tmp_path / "t.db") as conversation:
        run(run_team(Team([Agent("coder", llm=model)]), conversation, "Go"))

        assert conversation.state().lane("coder").status == "failed"
        assert [(e.category, e.retry_at) for e in _errors(conversation)] == [("unauthorized", None)]


def test_a_provider_that_keeps_failing_is_left_alone(tmp_path: Path) -> None:
    clock = Clock()
    model = Scripted(ModelError("overloaded", "busy"), endless=True)
    retries = RetryPolicy(attempts={"overloaded": 5})
    with opened(tmp_path / "t.db", clock) as conversation:
        team = Team(
            [Agent("coder", llm=model, retries=retries)],
            world=clock.world,
            breaker=lambda: CircuitBreaker(failures=2),
        )
        run(run_team(team, conversation, "Go"))

        held_back = [error for error in _errors(conversation) if "not called" in error.message]
        assert len(model.prompts) == 5
        assert len(held_back) == len(_errors(conversation)) - 5 == 3


def test_a_model_that_says_nothing_is_given_up_on_in_time(tmp_path: Path) -> None:
    model = Scripted("late", pause=5, timeouts=Timeouts(first_token=0.01))
    with opened(tmp_path / "t.db") as conversation:
        run(run_team(Team([Agent("coder", llm=model, retries=RetryPolicy(attempts={}))]), conversation, "Go"))

        assert [(e.category, e.message) for e in _errors(conversation)] == [
            ("timeout", "no first token for 0.01 s")
        ]


def test_limits_end_a_run_with_a_reason_and_continue_goes_on(tmp_path: Path) -> None:
    model = Scripted([call("look")], endless=True)
    agent = Agent("coder", llm=model, tools=[look], limits=Limits(max_steps=2, same_call=None))
    with opened(tmp_path / "t.db") as conversation:
        run(run_team(Team([agent]), conversation, "Go"))
        first = [(e.category, e.message) for e in _errors(conversation)]
        run(run_team(Team([agent]), conversation, UserMessage(control=Control(action="continue"))))

    assert first == [("budget", "max_steps: 2 steps since the last message")]
    assert len(model.prompts) == 4


def test_the_same_call_with_the_same_result_again_and_again_is_stuck(tmp_path: Path) -> None:
    with opened(tmp_path / "t.db") as conversation:
        run(
            run_team(
                Team([Agent("c", llm=Scripted([call("look")], endless=True), tools=[look])]),
                conversation,
                "Go",
            )
        )

        assert [error.message.partition(":")[0] for error in _errors(conversation)] == ["stuck"]


def test_the_turns_go_round_until_nobody_has_anything_new_to_say(tmp_path: Path) -> None:
    agents = [Agent("a", llm=Scripted("one", ".....")), Agent("b", llm=Scripted("two", "....."))]
    with opened(tmp_path / "t.db") as conversation:
        run(run_team(Team(agents, turns=RoundRobin(pass_token=".....")), conversation, "Go"))

        assert [text for _, text in outline(conversation)] == ["Go", "one", "two", "....."]


def test_a_mention_hands_on_if_the_team_says_so(tmp_path: Path) -> None:
    agents = [Agent("a", llm=Scripted("@b, look.")), Agent("b", llm=Scripted("I see, mail b@example.org"))]
    with opened(tmp_path / "t.db") as conversation:
        run(run_team(Team(agents, mentions=True), conversation, "Go", to=["a"]))
        answers = [e.event for e in conversation.entries() if isinstance(e.event, AssistantMessage)]

    assert [(answer.agent, answer.to) for answer in answers] == [("a", ("b",)), ("b", ())]


def test_entries_of_a_workflow_run_are_marked_with_it(tmp_path: Path) -> None:
    with opened(tmp_path / "t.db") as conversation:
        conversation.append(ModeSwitch(mode="run", active_run=WorkflowRun(id="r7", node="n1")), expected=0)
        run(
            run_team(Team([Agent("a", llm=Scripted([call("look")], "ok"), tools=[look])]), conversation, "Go")
        )
        made = [e.event for e in conversation.entries() if isinstance(e.event, AssistantMessage | ToolResult)]

    assert {(event.run, event.node) for event in made} == {("r7", "n1")}


def test_one_effect_at_a_time_comes_to_the_same_end(tmp_path: Path) -> None:
    model = Scripted([call("look"), call("look", "c2")], "It is a cat.")
    team = Team([Agent("coder", llm=model, tools=[look])])

    async def steps() -> list[list[str]]:
        await team.send(conversation, "Go")
        done = []
        while entries := await team.advance(conversation):
            done.append([entry.event.kind for entry in entries])
        return done

    with opened(tmp_path / "t.db") as conversation:
        assert run(steps()) == [
            ["assistant_message"],
            ["tool_result"],
            ["tool_result"],
            ["assistant_message"],
        ]


def test_a_team_works_on_an_async_log_too(tmp_path: Path) -> None:
    async def main() -> list[str]:
        async with stenolog.open_async(tmp_path / "t.db") as log:
            running = Team([Agent("coder", llm=Scripted("Hello."))]).run(log["demo"], "Hi")
            return [each.entry.event.kind async for each in running if isinstance(each, EntryAppended)]

    assert run(main()) == ["mode_switch", "user_message", "assistant_message"]


def test_the_log_refuses_to_be_worked_on_after_an_event_of_a_later_release(tmp_path: Path) -> None:
    with opened(tmp_path / "t.db") as conversation:
        conversation.append(
            stenolog.events.Unknown(topic="user_message@9", payload=b'{"needs":"9.0"}', needs="9.0")
        )

        with pytest.raises(stenolog.errors.UnsupportedVersionError, match=r"9\.0"):
            run(streamed(Team([Agent("coder", llm=Scripted("no"))]), conversation))


def test_a_message_with_an_id_is_said_once(tmp_path: Path) -> None:
    model = Scripted("Sold.", "Sold again.")
    with opened(tmp_path / "t.db") as conversation:
        for _ in range(2):
            run(run_team(Team([Agent("coder", llm=model)]), conversation, "Sell three", id="order-17"))

        assert [text for _, text in outline(conversation)] == ["Sell three", "Sold."]


def test_settings_and_the_first_message_are_recorded_in_one_go(tmp_path: Path) -> None:
    with opened(tmp_path / "t.db") as conversation:
        with pytest.raises(stenolog.errors.AgentNotFoundError, match=r"no agent 'bob' \(known: coder"):
            run(run_team(Team([Agent("coder", llm=Scripted("no"))]), conversation, "Hi", to="bob"))

        assert conversation.position == 0


def test_a_turn_rule_that_names_a_stranger_is_refused(tmp_path: Path) -> None:
    team = Team([Agent("a", llm=Scripted("no"))], turns=RoundRobin(order=["a", "bob"]))
    with (
        opened(tmp_path / "t.db") as conversation,
        pytest.raises(stenolog.errors.AgentNotFoundError, match="no agent 'bob'"),
    ):
        run(run_team(team, conversation, "Hi"))


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (lambda: Agent("a", llm="gpt-5.2"), "expected a model as openai:NAME"),
        (lambda: Agent("a", llm=7), "expected a model of stenolog.models"),  # type: ignore[arg-type]
        (lambda: Agent("a", limits={}), "expected Limits"),  # type: ignore[arg-type]
        (lambda: Agent("a/b"), "without a slash"),
        (lambda: Team([]), "expected agents"),
        (lambda: Team([Agent("a")], turns="round_robin"), "expected a rule"),  # type: ignore[arg-type]
        (lambda: Team([Agent("a")], on_unknown="aks"), "expected 'tell' or 'ask'"),  # type: ignore[arg-type]
    ],
)
def test_what_is_no_team_is_refused_at_once(wrong: Callable[[], object], says: str) -> None:
    with pytest.raises(CallerError, match=says):
        wrong()


def test_the_last_answer_is_given_in_one_line(tmp_path: Path) -> None:
    model = Scripted([call("look")], "It is a cat.", ModelError("unauthorized", "no such key"))
    team = Team([Agent("coder", llm=model, tools=[look])])
    with opened(tmp_path / "t.db") as conversation:
        assert team.ask_sync(conversation, "What is it?") == "It is a cat."
        with pytest.raises(ModelError, match="coder: unauthorized: no such key"):
            team.ask_sync(conversation, "And now?")


def test_an_open_call_that_another_program_made_is_not_run(tmp_path: Path) -> None:
    ran: list[str] = []

    @tool
    def feed() -> str:
        """Feed."""
        ran.append("fed")
        return "fed"

    imported = AssistantMessage(
        agent="coder", tool_calls=[call("feed")], source=stenolog.events.Origin(system="claude-code", id="1")
    )
    with opened(tmp_path / "t.db") as conversation:
        conversation.extend([UserMessage(text="Feed it", to=["coder"]), imported])
        run(run_team(Team([Agent("coder", llm=Scripted("I cannot tell."), tools=[feed])]), conversation))
        results = [e.event for e in conversation.entries() if isinstance(e.event, ToolResult)]

    assert ran == []
    assert "outcome of this call is unknown: it was made in claude-code" in results[0].text


def test_a_model_that_closes_slowly_keeps_nobody_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:

    class Slow(Scripted):
        async def stream(self, prompt):  # type: ignore[no-untyped-def]
            try:
                async for piece in super().stream(prompt):
                    yield piece
            finally:
                await asyncio.sleep(1)

    monkeypatch.setattr(streaming, "GRACE", 0.01)
    model = Slow("late", pause=5, timeouts=Timeouts(first_token=0.01))

    async def main() -> None:
        await run_team(
            Team([Agent("coder", llm=model, retries=RetryPolicy(attempts={}))]), conversation, "Go"
        )
        await asyncio.sleep(1.1)

    with opened(tmp_path / "t.db") as conversation:
        run(main())

        assert [error.category for error in _errors(conversation)] == ["timeout"]


def test_a_run_that_is_cancelled_twice_lets_its_claims_go(tmp_path: Path) -> None:
    team = Team([Agent("coder", llm=Scripted("x" * 400, "There.", pause=0.02))])

    async def main() -> None:
        working = asyncio.create_task(run_team(team, conversation, "Go"))
        await asyncio.sleep(0.2)
        for _ in range(3):
            working.cancel()
            await asyncio.sleep(0)
        with contextlib.suppress(asyncio.CancelledError):
            await working
        await run_team(team, conversation)

    with opened(tmp_path / "t.db") as conversation:
        run(main())

        assert outline(conversation)[-1] == ("assistant_message", "There.")
