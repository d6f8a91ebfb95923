"""System 5 as an example: a report in, eight mails out, in one command, wherever it is killed."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import stenolog
from examples.stakeholder_mail import crew, workflow
from examples.stakeholder_mail.crew import agents, team
from examples.stakeholder_mail.script import reply
from examples.stakeholder_mail.workflow import TALK, Inputs, firsts, plan, scores, write
from stenolog import AssistantMessage, Conversation, Entry, ModeSwitch, UserMessage
from stenolog.analysis import Price, cost, usage
from stenolog.context import Budget
from stenolog.engine import ByAddress, Team, Tokens
from stenolog.errors import ModelError
from stenolog.models import ModelRequest, Scripted
from stenolog.tables import attached_tables
from tests.examples.harness import clean, finished, killed, outcome, run, said
from tests.postgres import in_schemas

NAME = "stakeholder_mail"
OCTOBER = "workflow = 'october'"
FORK = "workflow LIKE 'email_writer~%'"
NO_COLUMN = 'column "nope" does not exist' if in_schemas.is_chosen() else "no such column: nope"


def sql(path: Path, query: str) -> list[tuple[Any, ...]]:
    if in_schemas.is_chosen():
        with in_schemas.connected(path) as schema:
            return list(schema.execute(query))
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(query).fetchall()


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the log of a run without options."""
    return finished(NAME, tmp_path_factory.mktemp("mails"))


def test_a_report_becomes_eight_mails_that_a_reviewer_has_scored(done: Path) -> None:
    rows = sql(done, "SELECT mail, score FROM mail_scores WHERE workflow = 'october' ORDER BY mail")

    # The third mail was made shorter at the user's wish; the seventh was refined.
    assert rows == [(f"mail-{n}", 0.5 if n == 3 else 1.0) for n in range(1, 9)]


def test_the_flow_is_that_of_the_document(done: Path) -> None:
    with stenolog.open(done) as log:
        entries = [entry for entry in log["october"] if not isinstance(entry.event, ModeSwitch)]
    flow = [speaker(entry) for entry in entries]
    briefed, ended = flow.index("task_planner"), flow.index("user", 5)

    assert flow[:4] == ["system", "user", "orchestrator", "user"]  # rules, report, analysis, selection
    assert entries[2].event.text.splitlines()[3:5] == [  # type: ignore[union-attr]
        "- Ann Ito, investor: revenue, cash",
        "- Bob Okoro, bank: cash, churn",
    ]
    assert entries[3].event.text.startswith("Write to: Ann Ito, Bob Okoro")  # type: ignore[union-attr]
    assert flow[briefed : briefed + 9] == ["task_planner"] * 9  # the plan, and a brief for each writer
    assert sorted(flow[briefed + 9 : briefed + 17]) == ["email_writer"] * 8
    assert flow[ended - 4 : ended + 2] == [
        *("reviewer", "email_writer", "task_planner", "reviewer"),  # one refinement, scored again
        *("user", "orchestrator"),
    ]


def speaker(entry: Entry) -> str:
    match entry.event:
        case AssistantMessage(agent=agent):
            return agent
        case UserMessage(author=author, author_kind=kind):
            return author or {"person": "user"}.get(kind, kind)
        case _:
            return ""


def test_each_writer_is_sent_the_report_its_analysis_the_selection_the_plan_and_its_own_brief_alone(
    done: Path,
) -> None:
    with stenolog.open(done) as log:
        october = log["october"]
        views = {entry.event.task: entry.event.receipt.view for entry in firsts(october, "email_writer")}  # type: ignore[union-attr]
        bodies = [
            str(october.request("email_writer", task=task, at=view).body) for task, view in views.items()
        ]
        sent = october.request("email_writer", task="mail-1").body["messages"]

    assert len(bodies) == 8
    assert {message["role"] for message in sent} == {"system", "user", "assistant"}
    for words in (
        "asks about revenue",
        "\\nStakeholders:",
        "Write to: Ann Ito",
        '{"mails":',
        "Write to ",
    ):
        assert [body.count(words) for body in bodies] == [1] * 8, words


