"""Runs of a team for a worker: no stream; they end when only waiting is left."""

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
    """Return the digest of what a team records first: cards, turn rule and mode.

    It connects to the servers of the team's tools.
    """
    _, payload = REGISTRY.dump(settings_of(team._setting, await team.tools()))
    return sha256(payload).hexdigest()


async def visit(
    team: Team, conversation: Conversation, patience: float, begun: Callable[[Callable[[], None]], object]
) -> float | None:
    """Do what is due in a conversation; return the seconds until more is, None if a person is next.

    It ends if all else waits longer than `patience` seconds. `begun` gets a function that ends the run after
    what is under way. Raises as `Team.run`.
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
    return bool(journal.queue or effects(journal.state))
