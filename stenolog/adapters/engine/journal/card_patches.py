"""Patches of an agent's card: before a model call, and after one that failed.

Before a call: its model, and instructions that are a function. After a failure, a provider that fails is
replaced by the agent's next model. A request that was too long is made shorter, by a summary or by the
agent's policy, and the limit is kept on the card.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Any, NamedTuple

from stenolog.adapters.conversation.log import Conversation
from stenolog.adapters.engine.agent import Agent
from stenolog.adapters.engine.options import Options
from stenolog.adapters.models.base import Model
from stenolog.domain.card import AgentCard, may_cut, patched
from stenolog.domain.errors import CallerError
from stenolog.domain.events import LlmError
from stenolog.domain.lanes.effects import CallModel
from stenolog.domain.lanes.state import LaneState
from stenolog.domain.policy import policy
from stenolog.projections.requests import Request
from stenolog.projections.requests.sendable import SHORTER

from .live_state import LiveState


class FailedCall(NamedTuple):
    """A failed call: its agent, model and request, and its lane as it was then."""

    agent: Agent
    model: Model
    request: Request
    lane: LaneState


def recovered(error: LlmError, call: FailedCall, now: datetime) -> LlmError:
    """Return an error with the next try by another model or a shorter request, else with what to set."""
    if _next_model(error, call) is not None:
        return replace(error, retry_at=now)
    # A program that remembers shortens its session itself.
    if error.category != "context_length" or call.request.policy.history.delta:
        return error
    limit = learned_limit(call.request.tokens, error.message)
    if not limit:
        from stenolog.projections.formats.failures import overflow  # late: as below

        answer = overflow(error.message).answer
        return replace(error, message=f"{error.message}; lower the {answer:,} tokens of max_tokens")
    is_shorter = call.agent.summary is not None or may_cut(call.request.policy)
    in_a_row = error.attempt if call.lane.category == "context_length" else 1
    if is_shorter and in_a_row < call.agent.retries.attempts.get("context_length", 1):
        return replace(error, retry_at=now)
    advice = "" if is_shorter else SHORTER
    return replace(error, message="; ".join(filter(None, (error.message, advice))))


def patch_after(error: LlmError, call: FailedCall, card: AgentCard) -> AgentCard | None:
    """Return the card after a failed call; None if it stays, or names another model by now."""
    if (card.model, card.provider) != (call.model.name, call.model.provider):
        return None
    if (other := _next_model(error, call)) is not None:
        return with_model(card, call.agent, call.model, other)
    if error.category != "context_length" or call.request.policy.history.delta:
        return None
    limit = learned_limit(call.request.tokens, error.message)
    if not limit or 0 < card.context_limit <= limit:
        return None
    return patched(card, call.agent.card(()), context_limit=limit)


def with_model(card: AgentCard, agent: Agent, before: Model, after: Model) -> AgentCard:
    """Return a card for another of the agent's models. What was learned of the first is dropped."""
    named: dict[str, Any] = {"model": after.name, "provider": after.provider}
    if before.remembers != after.remembers:
        named["policy"] = policy(agent.policy_with(after)).json
    # Marked although it is the first model again: sessions end by it (`triggers.ends_sessions`).
    marked = [*(name for name in card.patched if name not in (*named, "context_limit")), *named]
    return replace(card, **named, context_limit=0, patched=marked)


def learned_limit(tokens: int, message: str) -> int:
    """Return the largest request, counted like the `tokens` of the one that was too long.

    It is in proportion to what the provider says, else three quarters. 0: most of the provider's limit is
    kept for the answer.
    """
    from stenolog.projections.formats.failures import overflow  # late: few calls fail

    said = overflow(message)
    room = said.limit - said.answer
    if said.answer and room < said.limit / 4:
        return 0
    if 0 < room < said.size:
        limit = tokens * room // said.size
    else:
        limit = room if 0 < room < tokens and not said.size else tokens * 3 // 4
    return max(1, min(limit, tokens - 1))


def _next_model(error: LlmError, call: FailedCall) -> Model | None:
    if error.category not in call.agent.retries.falls_back:
        return None
    models = call.agent.models
    after = models.index(call.model) + 1 if call.model in models else len(models)
    return models[after] if after < len(models) else None


class CardPatches:
    """The cards that agents need before their next calls, in one conversation."""

    def __init__(self, conversation: Conversation, options: Options) -> None:
        self._conversation = conversation
        self._options = options
        self._asked: dict[str, tuple[int, int]] = {}
        """Per lane, the call for which its instructions were asked."""

    def due(self, agent: Agent, card: AgentCard, effect: CallModel, live: LiveState) -> AgentCard:
        """Return the card for a lane's next call; the same if nothing changes.

        Raises `CallerError` if instructions that are a function fail, or return no text.
        """
        if len(agent.models) > 1:
            card = self._with_model(agent, card, effect)
        if isinstance(agent.persona, str):
            return card
        where, call = effect.lane.address, (effect.cause, effect.attempt)
        # Once for each call: a text with a clock in it would change each time.
        if self._asked.get(where) == call:
            return card
        text = self._instructions(agent, effect, live)
        self._asked[where] = call
        return card if text == card.persona else patched(card, agent.card(()), persona=text)

    def forget(self, where: str) -> None:
        """Ask again for a lane's instructions: the patch could not be appended."""
        self._asked.pop(where, None)

    def _with_model(self, agent: Agent, card: AgentCard, effect: CallModel) -> AgentCard:
        model, now = agent.model_of(card), self._options.world.stopwatch()
        assert model is not None, "it has several"
        where = self._conversation.name, effect.lane.address
        picked = agent.pick(
            effect.lane, model, lambda other: self._options.lane_breaker(other, *where).seconds_open(now) > 0
        )
        return card if picked is model else with_model(card, agent, model, picked)

    def _instructions(self, agent: Agent, effect: CallModel, live: LiveState) -> str:
        from stenolog.adapters.engine.situation import Situation  # late: few agents have such a function

        assert not isinstance(agent.persona, str), "it is a function"
        conversation = self._conversation
        time = conversation.log.edge.clock()
        deps = self._options.deps
        try:
            text = agent.persona(Situation(conversation, effect.lane, live.state, live.settings, time, deps))
        except Exception as error:
            raise CallerError(f"persona: {type(error).__name__}: {error}") from error
        if not isinstance(text, str):
            raise CallerError(f"persona: expected a function that returns a text, found {text!r:.100}")
        return text