def test_a_refined_mail_has_what_the_analysis_says(done: Path) -> None:
    with stenolog.open(done) as log:
        first, refined = (said for said in texts(log["october"], "email_writer", "mail-7"))
        (analysis, *_) = texts(log["october"], "orchestrator")
    (figure,) = (line[10:] for line in analysis.splitlines() if line.startswith("In short: "))

    assert figure == "Revenue in October was 412,000 dollars, 9 % more than in September."
    assert (figure in first, figure in refined) == (False, True)


def texts(conversation: Conversation, agent: str, task: str = "") -> list[str]:
    said = [entry.event for entry in conversation if isinstance(entry.event, AssistantMessage)]
    return [answer.text for answer in said if (answer.agent, answer.task) == (agent, task)]


def test_without_the_conversation_the_same_briefs_give_worse_mails(done: Path) -> None:
    with stenolog.open(done) as log:
        whole, alone = scores(log["october"], anew=False), scores(log["october-without-context"])
        bodies = [
            str(log["october-without-context"].request("email_writer", task=task).body) for task in alone
        ]

    assert [quality["score"] for quality in whole.values()] == [1.0] * 8
    assert max(quality["score"] for quality in alone.values()) == 0.5
    assert not any("Stakeholders" in body or "412,000" in body for body in bodies)


MISSING = {
    "orchestrator": ("asks about", "Dear "),
    "task_planner": ("Write to:", "Stakeholders:"),
    "email_writer": ("Write to ", "asks about", "Stakeholders:", "The reviewer lacks"),
    "reviewer": ("Score the mail", "asks about", "Stakeholders:"),
}


@pytest.mark.parametrize(
    ("agent", "missing"),
    [
        pytest.param(agent, words, marks=pytest.mark.slow if nth else ())
        for agent, missing in MISSING.items()
        for nth, words in enumerate(missing)
    ],
)
def test_a_message_that_an_agent_is_not_sent_changes_the_outcome(
    complete: object, tmp_path: Path, agent: str, missing: str
) -> None:
    def forgetful(prompt: ModelRequest) -> str:
        if prompt.lane.partition("/")[0] == agent:
            first, *sent = prompt.body["messages"]
            kept = [first, *(message for message in sent if missing not in message["content"])]
            prompt = prompt._replace(body={**prompt.body, "messages": kept})
        return reply(prompt)

    assert written(tmp_path, forgetful) != complete


@pytest.fixture(scope="module")
def complete(tmp_path_factory: pytest.TempPathFactory) -> object:
    """Return the outcome where all agents are sent all messages."""
    return written(tmp_path_factory.mktemp("complete"), reply)


def written(folder: Path, answers: Callable[[ModelRequest], str]) -> object:
    """Return the scores and the last words of a workflow with such a model, or why it fails."""

    async def main(log: stenolog.Log) -> object:
        async with team(agents(Scripted(answers, endless=True))) as working:
            for part in (plan, write):
                async for _ in part(log[TALK], working):
                    pass
        return scores(log[TALK]), [text for _, text in spoken(log[TALK])]

    with stenolog.open(folder / "a.db") as log:
        try:
            return asyncio.run(main(log))
        except ModelError as error:
            return str(error)


def test_near_its_limit_the_middle_is_summarised_and_rules_report_and_analysis_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(crew, "STAYS", crew.STAYS | Budget(tokens=2_000))

    async def main(log: stenolog.Log) -> None:
        async with team(agents(Scripted(reply, endless=True))) as working:
            for part in (plan, write):
                async for _ in part(log[TALK], working):
                    pass

    with stenolog.open(tmp_path / "a.db") as log:
        asyncio.run(main(log))
        request = log[TALK].request("orchestrator")
    (_, rules, report, analysis, summary, *_) = [message["content"] for message in request.body["messages"]]

    assert rules.startswith("Write as Acme")
    assert "asks about revenue" in report
    assert "Stakeholders:\n- Ann Ito" in analysis
    assert summary.startswith("<summary>\nMails so far: Ann, Bob")
    assert request.size.tokens <= 2_000


