"""An answer's request, asked again without parts of it: what was planted is named, in few calls."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Iterable
from random import Random
from typing import Any

import pytest
from starlette.testclient import TestClient

import stenolog
from stenolog import AssistantMessage, Tool, ToolCall, ToolResult, UserMessage
from stenolog.adapters.asking import Panel
from stenolog.apps.views.answer_causes import (
    AnswerCauses,
    CauseSearch,
    answer_in_parts,
    asked_causes,
    effects,
    kept_causes,
)
from stenolog.errors import InvalidEventError
from stenolog.events import Origin
from stenolog.models import MODELS, Model, ModelRequest, ModelResponse
from stenolog.projections.analysis.retry.halving import Terms
from tests.random_cases import seeds

APIS = ("anthropic", "openai-chat", "openai-responses", "gemini", "cohere")
DEPLOY = ToolCall(id="z", name="deploy", arguments="{}")


class Noisy(Model):
    """A model that deploys in nine of ten answers if planted texts are in its request, else in one.

    It needs all of them, or any.
    """

    name = "model-1"
    charges = "nothing"

    def __init__(
        self, api: str, planted: list[str], seed: int, needs: Callable[[Iterable[bool]], bool] = all
    ) -> None:
        self.api, self.planted, self.random, self.calls = api, planted, Random(seed), 0
        self.needs = needs

    async def stream(self, prompt: ModelRequest) -> AsyncGenerator[Any, None]:
        yield prompt.outgoing()
        self.calls += 1
        body = json.dumps(prompt.body)
        rate = 0.9 if self.needs(text in body for text in self.planted) else 0.1
        calls = self.random.random() < rate
        yield ModelResponse((DEPLOY if calls else ToolCall(id="z", name="look", arguments="{}"),))


def recorded(log: stenolog.Log, random: Random, api: str) -> stenolog.Conversation:
    """Record a conversation whose last answer deploys; each line, tool and entry says a word of its own."""
    talk = log["demo"]
    lines = [f"Rule w{n}x: be kind." for n in range(random.randint(2, 12))]
    names = ["deploy", "look", *(f"tool{n}" for n in range(random.randint(0, 6)))]
    tools = [Tool(name=name, description=f"It does d{name}x.") for name in names]
    talk.join("coder", model="model-1", persona="\n".join(lines), tools=tools)

    def answer(**fields: Any) -> None:
        talk.append(AssistantMessage(agent="coder", receipt=talk.request("coder", api=api).receipt, **fields))

    for n in range(random.randint(2, 9)):
        talk.append(UserMessage(text=f"Fact f{n}x of the case.", to=["coder"]))
        if random.random() < 0.5:
            answer(tool_calls=[ToolCall(id=f"c{n}", name="look", arguments="{}")])
            talk.append(ToolResult(call_id=f"c{n}", name="look", text=f"I see s{n}x here."))
        answer(text=f"Noted n{n}x.")
    talk.append(UserMessage(text="Now act.", to=["coder"]))
    answer(tool_calls=[DEPLOY])
    return talk


def searched(talk: stenolog.Conversation, model: Noisy) -> tuple[AnswerCauses, AnswerCauses]:
    """Return the causes of a conversation's last answer, as asked, and by the answers that were kept."""
    whole = answer_in_parts(talk, talk.position)

    async def asked(answers: stenolog.Log) -> AnswerCauses:
        async with Panel(model, answers) as panel:
            return await asked_causes(CauseSearch(talk, whole, Terms()), panel)

    with stenolog.open(":memory:") as answers:
        found = asyncio.run(asked(answers))
        return found, kept_causes(CauseSearch(talk, whole, Terms()), answers)


def text_of(talk: stenolog.Conversation, causes: AnswerCauses, at: int) -> str:
    """Return the words that only one part of the request says."""
    part = causes.whole.parts[at]
    if part.kind == "system":
        return part.name
    if part.kind == "tool":
        return f"It does d{part.name}x."
    return talk.entry(part.positions[-1]).event.text  # type: ignore[union-attr]


@seeds(4, slow=60)
def test_planted_parts_are_named_on_every_api_and_no_part_if_none_matters(seeds: range) -> None:
    right = 0
    for seed in seeds:
        random = Random(seed)
        api = APIS[seed % len(APIS)]
        with stenolog.open(":memory:") as log:
            talk = recorded(log, random, api)
            causes = AnswerCauses(answer_in_parts(talk, talk.position))
            planted = sorted(random.sample(range(len(causes.whole.parts)), min(seed % 4, 2)))
            wanted = {tuple(planted)} if seed % 4 == 3 else {(at,) for at in planted}
            texts = [text_of(talk, causes, at) for at in planted]
            model = Noisy(api, texts, seed, any if seed % 4 == 3 else all)
            found, kept = searched(talk, model)
        assert found == kept
        assert found.found
        named = [cause.parts for cause in found.found.causes if cause.how != "among"]
        assert set(named) <= wanted, seed
        right += len(named) == len(wanted)
        assert found.calls == model.calls <= 900
        assert all(effect.comparison.high < 0 for effect in effects(found, 0.95))
    assert right >= len(seeds) * 0.9


