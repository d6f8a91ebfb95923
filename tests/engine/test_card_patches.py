"""What changes an agent's requests while it works: a limit that was learned, another model, instructions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from stenolog import (
    Agent,
    AgentCard,
    AssistantMessage,
    Conversation,
    LlmError,
    ModeSwitch,
    Team,
    TextPart,
    ToolCall,
    UserMessage,
)
from stenolog.context import Budget, LastN
from stenolog.domain.card import patched
from stenolog.engine import AutoSummary, CircuitBreaker, Limits, RetryPolicy, Situation
from stenolog.errors import CallerError, ModelError
from stenolog.models import Model, ModelRequest, ModelResponse, Scripted, Transport
from stenolog.projections.prices import price_table
from stenolog.requests import proofs
from tests.engine.given import Clock, answers, errors, opened, run, run_team

TOO_LONG = "prompt is too long: {tokens} tokens > {limit} maximum"


class Small(Model):
    """A model that takes requests of at most `most` characters."""

    def __init__(self, most: int = 3_000, words: str = TOO_LONG, name: str = "small", **options: Any) -> None:
        self.name, self.api, self.most, self.words, self.sent = name, "openai-chat", most, words, list[int]()
        for option, value in options.items():
            setattr(self, option, value)

    async def stream(self, prompt: ModelRequest) -> Any:
        """Answer, or refuse a request that is too long."""
        outgoing = prompt.outgoing(Transport("POST", "/v1/chat/completions"))
        yield outgoing
        self.sent.append(size := len(outgoing.content))
        if size > self.most:
            raise ModelError("context_length", self.words.format(tokens=size * 3, limit=self.most * 3))
        yield ModelResponse((TextPart(text="Fine. " + "y" * 300),), model=self.name)


def scribe() -> Agent:
    return Agent("scribe", llm=Scripted("They talked.", endless=True))


def talk(conversation: Conversation, agent: Agent, number: int = 8) -> None:
    for n in range(number):
        run(run_team(Team([agent], world=Clock().world), conversation, f"Question {n} " + "x" * 300))


def card(conversation: Conversation, agent: str = "a") -> AgentCard:
    return conversation.settings().card_of(agent)


def patches(conversation: Conversation) -> list[AgentCard]:
    """Return the agent's cards after its first one."""
    events = (entry.event for entry in conversation.entries())
    return [c for e in events if isinstance(e, ModeSwitch) for c in e.cards.values() if c is not None][1:]


def proved(conversation: Conversation) -> bool:
    """Return whether every request that was sent is built again byte for byte."""
    return {(proof.outcome, proof.reason) for proof in proofs(conversation.entries())} == {("same", "")}


SHORTENING: dict[str, dict[str, Any]] = {
    "summary": {"summary": AutoSummary(by=scribe())},
    "summary by itself": {"summary": AutoSummary()},
    "budget": {"policy": Budget(tokens=1_000_000)},
    "window": {"policy": LastN(50)},
}


@pytest.mark.parametrize("options", SHORTENING.values(), ids=[*SHORTENING])
@pytest.mark.parametrize(
    "words", [TOO_LONG, "Input is too long for requested model."], ids=["says", "silent"]
)
def test_a_request_that_was_too_long_is_shortened_once_and_no_later_one_is_too_long(
    tmp_path: Path, options: dict[str, Any], words: str
) -> None:
    model = Small(words=words)
    with opened(tmp_path / "t.db") as conversation:
        talk(conversation, Agent("a", llm=model, **options))

        failed = errors(conversation, "a")
        assert len(answers_of(conversation)) == 8
        assert [(error.category, error.retry_at is not None) for error in failed] == [
            ("context_length", True)
        ]
        assert [size > model.most for size in model.sent].count(True) == 1
        assert ([*card(conversation).patched], len(patches(conversation))) == (["context_limit"], 1)
        assert proved(conversation)


