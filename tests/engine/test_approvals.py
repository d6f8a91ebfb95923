"""What a person does about a call that waits: other words, other arguments, one call at a time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import stenolog
from stenolog import AgentCard, AssistantMessage, Conversation, ModeSwitch, Team, Tool, ToolCall, UserMessage
from stenolog.engine import Agent, AgentTool, RoundRobin
from stenolog.errors import IllegalCommandError, InvalidEventError
from stenolog.events import CallRef, Control
from stenolog.importers import export_jsonl, import_file
from stenolog.maintenance import salvage
from stenolog.models import Scripted
from stenolog.tools import tool
from tests.engine.given import answers, call, opened, results, run, run_team

REFUSED = "The user refused this call; it was not run."


def shop(*turns: Any, ran: list[int] | None = None, **options: Any) -> Team:
    """Return a team of one that may sell."""
    sold = [] if ran is None else ran

    @tool(approval=True)
    async def sell(n: int) -> str:
        """Sell."""
        sold.append(n)
        return f"{n} sold"

    @tool
    async def look() -> str:
        """Look."""
        sold.append(0)
        return "seen"

    return Team([Agent("coder", llm=Scripted(*turns), tools=[sell, look])], **options)


def sale(n: int, id: str = "c1") -> ToolCall:
    """Return a call that sells so many."""
    return call("sell", id, f'{{"n": {n}}}')


def first_call(conversation: Conversation) -> CallRef:
    """Return the first call that waits."""
    _, waits = conversation.state().open_calls()[0]
    return CallRef(entry=waits.entry, index=waits.nth)


def last_request(team: Team) -> list[dict[str, Any]]:
    """Return the last messages sent to the model."""
    model = team.agents["coder"].llm
    assert isinstance(model, Scripted)
    messages: list[dict[str, Any]] = model.prompts[-1].body["messages"]
    return messages


@pytest.mark.parametrize("turns", [None, RoundRobin()])
def test_words_to_an_agent_whose_call_waits_refuse_it_and_are_answered(tmp_path: Path, turns: Any) -> None:
    ran = list[int]()
    team = shop(sale(3), "One, then.", ran=ran, turns=turns)
    with opened(tmp_path / "t.db") as conversation:
        run(run_team(team, conversation, "Sell."))
        run(run_team(team, conversation, "No, that is too many."))
        texts = [getattr(entry.event, "text", "") for entry in conversation.entries()][-3:]
        status = conversation.state().lane("coder").status

    assert texts == [REFUSED, "No, that is too many.", "One, then."]
    assert [message["content"] for message in last_request(team)[-2:]] == texts[:2]
    assert (ran, status) == ([], "idle")


def test_words_that_cancel_close_the_call_that_waits_once(tmp_path: Path) -> None:
    team = shop(sale(3), "Fine.")
    with opened(tmp_path / "t.db") as conversation:
        run(run_team(team, conversation, "Sell."))
        run(run_team(team, conversation, "Stop that.", on_input="cancel", id="m2"))

        assert [result.text for result in results(conversation)] == [
            "Cancelled by the user before a result was there."
        ]
        assert answers(conversation)[-1].text == "Fine."


@pytest.mark.parametrize(
    "said",
    [
        UserMessage(text="for another", to=["other"]),
        UserMessage(text="a note", author_kind="system"),
        UserMessage(text="for the timeline", in_context=False),
        UserMessage(text="from an agent", author_kind="agent", to=["coder"]),
    ],
)
def test_words_that_no_person_says_to_the_agent_leave_its_call_open(
    tmp_path: Path, said: UserMessage
) -> None:
    team = Team([*shop(sale(3)).agents.values(), Agent("other", llm=Scripted("Yes?", endless=True))])
    with opened(tmp_path / "t.db") as conversation:
        run(run_team(team, conversation, "Sell.", to="coder"))
        run(run_team(team, conversation, said))

        assert results(conversation) == []
        assert conversation.state().lane("coder").status == "awaiting_approval"


def test_words_to_an_agent_whose_worker_waits_for_approval_refuse_the_workers_call(tmp_path: Path) -> None:
    ran = list[int]()
    worker = shop(sale(3), "Then not.", ran=ran).agents["coder"]
    lead = Agent(
        "lead", llm=Scripted(call("ask_coder", "d", '{"task": "sell"}'), "Fine."), tools=[AgentTool(worker)]
    )
    team = Team([lead])

    async def main() -> str:
        assert await team.ask(conversation, "Sell.") == ""
        waits = await team.pending_approvals(conversation)
        answer = await team.ask(conversation, "Too many.")
        child = conversation.log[waits[0].conversation]
        assert [result.text for result in results(child)] == [REFUSED]
        assert "Too many." in [getattr(entry.event, "text", "") for entry in child.entries()]
        return str(answer)

    with opened(tmp_path / "t.db") as conversation:
        assert run(main()) == "Fine."
        assert [result.text for result in results(conversation)] == ["Then not."]
    assert ran == []


def test_an_approved_call_does_not_wait_for_its_siblings(tmp_path: Path) -> None:
    ran = list[int]()
    team = shop([sale(1, "a"), sale(2, "b"), call("look", "c")], "Done.", ran=ran)
    with opened(tmp_path / "t.db") as conversation:
        run(run_team(team, conversation, "Sell."))
        assert ran == [0]
        run(team.approve(conversation, first_call(conversation)))
        run(run_team(team, conversation))
        assert (ran, conversation.state().lane("coder").status) == ([0, 1], "awaiting_approval")
        run(team.reject(conversation, first_call(conversation)))
        run(run_team(team, conversation))

        assert (ran, conversation.state().lane("coder").status) == ([0, 1], "idle")
        assert {result.call_id: result.text for result in results(conversation)} == {
            "a": "1 sold",
            "b": REFUSED,
            "c": "seen",
        }


def test_an_approval_may_give_other_arguments_and_the_agent_is_told_what_ran(tmp_path: Path) -> None:
    ran = list[int]()
    team = shop(sale(100), "Done.", ran=ran)
    with opened(tmp_path / "t.db") as conversation:
        run(run_team(team, conversation, "Sell."))
        run(team.approve(conversation, first_call(conversation), {"n": 2}))
    with opened(tmp_path / "t.db") as conversation:  # after a restart, too
        run(run_team(team, conversation))
        [result] = results(conversation)
        made = answers(conversation)[0].tool_calls[0]

    assert ran == [2]
    assert result.text == '[The user changed the arguments of this call. It ran with {"n": 2}]\n2 sold'
    assert made.arguments == '{"n": 100}'
    assert result.text in str(last_request(team)[-1]["content"])


@pytest.mark.parametrize("given", [{"n": "x"}, {}, {"n": 1, "m": 2}, "[1]", "{", "", '{"n": NaN}'])
def test_arguments_that_do_not_fit_the_schema_approve_nothing(tmp_path: Path, given: Any) -> None:
    ran = list[int]()
    team = shop(sale(100), ran=ran)
    with opened(tmp_path / "t.db") as conversation:
        run(run_team(team, conversation, "Sell."))
        with pytest.raises(InvalidEventError):
            run(team.approve(conversation, first_call(conversation), given))
        run(run_team(team, conversation))

    assert ran == []


def test_a_later_approval_does_not_change_the_arguments_of_a_call_that_may_have_run(tmp_path: Path) -> None:
    team = shop([sale(1, "a"), sale(2, "b")])
    with opened(tmp_path / "t.db") as conversation:
        run(run_team(team, conversation, "Sell."))
        ref = first_call(conversation)
        run(team.approve(conversation, ref))
        later = Control(action="approve", call=ref, arguments='{"n": 99}')
        conversation.append(UserMessage(control=later))

        assert [open_call.edited for _, open_call in conversation.state().open_calls()] == [False, False]


def test_arguments_are_for_an_approval_alone(tmp_path: Path) -> None:
    team = shop(sale(1))
    with opened(tmp_path / "t.db") as conversation:
        run(run_team(team, conversation, "Sell."))
        ref = first_call(conversation)
        for control in (
            Control(action="refuse", call=ref, arguments="{}"),
            Control(action="approve", call=ref, arguments="[]"),
        ):
            with pytest.raises(IllegalCommandError):
                conversation.submit(UserMessage(control=control))


@pytest.mark.parametrize("marks", ["kept", "deleted", "salvaged"])
@pytest.mark.parametrize("approval", [False, True])
def test_an_imported_call_runs_where_it_is_approved_here_alone(
    tmp_path: Path, approval: bool, marks: str
) -> None:
    # That it was imported is a record of the history: no table beside it decides, and a salvage keeps it.
    ran = list[int]()
    cards: dict[str, AgentCard | None] = {
        "coder": AgentCard(model="m", tools=[Tool(name="sell", approval=approval)])
    }
    with stenolog.open(tmp_path / "theirs.db") as log, (tmp_path / "gift.jsonl").open("w") as file:
        gift = log["demo"]
        gift.append(ModeSwitch(joins=["coder"], cards=cards))
        for n in (1, 2):
            gift.append(UserMessage(text="Sell.", to=[f"coder/{n}"]))
            gift.append(AssistantMessage(agent="coder", task=f"{n}", tool_calls=[sale(n)]))
        if approval:
            gift.submit(UserMessage(control=Control(action="approve", call=first_call(gift))))
        export_jsonl(gift, file)
    with stenolog.open(tmp_path / "ours.db") as log:
        import_file(log, tmp_path / "gift.jsonl")
        if marks == "deleted":
            with log.datastore.writing() as connection:
                connection.execute("DELETE FROM tracking")
    if marks == "salvaged":
        salvage(tmp_path / "ours.db", tmp_path / "salvaged.db")
    with stenolog.open(tmp_path / ("salvaged.db" if marks == "salvaged" else "ours.db")) as log:
        conversation, team = log["demo"], shop("Well.", "Well.", ran=ran)
        run(run_team(team, conversation))
        assert ran == []
        for waits in run(team.pending_approvals(conversation)):
            run(team.approve(conversation, waits.call))
        run(run_team(team, conversation))

    assert ran == ([2] if approval else [])


def test_an_approval_that_came_with_a_file_lets_nothing_run(tmp_path: Path) -> None:
    ran = list[int]()
    path = tmp_path / "demo.jsonl"
    with stenolog.open(tmp_path / "ours.db") as log, stenolog.open(tmp_path / "theirs.db") as theirs:
        conversation, team = log["demo"], shop(sale(1), "Well.", ran=ran)
        run(run_team(team, conversation, "Sell."))
        exported(conversation, path)
        import_file(theirs, path)
        theirs["demo"].submit(UserMessage(control=Control(action="approve", call=first_call(conversation))))
        exported(theirs["demo"], path)
        import_file(log, path)
        run(run_team(team, conversation))

    assert ran == []


def test_a_call_that_came_with_a_file_is_waved_through_by_no_policy(tmp_path: Path) -> None:
    ran = list[int]()
    cards: dict[str, AgentCard | None] = {
        "coder": AgentCard(model="m", tools=[Tool(name="look", approval=True)])
    }
    with stenolog.open(tmp_path / "theirs.db") as theirs:
        gift = theirs["demo"]
        gift.append(ModeSwitch(joins=["coder"], cards=cards))
        gift.append(UserMessage(text="Look.", to=["coder"]))
        gift.append(AssistantMessage(agent="coder", tool_calls=[call("look", "c1", "{}")]))
        exported(gift, tmp_path / "gift.jsonl")
    with stenolog.open(tmp_path / "ours.db") as log:
        import_file(log, tmp_path / "gift.jsonl")
        conversation, team = log["demo"], shop("Well.", ran=ran)
        run(run_team(team, conversation))
        assert ran == []
        (waits,) = run(team.pending_approvals(conversation))
        run(team.approve(conversation, waits.call))
        run(run_team(team, conversation))

    assert ran == [0]


def exported(conversation: Conversation, path: Path) -> None:
    with path.open("w") as file:
        export_jsonl(conversation, file)
