"""System 3: an agent recalls words of other conversations, as far as the program allows it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import stenolog
from stenolog import (
    Agent,
    AssistantMessage,
    Conversation,
    Log,
    ModeSwitch,
    Team,
    ToolCall,
    ToolResult,
    UserMessage,
)
from stenolog.context import MemoriesAndRecent
from stenolog.engine import AutoRecall
from stenolog.errors import CallerError
from stenolog.events import PositionRange
from stenolog.models import ModelRequest, Scripted
from stenolog.tools import recall, recall_from
from tests.engine.given import run, run_team
from tests.postgres.in_schemas import damage

TRUST = recall_from("menu")


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    with stenolog.open(tmp_path / "t.db") as opened:
        opened["menu"].extend(
            [
                ModeSwitch(joins=["coder", "planner"]),
                UserMessage(text="What do the rye loaves cost?", to=["planner"]),
                AssistantMessage(agent="planner", text="A rye loaf costs 4.80 euros."),
            ]
        )
        yield opened


def asked(conversation: Conversation, tool: Any, query: str, agent: str = "coder") -> ToolResult:
    """Have an agent call the tool, and return the result that the log has."""
    call = ToolCall(id="c1", name="recall", arguments=f'{{"query": "{query}"}}')
    run(run_team(Team([Agent(agent, Scripted(call, "Done."), tools=[tool])]), conversation, "Go", to=[agent]))
    return [e.event for e in conversation.entries() if isinstance(e.event, ToolResult)][-1]


def test_without_a_rule_an_agent_recalls_its_own_conversation_alone(log: Log) -> None:
    log["site"].append(UserMessage(text="Ann likes rye."))

    result = asked(log["site"], recall, "rye")

    assert ("Ann likes rye." in result.text, "4.80" in result.text) == (True, False)


def test_a_conversation_that_is_named_is_recalled_with_its_place_and_author(log: Log) -> None:
    result = asked(log["site"], TRUST, "rye costs")

    assert result.text.startswith("[menu 3, ")
    assert result.text.endswith("planner]\nA rye loaf costs 4.80 euros.")
    assert result.meta["stenolog"] == {"recalled": [["menu", 3]]}


def test_a_function_of_the_program_decides_which_agent_may_recall_what(log: Log) -> None:
    log["other"].append(UserMessage(text="Rye is bought from Bob."))

    def rule(agent: str, here: Conversation, there: Conversation) -> bool:
        return (agent, here.name, there.name) == ("coder", "site", "menu")

    assert "4.80" in asked(log["site"], recall_from(rule), "rye").text
    assert asked(log["site"], recall_from(rule), "rye", agent="tester").text == "nothing found"
    assert asked(log["shop"], recall_from(rule), "rye").text == "nothing found"


def test_words_that_never_stand_together_are_looked_for_one_by_one(log: Log) -> None:
    assert "4.80" in asked(log["site"], TRUST, "price of loaf tomorrow").text


@pytest.mark.parametrize("how", ["erased", "hidden", "reset", "edited", "private", "timeline", "damaged"])
def test_what_an_agent_would_not_be_sent_there_is_not_recalled(log: Log, how: str, tmp_path: Path) -> None:
    menu = log["menu"]
    match how:
        case "erased":
            menu.erase(3, reason="a mistake")
        case "hidden":
            menu.append(ModeSwitch(hides=[PositionRange(first=3, last=3)]), expected=3)
        case "reset":
            menu.append(ModeSwitch(context_from=4), expected=3)
        case "edited":
            menu.append(AssistantMessage(agent="planner", text="No idea.", replaces=3))
        case "private":
            menu.append(ModeSwitch(scope="addressed"), expected=3)
            menu.append(AssistantMessage(agent="planner", text="A rye secret.", to=["user"]))
        case "timeline":
            menu.append(AssistantMessage(agent="planner", text="A rye secret.", in_context=False))
        case _:
            log.search("rye")  # the index has the words still
            for stream in (1, 2):
                damage(tmp_path / "t.db", 3, stream)

    found = asked(log["site"], TRUST, "rye")

    assert "secret" not in found.text
    assert ("4.80" in found.text) == (how in ("private", "timeline"))


def test_thoughts_and_private_notes_of_others_are_not_recalled(log: Log) -> None:
    from stenolog.parts import ReasoningPart, TextPart

    log["menu"].extend(
        [
            AssistantMessage(agent="planner", text="Rye is dear.", purpose="memory"),
            AssistantMessage(
                agent="planner", parts=[ReasoningPart(text="Rye is too dear."), TextPart(text="Well.")]
            ),
        ]
    )

    assert "dear" not in asked(log["site"], TRUST, "rye dear").text


def test_what_a_summary_covers_is_recalled_in_its_own_words(log: Log) -> None:
    log["menu"].append(
        AssistantMessage(
            agent="planner", purpose="summary", text="Prices.", covers=[PositionRange(first=2, last=3)]
        )
    )

    assert "4.80" in asked(log["site"], TRUST, "rye costs").text


def test_recalled_words_are_in_the_log_so_the_request_stays_as_it_was(log: Log) -> None:
    site = log["site"]
    asked(site, TRUST, "rye costs")
    sent = site.request("coder").sha256

    log["menu"].erase(3, reason="a mistake")
    log["menu"].append(UserMessage(text="Rye costs nothing today."))

    assert site.request("coder").sha256 == sent


@pytest.mark.parametrize("where", [[7], [""], [None]])
def test_what_is_no_conversation_and_no_rule_is_refused(where: list[Any]) -> None:
    with pytest.raises(CallerError, match="recall: expected names of conversations, or a function"):
        recall_from(*where)
    with pytest.raises(CallerError, match="recall: limit: expected a whole number from 1 on"):
        recall_from("menu", limit=0)
    with pytest.raises(CallerError, match="expected conversations that may be recalled"):
        AutoRecall()


# By themselves


def test_a_team_file_names_conversations_or_a_function(tmp_path: Path) -> None:
    from stenolog.engine import load_team

    (tmp_path / "my_recall_rules.py").write_text(
        "def may(agent, here, there):\n    return there.name == 'menu'\n"
    )
    for where, written in (("a", '["menu"]'), ("b", '{ rule = "my_recall_rules:may", limit = 1 }')):
        (tmp_path / "crew.toml").write_text(
            f'[agents.coder]\nmodel = "cli:echo Yes."\npolicy = "memory:20"\nrecall = {written}\n'
        )
        with stenolog.open(tmp_path / "files.db") as log:
            log["menu"].append(UserMessage(text="A rye loaf costs 4.80 euros."), id="price")
            load_team(tmp_path / "crew.toml").team.ask_sync(log[where], "What costs a rye loaf?")
            notes = [
                e.event.text
                for e in log[where]
                if isinstance(e.event, AssistantMessage) and e.event.purpose == "memory"
            ]
        assert [("4.80" in note) for note in notes] == [True]
    (tmp_path / "crew.toml").write_text('[agents.coder]\nmodel = "cli:echo Yes."\nrecall = []\n')
    with pytest.raises(
        CallerError, match=r"agents.coder.recall: expected conversations that may be recalled"
    ):
        load_team(tmp_path / "crew.toml")


def prompts() -> tuple[list[str], Any]:
    """Return what an agent's model was sent, call by call, and the model."""
    sent: list[str] = []

    def answer(prompt: ModelRequest) -> str:
        sent.append(str(prompt.body["messages"]))
        return "Yes."

    return sent, Scripted(answer, endless=True)


