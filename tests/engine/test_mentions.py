"""Who is spoken to by `@name`, and who is only spoken of."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from stenolog import Team
from stenolog.adapters.engine.mentions import mentioned, mentions
from stenolog.engine import Agent, Orchestrator, RoundRobin
from stenolog.models import Scripted
from tests.engine.given import answers, errors, opened, run, run_team


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("hello @bob!", ["bob"]),
        ("@Bob, @ann/docs.", ["Bob", "ann/docs"]),
        ("mail me at x@bob.com", []),
        ("`@bob` in code", []),
        ("``@bob ` x`` and @ann", ["ann"]),
        ("`unclosed @bob", ["bob"]),
        ("```\n@bob\n```\n@ann", ["ann"]),
        ("~~~ py\n@bob", []),
        ("> @bob cited\n@ann", ["ann"]),
        ('he said "@bob" to @ann', ["ann"]),
        ("(\u201c@bob\u201d, \u201e@bob\u201c, \u00ab@bob\u00bb, '@bob') @ann", ["ann"]),
        ("don't @bob can't", ["bob"]),
        ('a 5" disk, @bob, and a 3" one', ["bob"]),
    ],
)
def test_names_in_code_in_quotes_and_in_cited_lines_are_spoken_of_alone(text: str, names: list[str]) -> None:
    assert list(mentions(text)) == names


@pytest.mark.parametrize("end", ["", "\n\n@bob"])
@pytest.mark.parametrize("mark", ["`", "~", "\u201c", "\u201e", "\u00ab", "` ``", "> ", '"a', "~~~\n"])
def test_many_marks_without_ends_are_read_in_a_breath(mark: str, end: str) -> None:
    begun = time.process_time()

    assert list(mentions(mark * 100_000 + end)) in (["bob"], [])
    assert time.process_time() - begun < 2


def test_an_answer_that_quotes_a_name_hands_nothing_on(tmp_path: Path) -> None:
    ann, bob = Scripted("I would write `@bob`."), Scripted("Yes?")
    with opened(tmp_path / "t.db") as conversation:
        run(run_team(Team([Agent("ann", llm=ann), Agent("bob", llm=bob)]), conversation, "Go", to="ann"))

        assert [answer.agent for answer in answers(conversation)] == ["ann"]


@pytest.mark.parametrize(
    ("text", "options", "asked"),
    [
        ("@bob hi", {}, ["bob"]),
        ("hi @Bob, hi @ann", {}, ["bob", "ann"]),
        ("hi `@bob`", {}, ["ann", "bob"]),
        ("@bob hi", {"to": "ann"}, ["ann"]),
        ("@nobody hi", {}, ["ann", "bob"]),
    ],
)
def test_a_text_that_names_agents_is_for_them(
    tmp_path: Path, text: str, options: dict[str, str], asked: list[str]
) -> None:
    team = Team([Agent(name, llm=Scripted("Yes.")) for name in ("ann", "bob")])
    with opened(tmp_path / "t.db") as conversation:
        run(run_team(team, conversation, text, **options))

        assert sorted(answer.agent for answer in answers(conversation)) == sorted(asked)


def test_a_team_without_mentions_reads_none(tmp_path: Path) -> None:
    team = Team([Agent(name, llm=Scripted("Yes.")) for name in ("ann", "bob")], mentions=False)
    with opened(tmp_path / "t.db") as conversation:
        run(run_team(team, conversation, "@bob hi"))

        assert len(answers(conversation)) == 2


def test_rounds_come_to_an_end_by_themselves(tmp_path: Path) -> None:
    said = iter(range(1000))
    models = [Scripted(lambda _: f"word {next(said)}", endless=True) for _ in range(2)]
    team = Team([Agent(f"a{n}", llm=model) for n, model in enumerate(models)], turns=RoundRobin())
    with opened(tmp_path / "t.db") as conversation:
        run(run_team(team, conversation, "Go"))

        assert (len(answers(conversation)), conversation.state().turn_state.end_reason) == (
            20,
            "max_rounds: 10",
        )


def test_agents_who_say_the_same_words_again_and_again_come_to_an_end(tmp_path: Path) -> None:
    team = Team(
        [Agent(name, llm=Scripted("same words", endless=True)) for name in ("ann", "bob")],
        turns=RoundRobin(max_rounds=0),
    )
    with opened(tmp_path / "t.db") as conversation:
        run(run_team(team, conversation, "Go"))

        assert len(answers(conversation)) == 6
        assert conversation.state().turn_state.end_reason == "nobody said anything new: 0 passed, 1 failed"


def test_an_agent_has_so_many_seconds(tmp_path: Path) -> None:
    from stenolog.engine import Limits
    from stenolog.tools import tool
    from tests.engine.given import Clock, call

    clock = Clock()

    @tool
    async def wait() -> str:
        """Wait."""
        await clock.sleep(40)
        return f"{clock.now}"

    waits = Scripted(call("wait"), endless=True)
    agent = Agent("coder", llm=waits, tools=[wait], limits=Limits(seconds=60))
    with opened(tmp_path / "t.db", clock) as conversation:
        run(run_team(Team([agent], world=clock.world), conversation, "Go"))

        assert [error.message for error in errors(conversation)] == [
            "seconds: 80 of 60 s since the last message"
        ]


@pytest.mark.parametrize(
    ("turns", "speaker", "by_name", "handed"),
    [
        (None, "ann", True, ("bob",)),
        (None, "ann", False, ()),
        (RoundRobin(), "ann", True, ()),
        (Orchestrator("bob"), "ann", True, ()),
        (Orchestrator("bob"), "bob", False, ("ann",)),
    ],
)
def test_a_name_in_an_answer_hands_on_only_where_the_rule_or_the_team_says_so(
    turns: RoundRobin | Orchestrator | None, speaker: str, by_name: bool, handed: tuple[str, ...]
) -> None:
    policy = turns.turns if turns else None
    text = "@ann, @bob, @ann and @eve"

    assert mentioned(text, ["ann", "bob"], speaker, policy, by_name=by_name) == handed


def test_two_agents_that_greet_each_other_end_with_the_reason(tmp_path: Path) -> None:
    said = iter(range(1000))

    def greets(other: str) -> Scripted:
        return Scripted(lambda _: f"@{other} hello {next(said)}", endless=True)

    agents = [Agent("ann", llm=greets("bob")), Agent("bob", llm=greets("ann"))]
    with opened(tmp_path / "t.db") as conversation:
        run(run_team(Team(agents), conversation, "Go", to="ann"))
        assert len(answers(conversation)) == 1

        run(run_team(Team(agents, mentions=True), conversation, "Go", to="ann"))

        assert [error.message for error in errors(conversation, "bob")] == [
            "max_handoffs: agents have handed on 21 times since a person's last message"
        ]
        assert len(answers(conversation)) == 1 + 21

        # A person's words let them go on.
        run(run_team(Team(agents), conversation, "And now?", to="bob"))
        assert len(answers(conversation)) == 1 + 21 + 1
