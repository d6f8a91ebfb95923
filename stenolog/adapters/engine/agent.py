"""Agents, and the tool by which one agent may call another."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Self

from stenolog.adapters.conversation.log import Conversation
from stenolog.adapters.models.base import Model
from stenolog.adapters.models.model_names import model_from_string
from stenolog.adapters.tools.base import BaseTool
from stenolog.adapters.tools.functions import ToolLike, as_runnables
from stenolog.domain.base.near_names import closest
from stenolog.domain.card import AgentCard
from stenolog.domain.errors import CallerError, InvalidPolicyError
from stenolog.domain.events import AssistantMessage
from stenolog.domain.lanes.limits import Limits
from stenolog.domain.policy import PolicyLike, SinceLastTurn, policy
from stenolog.domain.policy_text import policy_of
from stenolog.domain.values import Tool

from .model_calls.retries import RetryPolicy
from .options import Options

LIMITS, RETRIES = Limits(), RetryPolicy()


@dataclass(frozen=True)
class Agent:
    """Agent of a team. Its settings are recorded as a card when the team starts.

    `llm` is a value of `stenolog.models` or a name such as "openai:gpt-5.2"; None: the agent has a card, and
    never answers. `tools` are functions or values of `stenolog.tools`. `parameters` go into each request.
    `policy` is a value of `stenolog.context` or a short form such as "memory:4". A model that `remembers` is
    sent only what is new (`SinceLastTurn`), unless the policy chooses a history. `metadata` and `tags` return
    what each answer's `meta` and `tags` get; both are pure and quick. `Pins` keeps entries by their tags.
    `summary` (`AutoSummary`), `memory` (`AutoMemory`), `recall` (`AutoRecall`) and `score` (`AutoScore`) run
    when they are due.
    """

    name: str
    llm: Model | None = None
    persona: str = ""
    tools: Sequence[ToolLike] = ()
    parameters: Mapping[str, Any] = field(default_factory=dict)
    policy: PolicyLike = None
    limits: Limits = LIMITS
    retries: RetryPolicy = RETRIES
    metadata: Callable[[AssistantMessage], Mapping[str, Any]] | None = None
    summary: Upkeep | None = None
    memory: Upkeep | None = None
    recall: Upkeep | None = None
    tags: Callable[[AssistantMessage], Iterable[str]] | None = None
    score: Upkeep | None = None

    # A dataclass has one type for a field: here `llm` also takes a model's name.
    if TYPE_CHECKING:

        def __init__(
            self,
            name: str,
            llm: Model | str | None = None,
            persona: str = "",
            tools: Sequence[ToolLike] = (),
            parameters: Mapping[str, Any] = ...,
            policy: PolicyLike | str = None,
            limits: Limits = LIMITS,
            retries: RetryPolicy = RETRIES,
            metadata: Callable[[AssistantMessage], Mapping[str, Any]] | None = None,
            summary: Upkeep | None = None,
            memory: Upkeep | None = None,
            recall: Upkeep | None = None,
            tags: Callable[[AssistantMessage], Iterable[str]] | None = None,
            score: Upkeep | None = None,
        ) -> None: ...

    def __post_init__(self) -> None:
        if isinstance(self.llm, str):
            # The dataclass is frozen.
            object.__setattr__(self, "llm", model_from_string(self.llm))
        if isinstance(self.policy, str):
            object.__setattr__(self, "policy", policy_of(self.policy, f"agent {self.name!r}"))
        # A slash separates agent and task in the address of a lane.
        if not self.name or "/" in self.name:
            raise CallerError(f"expected the name of an agent, without a slash, found {self.name!r}")
        hint = "a model of stenolog.models, or its name, such as 'openai:gpt-5.2'"
        _check(self.name, "llm", self.llm, Model | None, hint)
        _check(self.name, "limits", self.limits, Limits, "Limits(…)")
        _check(self.name, "summary", self.summary, Upkeep | None, "AutoSummary(by=…)")
        _check(self.name, "memory", self.memory, Upkeep | None, "AutoMemory(by=…)")
        _check(self.name, "score", self.score, Upkeep | None, "AutoScore(by=…)")
        _check(self.name, "recall", self.recall, Upkeep | None, "AutoRecall(…)")
        _check(self.name, "retries", self.retries, RetryPolicy, "RetryPolicy(…)")

    def card(self, tools: Sequence[Tool]) -> AgentCard:
        """Return the agent's card, with these tools."""
        return AgentCard(
            model=self.llm.name if self.llm else "",
            provider=self.llm.provider if self.llm else "",
            persona=self.persona,
            tools=list(tools),
            parameters=dict(self.parameters),
            policy=self._policy(),
        )

    def _policy(self) -> PolicyLike:
        # A backend with its own session has seen what it was sent before.
        if self.llm is None or not self.llm.remembers:
            return self.policy or {}
        chosen = policy(self.policy)
        return chosen if chosen.chosen else SinceLastTurn() | chosen

    def with_metadata(self, answer: AssistantMessage) -> AssistantMessage:
        """Return the answer with its `metadata` and `tags`, or with the error of these."""
        if self.metadata is None and self.tags is None:
            return answer
        try:
            meta = self.metadata(answer) if self.metadata else {}
            tags = self.tags(answer) if self.tags else ()
            if isinstance(tags, str):
                raise CallerError(f"tags: expected several in a list, found {tags!r:.100}")
            return replace(answer, meta={**answer.meta, **meta}, tags=(*answer.tags, *tags))
        # The answer is whole and paid for, so a fault of these must not lose it.
        except Exception as error:
            return replace(answer, meta={**answer.meta, "stenolog": {"notes": f"failed: {error!r:.200}"}})


