"""How a run begins: the agents' cards and the turn rule are recorded, and the message is said, in one go."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Literal, NamedTuple, TypeAlias

from stenolog.adapters.stores import reading
from stenolog.adapters.tools.port import Runnable
from stenolog.domain.decide import decide
from stenolog.domain.entry import Draft, Entry
from stenolog.domain.errors import LaterRelease, StaleAppend, UnknownAgent
from stenolog.domain.events import UNCHANGED, Event, ModeSwitch, UserMessage
from stenolog.domain.lifecycle import BUSY
from stenolog.domain.state import State, blocked_reason
from stenolog.domain.step import evolve
from stenolog.domain.turns import Rule, load
from stenolog.domain.values import Control, Turns

from .agent import Agent
from .queueing import queued
from .standing import Standing
from .waiting import refuse_at_workers

OnInput: TypeAlias = Literal["next", "queue", "cancel"]
Tools: TypeAlias = Mapping[str, Mapping[str, Runnable]]
CANCEL = UserMessage(control=Control(action="cancel"))


class Setting(NamedTuple):
    """What a team has recorded before it works: its agents, its turn rule, whether they become members."""

    agents: Mapping[str, Agent]
    turns: Turns | Rule | None
    mode: str
    join: bool


class Words(NamedTuple):
    """What is said, under which entry id (empty: a new one), and what of a run that is under way."""

    message: UserMessage
    id: str = ""
    on_input: OnInput = "next"


def begin(standing: Standing, setting: Setting, tools: Tools, words: Words | None) -> list[Entry]:
    """Record what differs, and say the words; all of it or nothing. Words of a known id were said before.

    Raises `LaterRelease`, `UnknownAgent`, `IdTaken`, and `InvalidPolicy` for a turn rule that is not
    registered here.
    """
    while True:
        state = standing.state
        if state.blocked is not None:
            raise LaterRelease(blocked_reason(state.blocked))
        switch = _changes(standing, setting, tools)
        rule = state.turns if switch.turns is UNCHANGED else switch.turns
        if isinstance(rule, Turns):
            load(rule)
        events: list[Event | Draft] = [] if switch == ModeSwitch() else [switch]
        if words is not None and not _was_said(standing, words):
            _check_names(standing, setting, words.message.to, "to")
            events += _said(standing, _after(standing, events), words)
        try:
            entries = standing.append(*events) if events else []
        except StaleAppend:
            standing.catch_up()
            continue
        for entry in entries:
            refuse_at_workers(standing.talk, entry.event)
        return entries


def _changes(standing: Standing, setting: Setting, tools: Tools) -> ModeSwitch:
    """What the conversation has otherwise: cards, members, the turn rule."""
    settings, state, agents = standing.settings, standing.state, setting.agents
    cards = {name: agent.card([tool.spec for tool in tools[name].values()]) for name, agent in agents.items()}
    turns = (
        setting.turns if setting.turns is None or isinstance(setting.turns, Turns) else setting.turns.turns
    )
    if turns is not None:
        _check_names(standing, setting, _named(turns), f"turns {turns.rule!r}")
    stays = setting.join and [name for name in agents if state.lane(name).status != "closed"]
    return ModeSwitch(
        mode=UNCHANGED if state.position else setting.mode,
        cards={name: card for name, card in cards.items() if settings.cards.get(name) != card},
        joins=[name for name in stays or () if name not in state.members],
        turns=UNCHANGED if turns is None or settings.turns == turns else turns,
    )


def _said(standing: Standing, state: State, words: Words) -> Iterator[Event | Draft]:
    """The words as they are recorded now."""
    at_work = any(lane.status in BUSY for lane in state.lanes.values())
    cancels = at_work and words.on_input == "cancel"
    if cancels:
        yield from decide(state, CANCEL)
    said = queued(words.message) if at_work and words.on_input == "queue" else words.message
    for event in map(standing.marked, decide(state, said)):
        if isinstance(event, UserMessage):
            yield Draft(event, words.id) if words.id else event
        elif not cancels:  # else the calls that it refuses were closed already
            yield event


def _after(standing: Standing, switches: Iterable[Event | Draft]) -> State:
    """Where the conversation will stand once these settings are recorded."""
    state, now = standing.state, standing.talk.log.edge.clock()
    for event in switches:
        assert isinstance(event, ModeSwitch), "only settings have been decided on so far"
        state = evolve(state, Entry(standing.talk.name, state.position + 1, "", now, "", event))
    return state


def _was_said(standing: Standing, words: Words) -> bool:
    talk = standing.talk
    found = reading.find(talk.log.datastore, talk.stream, words.id) if words.id else None
    if found is None or not isinstance(found.event, UserMessage):
        return False
    message = words.message
    said = replace(found.event, run=message.run, node=message.node)  # it was marked with the run of that time
    return said in (message, queued(message))


def _named(turns: Turns) -> Iterator[str]:
    """The agents that a turn rule of ours names."""
    for option in ("order", "default", "agent", "moderator"):
        given = turns.options.get(option)
        names = given if isinstance(given, list | tuple) else [given]
        yield from (name for name in names if isinstance(name, str) and name)


def _check_names(standing: Standing, setting: Setting, names: Iterable[str], what: str) -> None:
    """Raises `UnknownAgent` for a name that nobody in the team or the conversation has."""
    state = standing.state
    lanes = (lane.agent for lane in state.lanes.values())
    known = dict.fromkeys([*setting.agents, *state.members, *standing.settings.cards, *lanes])
    for name in names:
        if name.partition("/")[0] not in known:
            raise UnknownAgent(f"{what}: no agent {name!r} takes part; known are {', '.join(known)}")