def answers_of(conversation: Conversation, agent: str = "a") -> list[Any]:
    return [a for a in answers(conversation) if a.agent == agent and a.purpose == "answer"]


def test_without_a_summary_or_a_policy_the_error_says_what_to_set_and_nothing_is_sent_again(
    tmp_path: Path,
) -> None:
    model = Small()
    with opened(tmp_path / "t.db") as conversation:
        talk(conversation, Agent("a", llm=model))
        refused, *unsent = errors(conversation, "a")

        assert "AutoSummary()" in refused.message
        assert "Budget(tokens=…)" in refused.message
        assert [size > model.most for size in model.sent].count(True) == 1
        assert {(e.category, e.receipt, e.message[:8]) for e in unsent} == {
            ("context_length", None, "too long")
        }
        assert not conversation.request("a").sendable

        # What it says to set is enough, in the same conversation.
        talk(conversation, Agent("a", llm=model, policy=Budget(tokens=1_000_000)), 1)
        assert not errors(conversation, "a")[len(unsent) + 1 :]


def test_the_limit_is_in_proportion_to_what_the_provider_says(tmp_path: Path) -> None:
    words = "This model's maximum context length is 1000 tokens. However, you requested 1700 tokens (1500 in "
    words += "the messages, 200 in the completion)."
    with opened(tmp_path / "t.db") as conversation:
        talk(conversation, Agent("a", llm=Small(0, words)), 1)
        failed = conversation.request("a", 2, "openai-chat").tokens

        assert card(conversation).context_limit == failed * 800 // 1500


def test_most_of_the_room_kept_for_the_answer_is_no_reason_to_shorten(tmp_path: Path) -> None:
    words = "This endpoint's maximum context length is 900 tokens. However, you requested about 1000 tokens "
    words += "(100 of text input, 900 in the output)."
    with opened(tmp_path / "t.db") as conversation:
        talk(conversation, Agent("a", llm=Small(0, words), policy=LastN(5)), 1)

        assert errors(conversation, "a")[0].message.endswith("lower the 900 tokens of max_tokens")
        assert (patches(conversation), errors(conversation, "a")[0].retry_at) == ([], None)


class Named(Scripted):
    """A scripted model of a name."""

    def __init__(self, name: str, *turns: Any, **options: Any) -> None:
        super().__init__(*turns, name=name, endless=True)
        for option, value in options.items():
            setattr(self, option, value)


def failing(kind: str) -> Callable[[ModelRequest], object]:
    """Return a turn that fails."""

    def turn(prompt: ModelRequest) -> object:
        raise ModelError(kind, "no")

    return turn


def speakers(conversation: Conversation) -> list[str]:
    """Return the models of answers and errors, in order."""
    events = (entry.event for entry in conversation.entries())
    return [e.model for e in events if isinstance(e, AssistantMessage | LlmError)]


@pytest.mark.parametrize(
    ("category", "spoke"),
    [
        ("overloaded", ["one", "two"]),
        ("timeout", ["one", "two"]),
        ("unauthorized", ["one", "two"]),
        ("budget", ["one", "two"]),
        ("refused", ["one"]),
        ("invalid_request", ["one"]),
    ],
)
def test_the_next_model_is_called_at_once_after_a_fault_of_the_provider(
    tmp_path: Path, category: str, spoke: list[str]
) -> None:
    clock = Clock()
    agent = Agent("a", llm=[Named("one", failing(category)), Named("two", "Here."), Named("three", "No.")])
    with opened(tmp_path / "t.db", clock) as conversation:
        run(run_team(Team([agent], world=clock.world), conversation, "Hi"))

        assert (speakers(conversation), clock.slept) == (spoke, [])
        assert proved(conversation)


