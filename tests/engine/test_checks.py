"""Checks let pass, replace, refuse or ask a person; the log has each verdict, and a replay calls no check."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import stenolog
from stenolog import Agent, AssistantMessage, Conversation, LlmError, Log, Team, ToolCall, UserMessage
from stenolog.engine import (
    AskPerson,
    Output,
    Refuse,
    Replace,
    Replay,
    after_answer,
    before_call,
    before_request,
)
from stenolog.errors import CallerError, ModelError
from stenolog.models import ModelRequest, Scripted
from stenolog.testing import crash_points
from tests.engine.given import Clock, errors, opened, outline, run, run_team
from tests.engine.judged import fails, judging, seen, verdict_on
from tests.requests.judging import MODELS, needs_judges, refused

REASON = {"verdict": {"by": "judge", "reason": "why"}}
SAID = "It costs 3 €."
HELD, FAILED = "held", "failed"


def asked(conversation: Conversation, agent: Agent, *words: str) -> str:
    """Ask, and return the answer or the error."""
    try:
        return str(run(Team([agent]).ask(conversation, *words)))
    except ModelError as error:
        return f"{error.category}: {error.message}"


ANSWERS: dict[str, tuple[Any, str, list[tuple[str, str, str]]]] = {
    "pass": (None, SAID, [("assistant_message", SAID, "")]),
    "replace": (
        Replace("It is secret.", "why"),
        "It is secret.",
        [("assistant_message", SAID, ""), ("assistant_message", "It is secret.", "replaced")],
    ),
    "refuse": (
        Refuse("why"),
        "Ask them.",
        [("llm_error", SAID, "refused"), ("assistant_message", "Ask them.", "")],
    ),
    "ask": (AskPerson("why?"), "refused: coder: refused: why?", [("llm_error", SAID, HELD)]),
    "fail": (
        fails,
        "other: coder: other: the check judge failed: RuntimeError: ouch",
        [("llm_error", SAID, FAILED)],
    ),
    "nonsense": (
        7,
        "other: coder: other: the check judge: expected None, Replace, Refuse, AskPerson, found 7",
        [("llm_error", SAID, FAILED)],
    ),
}


@pytest.mark.parametrize(("verdict", "given", "log"), ANSWERS.values(), ids=ANSWERS)
def test_an_answer_is_judged_before_it_counts(
    verdict: Any, given: str, log: list[tuple[str, str, str]], tmp_path: Path
) -> None:
    with opened(tmp_path / "a.db") as demo:
        agent = Agent("coder", llm=Scripted(SAID, "Ask them."), checks=[judging(after_answer, verdict)])

        assert asked(demo, agent, "How much?") == given
        found = [entry.event for entry in demo.entries(after=2)]
        assert [(event.kind, getattr(event, "text", ""), verdict_on(event)) for event in found] == log


REQUESTS = {
    "refuse": (Refuse("why"), "refused: coder: refused: why", "refused"),
    "ask": (AskPerson("why?"), "refused: coder: refused: why?", HELD),
    "fail": (fails, "other: coder: other: the check judge failed: RuntimeError: ouch", FAILED),
    "replace": (
        Replace({}, "why"),
        "other: coder: other: the check judge: expected None, Refuse, AskPerson, found Replace",
        FAILED,
    ),
}


@pytest.mark.parametrize(("verdict", "given", "kind"), REQUESTS.values(), ids=REQUESTS)
def test_a_request_is_judged_before_it_is_sent(verdict: Any, given: str, kind: str, tmp_path: Path) -> None:
    with opened(tmp_path / "a.db") as demo:
        model = Scripted(SAID)
        agent = Agent("coder", llm=model, checks=[judging(before_request, verdict)])

        assert asked(demo, agent, "How much?").startswith(given)
        assert (model.prompts, [verdict_on(error) for error in errors(demo)]) == ([], [kind])
        # Nothing of it is said to the model, and a person's word goes on.
        assert asked(demo, agent, "And now?") == SAID
        assert "why" not in json.dumps(model.prompts[0].body)


def test_an_answer_that_was_held_back_is_let_pass_by_continue_without_another_call(tmp_path: Path) -> None:
    with opened(tmp_path / "a.db") as demo:
        model = Scripted(SAID, "More.")
        checks = [judging(before_request, AskPerson("Ask it?")), judging(after_answer, AskPerson("Say it?"))]
        agent = Agent("coder", llm=model, checks=checks)
        found = [asked(demo, agent, "How much?")]
        for _ in range(2):
            run(Team([agent]).resume(demo))
            found.append(asked(demo, agent))

        assert found == ["refused: coder: refused: Ask it?", "refused: coder: refused: Say it?", SAID]
        assert len(model.prompts) == 1
        assert asked(demo, agent, "And?") == "More."
        assert json.dumps(model.prompts[-1].body).count(json.dumps(SAID)[1:-1]) == 1


def test_other_words_of_a_person_drop_an_answer_that_was_held_back(tmp_path: Path) -> None:
    with opened(tmp_path / "a.db") as demo:
        model = Scripted(SAID, "I cannot say.")
        agent = Agent("coder", llm=model, checks=[judging(after_answer, AskPerson("Say it?"))])
        asked(demo, agent, "How much?")

        assert asked(demo, agent, "Without the price.") == "I cannot say."
        assert "costs" not in json.dumps(model.prompts[-1].body)


def test_checks_judge_in_their_order_what_those_before_them_made(tmp_path: Path) -> None:
    @after_answer
    async def shorter(answer: AssistantMessage) -> Any:
        return Replace(answer.text.removesuffix("."), "no stops")

    @after_answer
    def louder(answer: AssistantMessage) -> Any:
        return Replace(answer.text.upper(), "too quiet")

    with opened(tmp_path / "a.db") as demo:
        assert asked(demo, Agent("coder", llm=Scripted("Yes."), checks=[shorter, louder]), "Is it?") == "YES"
        last = [*demo.entries()][-1].event
        assert isinstance(last, AssistantMessage)
        assert last.meta["stenolog"] == {
            "verdict": {"kind": "replaced", "by": "shorter, louder", "reason": "no stops, too quiet"}
        }


def test_a_replaced_answer_keeps_its_calls_and_these_run_once(tmp_path: Path) -> None:
    ran = []

    def look() -> str:
        """Look."""
        ran.append("look")
        return "three"

    script = Scripted([SAID, ToolCall(id="c1", name="look")], "Three.")
    with opened(tmp_path / "a.db") as demo:
        check = judging(after_answer, Replace("I look.", "why"))
        agent = Agent("coder", llm=script, tools=[look], checks=[check])

        assert (asked(demo, agent, "How much?"), ran) == ("Three.", ["look"])
        assert outline(demo)[1:] == [
            ("assistant_message", SAID),
            ("assistant_message", "I look."),
            ("tool_result", "three"),
            ("assistant_message", "Three."),
        ]
        assert "3 \\u20ac" not in json.dumps(script.prompts[-1].body)


def test_what_a_check_makes_of_an_answer_is_of_the_agents_type(tmp_path: Path) -> None:
    shape = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    with opened(tmp_path / "a.db") as demo:
        checks = [judging(after_answer, Replace('{"n": 2}', "why"), Replace("two", "why"))]
        agent = Agent("coder", llm=Scripted('{"n": 1}', '{"n": 1}'), output=Output(shape), checks=checks)

        assert run(Team([agent]).ask(demo, "One?")) == {"n": 2}
        assert "the check judge: expected the fields of the answer" in asked(demo, agent, "And?")


def test_an_answer_that_is_refused_each_time_ends_with_the_reason(tmp_path: Path) -> None:
    with opened(tmp_path / "a.db") as demo:
        check = judging(after_answer, *[Refuse("why")] * 3)
        agent = Agent("coder", llm=Scripted(SAID, endless=True), checks=[check])

        assert asked(demo, agent, "How much?") == "invalid_response: coder: invalid_response: why"
        assert [error.attempt for error in errors(demo)] == [1, 2, 3]


@pytest.mark.parametrize(
    "checks", [[len], [judging(before_call), judging(before_call)]], ids=["bare", "twice"]
)
def test_what_is_no_check_is_refused_with_what_was_expected(checks: list[Any]) -> None:
    with pytest.raises(CallerError, match="agent 'coder': checks: expected"):
        Agent("coder", llm=Scripted(), checks=checks)


VERDICTS: dict[str, Callable[[], list[Any]]] = {
    "replaced": lambda: [judging(after_answer, Replace("It is secret.", "why"))],
    "refused": lambda: [judging(after_answer, Refuse("why"))],
    "asked": lambda: [judging(after_answer, AskPerson("Say it?"))],
    "asked, and replaced": lambda: [
        judging(after_answer, AskPerson("Say it?"), Replace("It is secret.", "why")),
    ],
    "unsent": lambda: [judging(before_request, AskPerson("Ask it?"))],
    "failed": lambda: [judging(after_answer, fails)],
}


@pytest.mark.parametrize("checks", VERDICTS.values(), ids=VERDICTS)
def test_a_replay_takes_verdicts_from_the_record(checks: Callable[[], list[Any]], tmp_path: Path) -> None:
    agent = Agent("coder", llm=Scripted(SAID, "Ask them.", "Yes."), checks=checks())
    with stenolog.open(tmp_path / "a.db") as log:
        go_on(log["demo"], agent)
        recording = Replay(log["demo"])
        go_on(
            log["again"],
            recording.agent(Agent("coder", llm=agent.llm, checks=[judging(after_answer, fails)])),
        )

        assert (recording.remaining, seen(log["again"])) == (0, seen(log["demo"]))


def go_on(conversation: Conversation, agent: Agent) -> None:
    """Ask, let pass what was held back, and ask again."""
    run(run_team(Team([agent]), conversation, "How much?"))
    if conversation.state().lane("coder").status == "failed":
        run(Team([agent]).resume(conversation))
        run(run_team(Team([agent]), conversation))
    run(run_team(Team([agent]), conversation, "Is it?"))


@needs_judges
@pytest.mark.parametrize("checks", VERDICTS.values(), ids=VERDICTS)
def test_requests_of_judged_conversations_are_valid_at_every_position(
    checks: Callable[[], list[Any]], tmp_path: Path
) -> None:
    with opened(tmp_path / "a.db") as demo:
        go_on(demo, Agent("coder", llm=Scripted(SAID, "Ask them.", "Yes."), checks=checks()))

        for api in MODELS:
            for at in range(2, demo.position + 1):
                assert refused(api, demo.request("coder", at, api).body) == [], (api, at)


def test_a_run_that_is_killed_anywhere_leaves_no_answer_without_its_verdict(tmp_path: Path) -> None:
    @after_answer
    def judge(answer: AssistantMessage) -> Any:
        if "bad" in answer.text:
            return Refuse("no bad words")
        return Replace("It is secret.", "why") if "€" in answer.text else None

    def says(prompt: ModelRequest) -> object:
        return SAID if "bad words" in json.dumps(prompt.body) else "bad"

    def team(clock: Clock) -> Team:
        model = Scripted(says, endless=True)
        return Team([Agent("coder", llm=model, checks=[judge])], world=clock.world)

    def begin(log: Log) -> None:
        run(team(Clock()).ask(log["demo"], "How much?", id="m1"))

    for point in crash_points(begin, tmp_path, clock=Clock()):
        clock = Clock()
        with stenolog.open(point.path, clock=clock) as log:
            assert run(team(clock).ask(log["demo"], "How much?", id="m1")) == "It is secret.", point.when
            said = [
                e.event for e in log["demo"].entries() if isinstance(e.event, AssistantMessage | LlmError)
            ]
            whole = [event for event in said if not isinstance(event, LlmError) or verdict_on(event)]
            assert [verdict_on(event) for event in whole] == ["refused", "", "replaced"], point.when


def test_a_check_may_look_at_the_situation(tmp_path: Path) -> None:
    found = []

    @after_answer
    def judge(answer: AssistantMessage, now: Any) -> None:
        found.append((answer.text, now.user, now.conversation.name))

    with opened(tmp_path / "a.db") as demo:
        agent = Agent("coder", llm=Scripted("Yes."), checks=[judge])
        run(Team([agent]).ask(demo, UserMessage(text="Is it?", author="Ada")))

    assert found == [("Yes.", "Ada", "demo")]
