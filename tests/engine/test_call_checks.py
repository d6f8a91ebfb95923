"""Checks of calls and their results: what does not pass is not run, or not shown."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import stenolog
from stenolog import Agent, Conversation, Log, Team, ToolCall
from stenolog.engine import AskPerson, Refuse, Replace, Replay, after_result, before_call
from stenolog.models import ModelRequest, Scripted
from stenolog.testing import crash_points
from stenolog.tools import tool
from tests.engine.given import opened, outline, results, run, run_team
from tests.engine.judged import fails, judging, seen, verdict_on
from tests.requests.judging import MODELS, needs_judges, refused

FAILED = "failed"


class Shop:
    """What a tool has sold, and the agent that sells."""

    def __init__(self, *checks: Any, answer: str = "yes", llm: Scripted | None = None) -> None:
        self.sold: list[int] = []
        self.answer = answer

        @tool
        def sell(loaves: int) -> str:
            """Sell loaves."""
            self.sold.append(loaves)
            return f"{loaves} sold at 3 €"

        self.model = llm or Scripted(sells, endless=True)
        self.agent = Agent("coder", llm=self.model, tools=[sell], checks=checks)

    def go_on(self, conversation: Conversation, *words: str) -> None:
        """Run to the end, and answer all questions."""
        run(run_team(Team([self.agent]), conversation, *words))
        while waiting := run(Team([self.agent]).pending_approvals(conversation)):
            run(Team([self.agent]).answer(conversation, waiting[0].call, self.answer))
            run(run_team(Team([self.agent]), conversation))


def sells(prompt: ModelRequest) -> object:
    """Return the next turn of a seller by what it is shown."""
    has_result = any(message["role"] == "tool" for message in prompt.body["messages"])
    return "Done." if has_result else ToolCall(id="s1", name="sell", arguments='{"loaves": 200}')


def asking(stage: Callable[[Callable[..., Any]], Any]) -> Any:
    """Return a check that asks a person each time."""

    @stage
    def ask(*_: Any) -> Any:
        return AskPerson("Really?")

    return ask


def always(stage: Callable[[Callable[..., Any]], Any], verdict: Any) -> Any:
    return judging(stage, *[verdict] * 9)


CALLS: dict[str, tuple[Callable[[], Shop], list[int], str, str]] = {
    "pass": (lambda: Shop(judging(before_call, None)), [200], "200 sold at 3 €", ""),
    "replace": (
        lambda: Shop(always(before_call, Replace({"loaves": 100}, "why"))),
        [100],
        '[The check judge (why) changed the arguments of this call. It ran with {"loaves": 100}]\n'
        "100 sold at 3 €",
        "",
    ),
    "replace, and ask": (
        lambda: Shop(always(before_call, Replace({"loaves": 100}, "why")), asking(before_call)),
        [100],
        '[The check judge (why) changed the arguments of this call. It ran with {"loaves": 100}]\n'
        "100 sold at 3 €",
        "",
    ),
    "replace, and ask about the result": (
        lambda: Shop(always(before_call, Replace({"loaves": 100}, "why")), asking(after_result)),
        [100],
        '[The check judge (why) changed the arguments of this call. It ran with {"loaves": 100}]\n'
        "100 sold at 3 €",
        "",
    ),
    "refuse": (lambda: Shop(always(before_call, Refuse("at most 100"))), [], "at most 100", "refused"),
    "yes": (lambda: Shop(asking(before_call)), [200], "200 sold at 3 €", ""),
    "no": (
        lambda: Shop(asking(before_call), answer="no"),
        [],
        "The user refused this call; it was not run. They were asked: Really?",
        "refused",
    ),
    "fail": (
        lambda: Shop(always(before_call, fails)),
        [],
        "the check judge failed: RuntimeError: ouch",
        FAILED,
    ),
    "arguments": (
        lambda: Shop(always(before_call, Replace({"loaves": "many"}, "why"))),
        [],
        "/loaves: expected integer, found 'many'",
        FAILED,
    ),
    "result": (lambda: Shop(always(after_result, Replace("sold", "why"))), [200], "sold", "replaced"),
    "withheld": (lambda: Shop(always(after_result, Refuse("secret"))), [200], "secret", "refused"),
    "shown": (lambda: Shop(asking(after_result)), [200], "200 sold at 3 €", ""),
    "not shown": (
        lambda: Shop(asking(after_result), answer="no"),
        [200],
        "The user withheld the result of this call. They were asked: Really?",
        "",
    ),
    "a failing check of results": (
        lambda: Shop(always(after_result, fails)),
        [200],
        "the check judge failed: RuntimeError: ouch",
        FAILED,
    ),
    "a person, about what a check made": (
        lambda: Shop(asking(after_result), always(after_result, Replace("sold", "why"))),
        [200],
        "sold",
        "replaced",
    ),
}


@pytest.mark.parametrize(("made", "sold", "result", "kind"), CALLS.values(), ids=CALLS)
def test_a_call_is_judged_before_it_runs_and_its_result_before_it_counts(
    made: Callable[[], Shop], sold: list[int], result: str, kind: str, tmp_path: Path
) -> None:
    shop = made()
    with opened(tmp_path / "a.db") as demo:
        shop.go_on(demo, "Sell 200.")

        assert (shop.sold, outline(demo)[-1][1]) == (sold, "Done.")
        (found,) = results(demo)
        assert (found.text, verdict_on(found)) == (result, kind)
        assert demo.state().anomalies == 0
        # The model is told what counts, and nothing else.
        assert shop.model.prompts[-1].body["messages"][-1]["content"] == result
        assert len(shop.model.prompts) == 2


@pytest.mark.parametrize("made", [each[0] for each in CALLS.values()], ids=CALLS)
def test_a_replay_takes_verdicts_on_calls_from_the_record(made: Callable[[], Shop], tmp_path: Path) -> None:
    shop = made()
    with stenolog.open(tmp_path / "a.db") as log:
        shop.go_on(log["demo"], "Sell 200.")
        before, recording = len(shop.sold), Replay(log["demo"])
        again = Shop(answer=shop.answer)
        again.agent = recording.agent(shop.agent)
        again.go_on(log["again"], "Sell 200.")

        assert (recording.remaining, len(shop.sold)) == (0, before)
        said = [
            [event for event in seen(log[name]) if event[0] != "user_message"] for name in ("again", "demo")
        ]
        assert said[0] == said[1]


@needs_judges
@pytest.mark.parametrize("made", [each[0] for each in CALLS.values()], ids=CALLS)
def test_requests_after_judged_calls_are_valid_at_every_position(
    made: Callable[[], Shop], tmp_path: Path
) -> None:
    with opened(tmp_path / "a.db") as demo:
        made().go_on(demo, "Sell 200.")

        for api in MODELS:
            for at in range(2, demo.position + 1):
                assert refused(api, demo.request("coder", at, api).body) == [], (api, at)


@pytest.mark.parametrize("name", ["replace", "refuse", "yes", "shown", "result"])
def test_a_call_that_is_killed_anywhere_runs_at_most_once_and_as_it_was_judged(
    name: str, tmp_path: Path
) -> None:
    made, sold, _, _ = CALLS[name]
    shop = made()

    def begin(log: Log) -> None:
        shop.go_on(log["demo"], "Sell 200.")

    for point in crash_points(begin, tmp_path, world=lambda: tuple(shop.sold)):
        after = made()
        with stenolog.open(point.path) as log:
            demo = log["demo"]
            words = (
                [] if any(entry.event.kind == "user_message" for entry in demo.entries()) else ["Sell 200."]
            )
            after.go_on(demo, *words)
            ran = [*point.world, *after.sold]
            (found,) = results(demo)
            assert ran == sold or (not ran and "unknown" in found.text), point.when
            assert demo.state().lane("coder").status == "idle", point.when


def test_of_a_result_that_was_replaced_only_a_digest_is_kept(tmp_path: Path) -> None:
    with opened(tmp_path / "a.db") as demo:
        Shop(always(after_result, Replace("sold", "why"))).go_on(demo, "Sell 200.")

        (found,) = results(demo)
        assert re.search(r"'original': '\w{64}'", str(found.meta))
        assert "3 €" not in str([entry.event for entry in demo.entries()])


def test_a_large_result_is_whole_after_a_person_let_it_pass(tmp_path: Path) -> None:
    @tool
    def look() -> str:
        """Look."""
        return "x" * 100_000

    with opened(tmp_path / "a.db") as demo:
        shop = Shop(asking(after_result), llm=Scripted(ToolCall(id="c1", name="look"), "Done."))
        shop.agent = replace(shop.agent, tools=[look])
        shop.go_on(demo, "Look.")

        (found,) = results(demo)
        assert demo.log.blobs[found.blob] == b"x" * 100_000
