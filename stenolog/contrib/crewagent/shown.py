"""CrewAgent's settings of what models are sent, and what a message says of that."""

from __future__ import annotations

from typing import NamedTuple

from stenolog.events import Purpose

from .schema import Message

PURPOSES: tuple[Purpose, ...] = ("summary", "memory", "routing")
ASIDE = ("widget", "mode_switch")
"""Message types that are only for the screen by default."""
SAID = ("llm_error", *PURPOSES)
"""Message types that models are told, collapsed or not."""


class Shown(NamedTuple):
    """CrewAgent's settings of what models are sent: results of tools, and events that the screen folds."""

    results: bool = True
    collapsed: bool = False

    @classmethod
    def stated(cls, about: Message) -> Shown:
        """Return the settings that stand in an entry of the index."""
        return cls(
            about.get("includeToolResultsInContext") is not False,
            about.get("includeCollapsedUiEventsInContext") is True,
        )

    def in_context(self, plain: Message) -> bool:
        """Return whether models are sent a message, by its own word or else by what it is."""
        stated, role, kind = plain.get("includeInContext"), plain.get("role"), plain.get("partType")
        if isinstance(stated, bool):
            return stated
        # A collapsed call or result is protocol, whatever the screen makes of it.
        is_aside = role in ("assistant", "system") and plain.get("isCollapsed") is True
        if is_aside and not plain.get("tool_calls") and kind not in SAID:
            return self.collapsed
        return kind not in ASIDE