def test_what_a_workflow_costs_is_what_the_document_estimates() -> None:
    workflow_tokens = {"gemini-2.5-flash": Tokens(66_000, 8_000)}

    assert cost(workflow_tokens, (Price("gemini-2.5-flash", 0.075, 0.075, 0.30),)) == 7_350  # millionths


def spoken(conversation: Conversation) -> list[tuple[str, str]]:
    """Return what was said at last on each lane."""
    said = [entry.event for entry in conversation if isinstance(entry.event, AssistantMessage)]
    return sorted({f"{answer.agent}/{answer.task}": answer.text for answer in said}.items())


def test_another_report_and_another_selection_give_other_mails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    report = "Bakers & Co sells flour. Sales grew by 3 %.\n\nZoe Young (owner) asks about sales."
    monkeypatch.setattr(workflow, "INPUTS", Inputs("Be kind.", report, ["Zoe Young"]))

    async def main(log: stenolog.Log) -> None:
        async with team(agents(Scripted(reply, endless=True))) as working:
            for part in (plan, write):
                async for _ in part(log[TALK], working):
                    pass

    with stenolog.open(tmp_path / "a.db") as log:
        asyncio.run(main(log))
        mails = texts(log[TALK], "email_writer", "mail-1")

        assert sorted(scores(log[TALK])) == ["mail-1"]
    assert mails[-1].startswith("Dear Zoe,\n\nBakers & Co sells flour")


@pytest.mark.about_file("its tables are attached to the file")
def test_the_table_of_messages_has_every_message_and_the_personas(done: Path) -> None:
    query = "SELECT role, count(*) FROM conversation_messages WHERE workflowId = 'october' GROUP BY role"

    assert sql(done, query) == [("assistant", 42), ("system", 5), ("user", 4)]
    with stenolog.open(done) as log:
        names = "conversation_messages", "mail_scores", "stakeholder_mails"
        assert attached_tables(log) == [(name, 0, "") for name in names]


@pytest.mark.about_file("it counts rows of its table")
def test_a_mail_made_anew_stands_in_its_place_and_another_beside_it_with_nothing_copied(done: Path) -> None:
    third = "SELECT text FROM stakeholder_mails WHERE workflow = 'october' AND mail = 'mail-3'"
    fork = f"SELECT text FROM stakeholder_mails WHERE {FORK} AND mail = 'mail-5'"
    own = """SELECT count(*) FROM stored_events e JOIN conversations c ON c.stream = e.originator_id
        WHERE c.name LIKE 'email_writer~%' GROUP BY c.name"""

    assert [len(text.split()) for (text,) in sql(done, third)] == [16]
    assert ["Thank you" in text for (text,) in sql(done, fork)] == [True]
    assert sql(done, own) == [(3,), (3,)]  # the fork, the wish, the mail


def test_the_account_names_each_agent_and_the_run(done: Path) -> None:
    with stenolog.open(done) as log:
        used = usage(log["october"].entries())

    assert {agent: tally.answers for agent, tally in used.by("agent")} == {
        "orchestrator": 3,
        "task_planner": 1,
        "email_writer": 9,
        "reviewer": 10,
    }
    assert [run for run, _ in used.by("run")] == ["october-mails"]


