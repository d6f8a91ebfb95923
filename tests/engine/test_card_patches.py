"""What changes an agent's requests while it works: a limit that was learned, another model, instructions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from stenolog import Agent, AgentCard, Conversation, ModeSwitch, Team, TextPart
from stenolog.context import Budget, LastN
from stenolog.engine import AutoSummary
from stenolog.errors import ModelError
from stenolog.models import Model, ModelRequest, ModelResponse, Scripted, Transport
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


def test_the_limit_of_one_model_is_not_that_of_the_next(tmp_path: Path) -> None:
    with opened(tmp_path / "t.db") as conversation:
        talk(conversation, Agent("a", llm=Small(), policy=LastN(50)))
        before = card(conversation).context_limit
        talk(conversation, Agent("a", llm=Small(10**6, name="large"), policy=LastN(50)), 1)

        assert (before > 0, card(conversation).context_limit) == (True, 0)
