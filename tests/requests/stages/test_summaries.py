"""What a summary hides: what its author was sent, from the lanes that it was made for, and nothing else."""

from __future__ import annotations

from dataclasses import replace

import pytest

from stenolog import AssistantMessage, Event, ModeSwitch, Request, UserMessage
from stenolog.context import FullHistory, Policy, Prompt, policy
from stenolog.events import PositionRange, Receipt
from stenolog.projections.requests import build, builder, lanes
from stenolog.projections.requests.incremental.series import every_request
from stenolog.projections.requests.proofs import proofs
from stenolog.testing import entries
from tests.random_cases import seeds
from tests.requests.policies import SMALL
from tests.requests.stages.summary_laws import faults, team_history

ASKED, SAID = UserMessage(text="Which test fails?"), AssistantMessage(agent="coder", text="test_dates")
FACT = AssistantMessage(agent="reviewer", purpose="memory", text="Mind the dates.")


def summary(agent: str = "coder", first: int = 1, last: int = 3, **given: object) -> AssistantMessage:
    covers = [PositionRange(first=first, last=last)]
    return replace(AssistantMessage(agent=agent, purpose="summary", text="Short.", covers=covers), **given)  # type: ignore[arg-type]


TALK = (ASKED, SAID, FACT)


def covered(request: Request) -> list[int]:
    """Return the positions that summaries hide."""
    runs = [run for run in request.omissions if run.rule == "covered"]
    return [at for run in runs for at in range(run.first, run.last + 1)]


def hidden(lane: str, *events: Event, under: Policy | None = None) -> list[int]:
    agent, _, task = lane.partition("/")
    return covered(build(entries(*events, UserMessage(text="Go on")), agent, task=task, policy=under))


@seeds(40, slow=500, nightly=2_000)
def test_a_summary_hides_only_what_its_author_was_sent_and_only_from_its_own_lanes(seeds: range) -> None:
    assert [fault for seed in seeds for fault in faults(seed)] == []


@seeds(5, slow=25)
@pytest.mark.parametrize("name", SMALL)
def test_with_summaries_for_some_lanes_a_session_gives_the_request_that_the_builder_defines(
    name: str, seeds: range
) -> None:
    for seed in seeds:
        log = team_history(seed)
        for lane in lanes(log):
            *_, last = every_request(log, lane.agent, task=lane.task, policy=SMALL[name])

            assert last == builder.build_reference(log, lane.agent, task=lane.task, policy=SMALL[name])


def test_a_summary_of_one_agent_takes_nothing_from_another_and_is_not_shown_to_it() -> None:
    assert hidden("coder", *TALK, summary()) == [1, 2]
    assert hidden("reviewer", *TALK, summary()) == []
    request = build(entries(*TALK, summary(), ASKED), "reviewer", policy=FullHistory())
    assert "Short." not in request.bytes.decode()


@pytest.mark.parametrize("to", ["reviewer", "reviewer/docs"])
def test_a_summary_for_others_hides_from_those_named_what_its_author_was_sent(to: str) -> None:
    made = summary(to=("reviewer",))

    assert hidden(to, ASKED, SAID, FACT, made) == [1, 2]
    assert hidden("planner", ASKED, SAID, FACT, made) == []


def test_a_memory_is_never_hidden_by_the_summary_of_another_lane_and_may_be_by_ones_own() -> None:
    assert 3 not in hidden("reviewer", *TALK, summary(to=("reviewer",)))
    assert 3 in hidden("reviewer", *TALK, summary("reviewer"))


def test_what_was_for_others_under_the_scope_of_its_moment_is_not_hidden_by_one_who_did_not_see_it() -> None:
    scope = ModeSwitch(agents=["coder"], scope="addressed")
    secret = UserMessage(text="hunter2", to=("reviewer",))
    opened = ModeSwitch(agents=["coder"], scope="open")

    assert hidden("reviewer", scope, secret, SAID, opened, summary(last=4, to=("reviewer",))) == [3]


def test_two_lanes_of_one_agent_do_not_take_each_others_briefs() -> None:
    briefs = [UserMessage(text=f"Mail {n}", to=(f"w/{n}",)) for n in (1, 2)]
    made = summary("w", 2, 3, task="1")

    assert hidden("w/1", ModeSwitch(scope="addressed"), *briefs, made) == [2]
    assert hidden("w/2", ModeSwitch(scope="addressed"), *briefs, made) == []


def test_what_a_request_for_a_summary_was_cut_of_and_what_came_later_is_not_hidden_by_it() -> None:
    receipt = Receipt(view=3, sha256="0", plan={"cut": [[1, 1]]})

    assert hidden("coder", ASKED, SAID, ASKED, SAID, summary(last=4, receipt=receipt)) == [2, 3]


def test_what_was_hidden_when_a_summary_was_made_is_not_hidden_by_it_once_it_is_back() -> None:
    away, back = ModeSwitch(hides=[PositionRange(first=1, last=1)]), ModeSwitch(hides=None)

    assert hidden("coder", ASKED, SAID, away, summary(last=2), back) == [2]


def test_summaries_of_two_agents_may_overlap() -> None:
    both = (ASKED, SAID, ASKED, summary("coder", 1, 2), summary("reviewer", 2, 3))

    assert (hidden("coder", *both), hidden("reviewer", *both)) == ([1, 2], [2, 3])


def test_requests_of_the_pipeline_by_whose_rule_a_summary_was_for_all_are_still_proved() -> None:
    earlier = replace(policy(FullHistory()), pipeline="requests@5")
    log = (*TALK, summary(), ASKED)
    receipt = build(entries(*log), "reviewer", policy=earlier).receipt

    (found,) = proofs(entries(*log, AssistantMessage(agent="reviewer", text="Well", receipt=receipt)))

    assert hidden("reviewer", *log, under=earlier) == [1, 2, 3]
    assert (receipt.pipeline, found.outcome) == ("requests@5", "same")


def test_an_agent_is_told_that_a_summary_stands_in_the_place_of_what_it_is_not_shown() -> None:
    told = Prompt(scope_note=True, cut_note=True)

    by_lane = {
        agent: build(entries(*TALK, summary(), ASKED), agent, policy=told).bytes.decode()
        for agent in ("coder", "reviewer")
    }

    assert "this conversation; summaries in the place of earlier messages" in by_lane["coder"]
    assert "earlier messages were left out" in by_lane["coder"]
    assert "what you are shown: this conversation]" in by_lane["reviewer"]
    assert "earlier messages were left out" not in by_lane["reviewer"]
