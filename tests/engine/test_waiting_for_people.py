"""Whether a conversation only waits for a person, by its log and by those of its workers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from stenolog import AgentCard, AssistantMessage, Conversation, LlmError, ModeSwitch, Team, Tool, UserMessage
from stenolog.adapters.engine.approvals import (
    approval,
    are_delegates,
    auto_approvals,
    only_waits,
    refuse_at_workers,
    waiting,
    workers,
)
from stenolog.adapters.engine.journal.journal import Journal
from stenolog.adapters.engine.journal.work import short_key, tool_key
from stenolog.adapters.engine.options import Options
from stenolog.domain.lanes.effects import CallModel, RunTool, effects
from stenolog.domain.lanes.state import LaneState, OpenCall
from stenolog.engine import Agent, AgentTool, RetryPolicy
from stenolog.errors import CallerError, InvalidEventError, ModelError
from stenolog.events import CallRef, Control
from stenolog.models import Scripted
from stenolog.tools import tool
from tests.engine.given import Clock, call, opened, run

SCHEMA: dict[str, Any] = {"type": "object", "properties": {}}
TOOLS = [
    Tool(name=name, description=name, parameters=SCHEMA, approval=name == "sell")
    for name in ("sell", "look", "ask_reader")
]


def asked(conversation: Conversation, agent: str, *tools: str, task: str = "") -> None:
    """Have an agent asked, and answer with calls of these tools; none: its answer is still due."""
    where = f"{agent}/{task}" if task else agent
    if not conversation.position:
        conversation.append(
            ModeSwitch(cards=dict.fromkeys(("reader", agent), AgentCard(tools=TOOLS)), mode="agent")
        )
    conversation.append(UserMessage(text="Go.", to=[where]))
    if tools:
        calls = [call(name, f"{agent}{number}") for number, name in enumerate(tools)]
        conversation.append(AssistantMessage(parts=calls, agent=agent, task=task))


def called(conversation: Conversation, tool: str = "ask_reader") -> str:
    """Return the short key of the open call of a tool, which names its worker."""
    ((lane, found),) = [each for each in conversation.state().open_calls() if each[1].name == tool]
    return short_key(tool_key(conversation, RunTool(lane, found)))


def child(conversation: Conversation, *tools: str, agent: str = "reader") -> Conversation:
    """Return the conversation of the worker that was called, in which it has called these tools."""
    found = conversation.log[f"{agent}~{called(conversation)}"]
    asked(found, agent, *tools)
    return found


@pytest.mark.parametrize(
    ("calls", "waits"),
    [(["sell"], True), (["look"], False), (["sell", "look"], False), ([], False)],
    ids=["only an approval", "a tool to run", "an approval beside a tool to run", "an answer that is due"],
)
def test_a_conversation_only_waits_if_every_effect_needs_a_person(
    tmp_path: Path, calls: list[str], waits: bool
) -> None:
    with opened(tmp_path / "t.db") as conversation:
        asked(conversation, "lead", *calls)

        assert only_waits(conversation) is waits


def test_a_conversation_at_rest_waits_for_nobody(tmp_path: Path) -> None:
    with opened(tmp_path / "t.db") as conversation:
        asked(conversation, "lead")
        conversation.append(AssistantMessage(text="Done.", agent="lead"))

        assert not only_waits(conversation)


@pytest.mark.parametrize(
    ("of_worker", "waits"),
    [(["sell"], True), (["look"], False), (["sell", "look"], False), ([], False)],
    ids=["an approval", "a tool to run", "an approval beside a tool to run", "an answer that is due"],
)
def test_a_call_of_a_worker_waits_if_its_conversation_does(
    tmp_path: Path, of_worker: list[str], waits: bool
) -> None:
    with opened(tmp_path / "t.db") as conversation:
        asked(conversation, "lead", "ask_reader")
        assert not only_waits(conversation), "the worker has not begun"
        child(conversation, *of_worker)

        assert only_waits(conversation) is waits


def test_a_worker_of_a_worker_is_looked_at_too(tmp_path: Path) -> None:
    with opened(tmp_path / "t.db") as conversation:
        asked(conversation, "lead", "ask_reader")
        reader = child(conversation, "ask_reader")
        counter = child(reader, "sell", agent="counter")

        assert only_waits(conversation)
        assert workers(conversation) == {reader.name: 3, counter.name: 3}
        assert [(each.lane, each.conversation) for each in waiting(conversation)] == [
            ("counter", counter.name)
        ]

        conversation.log[counter.name].submit(
            UserMessage(control=Control(action="approve", call=waiting(conversation)[0].call))
        )
        assert not only_waits(conversation)


def test_a_lane_of_an_agent_that_nobody_runs_here_keeps_nobody_waiting(tmp_path: Path) -> None:
    with opened(tmp_path / "t.db") as conversation:
        asked(conversation, "lead", "ask_reader")
        child(conversation, "sell")
        conversation.append(UserMessage(text="And you?", to=["elsewhere"]))

        assert not only_waits(conversation)
        assert only_waits(conversation, ["lead"])


def test_a_call_of_a_worker_that_waits_does_not_hide_a_tool_beside_it(tmp_path: Path) -> None:
    with opened(tmp_path / "t.db") as conversation:
        asked(conversation, "lead", "ask_reader", "look")
        child(conversation, "sell")

        assert not only_waits(conversation)


@pytest.mark.parametrize("calls", [["sell"], ["look"]], ids=["an approval", "a tool to run"])
def test_a_worker_in_a_scope_is_looked_at_on_its_own_lane(tmp_path: Path, calls: list[str]) -> None:
    with opened(tmp_path / "t.db") as conversation:
        asked(conversation, "lead", "ask_reader")
        asked(conversation, "reader", *calls, task=called(conversation))

        assert only_waits(conversation) is (calls == ["sell"])


def test_another_lane_that_waits_is_not_the_worker(tmp_path: Path) -> None:
    with opened(tmp_path / "t.db") as conversation:
        asked(conversation, "lead", "ask_reader")
        asked(conversation, "reader", "sell", task="another")

        assert not only_waits(conversation)


def test_a_failed_worker_does_not_wait_for_a_person(tmp_path: Path) -> None:
    with opened(tmp_path / "t.db") as conversation:
        asked(conversation, "lead", "ask_reader")
        child(conversation).append(LlmError(agent="reader", category="unauthorized", message="no"))

        assert not only_waits(conversation)


@tool
async def look() -> str:
    """Look."""
    return "seen"


def test_only_calls_of_workers_are_delegates() -> None:
    reader = AgentTool(Agent("reader", llm=Scripted("Done.")))
    tools = {"lead": {"ask_reader": reader, "look": look}}
    lane = LaneState("lead")
    asks, looks = (
        RunTool(lane, OpenCall("e", 3, nth, "c", name)) for nth, name in enumerate(("ask_reader", "look"))
    )

    assert are_delegates([asks, asks], tools)
    assert not are_delegates([], tools)
    assert not are_delegates([asks, looks], tools)
    assert not are_delegates([asks, CallModel(lane, 3)], tools)
    assert not are_delegates([RunTool(LaneState("other"), asks.call)], tools)


def test_a_persons_words_refuse_the_calls_of_workers_at_any_depth(tmp_path: Path) -> None:
    with opened(tmp_path / "t.db") as conversation:
        asked(conversation, "lead", "ask_reader")
        counter = child(child(conversation, "ask_reader"), "sell", agent="counter")
        refuse_at_workers(conversation, UserMessage(text="For another.", to=["reader"]))
        assert len(waiting(conversation)) == 1
        refuse_at_workers(conversation, UserMessage(text="No.", to=["lead"]))

        assert not waiting(conversation)
        assert counter.state().lane("counter").status == "awaiting_llm"


def test_a_worker_whose_conversation_was_archived_is_found(tmp_path: Path) -> None:
    with opened(tmp_path / "t.db") as conversation:
        asked(conversation, "lead", "ask_reader")
        reader = child(conversation, "sell")
        reader.archive()

        assert only_waits(conversation)


def test_the_code_of_a_call_changes_with_its_arguments(tmp_path: Path) -> None:
    with opened(tmp_path / "t.db") as conversation:
        asked(conversation, "lead", "sell")
        (pending,) = waiting(conversation)

        assert pending.code
        assert pending._replace(arguments='{"n": 2}').code != pending.code


@pytest.mark.parametrize("given", ['{"n": NaN}', {"n": float("inf")}, "[1]", "{", {"n": {1}}], ids=repr)
def test_arguments_that_are_no_json_object_approve_nothing(tmp_path: Path, given: Any) -> None:
    with opened(tmp_path / "t.db") as conversation:
        asked(conversation, "lead", "sell")

        with pytest.raises(InvalidEventError, match="expected a JSON object"):
            approval(conversation, waiting(conversation)[0].call, given)


def test_arguments_keep_their_letters(tmp_path: Path) -> None:
    with opened(tmp_path / "t.db") as conversation:
        asked(conversation, "lead", "sell")

        made = approval(conversation, waiting(conversation)[0].call, {"what": "Käse"})
        assert made.arguments == '{"what": "Käse"}'


def test_a_session_that_its_backend_has_lost_is_no_attempt(tmp_path: Path) -> None:
    with opened(tmp_path / "t.db") as conversation:
        agents = {"lead": Agent("lead", llm=Scripted("Hello."))}
        asked(conversation, "lead")
        presence = conversation.log.recorder.claims.presence("me")
        journal = Journal(conversation, presence, agents, Options())
        (due,) = effects(journal.state)
        assert isinstance(due, CallModel)
        journal.lost(due, "the process is gone")
        presence.close()

        error = conversation.entry(conversation.position).event
        assert isinstance(error, LlmError)
        assert (error.attempt, error.category, error.in_context) == (0, "process_exited", False)
        assert conversation.state().lane("lead").status == "awaiting_llm"


def test_a_policy_approves_the_waiting_calls_that_need_no_person(tmp_path: Path) -> None:
    @tool(approval=lambda arguments: arguments["n"] > 1)
    def sell(n: int) -> str:
        """Sell."""
        return str(n)

    ask = [Tool(name=name, approval=name != "look") for name in ("sell", "gone", "look")]
    calls = [call("sell", "c1", '{"n": 1}'), call("sell", "c2", '{"n": 2}'), call("gone"), call("look", "c4")]
    with opened(tmp_path / "t.db") as conversation:
        conversation.append(ModeSwitch(joins=["lead"], cards={"lead": AgentCard(tools=ask)}))
        conversation.append(UserMessage(text="Go"))
        answer = conversation.append(AssistantMessage(agent="lead", tool_calls=calls))
        presence = conversation.log.recorder.claims.presence("me")
        journal = Journal(conversation, presence, {}, Options())
        (approved,) = auto_approvals(journal, {"lead": {"sell": sell}})
        presence.close()

    assert approved.control == Control(action="approve", call=CallRef(entry=answer.id, index=0))
    assert (approved.author, approved.author_kind) == ("approval policy", "system")


# Asking a team and waiting for its answer: what a caller who sees no events is told.


def test_asking_without_an_event_loop_where_one_runs_says_what_to_use(tmp_path: Path) -> None:
    async def in_jupyter() -> None:
        Team([Agent("coder", llm=Scripted("Hi"))]).ask_sync(conversation, "Hi")

    with (
        opened(tmp_path / "t.db") as conversation,
        pytest.raises(CallerError, match=r"as in Jupyter: use `await team\.ask"),
    ):
        run(in_jupyter())


def test_who_asks_is_told_of_each_retry_in_the_log_of_the_program(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    model, clock = Scripted(ModelError("network", "no route"), "There I am."), Clock()
    agent = Agent("coder", llm=model, retries=RetryPolicy(base=5))
    with opened(tmp_path / "t.db", clock) as conversation:
        assert Team([agent], world=clock.world).ask_sync(conversation, "Hi") == "There I am."

    (record,) = caplog.records
    assert record.getMessage().startswith("coder: network: no route; next try at 20")
