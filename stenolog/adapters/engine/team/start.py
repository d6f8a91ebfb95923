"""Checks of a team, and the start of a run: cards, turn rule and message are appended together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Literal, NamedTuple, TypeAlias

from stenolog.adapters.engine.agent import Agent, Upkeep, WorkerTool
from stenolog.adapters.engine.approvals import refuse_at_workers
from stenolog.adapters.engine.journal.live_state import LiveState, enqueue
from stenolog.adapters.engine.runner.upkeep_schedule import upkeeps
from stenolog.adapters.tools.base import BaseTool
from stenolog.domain.card import AgentCard
from stenolog.domain.entry import Entry, NewEntry
from stenolog.domain.erasure import is_erased
from stenolog.domain.errors import AgentNotFoundError, CallerError, VersionConflictError
from stenolog.domain.events import UNCHANGED, Event, ModeSwitch, UserMessage
from stenolog.domain.lanes.decide import decide
from stenolog.domain.lanes.lifecycle import BUSY
from stenolog.domain.lanes.limits import no_price
from stenolog.domain.lanes.state import State, blocked_error
from stenolog.domain.lanes.step import evolve
from stenolog.domain.lanes.turns import TurnRule, load
from stenolog.domain.values import Control, TurnPolicy
from stenolog.projections.prices import Prices, price_of
from stenolog.projections.requests.sendable import no_agent

OnInput: TypeAlias = Literal["next", "queue", "cancel"]
Tools: TypeAlias = Mapping[str, Mapping[str, BaseTool]]
CANCEL = UserMessage(control=Control(action="cancel"))


class TeamSettings(NamedTuple):
    """Settings that a team records: agents, turn rule, mode, and who is a member."""

    agents: Mapping[str, Agent]
    turns: TurnPolicy | TurnRule | None
    mode: str
    join: bool
    exclusive: bool = False


class Input(NamedTuple):
    """Message to a team, its entry id (empty: a new one), and what happens to a run under way."""

    message: UserMessage
    id: str = ""
    on_input: OnInput = "next"


def start_run(live: LiveState, setting: TeamSettings, tools: Tools, words: Input | None) -> list[Entry]:
    """Record changed settings and the message, all or nothing; a known id is not repeated.

    Raises `UnsupportedVersionError`, `AgentNotFoundError`, `DuplicateIdError`, and `InvalidPolicyError` for
    an unknown turn rule.
    """
    while True:
        state = live.state
        if state.blocked is not None:
            raise blocked_error(state.blocked)
        switch = _changes(live, setting, tools)
        rule = state.turns if switch.turns is UNCHANGED else switch.turns
        if isinstance(rule, TurnPolicy):
            # A rule that is not registered here stays out of the log: this process could not decide by it.
            load(rule)
        events: list[Event | NewEntry] = [] if switch == ModeSwitch() else [switch]
        if words is not None and not _was_said(live, words):
            _check_names(live, setting, words.message.to, "to")
            events += _input_events(live, _after(live, events), words)
        try:
            entries = live.append(*events) if events else []
        # Decided anew: another process may have changed the same settings, or said the same words.
        except VersionConflictError:
            live.catch_up()
            continue
        # Nearly always no worker is waited for, and the state here says so.
        for entry in entries if live.state.open_calls() else ():
            # After the append: the words are in the log before they stop anything elsewhere.
            refuse_at_workers(live.conversation, entry.event)
        return entries


def settings_of(setting: TeamSettings, tools: Tools) -> ModeSwitch:
    """Return the settings that a team records in a new conversation."""
    turns = _rule(setting)
    return ModeSwitch(
        mode=setting.mode,
        cards=_cards(setting, tools),
        joins=[*setting.agents] if setting.join else [],
        turns=UNCHANGED if turns is None else turns,
    )


def _cards(setting: TeamSettings, tools: Tools) -> dict[str, AgentCard | None]:
    agents = setting.agents.items()
    return {name: agent.card([tool.spec for tool in tools[name].values()]) for name, agent in agents}


def _rule(setting: TeamSettings) -> TurnPolicy | None:
    return setting.turns.turns if isinstance(setting.turns, TurnRule) else setting.turns


def _changes(live: LiveState, setting: TeamSettings, tools: Tools) -> ModeSwitch:
    """Return the settings that the conversation lacks."""
    settings, state, agents = live.settings, live.state, setting.agents
    cards, turns = _cards(setting, tools), _rule(setting)
    if turns is not None:
        _check_names(live, setting, _agents_of_rule(turns), f"turns {turns.rule!r}")
    # A person closed such a lane, and the start of a program must not open it again.
    stays = setting.join and [name for name in agents if state.lane(name).status != "closed"]
    cards = {
        name: card and agents[name].keeping(card, settings.cards.get(name)) for name, card in cards.items()
    }
    return ModeSwitch(
        # The team's mode is for conversations that begin with it.
        mode=UNCHANGED if state.position else setting.mode,
        cards={name: card for name, card in cards.items() if settings.cards.get(name) != card},
        joins=[name for name in stays or () if name not in state.members],
        leaves=[name for name in state.members if setting.exclusive and name not in agents],
        turns=UNCHANGED if turns is None or settings.turns == turns else turns,
    )


def _input_events(live: LiveState, state: State, words: Input) -> Iterator[Event | NewEntry]:
    """Yield the words as they are recorded now."""
    at_work = any(lane.status in BUSY for lane in state.lanes.values())
    cancels = at_work and words.on_input == "cancel"
    if cancels:
        yield from decide(state, CANCEL)
    message = enqueue(words.message) if at_work and words.on_input == "queue" else words.message
    for event in map(live.marked, decide(state, message)):
        if isinstance(event, UserMessage):
            yield NewEntry(event, words.id) if words.id else event
        # Where everything was cancelled, the calls that the message refuses were closed by that.
        elif not cancels:
            yield event


def _after(live: LiveState, switches: Iterable[Event | NewEntry]) -> State:
    state, now = live.state, live.conversation.log.edge.clock()
    for event in switches:
        assert isinstance(event, ModeSwitch), "only settings have been decided on so far"
        state = evolve(state, Entry(live.conversation.name, state.position + 1, "", now, "", event))
    return state


def _was_said(live: LiveState, words: Input) -> bool:
    conversation = live.conversation
    found = conversation.entry_by_id(words.id) if words.id else None
    if found is None or not isinstance(found.event, UserMessage):
        # An erased message was said; its words are not there to be compared.
        return found is not None and is_erased(found.event)
    message = words.message
    # The entry was marked with the workflow run of its time, which the message is not.
    earlier = replace(found.event, run=message.run, node=message.node)
    return earlier in (message, enqueue(message))


def _agents_of_rule(turns: TurnPolicy) -> Iterator[str]:
    for option in ("order", "default", "agent", "moderator"):
        given = turns.options.get(option)
        names = given if isinstance(given, list | tuple) else [given]
        yield from (name for name in names if isinstance(name, str) and name)


def _check_names(live: LiveState, setting: TeamSettings, names: Iterable[str], what: str) -> None:
    """Raise `AgentNotFoundError` for a name that neither team nor conversation has."""
    state = live.state
    lanes = (lane.agent for lane in state.lanes.values())
    known = dict.fromkeys([*setting.agents, *state.members, *live.settings.cards, *lanes])
    # Without a team, in a conversation that none has worked in, nobody knows who there will be.
    for name in names if known else ():
        if name.partition("/")[0] not in known:
            raise AgentNotFoundError(f"{what}: {no_agent(name, [*known])}")


def check_team(agents: Sequence[Agent], turns: object) -> None:
    """Raise `CallerError` for agents and turns that make no team."""
    if not agents or not all(isinstance(agent, Agent) for agent in agents):
        raise CallerError(f"expected agents, found {agents!r:.100}")
    names = [agent.name for agent in agents]
    if len(set(names)) < len(names):
        raise CallerError(f"two agents have the same name: {names}")
    if not (turns is None or isinstance(turns, TurnPolicy | TurnRule)):
        raise CallerError(f"turns: expected a rule, such as RoundRobin(), found {turns!r:.100}")


def summarised(agent: Agent, summary: Upkeep | None) -> Agent:
    """Return the agent with its team's summary, if it has a model and no summary of its own."""
    if summary is None or agent.llm is None or agent.summary is not None:
        return agent
    return replace(agent, summary=summary)


def check_upkeep(agents: Mapping[str, Agent]) -> None:
    """Raise `CallerError` for an upkeep without an agent that can do it."""
    for name, upkeep in upkeeps(agents):
        upkeep.worker(agents, name)


def check_costs(agents: Iterable[Agent], prices: Prices) -> None:
    """Raise `CallerError` if `max_cost` cannot be enforced, since a model has no price."""
    for agent in agents:
        if not agent.limits.max_cost:
            continue
        workers = [tool.worker for tool in agent.tools if isinstance(tool, WorkerTool)]
        models = [model for each in (agent, *workers) for model in each.models]
        names = [llm.name for llm in models if llm.charges == "listed" and not price_of(llm.name, prices)]
        if names:
            raise CallerError(f"agent {agent.name!r}: max_cost cannot be kept: {no_price(names)}")
