"""Patches of an agent's card before a model call: its model, and instructions that are a function."""

from __future__ import annotations

from stenolog.adapters.conversation.log import Conversation
from stenolog.adapters.engine.agent import Agent
from stenolog.adapters.engine.journal.after_failure import with_model
from stenolog.adapters.engine.options import Options
from stenolog.adapters.engine.situation import Situation
from stenolog.domain.card import AgentCard, patched
from stenolog.domain.errors import CallerError
from stenolog.domain.lanes.effects import CallModel

from .live_state import LiveState


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
