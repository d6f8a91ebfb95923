"""Tools that an agent's prompt names for a mode, compared with those that the agent has."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from stenolog.adapters.tools.base import BaseTool
from stenolog.adapters.tools.functions import as_runnables
from stenolog.domain.errors import CallerError, InvalidPolicyError
from stenolog.domain.near_names import closest
from stenolog.domain.policy import policy

from .agent import Agent


def check_mode_tools(agents: Iterable[Agent]) -> None:
    """Raise `CallerError` for a tool in `tools_in` that an agent without toolboxes does not have.

    What is in a toolbox, such as an MCP server, is known once it is open.
    """
    for agent in agents:
        tools = as_runnables(agent.tools)
        names = [tool.spec.name for tool in tools if isinstance(tool, BaseTool)]
        fault = unknown_mode_tool(agent, names) if len(names) == len(tools) else ""
        if fault:
            raise CallerError(f"agent {agent.name!r}: {fault}")


def unknown_mode_tool(agent: Agent, names: Collection[str]) -> str:
    """Return what is wrong with the first tool in `tools_in` that is none of these; empty if all are."""
    try:
        prompt = policy(agent.policy).instructions
    # Whoever builds the request says what is wrong with the policy.
    except InvalidPolicyError:
        return ""
    for mode, chosen in (prompt.tools_in if prompt else {}).items():
        for name in chosen:
            if name not in names:
                near = closest(name, names)
                hint = f"; did you mean {near!r}?" if near else ""
                known = f"one of {', '.join(names)}" if names else "none, since it has no tools"
                return f"tools_in of mode {mode!r}: expected {known}, found {name!r}{hint}"
    return ""