def test_only_an_answer_of_a_model_can_be_explained() -> None:
    with stenolog.open(":memory:") as log:
        talk = recorded(log, Random(1), "anthropic")
        with pytest.raises(InvalidEventError, match="at 1: expected an answer of a model, found mode_switch"):
            answer_in_parts(talk, 1)


def test_an_answer_in_several_messages_is_explained_at_each_of_them(cli: Callable[..., Any]) -> None:
    with stenolog.open("talks.db") as log:
        log["demo"].append(UserMessage(text="Hi.", to=["coder"]))
        for text in ("One", "Two"):
            source = Origin(system="claude-code", id="r1")
            log["demo"].append(AssistantMessage(agent="coder", text=text, source=source))
    found = [cli("explain", "answer", "demo", at, "--json").data for at in ("3", "4")]

    assert found[0] == found[1]
    assert (found[0]["position"], [part["name"] for part in found[0]["parts"]]) == (3, ["2"])


class Careful(Model):
    """A model that runs the tests if it is asked which one fails."""

    charges = "nothing"
    asked = 0

    def __init__(self, name: str) -> None:
        self.name, self.api = name, "openai-chat"

    async def stream(self, prompt: ModelRequest) -> AsyncGenerator[Any, None]:
        yield prompt.outgoing()
        Careful.asked += 1
        command = "git diff && pytest -q" if "Which test fails" in json.dumps(prompt.body) else "ls"
        yield ModelResponse((ToolCall(id="c1", name="shell", arguments=json.dumps({"cmd": command})),))


def test_the_part_that_an_answer_depends_on_is_named_and_answers_are_kept(
    demo: Callable[..., Any],
) -> None:
    MODELS.add("careful", Careful)
    command = ("explain", "answer", "demo", "7", "--ask", "32", "--through", "careful:m")
    told = demo(*command).out
    asked = Careful.asked
    found = demo(*command, "--json").data["found"]

    assert told.startswith("✓ the answer depends on entry 2\n")
    assert found["calls"] == asked == Careful.asked, "the second time all answers are kept"
    assert [(cause["how"], cause["parts"]) for cause in found["causes"]] == [
        ("single", [{"kind": "entry", "name": "2"}])
    ]


@pytest.mark.parametrize(
    ("asked", "complaint"),
    [
        (("1",), "at 1: expected an answer of a model, found mode_switch"),
        (("7", "--ask", "32"), "expected --budget USD, found none; 480 calls"),
        (("7", "--ask", "8", "--budget", "1"), "--ask: expected at least 12 to name one of 6 parts"),
        (
            ("9", "--ask", "8", "--budget", "1"),
            "the answer at 9 calls no tool, so every text",
        ),
        (("--agent", "nobody"), "expected an answer of nobody, found none"),
    ],
)
def test_what_cannot_be_asked_again_is_said_before_anything_is_spent(
    demo: Callable[..., Any], asked: tuple[str, ...], complaint: str
) -> None:
    told = demo("explain", "answer", "demo", *asked)
    assert told.status == 2
    assert complaint in told.err


def test_kept_answers_are_shown_by_the_command_and_the_page_and_nobody_is_asked(
    cli: Callable[..., Any],
) -> None:
    async def ask(talk: stenolog.Conversation, answers: stenolog.Log) -> None:
        whole = answer_in_parts(talk, talk.position)
        async with Panel(Noisy("anthropic", [whole.parts[0].name], 1), answers) as panel:
            await asked_causes(CauseSearch(talk, whole, Terms()), panel)

    with stenolog.open("talks.db") as log:
        talk = recorded(log, Random(1), "anthropic")
        with stenolog.open("talks.answers.db") as answers:
            asyncio.run(ask(talk, answers))
        inspector = TestClient(stenolog.inspector(log, token=""), base_url="http://127.0.0.1")
        with inspector as web:
            page = web.get(f"/answer/demo?at={talk.position}").text
    found = cli("explain", "answer", "demo", "--json").data["found"]

    assert [cause["parts"] for cause in found["causes"]] == [
        [{"kind": "system", "name": "Rule w0x: be kind."}]
    ]
    assert "without <b>“Rule w0x: be kind.”</b>" in page
