"""Runs of a team as a worker makes them: nobody listens, and they end where there is only waiting left."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256

from stenolog.adapters.conversation.log import Conversation
from stenolog.adapters.engine.journal.journal import Journal
from stenolog.domain.codec import REGISTRY
from stenolog.domain.lanes.effects import effects

from .start import settings_of
from .team import Team

# Each runner of a worker hears of every commit to the log, most of which are those of its neighbours.
GATHER = 0.15
"""Seconds for which a run gathers news before it looks at the log; a cancellation waits as long."""


async def version_of(team: Team) -> str:
    """Return the digest of what a team records before it works: its cards, its rule and its mode.

    It connects to the servers of the team's tools, as a run does.
    """
    _, payload = REGISTRY.dump(settings_of(team._setting, await team.tools()))
    return sha256(payload).hexdigest()


async def visit(
    team: Team, conversation: Conversation, patience: float, begun: Callable[[Callable[[], None]], object]
) -> float | None:
    """Do what is due in a conversation; return the seconds until more is, None if a person has to go first.

    It ends where everything else waits longer than `patience` seconds, workers of its agents too. `begun` is
    given a function that has the run end with what is under way. Raises as `Team.run`.
    """
    async with team._runner(conversation) as runner:

        def drain() -> None:
            runner.is_draining = True
            runner.wake()

        runner.gather = GATHER
        begun(drain)
        async for _ in runner.run(patience):
            pass
        # A run that was drained may have come to rest all the same.
        return runner.due if runner.due != 0 or _has_work(runner.journal) else None


def _has_work(journal: Journal) -> bool:
    """Return whether there is an effect to be done, or a message to be said."""
    return bool(journal.queue) or any(True for _ in effects(journal.state))