def test_what_it_shows_has_the_estimate_the_scores_the_account_and_the_replay(done: Path) -> None:
    told = said(NAME, done.parent / "..", "--db", str(done))

    for words in (
        "all 8 mails are written\nafter:  8 mails, 6,",
        "workflow                   mail    score  words  text",
        "october                    mail-7  1.0    ",
        "user → email_writer/mail-3: Shorter, please.",
        "context  with  without  lacks without it",
        "mail-3   100%  25%      topics, figure, company",
        "agent email_writer",
        "$0.0",
        "8 mails, 0 calls left over",
    ):
        assert words in told


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "found"),
    [
        ("cli:nosuchprog", "✗ orchestrator: nosuchprog could not be"),
        ("cli:echo hello", "✗ expected an analysis that names stakeholders"),
    ],
)
def test_a_model_that_fails_or_plans_nothing_is_one_line_and_the_next_start_asks_again(
    tmp_path: Path, model: str, found: str
) -> None:
    for _ in range(2):
        code, _, errors = run(NAME, tmp_path, "--model", model)
        assert (code, errors.count("\n"), errors[: len(found)]) == (1, 1, found)

    said(NAME, tmp_path)

    assert sql(tmp_path / f"{NAME}.db", f"SELECT count(*) FROM stakeholder_mails WHERE {OCTOBER}") == [(8,)]


@pytest.mark.parametrize(
    ("options", "found"),
    [
        (["--model", "nope"], "✗ expected a model as openai:NAME"),
        (["--prices", "nope.toml"], "✗ [Errno 2] No such file or directory: 'nope.toml'"),
        (["--regenerate", "99", "x"], "✗ expected the number of a mail, 1 to 8; found '99'"),
        (["--sql", "SELECT nope"], f"✗ {NO_COLUMN}: SELECT nope"),
    ],
)
def test_what_cannot_be_done_is_said_in_a_line(done: Path, options: list[str], found: str) -> None:
    code, _, errors = run(NAME, done.parent, *options)

    assert (code, errors.count("\n"), errors[: len(found)]) == (1, 1, found)


def test_a_question_and_a_wish_are_answered_from_the_log_as_it_stands(tmp_path: Path) -> None:
    path = finished(NAME, tmp_path, "--sql", "SELECT 1")
    asked = said(NAME, tmp_path, "--ask", "Who hears of the outages?")
    wished = said(NAME, tmp_path, "--regenerate", "4", "Shorter!")
    again = said(NAME, tmp_path, "--regenerate", "4", "Shorter!")

    assert "3 mails speak of the outages" in asked
    assert "mail 4, in the place of " in wished
    assert sql(path, "SELECT count(*) FROM stakeholder_mails WHERE workflow = 'october'") == [(8,)]
    assert "reviewer/mail-4 " in wished
    assert [line for line in wished.splitlines() if "━" not in line] == again.splitlines()


@pytest.mark.slow
def test_its_log_is_clean(done: Path) -> None:
    clean(done)


def test_an_orchestrator_that_hands_on_to_the_planner_again_stops_no_later_start(tmp_path: Path) -> None:
    def hands_on(prompt: ModelRequest) -> str:
        about = json.dumps({"mails": [{"to": "Ann", "about": f"growth {prompt.key[:9]}"}]})
        analysis = "- Ann Ito, investor: growth\nGo on, @task_planner."
        score = json.dumps({"score": 1, "lacks": [], "advice": ""})
        said = {"task_planner": about, "orchestrator": analysis, "reviewer": score}
        return said.get(prompt.lane.partition("/")[0], "Dear Ann")

    async def main(log: stenolog.Log) -> None:
        of = agents(Scripted(hands_on, endless=True))
        async with Team(of, turns=ByAddress(default=["orchestrator"]), mentions=True) as working:
            for part in (plan, write, plan, write):
                async for _ in part(log[TALK], working):
                    pass

    with stenolog.open(tmp_path / "a.db") as log:
        asyncio.run(main(log))
        briefs = [entry.id for entry in log[TALK].entries() if entry.id.startswith("brief-")]

    assert briefs == ["brief-1"]


@pytest.mark.slow
def test_killed_at_five_instants_it_ends_the_same_and_so_do_its_tables(done: Path, tmp_path: Path) -> None:
    path = killed(NAME, tmp_path, kills=5, seed=5)
    rows = "SELECT mail, text FROM stakeholder_mails ORDER BY mail, text"

    assert outcome(NAME, done) == outcome(NAME, path)
    assert sql(done, rows) == sql(path, rows)
    clean(path)
