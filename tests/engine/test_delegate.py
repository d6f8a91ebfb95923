"""An agent that another one calls as a tool: what it knows, what it may use, and what is merged of it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from stenolog import Conversation, Log, ModeSwitch, Team, TextPart, ToolResult
from stenolog.adapters.engine import delegate
from stenolog.adapters.engine.approvals import waiting
from stenolog.adapters.store.claims import Claims
from stenolog.domain.lanes.limits import delegated_usage
from stenolog.engine import Agent, AgentTool, EntryAppended, Limits
from stenolog.errors import CallerError, ModelError, ReplayMismatchError
from stenolog.events import Usage
from stenolog.models import ModelRequest, ModelResponse, Scripted
from stenolog.tools import ToolContext, tool
from tests.engine.given import call, opened, outline, run, run_team

TASK = json.dumps({"task": "Count the cats."})
CONTEXTS = ["fresh", "fork", "scope"]


def lead(worker: Agent, calls: int = 1, **options: Any) -> Agent:
    asks = [call("ask_reader", f"c{nth}", TASK) for nth in range(calls)]
    model = Scripted(asks, "There are three.", "And so on.")
    return Agent("lead", llm=model, tools=[AgentTool(worker, **options)], limits=Limits(max_tokens=100_000))


def results(conversation: Conversation) -> list[ToolResult]:
    return [entry.event for entry in conversation.entries() if isinstance(entry.event, ToolResult)]


@pytest.mark.parametrize(
    ("context", "knows"), [("fresh", False), ("fork", True), ("scope", True)], ids=["fresh", "fork", "scope"]
)
def test_a_worker_knows_what_its_context_gives_it(tmp_path: Path, context: Any, knows: bool) -> None:
    reader = Scripted("Three.")
    with opened(tmp_path / "t.db") as conversation:
        run(
            run_team(
                Team([lead(Agent("reader", llm=reader), context=context)]),
                conversation,
                "My house is full of cats.",
            )
        )
        seen = json.dumps(reader.prompts[0].body)

        assert ("My house" in seen, "Count the cats." in seen) == (knows, True)
        assert [result.text for result in results(conversation)] == ["Three."]
        assert outline(conversation)[-1] == ("assistant_message", "There are three.")


def test_parent_and_child_name_each_other(tmp_path: Path) -> None:
    with opened(tmp_path / "t.db") as conversation:
        run(run_team(Team([lead(Agent("reader", llm=Scripted("Three.")))]), conversation, "Go"))
        link: Any = results(conversation)[0].meta["stenolog"]
        child = conversation.log[link["child"]["conversation"]]
        parent = child.settings().parent

        assert parent is not None
        assert (parent.conversation, parent.position) == ("demo", 3)
        assert next(child.entries(link["child"]["position"] - 1)).event.text == "Three."  # type: ignore[union-attr]


def test_a_worker_in_a_scope_is_no_member(tmp_path: Path) -> None:
    with opened(tmp_path / "t.db") as conversation:
        run(
            run_team(
                Team([lead(Agent("reader", llm=Scripted("Three.")), context="scope")]), conversation, "Go"
            )
        )

        assert conversation.state().members == ("lead",)


def test_a_worker_that_fails_is_an_error_that_says_why(tmp_path: Path) -> None:
    reader = Agent("reader", llm=Scripted(ModelError("unauthorized", "no such key")))
    with opened(tmp_path / "t.db") as conversation:
        run(run_team(Team([lead(reader)]), conversation, "Go"))
        (result,) = results(conversation)

    assert result.is_error
    assert "unauthorized: no such key" in result.text


def costly() -> Agent:
    """Return an agent that uses ten thousand tokens a step, and never ends."""

    def spends(prompt: ModelRequest) -> ModelResponse:
        return ModelResponse((TextPart(text="Hm."), call("nothing")), usage=Usage(input=9_000, output=1_000))

    return Agent("reader", llm=Scripted(spends, endless=True), limits=Limits(same_error=None, same_call=None))


def test_a_worker_uses_no_more_than_its_share(tmp_path: Path) -> None:
    with opened(tmp_path / "t.db") as conversation:
        run(run_team(Team([lead(costly(), share=0.25)]), conversation, "Go"))
        (result,) = results(conversation)

    assert "max_tokens: 30,000 of 24," in result.text


def test_workers_at_the_same_time_share_what_is_left(tmp_path: Path) -> None:
    with opened(tmp_path / "t.db") as conversation:
        run(run_team(Team([lead(costly(), calls=5, share=0.5)]), conversation, "Go"))
        words = [result.text for result in results(conversation)]

    assert ["max_tokens: 20,000 of 19," in text for text in words] == [True] * 5


def test_what_a_worker_has_used_that_failed_is_its_callers(tmp_path: Path) -> None:
    with opened(tmp_path / "t.db") as conversation:
        run(run_team(Team([lead(costly(), share=0.25)]), conversation, "Go"))
        (result,) = results(conversation)

        assert [used.input + used.output for _, used in delegated_usage(result)] == [30_000]


def test_a_task_without_words_is_refused(tmp_path: Path) -> None:
    model = Scripted([call("ask_reader", arguments="{}")], "Sorry.")
    reader = Agent("reader", llm=Scripted("never"))
    with opened(tmp_path / "t.db") as conversation:
        run(run_team(Team([Agent("lead", llm=model, tools=[AgentTool(reader)])]), conversation, "Go"))

        assert results(conversation)[0].is_error
        assert len(conversation.log) == 1


@pytest.mark.parametrize("nested", [False, True], ids=["of its caller", "of its caller's caller"])
def test_a_worker_in_a_scope_needs_a_name_of_its_own(tmp_path: Path, nested: bool) -> None:
    worker = Agent("lead", llm=Scripted("never"))
    if nested:
        worker = Agent("reader", llm=Scripted("never"), tools=[AgentTool(worker, context="scope")])
    with opened(tmp_path / "t.db") as conversation:
        with pytest.raises(CallerError, match="of a name that no agent there has, found 'lead'"):
            run(run_team(Team([lead(worker, context="scope")]), conversation, "Go"))

        assert conversation.position == 0


def test_a_worker_in_a_scope_has_the_name_of_no_member(tmp_path: Path) -> None:
    with opened(tmp_path / "t.db") as conversation:
        conversation.append(ModeSwitch(joins=["reader"]))
        reader = Agent("reader", llm=Scripted("never"), persona="Another one.")
        run(run_team(Team([lead(reader, context="scope")]), conversation, "Go", to="lead"))
        (result,) = results(conversation)

        assert (result.is_error, "found 'reader'" in result.text) == (True, True)
        assert "reader" not in conversation.settings().cards


def test_workers_of_one_name_do_not_wait_for_each_other(tmp_path: Path) -> None:
    first = asyncio.Event()
    lanes: list[str] = []

    @tool(timeout=None)
    async def count(call: ToolContext) -> str:
        """Count."""
        lanes.append(call.lane)
        if len(lanes) == 1:
            await first.wait()
        return "three"

    def counts(prompt: ModelRequest) -> object:
        return "Three." if '"tool_calls": [{"id": "n1"' in json.dumps(prompt.body) else call("count", "n1")

    async def main() -> None:
        reader = Agent("reader", llm=Scripted(counts, endless=True), tools=[count])
        async for happened in Team([lead(reader, calls=2, context="scope")]).run(conversation, "Go"):
            match happened:
                case EntryAppended(entry) if (
                    isinstance(entry.event, ToolResult) and entry.event.text == "Three."
                ):
                    first.set()

    with opened(tmp_path / "t.db") as conversation:
        run(main())

        assert outline(conversation)[-1] == ("assistant_message", "There are three.")


@pytest.mark.parametrize("context", ["fresh", "fork"])
def test_a_worker_is_found_again_by_another_name_of_its_callers_conversation(
    tmp_path: Path, context: Any
) -> None:
    ran = []
    streams = asyncio.Event()

    @tool
    async def count() -> str:
        """Count."""
        ran.append("count")
        return "three"

    def counts(prompt: ModelRequest) -> object:
        if "tool" not in [message["role"] for message in prompt.body["messages"]]:
            return call("count", "n1")
        streams.set()
        return "Three. " * 20

    def asks(prompt: ModelRequest) -> object:
        done = "tool" in [message["role"] for message in prompt.body["messages"]]
        return "There are three." if done else call("ask_reader", "c1", TASK)

    def team(pause: float) -> Team:
        reader = Agent("reader", llm=Scripted(counts, endless=True, pause=pause), tools=[count])
        return Team([replace(lead(reader, context=context), llm=Scripted(asks, endless=True))])

    async def stopped() -> None:
        task = asyncio.create_task(run_team(team(pause=0.05), conversation, "Go"))
        await streams.wait()
        task.cancel()
        await asyncio.wait({task})

    with opened(tmp_path / "t.db") as conversation:
        run(stopped())
        conversation.rename("renamed")
        run(run_team(team(pause=0), conversation))

        assert (ran, len(conversation.log)) == (["count"], 2)


@pytest.mark.parametrize("context", CONTEXTS)
def test_cancelling_the_caller_cancels_its_worker_and_the_workers_of_that(
    tmp_path: Path, context: Any
) -> None:
    begun = asyncio.Event()

    @tool(timeout=None)
    async def count() -> str:
        """Count."""
        begun.set()
        await asyncio.Event().wait()
        return "never"

    counter = Agent("counter", llm=Scripted(call("count")), tools=[count])
    asks = call("ask_counter", arguments=TASK)
    reader = Agent("reader", llm=Scripted(asks), tools=[AgentTool(counter, context=context)])
    team = Team([lead(reader, context=context)])

    async def main() -> None:
        task = asyncio.create_task(run_team(team, conversation, "Go"))
        await begun.wait()
        await team.cancel(conversation, "lead")
        await task

    with opened(tmp_path / "t.db") as conversation:
        run(main())

        assert sorted(set(at_work(conversation.log))) == []
        assert not any(
            Claims(conversation.log.recorder, conversation.log[name].stream).all()
            for name in conversation.log
        )


def at_work(log: Log) -> Iterator[str]:
    """Yield the lanes that have something to do; of a child its worker's, for a fork has its past ones."""
    for name in log:
        worker, is_child, _ = name.partition("~")
        for lane in log[name].state().lanes.values():
            if lane.status != "idle" and (lane.agent == worker or not is_child):
                yield f"{name} {lane.address} {lane.status}"


