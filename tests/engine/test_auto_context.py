"""Summaries and memories that a team makes by itself, from the configuration of an agent alone."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any, ClassVar

import pytest

from stenolog import Agent, AssistantMessage, Conversation, ModeSwitch, Team, TextPart, ToolCall, UserMessage
from stenolog.adapters.engine.journal.live_state import WATCH
from stenolog.context import Budget, LastN, MemoriesAndRecent, SummaryAndRecent
from stenolog.engine import AgentTool, AutoMemory, AutoSummary, Limits, RetryPolicy, RoundRobin, compact
from stenolog.errors import CallerError, ModelError
from stenolog.events import Usage
from stenolog.models import ModelRequest, ModelResponse, Scripted
from stenolog.tools import remember
from tests.engine.given import errors, opened, run, run_team


def scribe(*turns: Any) -> Agent:
    return Agent("scribe", llm=Scripted(*(turns or ("They talked.",)), endless=True))


def coder(**options: Any) -> Agent:
    return Agent("coder", llm=Scripted("Yes.", endless=True), **options)


def talk(conversation: Conversation, team: Team, number: int) -> None:
    for n in range(number):
        run(run_team(team, conversation, f"Question {n}"))


def kept(conversation: Conversation, purpose: str) -> list[AssistantMessage]:
    events = (entry.event for entry in conversation.entries())
    return [e for e in events if isinstance(e, AssistantMessage) and e.purpose == purpose]


def texts(conversation: Conversation) -> list[str]:
    return [message["content"] for message in conversation.request("coder").body["messages"]]


def test_what_the_policy_would_cut_is_summarised_before_the_request_is_sent(tmp_path: Path) -> None:
    agent = coder(policy=SummaryAndRecent(6), summary=AutoSummary(by=scribe()))
    with opened(tmp_path / "t.db") as conversation:
        talk(conversation, Team([agent]), 8)

        sent = [answer.receipt for answer in kept(conversation, "answer")]
        summaries = kept(conversation, "summary")
        requests = [conversation.request("coder", receipt.view) for receipt in sent if receipt]
        told = ["They talked." in str(r.body) for r in requests if r.cuts]
        assert (len(summaries), summaries[0].text, len(told), all(told)) == (3, "They talked.", 5, True)
        assert "<summary>\nThey talked.\n</summary>" in texts(conversation)


class Looking(AutoSummary):
    """Upkeep that notes where it looks; while it does, somebody says more."""

    seen: ClassVar[list[int]] = []

    async def apply(self, conversation: Conversation, agent: str, worker: Agent) -> None:
        self.seen.append(conversation.position)
        if len(self.seen) < 3:
            conversation.append(UserMessage("And this?"))


def test_no_request_is_made_before_what_it_answers_was_looked_at(tmp_path: Path) -> None:
    model = Scripted("Yes.", endless=True)
    with opened(tmp_path / "t.db") as conversation:
        run(run_team(Team([Agent("coder", llm=model, summary=Looking(by=scribe()))]), conversation, "It?"))

        [answer] = kept(conversation, "answer")
        assert answer.receipt is not None
        assert answer.receipt.view == 4
        assert answer.receipt.view in Looking.seen


def test_a_summary_is_made_once_a_request_is_too_large_though_nothing_was_cut(tmp_path: Path) -> None:
    agent = coder(summary=AutoSummary(by=scribe(), over=60, keep=2))
    with opened(tmp_path / "t.db") as conversation:
        talk(conversation, Team([agent]), 3)
        before = len(kept(conversation, "summary"))
        talk(conversation, Team([agent]), 8)

        assert (before, len(kept(conversation, "summary")) > 0) == (0, True)


def test_an_agent_of_the_team_may_write_them_and_answers_no_turn_by_that(tmp_path: Path) -> None:
    agent = coder(policy=LastN(4), summary=AutoSummary(by="coder"))
    with opened(tmp_path / "t.db") as conversation:
        talk(conversation, Team([agent]), 4)

        assert {made.text for made in kept(conversation, "summary")} == {"Yes."}
        assert len(kept(conversation, "answer")) == 4


def test_a_summariser_that_fails_is_a_warning_and_not_asked_for_each_entry(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    broken = Agent("scribe", Scripted(ModelError("other", "broken"), endless=True), retries=RetryPolicy({}))
    with opened(tmp_path / "t.db") as conversation, caplog.at_level(logging.WARNING):
        talk(conversation, Team([coder(policy=LastN(4), summary=AutoSummary(by=broken))]), 5)

        assert (len(kept(conversation, "answer")), kept(conversation, "summary")) == (5, [])
        assert "AutoSummary for coder failed: no summary: scribe has stopped" in caplog.text


def test_without_its_summary_an_agent_goes_on_while_its_request_fits_and_then_says_why_it_cannot(
    tmp_path: Path,
) -> None:
    def says(prompt: ModelRequest) -> object:
        return ModelError("context_length", "too long") if len(str(prompt.body)) > 3000 else "Yes."

    broken = Agent("scribe", Scripted(ModelError("other", "broken"), endless=True), retries=RetryPolicy({}))
    agent = Agent("coder", Scripted(says, endless=True), summary=AutoSummary(by=broken, over=50))
    with opened(tmp_path / "t.db") as conversation:
        for words in ("Why? " * 200, "Why? " * 200, "Why? " * 200):
            run(run_team(Team([agent]), conversation, words))

        assert len(kept(conversation, "answer")) == 2
        assert "its summary has failed: no summary: scribe has stopped" in errors(conversation)[-1].message


def test_between_two_steps_of_one_run_the_older_steps_are_summarised(tmp_path: Path) -> None:
    def look(page: int) -> str:
        """Look."""
        return f"{page} " + "line " * 200

    steps = [ToolCall(id=f"c{n}", name="look", arguments=f'{{"page": {n}}}') for n in range(8)]
    agent = Agent(
        "coder", Scripted(*steps, "Done."), tools=[look], summary=AutoSummary(by=scribe(), over=300, keep=2)
    )
    with opened(tmp_path / "t.db") as conversation:
        run(run_team(Team([agent]), conversation, "Look eight times"))

        made = [e.position for e in conversation.entries() if getattr(e.event, "purpose", "") == "summary"]
        assert 0 < min(made, default=0) < conversation.position - 4
        assert kept(conversation, "answer")[-1].text == "Done."


def test_facts_are_written_down_after_every_so_many_answers_in_the_place_of_the_old_ones(
    tmp_path: Path,
) -> None:
    asked: list[str] = []

    def facts(call: ModelRequest) -> str:
        asked.append(call.body["messages"][-1]["content"])
        return f"Fact {len(asked)}"

    writer = Agent("scribe", llm=Scripted(facts, endless=True))
    agent = coder(policy=MemoriesAndRecent(2), memory=AutoMemory(by=writer, every=2))
    with opened(tmp_path / "t.db") as conversation:
        talk(conversation, Team([agent]), 5)

        memories = kept(conversation, "memory")
        shown = "\n".join(texts(conversation))
        assert ([m.text for m in memories], "Fact 2" in shown, "Fact 1" in shown) == (
            ["Fact 1", "Fact 2"],
            True,
            False,
        )
        assert "coder must not forget" in asked[0]


def test_remember_keeps_a_fact_for_the_agent_that_calls_it_once(tmp_path: Path) -> None:
    call = ToolCall(id="c1", name="remember", arguments='{"fact": "The oven is broken."}')
    agent = Agent("coder", Scripted(call, "Noted."), tools=[remember], policy=MemoriesAndRecent(1))
    with opened(tmp_path / "t.db") as conversation:
        run(run_team(Team([agent]), conversation, "The oven is broken."))
        talk(conversation, Team([coder(policy=MemoriesAndRecent(1))]), 3)

        assert [m.text for m in kept(conversation, "memory")] == ["The oven is broken."]
        assert any("The oven is broken." in text for text in texts(conversation))


def test_a_writer_that_the_team_does_not_have_is_refused() -> None:
    with pytest.raises(CallerError, match=r"agent 'coder': by: expected an agent with a model \('coder'\)"):
        Team([coder(summary=AutoSummary(by="nobody"))])
    with pytest.raises(CallerError, match="every: expected a whole number from 1 on, found 0"):
        AutoMemory(by="coder", every=0)


def test_an_agent_summarises_for_itself_where_no_other_is_named_and_calls_no_tool_for_it(
    tmp_path: Path,
) -> None:
    asked: list[dict[str, Any]] = []

    def answer(call: ModelRequest) -> str:
        if "Summarise" in str(call.body["messages"][-1]["content"]):
            asked.append(call.body)
            return "Short."
        return "Yes."

    def look() -> str:
        """Look."""
        return ""

    agent = Agent(
        "coder", Scripted(answer, endless=True), tools=[look], summary=AutoSummary(over=100, keep=2)
    )
    with opened(tmp_path / "t.db") as conversation:
        talk(conversation, Team([agent]), 12)

        assert {made.text for made in kept(conversation, "summary")} == {"Short."}
        assert [body.get("tools") for body in asked] == [None] * len(asked)
        assert len(kept(conversation, "answer")) == 12


def test_a_summary_of_the_team_is_that_of_each_agent_that_has_none_of_its_own(tmp_path: Path) -> None:
    own = AutoSummary(over=9_000)
    team = Team(
        [coder(), Agent("tester", Scripted("Ok."), summary=own), Agent("card")],
        summary=AutoSummary(over=60, keep=2),
        turns=None,
    )

    assert {name: agent.summary for name, agent in team.agents.items()} == {
        "coder": AutoSummary(over=60, keep=2),
        "tester": own,
        "card": None,
    }
    with opened(tmp_path / "t.db") as conversation:
        talk(conversation, Team([coder()], summary=AutoSummary(over=60, keep=2)), 8)
        assert kept(conversation, "summary")


def test_what_a_budget_is_about_to_cut_is_summarised_first(tmp_path: Path) -> None:
    agent = coder(policy=Budget(messages=6), summary=AutoSummary(by=scribe(), keep=3))
    with opened(tmp_path / "t.db") as conversation:
        talk(conversation, Team([agent]), 8)

        shown = texts(conversation)
        assert "<summary>\nThey talked.\n</summary>" in shown
        assert len(shown) <= 6
        spans = [span for made in kept(conversation, "summary") for span in made.covers]
        for left_out in conversation.request("coder").omissions:
            assert any(left_out.first in span and left_out.last in span for span in spans)


def test_a_few_long_messages_are_summarised_as_far_as_a_budget_cuts_them(tmp_path: Path) -> None:
    agent = coder(policy=Budget(tokens=2_000), summary=AutoSummary(by=scribe()))
    with opened(tmp_path / "t.db") as conversation:
        for n in range(4):
            run(run_team(Team([agent]), conversation, f"Question {n} {'lorem ipsum ' * 250}"))

        views = [answer.receipt.view for answer in kept(conversation, "answer") if answer.receipt]
        requests = [conversation.request("coder", view) for view in views]
        assert any(request.cuts for request in requests)
        for request in requests:
            lost = [run for run in request.omissions if run.rule == "over-budget"]
            assert "They talked." in str(request.body) if lost else True
            covered = [s for e in kept(conversation, "summary") for s in e.covers]
            assert all(any(run.last in span for span in covered) for run in lost)


def costly(text: str) -> Any:
    """Return a turn that used a thousand tokens."""

    def spends(_: ModelRequest) -> ModelResponse:
        return ModelResponse((TextPart(text=text),), usage=Usage(input=900, output=100))

    return spends


def test_what_a_summary_costs_counts_against_the_agents_budget(tmp_path: Path) -> None:
    def look(page: int) -> str:
        """Look."""
        return f"{page} " + "line " * 200

    steps = [ToolCall(id=f"c{n}", name="look", arguments=f'{{"page": {n}}}') for n in range(8)]
    summary = AutoSummary(by=scribe(costly("They looked.")), over=300, keep=2)
    agent = Agent(
        "coder", Scripted(*steps, "Done."), tools=[look], summary=summary, limits=Limits(max_tokens=1_500)
    )
    with opened(tmp_path / "t.db") as conversation:
        run(run_team(Team([agent]), conversation, "Look eight times"))

        own = sum(made.usage.input + made.usage.output for made in kept(conversation, "answer") if made.usage)
        spent = own + 1_000 * len(kept(conversation, "summary"))
        assert conversation.fold(WATCH).lane("coder").total == spent > 1_500 > own
        assert [f"max_tokens: {spent:,} of 1,500" in e.message for e in errors(conversation)] == [True]


@pytest.mark.parametrize("by", ["scribe", None])
@pytest.mark.parametrize("context", ["fresh", "fork", "scope"])
def test_a_teams_summary_is_that_of_workers_with_a_conversation_of_their_own(
    tmp_path: Path, context: Any, by: str | None
) -> None:
    def look(page: int) -> str:
        """Look."""
        return f"{page} " + "line " * 200

    def reads(prompt: ModelRequest) -> Any:
        words = str(prompt.body["messages"][-1]["content"])
        if "Summarise" in words:
            return "They looked."
        page = int(words.split()[0]) + 1 if words.endswith("line ") else 0
        return ToolCall(id=f"c{page}", name="look", arguments=f'{{"page": {page}}}') if page < 6 else "Read."

    reader = Agent("reader", Scripted(reads, endless=True), tools=[look])
    asks = ToolCall(id="w", name="ask_reader", arguments='{"task": "Read all."}')
    lead = Agent("lead", Scripted(asks, "Done.", endless=True), tools=[AgentTool(reader, context=context)])
    team = Team([lead, scribe()], summary=AutoSummary(by=by, over=300, keep=2), join=False)
    with opened(tmp_path / "t.db") as conversation:
        run(run_team(team, conversation, "Have it read", to="lead"))

        names = [name for name in conversation.log if name.startswith("reader~")]
        summaries = [made for name in names for made in kept(conversation.log[name], "summary")]
        assert bool([made for made in summaries if made.agent == "reader"]) == (context != "scope")


def test_an_agent_that_shows_summaries_which_nobody_makes_is_told_of_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with opened(tmp_path / "t.db") as conversation, caplog.at_level(logging.WARNING):
        talk(conversation, Team([coder(policy=SummaryAndRecent(4))]), 12)

    assert caplog.text.count("no summary replaces it: give the agent summary=AutoSummary(by=…)") == 1


@pytest.mark.parametrize("policy", [SummaryAndRecent(4), LastN(4)])
def test_nothing_is_said_of_summaries_to_who_makes_them_by_hand_or_wants_none(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, policy: Any
) -> None:
    with opened(tmp_path / "t.db") as conversation, caplog.at_level(logging.WARNING):
        talk(conversation, Team([coder()]), 4)
        run(compact(conversation, "coder", scribe(), over=1, keep=2))
        talk(conversation, Team([coder(policy=policy)]), 8)

    assert "no summary replaces" not in caplog.text


def test_who_summarises_is_asked_as_by_a_user_and_not_by_an_agent_of_the_talk(tmp_path: Path) -> None:
    model = Scripted("They talked.", endless=True)
    by = Agent("scribe", llm=model)
    agent = coder(policy=MemoriesAndRecent(2), memory=AutoMemory(by=by, every=2, task="Keep what counts."))
    with opened(tmp_path / "t.db") as conversation:
        talk(conversation, Team([agent]), 3)

    assert model.prompts[0].body["messages"][-1] == {"role": "user", "content": "Keep what counts."}


def test_after_a_reset_no_summary_is_made_of_what_stands_before_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    agent = coder(policy=SummaryAndRecent(4), summary=AutoSummary(by=scribe()))
    with opened(tmp_path / "t.db") as conversation, caplog.at_level(logging.WARNING):
        talk(conversation, Team([agent]), 5)
        before = len(kept(conversation, "summary"))
        at = conversation.position
        conversation.append(ModeSwitch(context_from=at + 1), expected=at)
        caplog.clear()
        talk(conversation, Team([agent]), 2)

        assert before > 0
        assert len(kept(conversation, "summary")) == before
        assert caplog.text == ""


class Closing(Scripted):
    """A model that says when it is closed."""

    closed = 0

    async def close(self) -> None:
        self.closed += 1


def test_a_team_closes_the_models_of_its_helpers_too_each_once() -> None:
    helper = Closing("They talked.", endless=True)
    writer = Agent("scribe", helper)
    both: dict[str, Any] = {"summary": AutoSummary(by=writer), "memory": AutoMemory(by=writer)}
    run(Team([coder(**both), Agent("tester", Scripted("Yes."), **both)]).close())

    assert helper.closed == 1


def test_facts_written_in_a_room_with_turns_warn_of_nobody_who_is_absent(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    agents = [coder(memory=AutoMemory(by=scribe(), every=1)), Agent("tester", Scripted("No.", endless=True))]
    with opened(tmp_path / "t.db") as conversation, caplog.at_level(logging.WARNING):
        talk(conversation, Team(agents, turns=RoundRobin(max_rounds=1)), 2)

        assert kept(conversation, "memory")
        assert "which this team does not have" not in caplog.text