def test_passages_with_the_words_of_a_question_are_recorded_before_its_agent_is_asked(log: Log) -> None:
    sent, model = prompts()
    team = Team([Agent("coder", model, recall=AutoRecall("menu"))])

    run(run_team(team, log["site"], "Write what a rye loaf costs."))

    notes = [e for e in log["site"].entries() if getattr(e.event, "purpose", "") == "memory"]
    assert ("4.80" in sent[0], len(notes), notes[0].event.cause) == (True, 1, notes[0].position - 1)  # type: ignore[union-attr]
    answer = log["site"][-1].event
    assert isinstance(answer, AssistantMessage)
    assert answer.receipt is not None
    request = log["site"].request("coder", answer.receipt.view)
    assert request.sha256 == answer.receipt.sha256
    assert [p.rule for p in request.parts if notes[0].position in p.positions] == ["memory"]


def test_a_passage_is_given_once_and_one_with_a_single_common_word_not_at_all(log: Log) -> None:
    sent, model = prompts()
    team = Team([Agent("coder", model, recall=AutoRecall("menu"), policy=MemoriesAndRecent(20))])

    for text in ("Which colour has a loaf?", "What costs a rye loaf?", "And what costs a rye loaf now?"):
        run(run_team(team, log["site"], text))

    assert [each.count("4.80") for each in sent] == [0, 1, 1]


def test_each_agent_is_given_its_own_passages_and_no_other_sees_them(log: Log) -> None:
    sent, model = prompts()
    told, plain = prompts()
    team = Team([Agent("coder", model, recall=AutoRecall("menu")), Agent("tester", plain)])

    run(run_team(team, log["site"], "Write what a rye loaf costs.", to=["coder", "tester"]))

    assert ("4.80" in sent[0], "4.80" in told[0]) == (True, False)
