"""Agents of a replay: what patched their cards while they worked is taken from the record."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from stenolog.adapters.engine.agent import Agent
from stenolog.adapters.engine.model_calls.retries import RetryPolicy
from stenolog.adapters.models.base import Model
from stenolog.domain.card import AgentCard
from stenolog.domain.entry import Entry
from stenolog.domain.events import ErrorCategory, ModeSwitch
from stenolog.domain.lanes.state import LaneState


class RecordedCards:
    """Cards of each agent at each position of a recording."""

    def __init__(self, entries: Iterable[Entry]) -> None:
        self._cards: dict[str, list[tuple[int, AgentCard]]] = {}
        for entry in entries:
            match entry.event:
                case ModeSwitch(cards=cards):
                    for agent, card in cards.items():
                        self._cards.setdefault(agent, []).append((entry.position, card or AgentCard()))
                case _:
                    pass

    def at(self, agent: str, position: int) -> AgentCard:
        """Return the agent's card after that entry."""
        known = self._cards.get(agent, [])
        found = bisect_right(known, position, key=lambda each: each[0])
        return known[found - 1][1] if found else AgentCard()

    def of(self, agent: str) -> list[AgentCard]:
        """Return the agent's cards, in order."""
        return [card for _, card in self._cards.get(agent, ())]


class RecordedRetries(RetryPolicy):
    """Retries as they were recorded: a failure that was tried again says so, and all others are final."""

    def wait(
        self, category: ErrorCategory, attempt: int, chance: float, retry_after: float | None = None
    ) -> float | None:
        return retry_after


AS_RECORDED = RecordedRetries(attempts={}, falls_back=())


@dataclass(frozen=True)
class RecordedAgent(Agent):
    """Agent whose calls go to the models that were called in the recording."""

    card_of: Callable[[str], AgentCard] = lambda _: AgentCard()
    """Return the recorded card with which a lane's next call was made."""

    def pick(self, lane: LaneState, now: Model, is_open: Callable[[Model], bool]) -> Model:
        """Return the model of the recorded call."""
        card = self.card_of(lane.address)
        named = (m for m in self.models if (m.name, m.provider) == (card.model, card.provider))
        return next(named, now)
