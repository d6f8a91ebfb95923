"""Settings of a conversation at a position: the fold of its mode switches."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache, reduce
from typing import NamedTuple, TypeVar

from .base.model import construct
from .card import AgentCard
from .entry import Entry
from .errors import InvalidPolicyError
from .events import UNCHANGED, ModeSwitch
from .policy import policy
from .values import ConversationRef, PositionRange, TurnPolicy, WorkflowRun

T = TypeVar("T")
DEFAULT_MODE = "chat"
DEFAULT_SCOPE = "open"


@cache
def _no_card() -> AgentCard:
    return construct(AgentCard)


class Settings(NamedTuple):
    """The settings at a position.

    `modes`, `scopes` and `contexts` (where their contexts begin) are those set for single agents.
    """

    mode: str = DEFAULT_MODE
    modes: dict[str, str] = {}  # noqa: RUF012 - never changed in place; configure makes a new one
    scope: str = DEFAULT_SCOPE
    scopes: dict[str, str] = {}  # noqa: RUF012 - as above
    cards: dict[str, AgentCard] = {}  # noqa: RUF012 - as above
    members: tuple[str, ...] = ()
    active_run: WorkflowRun | None = None
    handoff: str = ""
    turns: TurnPolicy | None = None
    title: str = ""
    context_from: int = 0
    hides: tuple[PositionRange, ...] = ()
    parent: ConversationRef | None = None
    is_fork: bool = False
    contexts: dict[str, int] = {}  # noqa: RUF012 - as above

    def card_of(self, agent: str) -> AgentCard:
        """Return an agent's card; an empty one if it has none."""
        return self.cards.get(agent) or _no_card()

    def mode_of(self, agent: str) -> str:
        """Return the mode that an agent works in."""
        return self.modes.get(agent, self.mode)

    def withheld(self, agent: str, tool: str) -> str:
        """Return why an agent may not call a tool in its mode; "" if it may."""
        mode = self.mode_of(agent)
        try:
            ruled = policy(self.card_of(agent).policy).instructions
        # Building the request says what is wrong with the policy.
        except InvalidPolicyError:
            return ""
        named = None if ruled is None else ruled.tools_in.get(mode)
        return (
            "" if named is None or tool in named else f"the tool {tool!r} may not be called in mode {mode!r}"
        )

    def scope_of(self, agent: str) -> str:
        """Return the scope of an agent: "open" (it sees everything) or "addressed" (its own messages)."""
        return self.scopes.get(agent, self.scope)

    def context_from_of(self, agent: str) -> int:
        """Return the position that an agent's context begins at; 0: at the beginning."""
        return self.contexts.get(agent, self.context_from)


NOTHING = Settings()


def configure(settings: Settings, entry: Entry) -> Settings:
    """Return the settings after the entry: omitted fields stay, None resets to the default."""
    switch = entry.event
    if not isinstance(switch, ModeSwitch):
        return settings
    mode, modes = _for_agents(settings.mode, settings.modes, switch.mode, switch.agents, DEFAULT_MODE)
    scope, scopes = _for_agents(settings.scope, settings.scopes, switch.scope, switch.agents, DEFAULT_SCOPE)
    cards = {**settings.cards, **switch.cards}
    start, starts = _contexts(settings, switch)
    return Settings(
        mode=mode,
        modes=modes,
        scope=scope,
        scopes=scopes,
        cards={agent: card for agent, card in cards.items() if card is not None},
        members=members_after(settings.members, switch),
        active_run=_set(settings.active_run, switch.active_run, None),
        handoff=_set(settings.handoff, switch.handoff, ""),
        turns=_set(settings.turns, switch.turns, None),
        title=_set(settings.title, switch.title, ""),
        context_from=start,
        hides=_set(settings.hides, switch.hides, ()),
        parent=_set(settings.parent, switch.parent, None),
        is_fork=switch.fork or settings.is_fork,
        contexts=starts,
    )


def _contexts(settings: Settings, switch: ModeSwitch) -> tuple[int, dict[str, int]]:
    """Return where the context of all agents begins, and where that of single ones does."""
    if switch.context_from is UNCHANGED:
        return settings.context_from, settings.contexts
    start = _set(0, switch.context_from, 0)
    if not switch.agents:
        return start, {}
    return settings.context_from, {**settings.contexts, **dict.fromkeys(switch.agents, start)}


def members_after(members: Iterable[str], switch: ModeSwitch) -> tuple[str, ...]:
    """Return the members after a mode switch: those that stay, then those that join."""
    stay = (agent for agent in members if agent not in switch.leaves)
    return tuple(dict.fromkeys((*stay, *switch.joins)))


def joining(now: Settings, agent: str, card: AgentCard) -> ModeSwitch | None:
    """Return the switch by which an agent takes part with this card; None if it does already."""
    joins = () if agent in now.members else (agent,)
    cards: dict[str, AgentCard | None] = {} if now.cards.get(agent) == card else {agent: card}
    return ModeSwitch(joins=joins, cards=cards) if joins or cards else None


def settings(entries: Iterable[Entry]) -> Settings:
    """Return the settings after all the entries."""
    return reduce(configure, entries, NOTHING)


def _set(now: T, change: object, cleared: T) -> T:
    if change is UNCHANGED:
        return now
    return cleared if change is None else change  # type: ignore[return-value]


def _for_agents(
    everyone: str, single: dict[str, str], change: object, agents: Sequence[str], default: str
) -> tuple[str, dict[str, str]]:
    """Return a setting for all (which ends the single ones), or for the agents named."""
    if change is UNCHANGED:
        return everyone, single
    if not agents:
        return _set(everyone, change, default), {}
    rest = {agent: kept for agent, kept in single.items() if agent not in agents}
    return everyone, rest if change is None else {**rest, **dict.fromkeys(agents, str(change))}
