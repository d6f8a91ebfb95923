"""Settings collected from the file, written as one mode switch before the next event.

So a file without a conversation writes nothing, and the first switch has all that is known.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from stenolog.domain.card import AgentCard
from stenolog.domain.events import ModeSwitch
from stenolog.domain.settings import Settings
from stenolog.domain.values import PositionRange

from .event_writer import EventWriter


class SettingsWriter:
    """The written and the wanted settings: mode, title, cards, context."""

    def __init__(self, writer: EventWriter, mode: str = "agent", scope: str = "addressed") -> None:
        self.writer = writer
        self.mode = mode
        self.scope = scope
        self.title: str | None = None
        self.context_from: int | None = None
        self.hides: tuple[PositionRange, ...] | None = None
        self.cards: dict[str, AgentCard] = {}
        self.meta: dict[str, Any] = {}
        self.handoff = ""
        """The text of a hand-off, for the next mode switch only."""
        self.branches = False
        self._written: dict[str, Any] = {"title": None, "context_from": None, "hides": None}
        self._dealt: dict[str, AgentCard] = {}
        self._told: dict[str, Any] = {}

    @property
    def is_begun(self) -> bool:
        return "mode" in self._written

    @property
    def title_waits(self) -> bool:
        """True if a title is not in a mode switch yet."""
        return bool(self.title != self._written["title"])

    def resume(self, now: Settings, id: str) -> None:
        """Load the log's settings, or those of this file under that id."""
        if self.writer.log.head == 0 or self.writer.holds(id):
            return
        self.mode, self.scope, self.title = now.mode, now.scope, now.title or None
        self.context_from, self.hides = now.context_from or None, now.hides or None
        self.cards = {**now.cards}
        self._written, self._dealt = self._wanted(), {**now.cards}

    def _wanted(self) -> dict[str, Any]:
        names = ("mode", "scope", "title", "context_from", "hides")
        return {name: getattr(self, name) for name in names}

    def card(self, agent: str, **changes: Any) -> None:
        """Change an agent's card; the first adds the agent."""
        old = self.cards.get(agent)
        if old is not None and all(getattr(old, name) == value for name, value in changes.items()):
            return
        old = old or AgentCard()
        fields = {"model": old.model, "provider": old.provider, "persona": old.persona, "tools": old.tools}
        self.cards[agent] = AgentCard(**{**fields, **changes})

    def about(self, system: str, facts: dict[str, Any]) -> None:
        """Note other settings of the file, written as `meta` of the next mode switch."""
        facts = {name: value for name, value in facts.items() if value}
        if self._told != facts:
            self._told = facts
            self.also(system, facts)

    def also(self, system: str, facts: dict[str, Any]) -> None:
        """Add data to the `meta` of the next mode switch only."""
        self.meta = {system: {**self.meta.get(system, {}), **facts}}

    def settle(self, line: str, time: datetime) -> None:
        """Write the changes, under an id made of the next record's."""
        wanted = self._wanted()
        if wanted == self._written and self.cards == self._dealt and not (self.meta or self.handoff):
            return
        changed = {name: value for name, value in wanted.items() if self._written.get(name) != value}
        dealt: dict[str, AgentCard | None] = {
            agent: card for agent, card in self.cards.items() if self._dealt.get(agent) != card
        }
        id = settings_id(line)
        if self.branches and not self.writer.holds(id):
            self.writer.branch()
        # A reset is the main agent's: its sub-agents' histories stay. Mode and scope are everybody's.
        resets = "context_from" in changed
        if resets and not {"mode", "scope"}.isdisjoint(changed):
            reset = ModeSwitch(
                agents=(self.writer.main,),
                context_from=changed.pop("context_from"),
                source=self.writer.source("", "settings", line),
            )
            self.writer.write(reset, f"{id}:context", time)
            resets = False
        if self.handoff:
            changed["handoff"] = self.handoff
        switch = ModeSwitch(
            agents=(self.writer.main,) if resets else (),
            **changed,
            cards=dealt,
            joins=tuple(agent for agent in dealt if agent not in self._dealt),
            meta=self.meta,
            source=self.writer.source("", "settings", line),
        )
        self.writer.write(switch, id, time)
        self._written, self._dealt = wanted, dict(self.cards)
        self.meta, self.handoff, self.branches = {}, "", False


def settings_id(line: str) -> str:
    """Return the id of the mode switch before the record of that key."""
    return f"{line}:settings"
