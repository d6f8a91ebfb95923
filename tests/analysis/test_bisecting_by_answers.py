"""Binary search by answers of a noisy model, over entries, commits and releases, within one budget."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from random import Random
from types import SimpleNamespace
from typing import Any, NamedTuple

import stenolog
from stenolog import AgentCard, AssistantMessage, Log, ModeSwitch, ToolCall, UserMessage
from stenolog.adapters.asking import Panel
from stenolog.adapters.engine.team_file.commits import Commit, TeamCards
from stenolog.analysis import Price, drift
from stenolog.apps.views.axes import Axis, case_at, of_commits, of_entries, of_releases, recorded_calls
from stenolog.apps.views.bisections import AnswerSearch, Judged
from stenolog.events import Usage
from stenolog.models import Model, ModelRequest, ModelResponse
from stenolog.parts import TextPart
from tests.random_cases import seeds
from tests.recording.programs import BODIES, Tap, answered, turns

BAD = "Guess if in doubt."
PRICES = (Price("*", 1.0, 1.0, 10.0),)


class Noisy(Model):
    """A model that mostly calls `look`; under the bad line it mostly does not."""

    name = "noisy"

    def __init__(self, api: str, seed: int) -> None:
        self.api, self.asked, self.billed = api, 0, 0
        self._random = Random(seed)

    async def stream(self, prompt: ModelRequest) -> AsyncGenerator[Any, None]:
        yield prompt.outgoing()
        self.asked += 1
        self.billed += 20
        passes = self._random.random() < (0.15 if BAD in str(prompt.body) else 0.9)
        said: Any = (
            ToolCall(id=f"c{self.asked}", name="look", arguments="{}") if passes else TextPart(text="Bread.")
        )
        yield ModelResponse((said,), usage=Usage(input=10, output=1))


class Planted(NamedTuple):
    """An axis, and the number of the point that brought the bad line."""

    axis: Axis
    at: int


LOOKS = AssistantMessage(agent="coder", tool_calls=(ToolCall(id="c", name="look", arguments="{}"),))


def entries(log: Log, random: Random) -> Planted:
    said = [f"Step {n}." for n in range(random.randint(4, 30))]
    planted = random.randrange(len(said))
    said[planted] = BAD
    talk = log["talk"]
    card = AgentCard(model="noisy", parameters={"max_tokens": 100})
    talk.append(ModeSwitch(joins=("coder",), cards={"coder": card}), expected=0)
    talk.extend(
        [*(UserMessage(text=text, to=("coder",)) for text in said), UserMessage("And?", to=("coder",))]
    )
    talk.append(LOOKS)
    case = case_at(talk, "coder", None)
    return Planted(of_entries(talk, case, 1, case.view - 1), planted + 1)


def commits(log: Log, random: Random) -> Planted:
    number = random.randint(2, 30)
    planted = random.randint(1, number - 1)
    for name in ("a", "b", "c"):
        log[name].append(ModeSwitch(joins=("coder",)), expected=0)
        log[name].append(UserMessage(text=f"What is {name}?", to=("coder",)))
        log[name].append(LOOKS)
    texts = [f"Version {n}. {BAD if n >= planted else ''}" for n in range(number)]
    cards = [AgentCard(model="noisy", persona=text, parameters={"max_tokens": 100}) for text in texts]
    history: Any = SimpleNamespace(
        file="team.toml",
        commits=[Commit(f"{n:040}", "2026-01-05", f"Version {n}") for n in range(number)],
        team=lambda n: TeamCards({"coder": cards[n]}),
    )
    calls = recorded_calls([log[name] for name in log.names()], None)
    return Planted(of_commits(log, history, calls), planted)


PROMPT = (
    "You are Claude Code.\nAlways run the tests.\nPrefer small changes.\nIn {path}.\nRelease {n}.\n{line}"
)


def releases(log: Log, random: Random) -> Planted:
    number, tap = random.randint(2, 12), Tap(log)
    planted = random.randint(1, number - 1)
    for n in range(number):
        body = BODIES["anthropic"](turns("anthropic", [f"Question {n}?"]))
        line = BAD if n >= planted else "Ask if in doubt."
        text = PROMPT.format(path=f"/home/user/{n}", n=n, line=line)
        body |= {"system": [{"type": "text", "text": text}], "tools": []}
        reply = answered("anthropic", "ok", id=f"r{n}")
        tap.ask("anthropic", body, reply, session=f"s{n}", client=f"claude-cli/2.1.{n}")
    (role,) = drift([(name, log[name].entries()) for name in log.names()], "claude")
    calls = recorded_calls([log[name] for name in log.names()], set(role.agents))
    return Planted(of_releases(log, role, [case._replace(answer=LOOKS) for case in calls]), planted)


AXES: tuple[Callable[[Log, Random], Planted], ...] = (entries, commits, releases)


def searched(axis: Axis, model: Noisy, answers: Log, budget: int | None) -> Judged:
    search = AnswerSearch(axis, 80, 0.95)

    async def judged() -> Judged:
        async with Panel(model, answers, budget_micro_usd=budget, prices=PRICES) as panel:
            most, billed = search.forecast(panel), model.billed
            found = await search.judged(panel)
            assert model.billed - billed <= (most.micro_usd or 0)
            assert found.micro_usd >= most.spent
            return found

    return asyncio.run(judged())


@seeds(fast=3, slow=51)
def test_a_bad_line_is_found_by_a_noisy_model_on_every_axis(seeds: range) -> None:
    for seed in seeds:
        with stenolog.open(":memory:") as log, stenolog.open(":memory:") as answers:
            axis, planted = AXES[seed % len(AXES)](log, Random(seed))
            judged = searched(axis, Noisy(axis.cases[0].api, seed), answers, None)
        found = judged.searched.found
        assert not judged.is_cut
        assert judged.micro_usd > 0
        assert (found.verdict, found.after, found.worse) == ("found", planted, True), seed


def test_a_budget_is_never_passed_and_the_next_search_goes_on_from_the_kept_answers() -> None:
    with stenolog.open(":memory:") as log, stenolog.open(":memory:") as answers:
        axis, planted = entries(log, Random(7))
        model, spent = Noisy(axis.cases[0].api, 7), 0
        for budget in range(500, 100_000, 500):
            judged = searched(axis, model, answers, budget)
            assert judged.micro_usd <= budget
            assert judged.micro_usd == model.billed >= spent
            assert judged.searched.found.before < planted <= judged.searched.found.after
            spent = judged.micro_usd
            if not judged.is_cut:
                break
        asked = model.asked
        again = searched(axis, model, answers, None)
    assert (judged.is_found, judged.searched.found.after) == (True, planted)
    assert (again.searched, model.asked) == (judged.searched, asked), "nothing is asked twice"
