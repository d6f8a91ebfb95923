"""Hand-offs: calls by which an agent gives the turn to another one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from stenolog import AssistantMessage, Conversation, Team, ToolCall, UserMessage
from stenolog.engine import (
    Agent,
    AgentTool,
    ByHandoff,
    Handoff,
    Limits,
    Orchestrator,
    Parallel,
    Replay,
    RoundRobin,
    Sequential,
    TurnRule,
    regenerate,
)
from stenolog.errors import CallerError
from stenolog.events import ModeSwitch
from stenolog.models import Scripted
from stenolog.projections.analysis.blame import blame
from stenolog.projections.analysis.retry import Change, Here, cases, tried
from tests.engine.given import answers, call, errors, opened, outline, results, run, run_team


def to(agent: str, words: str = "", id: str = "h1") -> ToolCall:
    """Return a call that hands on."""
    return call(f"transfer_to_{agent}", id, f'{{"message": "{words}"}}' if words else "{}")


def three(*turns: Sequence[Any], **options: Any) -> list[Agent]:
    """Return the agents a, b and c, who say these, and may hand on to each other."""
    names = "abc"[: len(turns)]
    return [
        Agent(name, llm=Scripted(*said), handoffs=[other for other in names if other != name], **options)
        for name, said in zip(names, turns, strict=True)
    ]


def speakers(conversation: Conversation) -> str:
    return "".join(answer.agent for answer in answers(conversation))


def test_the_call_its_result_and_the_message_are_entries_and_the_other_answers(tmp_path: Path) -> None:
    with opened(tmp_path / "t.db") as conversation:
        team = Team(three([["One moment.", to("b", "It was charged twice.")]], ["Refunded."]))
        run(run_team(team, conversation, "My bill!", to="a"))

        assert outline(conversation) == [
            ("user_message", "My bill!"),
            ("assistant_message", "One moment."),
            ("tool_result", "Handed on to b."),
            ("user_message", "It was charged twice."),
            ("assistant_message", "Refunded."),
        ]
        told = conversation.entry(5).event
        assert isinstance(told, UserMessage)
        assert (told.author, told.author_kind, told.to, told.cause) == ("a", "agent", ("b",), 3)
        assert conversation.state().lane("a").status == "idle"
        # From the answer back to the person, over the call that handed on.
        chain = blame(conversation.entries(), 6)
        assert ([link.position for link in chain.links], chain.gap) == ([6, 5, 3, 2], "")
        assert [link.call for link in chain.links] == [None, None, 0, None]


@pytest.mark.parametrize(
    ("turns", "said", "order"),
    [
        # Without a rule the one that is handed to answers, and nobody else.
        (None, ([[to("c")]], ["b"], ["c"]), "ac"),
        # It speaks next, out of order, which goes on after it.
        (RoundRobin(max_rounds=1), ([[to("c")], "a"], ["b"], ["c"]), "aca"),
        (Sequential(("a", "b", "c")), ([[to("c")]], ["b"], ["c"]), "ac"),
        (Sequential(("a", "b")), ([[to("c")]], ["b"], ["c"]), "acb"),
        # When it has answered, the agent that leads is asked again.
        (Orchestrator("a"), ([[to("b")], "Done."], ["b"], ["c"]), "aba"),
        (Orchestrator("a"), ([[to("b")], "Done."], [[to("c")]], ["c"]), "abca"),
        # It speaks once all that have the turn are at rest.
        (Parallel(), ([[to("c")]], ["b"], ["c", "c"]), "abcc"),
        (ByHandoff("a"), ([[to("b")]], [[to("c")]], ["c"]), "abc"),
        (ByHandoff("a", returns=True), ([[to("b")], "a"], [[to("c")], "b"], ["c"]), "abcba"),
        (ByHandoff("a", returns=True), ([[to("b")], "a"], [[to("a")]], ["c"]), "aba"),
    ],
)
def test_who_speaks_after_a_hand_off(
    tmp_path: Path, turns: TurnRule | None, said: tuple[Sequence[Any], ...], order: str
) -> None:
    with opened(tmp_path / "t.db") as conversation:
        run(run_team(Team(three(*said), turns=turns), conversation, "Go", to=[] if turns else "a"))

        found = speakers(conversation)
        assert found == order if not isinstance(turns, Parallel) else sorted(found) == sorted(order)
        state = conversation.state()
        assert (state.anomalies, state.turn_state.holders, state.waiting) == (0, (), 0)
        # Each answer after a hand-off answers its message, or the result that gave the turn.
        assert [blame(conversation.entries(), entry.position).gap for entry in conversation.entries(after=1)]


def test_a_persons_next_words_go_to_the_agent_that_was_handed_to(tmp_path: Path) -> None:
    said = ([[to("b")], "a again"], ["b", "b again", [to("a")], "never"])
    with opened(tmp_path / "t.db") as conversation:
        team = Team(three(*said), turns=ByHandoff("a"))
        for words in ("Go", "And then?", "Thanks"):
            run(run_team(team, conversation, words))
        assert speakers(conversation) == "abbba"

        # An agent that has left is handed to no more: the person is with the first again.
        conversation.submit(ModeSwitch(leaves=["a"]))
        conversation.submit(ModeSwitch(leaves=["b"], joins=["a"]))
        conversation.append(UserMessage(text="Hello?"))
        assert conversation.state().turn_state.holders == ("a",)


class Refund(BaseModel):
    """What billing needs."""

    order: str
    euros: int


def test_a_payload_is_checked_and_the_other_is_given_it(tmp_path: Path) -> None:
    wrong, right = '{"order": "A-7"}', '{"order": "A-7", "euros": 12}'
    triage = Agent(
        "triage",
        llm=Scripted([call("refund", "c1", wrong)], [call("refund", "c2", right)]),
        handoffs=[Handoff("billing", "Give money back.", Refund, name="refund")],
    )
    with opened(tmp_path / "t.db") as conversation:
        team = Team([triage, Agent("billing", llm=Scripted("Done."))], turns=ByHandoff("triage"))
        run(run_team(team, conversation, "Go"))

        assert [(result.is_error, result.text) for result in results(conversation)] == [
            (True, "refund: the arguments do not fit\n/euros: expected a value, found none"),
            (False, "Handed on to billing."),
        ]
        assert outline(conversation)[-2:] == [
            ("user_message", '{"order":"A-7","euros":12}'),
            ("assistant_message", "Done."),
        ]
        [tool] = conversation.settings().cards["triage"].tools or ()
        properties: Any = tool.parameters["properties"]
        assert (tool.description, tool.ends_run) == ("Give money back.", True)
        assert sorted(properties) == ["euros", "order"]


def test_a_filter_is_the_others_policy_until_it_is_handed_to_without_one(tmp_path: Path) -> None:
    billing = Scripted("One.", "Two.", [to("triage")], "Three.")
    triage = Agent(
        "triage",
        llm=Scripted([call("short", "h1")], [call("whole", "h2")]),
        handoffs=[Handoff("billing", filter="last:1", name="short"), Handoff("billing", name="whole")],
    )
    agents = [triage, Agent("billing", llm=billing, handoffs=["triage"], policy="last:9")]
    with opened(tmp_path / "t.db") as conversation:

        def shown() -> tuple[Any, Any]:
            card = conversation.settings().cards["billing"]
            return card.policy["history"], card.patched

        run(run_team(Team(agents, turns=ByHandoff("triage")), conversation, "Go"))
        assert shown() == ({"kind": "last", "n": 1}, ("policy",))
        # A team that starts again leaves it as it is.
        run(run_team(Team(agents, turns=ByHandoff("triage")), conversation, "More"))
        assert shown() == ({"kind": "last", "n": 1}, ("policy",))
        run(run_team(Team(agents, turns=ByHandoff("triage")), conversation, "Back"))
        assert shown() == ({"kind": "last", "n": 9}, ())
        assert [answer.text for answer in answers(conversation)] == ["", "One.", "Two.", "", "", "Three."]


@pytest.mark.parametrize(
    ("calls", "leaves", "said"),
    [
        (
            [to("b"), to("c", id="h2")],
            [],
            ["Handed on to b.", "only the first hand-off of an answer counts; this one was not made"],
        ),
        ([to("c")], ["c"], ["c has left; you may hand on to b"]),
        ([call("transfer_to_d")], [], ["d takes no part in this conversation; you may hand on to b, c"]),
    ],
)
def test_a_hand_off_that_cannot_be_made_is_an_error_that_says_why(
    tmp_path: Path, calls: list[ToolCall], leaves: list[str], said: list[str]
) -> None:
    a, b, c = three([calls, "Myself, then."], ["b"], ["c"])
    a = Agent("a", llm=a.llm, handoffs=["b", "c", "d"])
    with opened(tmp_path / "t.db") as conversation:
        run(run_team(Team([a, b, c]), conversation))
        conversation.submit(ModeSwitch(leaves=leaves))
        run(run_team(Team([a, b, c]), conversation, "Go", to="a"))

        assert sorted(result.text for result in results(conversation)) == sorted(said)
        assert speakers(conversation) == ("ab" if len(calls) > 1 else "aa")


def test_agents_that_hand_to_each_other_end_with_the_reason(tmp_path: Path) -> None:
    def hands(name: str, other: str) -> Agent:
        turn: Any = [f"I am {name}.", to(other)]
        return Agent(name, llm=Scripted(turn, endless=True), handoffs=[other], limits=Limits(max_handoffs=5))

    for turns in (None, ByHandoff("a"), RoundRobin(), Parallel(("a",))):
        with opened(tmp_path / f"{turns and turns.name}.db") as conversation:
            run(
                run_team(
                    Team([hands("a", "b"), hands("b", "a")], turns=turns),
                    conversation,
                    "Go",
                    to=[] if turns else "a",
                )
            )

            [error] = [*errors(conversation, "a"), *errors(conversation, "b")]
            assert (
                error.message == "max_handoffs: agents have handed on 6 times since a person's last message"
            )
            assert len(answers(conversation)) == 6


def test_a_replay_and_a_retry_make_the_same_requests(tmp_path: Path) -> None:
    handoff = Handoff("b", filter="last:2")
    agents = [
        Agent("a", llm=Scripted([to("b", "Look.")], "a"), handoffs=[handoff]),
        Agent("b", llm=Scripted([to("a", "Well?")]), handoffs=["a"]),
    ]
    with opened(tmp_path / "t.db") as conversation:
        run(run_team(Team(agents, turns=ByHandoff("a")), conversation, "Go"))
        entries = list(conversation.entries())
        now = {name: card for name, card in entries[0].event.cards.items() if card}  # type: ignore[union-attr]
        for cards in ({}, now):
            found = tried(entries, cases(entries), Change(cards=cards), Here(blobs=conversation.log.blobs))
            assert [one.what for one in found] == ["same"] * 3

        recording, again = Replay(conversation), conversation.log["again"]
        team = Team([recording.agent(agent) for agent in ("a", "b")], turns=ByHandoff("a"))
        run(run_team(team, again, "Go"))
        assert (outline(again), recording.remaining) == (outline(conversation), 0)
        assert again.settings().cards["b"] == conversation.settings().cards["b"]


def test_a_worker_and_a_regenerated_answer_hand_on_to_nobody(tmp_path: Path) -> None:
    worker = Agent("worker", llm=Scripted("Twelve."), handoffs=["a"])
    lead = Agent(
        "a", llm=Scripted([call("ask_worker", "c1", '{"task": "Count."}')], "12"), tools=[AgentTool(worker)]
    )
    with opened(tmp_path / "t.db") as conversation:
        run(run_team(Team([lead]), conversation, "Go"))
        [name] = [name for name in conversation.log if name != conversation.name]
        assert not conversation.log[name].settings().cards["worker"].tools

        again = Agent("a", llm=Scripted([to("b")], "Thirteen, then."), handoffs=["b"])
        entry = run(regenerate(conversation, conversation.position, again, "More."))
        assert isinstance(entry.event, AssistantMessage)
        assert entry.event.text == "Thirteen, then."


def test_a_hand_off_is_of_another_agent_with_a_model_as_its_payload() -> None:
    wrong: Any = dict
    for make in (
        lambda: Agent("a", handoffs=["a"]),
        lambda: Handoff(""),
        lambda: Handoff("b", payload=wrong),
        lambda: Team([Agent("a", handoffs=[Handoff("b", name="no name")])]),
    ):
        with pytest.raises(CallerError):
            make()