def test_a_worker_whose_run_cannot_go_on_is_left_by_nobody_at_work(tmp_path: Path) -> None:
    reader = Agent("reader", llm=Scripted(ReplayMismatchError("elsewhere")))
    with opened(tmp_path / "t.db") as conversation:
        run(run_team(Team([lead(reader, context="scope")]), conversation, "Go"))

        assert [result.is_error for result in results(conversation)] == [True]
        assert {lane.status for lane in conversation.state().lanes.values()} == {"idle"}


def test_a_worker_that_a_person_cancels_has_failed(tmp_path: Path) -> None:
    begun = asyncio.Event()

    @tool(timeout=None)
    async def count() -> str:
        """Count."""
        begun.set()
        await asyncio.Event().wait()
        return "never"

    reader = Agent("reader", llm=Scripted(["I count.", call("count")]), tools=[count])
    team = Team([lead(reader)])

    async def main() -> None:
        task = asyncio.create_task(run_team(team, conversation, "Go"))
        await begun.wait()
        (child,) = (name for name in conversation.log if name != "demo")
        await team.cancel(conversation.log[child])
        await task

    with opened(tmp_path / "t.db") as conversation:
        run(main())
        (result,) = results(conversation)

        assert (result.is_error, result.text) == (True, "reader has stopped (cancelled)")