def test_the_last_model_is_tried_again_and_a_person_has_the_first_one_asked(tmp_path: Path) -> None:
    clock, busy = Clock(), failing("overloaded")
    models = [Named("one", busy), Named("two", busy), Named("three", busy, busy, "Here.")]
    agent = Agent("a", llm=models, retries=RetryPolicy(attempts={"overloaded": 3}))
    with opened(tmp_path / "t.db", clock) as conversation:
        for words in ("Hi", "And now?"):
            run(run_team(Team([agent], world=clock.world), conversation, words))

        assert speakers(conversation) == ["one", "two", "three", "three", "three"] * 2
        assert [round(seconds) for seconds in clock.slept] == [1, 2] * 2


def test_within_a_run_the_other_model_stays_and_one_whose_breaker_is_open_is_left_out(tmp_path: Path) -> None:
    def look() -> str:
        """Look."""
        return "a cat"

    clock = Clock()
    two = Named("two", ToolCall(id="c1", name="look", arguments="{}"), "A cat.", "Still.")
    agent = Agent("a", llm=[Named("one", failing("overloaded")), two], tools=[look])
    team = Team([agent], world=clock.world, breaker=lambda: CircuitBreaker(failures=1, recovery_time=60.0))
    with opened(tmp_path / "t.db", clock) as conversation:
        for words in ("Hi", "And now?"):
            run(run_team(team, conversation, words))

        assert speakers(conversation) == ["one", "two", "two", "two"]


def remembering(sent: list[tuple[str, int]], name: str, fails: Sequence[int] = ()) -> Any:
    """Return a turn that counts the questions that it is sent, and fails at these calls."""

    def answered(prompt: ModelRequest) -> object:
        sent.append((name, str(prompt.body).count("Question")))
        if len(sent) in fails:
            raise ModelError("overloaded", "busy")
        return ModelResponse((TextPart(text="Yes."),), name, session="s" if name == "program" else "")

    return answered


def test_a_program_that_remembers_is_told_all_once_another_model_has_spoken(tmp_path: Path) -> None:
    sent: list[tuple[str, int]] = []
    program = Named("program", remembering(sent, "program", fails=(3,)), remembers=True)
    agent = Agent("a", llm=[program, Named("model", remembering(sent, "model"))])
    with opened(tmp_path / "t.db") as conversation:
        for n in range(5):
            run(run_team(Team([agent], world=Clock().world), conversation, f"Question {n}"))

    assert sent == [("program", 1)] * 3 + [("model", 3), ("program", 4), ("program", 1)]


def test_a_program_that_remembers_may_take_over_and_is_told_all_of_it(tmp_path: Path) -> None:
    sent: list[tuple[str, int]] = []
    model = Named("model", remembering(sent, "model", fails=range(3, 99)))
    agent = Agent("a", llm=[model, Named("program", remembering(sent, "program"), remembers=True)])
    with opened(tmp_path / "t.db") as conversation:
        for n in range(4):
            run(run_team(Team([agent], world=Clock().world), conversation, f"Question {n}"))

        # The call that fails for good is the program's own, which fails at each number as well.
        assert [count for name, count in sent if name == "program"][:1] == [3]
        assert proved(conversation)


@pytest.mark.parametrize(("category", "others_wait"), [("overloaded", True), ("timeout", False)])
def test_timeouts_and_rate_limits_of_one_agent_do_not_hold_back_the_others(
    tmp_path: Path, category: str, others_wait: bool, caplog: pytest.LogCaptureFixture
) -> None:
    clock, model = Clock(), Scripted(failing(category), "Here.", "Here.", endless=True)
    agents = [Agent(name, llm=model, retries=RetryPolicy(attempts={})) for name in ("a", "b")]
    team = Team(agents, world=clock.world, breaker=lambda: CircuitBreaker(failures=1))
    with opened(tmp_path / "t.db", clock) as conversation:
        run(run_team(team, conversation, "Hi", to="a"))
        run(run_team(team, conversation, "Hi", to="b"))

        held = [error.message for error in errors(conversation, "b")]
        assert ["not called" in words for words in held] == [True] * others_wait
        whom = "all agents" if others_wait else "demo: a"
        assert f"{whom}: scripted is not called for 30 s: {category}: no" in caplog.text


