"""The circuit breakers of a team, as other workers see them: which models are left alone, and how long yet.

Each worker counts failures by itself. Once one of them leaves a model alone, all do, within a second.
"""

from __future__ import annotations

from collections.abc import Mapping

from stenolog.adapters.engine.team import Team
from stenolog.adapters.llms.base import Model


def left_alone(team: Team) -> dict[str, float]:
    """Return the models whose breakers are open, with the seconds that they stay so."""
    now = team.options.world.stopwatch()
    found = {_key(model): breaker.seconds_open(now) for model, breaker in team.options.breakers()}
    return {name: seconds for name, seconds in found.items() if seconds > 0}


def leave_alone(team: Team, opened: Mapping[str, float]) -> None:
    """Open the breakers of these models for so many seconds, where they are not open for longer."""
    now = team.options.world.stopwatch()
    asked = [model for model, _ in team.options.breakers()]
    for model in (*asked, *(agent.llm for agent in team.agents.values() if agent.llm)):
        if seconds := opened.get(_key(model)):
            team.options.breaker_of(model).hold(now, seconds)


def _key(model: Model) -> str:
    """Return the name that a model has in every process: who serves it, and its own."""
    return f"{model.provider} {model.name}"
