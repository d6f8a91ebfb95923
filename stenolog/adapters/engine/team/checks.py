"""Checks of the agents of a team."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from stenolog.adapters.engine.agent import Agent, Upkeep, WorkerTool
from stenolog.adapters.engine.runner.upkeep_schedule import upkeeps
from stenolog.domain.errors import CallerError
from stenolog.domain.lanes.limits import no_price
from stenolog.domain.lanes.turns import TurnRule
from stenolog.domain.values import TurnPolicy
from stenolog.projections.prices import Prices, price_of


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