def test_instructions_by_a_function_are_recorded_when_they_change(tmp_path: Path) -> None:
    clock, seen = Clock(), list[Situation]()

    def instructions(now: Situation) -> str:
        seen.append(now)
        return f"You help {now.user}. Today is {now.time:%d %B}."

    agent = Agent("a", llm=Scripted("Yes.", endless=True), persona=instructions)
    with opened(tmp_path / "t.db", clock) as conversation:
        for author in ("Ada", "Ada", "Bob"):
            message = UserMessage(text="Hi", author=author)
            run(run_team(Team([agent], world=clock.world), conversation, message))
        clock.now += timedelta(days=1)
        run(run_team(Team([agent], world=clock.world), conversation, UserMessage(text="Hi", author="Bob")))

        assert [each.persona for each in patches(conversation)] == [
            "You help Ada. Today is 01 January.",
            "You help Bob. Today is 01 January.",
            "You help Bob. Today is 02 January.",
        ]
        assert (len(seen), proved(conversation)) == (4, True)
        # A text in the program, in the place of the function, counts again.
        run(run_team(Team([replace(agent, persona="Plain.")]), conversation, "Hi"))
        assert (card(conversation).persona, [*card(conversation).patched]) == ("Plain.", [])


def test_a_text_that_changes_each_time_is_one_patch_a_call_and_a_failure_is_told(tmp_path: Path) -> None:
    counter = iter(range(9))
    ticking = Agent("a", llm=Scripted("Yes.", endless=True), persona=lambda now: f"{next(counter)}")
    broken = Agent("a", llm=Scripted("Yes.", endless=True), persona=lambda now: now.deps.name)
    with opened(tmp_path / "t.db") as conversation:
        run(run_team(Team([ticking]), conversation, "Hi"))
        run(run_team(Team([broken]), conversation, "Hi"))

        assert [each.persona for each in patches(conversation)] == ["0"]
        assert [(error.category, error.message) for error in errors(conversation, "a")] == [
            ("invalid_request", "persona: AttributeError: 'NoneType' object has no attribute 'name'")
        ]


def test_the_limit_of_one_model_is_not_that_of_the_next(tmp_path: Path) -> None:
    with opened(tmp_path / "t.db") as conversation:
        talk(conversation, Agent("a", llm=Small(), policy=LastN(50)))
        before = card(conversation).context_limit
        talk(conversation, Agent("a", llm=Small(10**6, name="large"), policy=LastN(50)), 1)

        assert (before > 0, card(conversation).context_limit) == (True, 0)


def test_a_card_keeps_the_mark_that_a_session_was_another_models() -> None:
    own = AgentCard(model="first")
    again = AgentCard(model="first", patched=["model"])

    assert [*patched(again, own, persona="It is Monday.").patched] == ["model", "persona"]
    assert [*patched(own, own, persona="").patched] == []


def test_a_limit_on_cost_needs_a_price_for_each_model(tmp_path: Path) -> None:
    models = [Named("priced", "Yes.", charges="listed"), Named("unknown", "Yes.", charges="listed")]
    agent = Agent("a", llm=models, limits=Limits(max_cost=1.0))
    prices = price_table({"priced": {"input": 1.0, "output": 1.0}}, "prices")
    with opened(tmp_path / "t.db") as conversation, pytest.raises(CallerError, match="unknown"):
        run(run_team(Team([agent], prices=prices), conversation, "Hi"))


def test_several_models_must_differ(tmp_path: Path) -> None:
    with pytest.raises(CallerError, match="different models"):
        Agent("a", llm=[Scripted("Yes."), Scripted("No.")])
    with pytest.raises(CallerError, match="a text or a function"):
        Agent("a", persona=3)  # type: ignore[arg-type]