@pytest.mark.parametrize("context", CONTEXTS)
def test_a_call_that_waits_for_a_person_is_found_from_the_callers_conversation(
    tmp_path: Path, context: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delegate, "LOOK", 0.01)

    @tool(approval=True)
    def sell(cats: int) -> str:
        """Sell cats."""
        return f"{cats} sold"

    reader = Agent("reader", llm=Scripted(call("sell", "s1", '{"cats": 3}'), "Sold."), tools=[sell])
    team = Team([lead(reader, context=context)])

    async def main() -> list[str]:
        await run_team(team, conversation, "Go")  # it ends, as for a call of the caller itself
        ((lane, asked, name, arguments, where, *_),) = waiting(conversation)
        assert not results(conversation)
        await team.approve(conversation.log[where], asked)
        await run_team(team, conversation)
        return [lane.partition("/")[0], name, arguments]

    with opened(tmp_path / "t.db") as conversation:
        assert run(main()) == ["reader", "sell", '{"cats": 3}']
        assert [result.text for result in results(conversation)][-1] == "Sold."


class Deps(NamedTuple):
    """What tools of a program are given."""

    user: str


def test_tools_are_given_the_dependencies_of_the_run_else_the_teams_and_no_log_has_them(
    tmp_path: Path,
) -> None:
    async def whoami(call: ToolContext[Deps]) -> str:
        return call.deps.user[::-1]

    def turn(prompt: Any) -> object:
        return call("whoami") if prompt.body["messages"][-1]["role"] == "user" else "So."

    worker = Agent("clerk", llm=Scripted(turn, endless=True), tools=[whoami])

    def lead(prompt: Any) -> object:
        if prompt.body["messages"][-1]["role"] != "user":
            return "So."
        return [call("whoami"), call("ask_clerk", "d", '{"task": "who"}')]

    agent = Agent("coder", llm=Scripted(lead, endless=True), tools=[whoami, AgentTool(worker)])
    team = Team([agent], deps=Deps("terces"))
    with opened(tmp_path / "t.db") as conversation:
        run(team.ask(conversation, "Who?"))
        run(team.ask(conversation, "And now?", deps=Deps("rehto")))
        of_all = [each.text for name in conversation.log for each in results(conversation.log[name])]

    assert sorted(of_all) == ["So.", "So.", "other", "other", "secret", "secret"]
    assert b"terces" not in (tmp_path / "t.db").read_bytes()
    assert "terces" not in repr(team.options)


def test_a_tool_that_ends_the_run_has_the_last_word_of_its_agent_and_of_a_worker(tmp_path: Path) -> None:
    @tool(ends_run=True)
    async def finish() -> str:
        """Finish."""
        return "It is done."

    worker = Agent("reader", llm=Scripted(call("finish"), call("finish")), tools=[finish])
    with opened(tmp_path / "t.db") as conversation:
        told = lead(worker)
        assert run(Team([worker]).ask(conversation.log["alone"], "Go")) == "It is done."
        run(run_team(Team([told]), conversation, "Go"))

        [result] = [e.event for e in conversation.entries() if isinstance(e.event, ToolResult)]
        assert (result.text, result.is_error) == ("It is done.", False)
