"""Tools that ask a person."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import Any, Literal

import pytest
from pydantic import BaseModel, field_validator

import stenolog
from stenolog import Conversation, Team, UserMessage
from stenolog.engine import Agent, AgentTool, PendingApproval
from stenolog.errors import IllegalCommandError, InvalidEventError
from stenolog.importers import export_jsonl, import_file
from stenolog.models import Scripted
from stenolog.testing import CrashPoint
from stenolog.tools import BaseTool, ToolContext, tool
from tests.engine.given import Clock, answers, call, opened, results, run, run_team
from tests.postgres.crash_points import crash_points

UNANSWERED = "The user did not answer the question of this call, which ended there."


class Payment(BaseModel):
    """What to pay, and from where."""

    account: str
    amount: int

    @field_validator("amount")
    @classmethod
    def has_some(cls, amount: int) -> int:
        if amount < 1:
            raise ValueError("expected at least 1")
        return amount


def team_of(*tools: Any, turns: Any = None, **options: Any) -> Team:
    """Return a team of one that calls its tools at once, and then says that it is done."""
    made = [each if isinstance(each, BaseTool) else tool(each) for each in tools]
    turn = [call(each.spec.name, f"c{nth}") for nth, each in enumerate(made)]
    return Team([Agent("coder", llm=Scripted(turn, "Done.", *turns or ()), tools=made)], **options)


def waits(team: Team, conversation: Conversation) -> list[PendingApproval]:
    return run(team.pending_approvals(conversation))


def answer(team: Team, conversation: Conversation, value: Any, nth: int = 0) -> None:
    """Answer the question of a call that waits, and run on."""
    waiting = waits(team, conversation)[nth]
    run(team.answer(conversation.log[waiting.conversation], waiting.call, value, asked=waiting.asked))
    run(run_team(team, conversation))


def test_a_question_waits_for_its_answer_however_often_the_process_ends(tmp_path: Path) -> None:
    ran = list[str]()

    @tool(repeat="never")
    async def pay(call: ToolContext) -> str:
        ran.append("begun")
        account = await call.ask("Which account?", choices=["savings", "current"])
        return f"paid from {account}"

    with opened(tmp_path / "t.db") as conversation:
        team = team_of(pay)
        run(run_team(team, conversation, "Pay."))
        run(run_team(team, conversation))  # nothing is due
        assert ran == ["begun"]
    with opened(tmp_path / "t.db") as conversation:
        [waiting] = waits(team, conversation)
        assert waiting.question is not None
        assert (waiting.question.text, waiting.question.choices) == ("Which account?", ("savings", "current"))
        answer(team, conversation, "savings")

        assert [result.text for result in results(conversation)] == ["paid from savings"]
        assert (ran, answers(conversation)[-1].text) == (["begun", "begun"], "Done.")
        assert conversation.state().anomalies == 0


class Size(Enum):
    """A size."""

    SMALL = "s"
    LARGE = "l"


@pytest.mark.parametrize(
    ("options", "given", "got", "wrong"),
    [
        ({}, "any text", "any text", 3),
        ({"choices": ["a", "b"]}, "b", "b", "c"),
        ({"schema": {"type": "integer"}}, 3, 3, "3"),
        ({"schema": {"type": "object", "required": ["a"]}}, {"a": 1}, {"a": 1}, {}),
        ({"schema": bool}, True, True, "yes"),
        ({"schema": list[int]}, [1, 2], [1, 2], ["a"]),
        ({"schema": Literal["x", "y"]}, "x", "x", "z"),
        ({"schema": Size}, "l", Size.LARGE, "xl"),
        ({"schema": int | None}, None, None, "none"),
        ({"schema": Payment}, {"account": "a", "amount": 1}, Payment(account="a", amount=1), {"amount": 1}),
        ({"schema": Payment}, Payment(account="a", amount=2), Payment(account="a", amount=2), "a"),
    ],
)
def test_an_answer_is_a_value_of_what_was_asked_for(
    tmp_path: Path, options: dict[str, Any], given: Any, got: Any, wrong: Any
) -> None:
    heard = list[Any]()

    def look(call: ToolContext) -> str:
        heard.append(call.ask_sync("Well?", **options))
        return "seen"

    team = team_of(look)
    with opened(tmp_path / "t.db") as conversation:
        run(run_team(team, conversation, "Look."))
        with pytest.raises(InvalidEventError, match=r"^answer.*(expected|fits none)"):
            answer(team, conversation, wrong)
        answer(team, conversation, given)

        assert heard == [got]
        assert [result.text for result in results(conversation)] == ["seen"]


def test_an_answer_that_the_type_refuses_is_asked_for_again_with_the_reason(tmp_path: Path) -> None:
    async def pay(call: ToolContext) -> str:
        return str((await call.ask("How much?", schema=Payment)).amount)

    team = team_of(pay)
    with opened(tmp_path / "t.db") as conversation:
        run(run_team(team, conversation, "Pay."))
        answer(team, conversation, {"account": "a", "amount": 0})
        [waiting] = waits(team, conversation)
        assert waiting.question is not None
        assert waiting.question.text == "How much?\n(answer/amount: expected at least 1)"
        answer(team, conversation, {"account": "a", "amount": 5})

        assert [result.text for result in results(conversation)] == ["5"]


def test_an_answer_is_for_the_question_of_the_same_words_and_no_other(tmp_path: Path) -> None:
    wanted = ["Delete a?", "Delete b?", "Delete b?"]

    async def delete(call: ToolContext) -> str:
        said = [await call.ask(question) for question in wanted]
        return ", ".join(said)

    team = team_of(delete)
    with opened(tmp_path / "t.db") as conversation:
        run(run_team(team, conversation, "Delete."))
        old = waits(team, conversation)[0]
        answer(team, conversation, "yes")
        with pytest.raises(IllegalCommandError, match="but the call asks the one at"):
            run(team.answer(conversation, old.call, "yes", asked=old.asked))
        assert waits(team, conversation)[0].code != old.code
        wanted[:] = ["Delete c?", "Delete a?"]  # the program has changed
        answer(team, conversation, "no")
        assert [each.question and each.question.text for each in waits(team, conversation)] == ["Delete c?"]
        answer(team, conversation, "perhaps")

        assert [result.text for result in results(conversation)] == ["perhaps, yes"]


def test_calls_beside_one_that_asks_go_on_and_each_question_has_its_answer(tmp_path: Path) -> None:
    ran = list[str]()

    async def first(call: ToolContext) -> str:
        return await call.ask("One?")

    async def second(call: ToolContext) -> str:
        return await call.ask("Two?")

    async def third() -> str:
        ran.append("third")
        return "three"

    team = team_of(first, second, third)
    with opened(tmp_path / "t.db") as conversation:
        run(run_team(team, conversation, "Count."))
        assert ran == ["third"]
        answer(team, conversation, "two", nth=1)
        answer(team, conversation, "one")

        assert {each.name: each.text for each in results(conversation)} == {
            "first": "one",
            "second": "two",
            "third": "three",
        }


@pytest.mark.parametrize("how", ["refuse", "words", "cancel"])
def test_a_question_that_nobody_answers_ends_its_call(tmp_path: Path, how: str) -> None:
    async def pay(call: ToolContext) -> str:
        return await call.ask("Which account?")

    team = team_of(pay, turns=["Fine."])
    with opened(tmp_path / "t.db") as conversation:
        run(run_team(team, conversation, "Pay."))
        [waiting] = waits(team, conversation)
        if how == "refuse":
            run(team.reject(conversation, waiting.call))
        elif how == "cancel":
            run(team.cancel(conversation))
        run(run_team(team, conversation, *(["Never mind."] if how == "words" else [])))

        assert waits(team, conversation) == []
        expected = "Cancelled by the user before a result was there." if how == "cancel" else UNANSWERED
        assert [result.text for result in results(conversation)] == [expected]
        with pytest.raises(IllegalCommandError, match="answer of a call that asks nothing"):
            run(team.answer(conversation, waiting.call, "a"))


def test_a_question_that_the_tool_swallows_is_asked_all_the_same(tmp_path: Path) -> None:
    async def look(call: ToolContext) -> str:
        try:
            return await call.ask("Well?")
        except BaseException:
            return "no answer"

    async def grouped(call: ToolContext) -> str:
        async with asyncio.TaskGroup() as group:
            found = [group.create_task(call.ask(text)) for text in ("One?", "Two?")]
        return ", ".join(task.result() for task in found)

    team = team_of(look, grouped)
    with opened(tmp_path / "t.db") as conversation:
        run(run_team(team, conversation, "Look."))
        for said in ("yes", "1", "2"):
            answer(team, conversation, said)

        assert [result.text for result in results(conversation)] == ["yes", "1, 2"]


@pytest.mark.parametrize(
    ("text", "options", "reason"),
    [
        ("", {}, "expected a question"),
        ("Well?", {"choices": "ab"}, "expected several texts"),
        ("Well?", {"choices": ["a", "b"], "schema": int}, "expected choices or a schema, found both"),
        ("Well?", {"schema": asyncio.Task}, "expected a type that has a JSON Schema"),
    ],
)
def test_a_question_that_cannot_be_asked_fails_the_call(
    tmp_path: Path, text: str, options: dict[str, Any], reason: str
) -> None:
    async def look(call: ToolContext) -> str:
        return str(await call.ask(text, **options))

    with opened(tmp_path / "t.db") as conversation:
        run(run_team(team_of(look), conversation, "Look."))

        [result] = results(conversation)
        assert reason in result.text


def test_a_worker_asks_in_its_own_conversation(tmp_path: Path) -> None:
    async def pay(call: ToolContext) -> str:
        return await call.ask("Which account?")

    worker = Agent("clerk", llm=Scripted(call("pay"), "Paid."), tools=[tool(pay)])
    lead = Scripted(call("ask_clerk", "d", '{"task": "pay"}'), "Fine.")
    team = Team([Agent("coder", llm=lead, tools=[AgentTool(worker)])])
    with opened(tmp_path / "t.db") as conversation:
        run(run_team(team, conversation, "Pay."))
        assert waits(team, conversation)[0].conversation != conversation.name
        answer(team, conversation, "savings")

        assert answers(conversation)[-1].text == "Fine."


def asks_twice(ran: list[str]) -> Team:
    """Return a team whose tool asks twice before it does what must not be done twice."""

    @tool(repeat="never")
    async def pay(call: ToolContext) -> str:
        account = await call.ask("Which account?", choices=["savings", "current"])
        amount = await call.ask("How much?", schema=int)
        ran.append("paid")
        return f"{amount} from {account}"

    def turn(prompt: Any) -> object:
        return "Done." if prompt.body["messages"][-1]["role"] == "tool" else call("pay")

    return Team([Agent("coder", llm=Scripted(turn, endless=True), tools=[pay])])


def go_on(team: Team, conversation: Conversation) -> None:
    """Run to the end, and answer what is asked."""
    said = any(isinstance(entry.event, UserMessage) for entry in conversation.entries())
    run(run_team(team, conversation, *([] if said else ["Pay."])))
    while waiting := waits(team, conversation):
        asked = waiting[0].question
        assert asked is not None
        run(team.answer(conversation, waiting[0].call, "savings" if asked.choices else 5))
        run(run_team(team, conversation))


def test_questions_survive_a_kill_at_every_point(tmp_path: Path) -> None:
    ran, found = list[str](), list[str]()
    points = crash_points(
        lambda log: go_on(asks_twice(ran), log["demo"]), tmp_path, world=lambda: len(ran), clock=Clock()
    )
    for point in points:
        found += faults(point)

    assert found == []


def faults(point: CrashPoint) -> Iterator[str]:
    """Yield what is wrong after the run went on from a point."""
    ran = ["paid"] * point.world
    with stenolog.open(point.path, clock=Clock()) as log:
        conversation = log["demo"]
        asked_before = questions(conversation)
        go_on(asks_twice(ran), conversation)
        [result] = results(conversation)
        is_unknown = "outcome of this call is unknown" in result.text
        if result.text != "5 from savings" and not is_unknown:
            yield f"{point.when}: {result.text}"
        if len(ran) > 1 or conversation.state().anomalies or answers(conversation)[-1].text != "Done.":
            yield f"{point.when}: ran {len(ran)} times, ended in {conversation.state()}"
        if questions(conversation)[: len(asked_before)] != asked_before or len(questions(conversation)) > 2:
            yield f"{point.when}: asked {questions(conversation)}"


def questions(conversation: Conversation) -> list[str]:
    """Return the questions in it."""
    controls = (getattr(entry.event, "control", None) for entry in conversation.entries())
    return [control.question.text for control in controls if control and control.question]


def test_a_question_open_in_a_log_goes_with_it(tmp_path: Path) -> None:
    with opened(tmp_path / "t.db") as conversation:
        team = asks_twice([])
        run(run_team(team, conversation, "Pay."))
        kept = conversation.fork(pending="keep")
        closed = conversation.fork()
        assert [each.question and each.question.text for each in waits(team, kept)] == ["Which account?"]
        assert waits(team, closed) == []
        go_on(team, kept)

        assert [result.text for result in results(kept)] == ["5 from savings"]
        assert [each.text for each in results(conversation)] == []


def test_an_erased_question_asks_nobody_and_an_imported_call_is_not_run_again(tmp_path: Path) -> None:
    team = asks_twice([])
    with opened(tmp_path / "t.db") as conversation:
        run(run_team(team, conversation, "Pay."))
        [waiting] = waits(team, conversation)
        with (tmp_path / "out.jsonl").open("w") as file:
            export_jsonl(conversation, file)
        conversation.erase(waiting.asked)
        assert waits(team, conversation) == []
        assert conversation.state().lane("coder").status == "idle"
    with stenolog.open(tmp_path / "other.db") as log:
        import_file(log, tmp_path / "out.jsonl")
        [name] = log
        [waiting] = waits(team, log[name])
        assert waiting.question is not None
        run(team.answer(log[name], waiting.call, "savings"))
        run(run_team(team, log[name]))

        assert "came with a file" in results(log[name])[0].text