def _check(name: str, what: str, given: object, kind: Any, hint: str) -> None:
    if not isinstance(given, kind):
        raise CallerError(f"agent {name!r}: {what}: expected {hint}, found {given!r:.100}")


class Upkeep(ABC):
    """Work that keeps an agent's context in order.

    `by` does it: an agent, or the name of one of the team; None: the agent itself, without tools.
    """

    by: Agent | str | None

    def worker(self, agents: Mapping[str, Agent], agent: str) -> Agent:
        """Return the agent that does the work. Raises `CallerError` if it is unknown or has no model."""
        if self.by is None:
            return replace(agents[agent], tools=())
        found = agents.get(self.by) if isinstance(self.by, str) else self.by
        if found is None or found.llm is None:
            known = ", ".join(repr(name) for name, each in agents.items() if each.llm is not None)
            raise CallerError(
                f"agent {agent!r}: by: expected an agent with a model ({known}), found {self.by!r:.100}"
            )
        return found

    def within(self, agents: Mapping[str, Agent]) -> Self:
        """Return the upkeep for another team: a name in `by` becomes the agent."""
        if not isinstance(self.by, str):
            return self
        same = copy(self)
        # Upkeeps are frozen.
        object.__setattr__(same, "by", agents[self.by])
        return same

    @abstractmethod
    async def apply(self, conversation: Conversation, agent: str, worker: Agent) -> object:
        """Do the work if it is due. Raises `ModelError`, `IllegalCommandError`."""


class WorkerTool(BaseTool):
    """Tool whose calls the agent `worker` answers."""

    worker: Agent

    @abstractmethod
    def under(self, caller: Agent, options: Options, summary: Upkeep | None) -> BaseTool:
        """Return the tool for one caller, with its limits and its team's options and summary.

        Raises `CallerError`.
        """


def check_mode_tools(agents: Iterable[Agent]) -> None:
    """Raise `CallerError` if `tools_in` names a tool that the agent lacks.

    Agents with toolboxes, such as MCP servers, are checked once these are open.
    """
    for agent in agents:
        tools = as_runnables(agent.tools)
        names = [tool.spec.name for tool in tools if isinstance(tool, BaseTool)]
        fault = unknown_mode_tool(agent, names) if len(names) == len(tools) else ""
        if fault:
            raise CallerError(f"agent {agent.name!r}: {fault}")


def unknown_mode_tool(agent: Agent, names: Collection[str]) -> str:
    """Return the fault of the first tool in `tools_in` that is not in `names`; empty if all are."""
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
