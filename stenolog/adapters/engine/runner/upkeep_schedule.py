"""Schedule of upkeep: work between model calls, such as a summary."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Mapping

from stenolog.adapters.conversation.log import Conversation
from stenolog.adapters.engine.agent import Agent, Upkeep
from stenolog.adapters.engine.journal.live_state import WATCH
from stenolog.domain.errors import IllegalCommandError, ModelError, OperationalError

LOGGER = logging.getLogger("stenolog.engine")
# A summariser that is down would otherwise be asked, and paid, again for each entry.
PAUSE = 10
"""The number of entries to wait for after an upkeep has failed."""


class UpkeepSchedule:
    """Upkeep of a conversation, tried before each poll at a new position.

    So a request about to be cut has its summary.
    """

    def __init__(self, conversation: Conversation, agents: Mapping[str, Agent]) -> None:
        self._conversation = conversation
        self._agents = agents
        self._works = [*upkeeps(agents)]
        self._seen = self._looked_at = 0
        self._paused: dict[int, int] = {}
        """Per work that has failed, the position from which it is tried again."""
        self.without_summary: dict[str, str] = {}
        """The agents whose last summary has failed, with the reason."""

    async def run(self) -> None:
        """Do what is due now. A failure is logged as a warning."""
        if not self._works:
            return
        position = await asyncio.to_thread(lambda: self._conversation.position)
        if position == self._seen:
            return
        self._seen = self._looked_at = position
        for number, (name, upkeep) in enumerate(self._works):
            if position < self._paused.get(number, 0) or await asyncio.to_thread(self._is_spent, name):
                continue
            is_summary = upkeep is self._agents[name].summary
            try:
                await upkeep.apply(self._conversation, name, upkeep.worker(self._agents, name))
                if is_summary:
                    self.without_summary.pop(name, None)
            except (ModelError, OperationalError) as error:
                if is_summary:
                    self.without_summary[name] = f"its summary has failed: {error}"
                self._paused[number] = position + PAUSE
                LOGGER.warning(
                    "%s: %s for %s failed: %s", self._conversation.name, type(upkeep).__name__, name, error
                )
            # What is in context has changed meanwhile: the next look plans anew.
            except IllegalCommandError:
                self._seen = 0

    def has_seen(self, position: int) -> bool:
        """Return whether all that is due at a position was tried."""
        return not self._works or position == self._looked_at

    def _is_spent(self, agent: str) -> bool:
        most = self._agents[agent].limits.max_tokens
        return bool(most) and self._conversation.fold(WATCH).lane(agent).total >= (most or 0)


def upkeeps(agents: Mapping[str, Agent]) -> Iterator[tuple[str, Upkeep]]:
    """Yield each upkeep, with the name of its agent."""
    for name, agent in agents.items():
        for upkeep in (agent.recall, agent.summary, agent.memory, agent.score):
            if upkeep is not None:
                yield name, upkeep
