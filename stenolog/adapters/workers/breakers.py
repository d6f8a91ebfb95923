"""The circuit breakers of a team, as other workers see them: which models are left alone, and how long yet.

Each worker counts failures by itself. Once one of them leaves a model alone, all do, within a second.
"""

from __future__ import annotations

from collections.abc import Mapping

from stenolog.adapters.engine.options import Options


def left_alone(options: Options) -> dict[str, float]:
    """Return the models whose breakers are open, with the seconds that they stay so."""
    now = options.world.stopwatch()
    found = {model.name: breaker.seconds_open(now) for model, breaker in options.breakers()}
    return {name: seconds for name, seconds in found.items() if seconds > 0}


def leave_alone(options: Options, opened: Mapping[str, float]) -> None:
    """Open the breakers of these models for so many seconds, where they are not open for longer."""
    now = options.world.stopwatch()
    for model, breaker in options.breakers():
        if seconds := opened.get(model.name):
            breaker.hold(now, seconds)
