"""Agents, and the tool by which one agent may call another."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Self, TypeAlias

from stenolog.adapters.conversation.log import Conversation
from stenolog.adapters.models.base import Model, RecordedModel
from stenolog.adapters.models.model_names import model_from_string
from stenolog.adapters.tools.base import BaseTool
from stenolog.adapters.tools.functions import ToolLike, as_runnables
from stenolog.domain.base.near_names import closest
from stenolog.domain.card import AgentCard, patched, with_patches
from stenolog.domain.errors import CallerError, InvalidPolicyError
from stenolog.domain.events import AssistantMessage
from stenolog.domain.lanes.limits import Limits
from stenolog.domain.lanes.state import LaneState
from stenolog.domain.policy import PolicyLike, SinceLastTurn, policy
from stenolog.domain.policy_text import policy_of
from stenolog.domain.values import Tool

from .model_calls.retries import RetryPolicy
from .options import Options

# Imported late where they are used: most agents hand on to nobody, and have no checks and no type of answer.
if TYPE_CHECKING:
    from .checks import StageCheck
    from .handoff import Handoff, HandoffTool
    from .output import Output, Shape
    from .situation import Situation

LIMITS, RETRIES = Limits(), RetryPolicy()
Instructions: TypeAlias = "Callable[[Situation], str]"
"""Function of a `Situation` that returns an agent's instructions."""


@dataclass(frozen=True)
class Agent:
    """Agent of a team. Its settings are recorded as a card when the team starts.

    `llm` is a value of `stenolog.models` or a name such as "openai:gpt-5.2"; None: the agent has a card, and
    never answers. A list is a model and its `fallbacks`: if the provider of one fails, the next is called
    (see `RetryPolicy.falls_back`). `persona` is a text, or a function that returns one for a `Situation`;
    it is called before each model call, and the text recorded if it has changed. `tools` are functions or
    values of `stenolog.tools`. `parameters` go into each request. `policy` is a value of `stenolog.context`
    or a short form such as "memory:4". A model that `remembers` is sent only what is new (`SinceLastTurn`),
    unless the policy chooses a history. `metadata` and `tags` return what each answer's `meta` and `tags`
    get; both are pure and quick. `Pins` keeps entries by their tags. `summary` (`AutoSummary`), `memory`
    (`AutoMemory`), `recall` (`AutoRecall`) and `score` (`AutoScore`) run when they are due. `output` is the
    type of its answers: a class, a JSON Schema, a function or an `Output`. `checks` judge its requests,
    answers, calls and results before they count. `handoffs` are the agents that it may hand on to: agents,
    their names, or values of `Handoff`.
    """

    name: str
    llm: Model | None = None
    persona: str | Instructions = ""
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
    fallbacks: Sequence[Model] = ()
    output: Output | None = None
    checks: Sequence[StageCheck] = ()
    handoffs: Sequence[Agent | str | Handoff] = ()

    # A dataclass has one type for a field: here `llm` also takes names, and lists of both.
    if TYPE_CHECKING:

        def __init__(
            self,
            name: str,
            llm: Model | str | Sequence[Model | str] | None = None,
            persona: str | Instructions = "",
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
            fallbacks: Sequence[Model | str] = (),
            output: Output | Shape | None = None,
            checks: Sequence[StageCheck] = (),
            handoffs: Sequence[Agent | str | Handoff] = (),
        ) -> None: ...

    def __post_init__(self) -> None:
        given = [*self.llm] if isinstance(self.llm, list | tuple) else [self.llm]
        models = [model_from_string(each) if isinstance(each, str) else each for each in given]
        others = [model_from_string(each) if isinstance(each, str) else each for each in self.fallbacks]
        # The dataclass is frozen.
        object.__setattr__(self, "llm", models[0] if models else None)
        object.__setattr__(self, "fallbacks", (*models[1:], *others))
        if isinstance(self.policy, str):
            object.__setattr__(self, "policy", policy_of(self.policy, f"agent {self.name!r}"))
        # A slash separates agent and task in the address of a lane.
        if not self.name or "/" in self.name:
            raise CallerError(f"expected the name of an agent, without a slash, found {self.name!r}")
        hint = "a model of stenolog.models, or its name, such as 'openai:gpt-5.2'"
        _check(self.name, "llm", self.llm, Model | None, hint)
        for each in self.fallbacks:
            _check(self.name, "llm", each, Model, hint)
        if len({(model.name, model.provider) for model in self.models}) < len(self.models):
            raise CallerError(f"agent {self.name!r}: llm: expected different models, found one twice")
        if not isinstance(self.persona, str) and not callable(self.persona):
            raise CallerError(
                f"agent {self.name!r}: persona: expected a text or a function, found {self.persona!r:.100}"
            )
        _check(self.name, "limits", self.limits, Limits, "Limits(…)")
        _check(self.name, "summary", self.summary, Upkeep | None, "AutoSummary(by=…)")
        _check(self.name, "memory", self.memory, Upkeep | None, "AutoMemory(by=…)")
        _check(self.name, "score", self.score, Upkeep | None, "AutoScore(by=…)")
        _check(self.name, "recall", self.recall, Upkeep | None, "AutoRecall(…)")
        _check(self.name, "retries", self.retries, RetryPolicy, "RetryPolicy(…)")
        # Frozen, as above.
        if self.output is not None or "output" in self.parameters:
            from .output import as_output

            object.__setattr__(self, "output", as_output(self.output, self.parameters, self.name))
        if self.checks:
            from .checks import checked_list

            object.__setattr__(self, "checks", checked_list(self.checks, f"agent {self.name!r}: checks: "))
        if self.handoffs:
            from .handoff import as_handoffs

            object.__setattr__(self, "handoffs", as_handoffs(self.handoffs, self.name))

    def card(self, tools: Sequence[Tool]) -> AgentCard:
        """Return the agent's card, with these tools."""
        parameters = dict(self.parameters)
        if self.output is not None and not self.gives_by_tool:
            parameters.setdefault("output", self.output.parameter)
        elif self.gives_by_tool:
            # Else the model may end with a text.
            parameters.setdefault("tool_choice", "required")
        return AgentCard(
            model=self.llm.name if self.llm else "",
            provider=self.llm.provider if self.llm else "",
            persona=self.persona if isinstance(self.persona, str) else "",
            tools=list(tools),
            parameters=parameters,
            policy=self.policy_with(self.llm),
        )

    @property
    def gives_by_tool(self) -> bool:
        """True if its answer is a call of the tool of its output, for any of its models."""
        if self.output is None:
            return False
        has_tools = bool(self.tools or self.handoffs)
        return any(self.output.by_tool(llm.api, llm.name, has_tools=has_tools) for llm in self.models)

    @property
    def own_tools(self) -> tuple[BaseTool, ...]:
        """The tools that its settings add to its `tools`."""
        # A recorded agent is given those of the recording.
        if isinstance(self.llm, RecordedModel):
            return ()
        output = (self.output.as_tool(),) if self.output is not None and self.gives_by_tool else ()
        return (*output, *self._handoff_tools())

    def _handoff_tools(self) -> Iterable[HandoffTool]:
        if not self.handoffs:
            return ()
        from .handoff import as_handoffs, as_tools

        return as_tools(as_handoffs(self.handoffs, self.name))

    def card_with_policy(self, card: AgentCard, filter: PolicyLike) -> AgentCard:
        """Return its card with the policy of a hand-off; None: with its own."""
        same = self if filter is None else replace(self, policy=filter)
        chosen = policy(same.policy_with(self.model_of(card))).json
        unmarked = replace(card, patched=[name for name in card.patched if name != "policy"])
        return patched(unmarked, self.card(()), policy=chosen)

    def keeping(self, card: AgentCard, known: AgentCard | None) -> AgentCard:
        """Return its card with the patches of the known one that it could still have made itself."""
        gone = set[str]() if callable(self.persona) else {"persona"}
        models = {(model.name, model.provider) for model in self.models}
        if known is not None and "model" in known.patched:
            gone |= set[str]() if (known.model, known.provider) in models else {"model", "provider"}
        return with_patches(card, known, gone)

    def policy_with(self, llm: Model | None) -> PolicyLike:
        """Return the policy under which one of its models is called."""
        chosen = policy(self.policy)
        # A backend with its own session has seen what it was sent before.
        if llm is not None and llm.remembers:
            return chosen if chosen.chosen else SinceLastTurn() | chosen
        # What only a backend with a session is sent would be too little for a fall-back without.
        if llm is not self.llm and chosen.history.delta:
            return replace(chosen, chosen=None)
        return self.policy or {}

    @property
    def models(self) -> tuple[Model, ...]:
        """Its models, in the order in which they are tried."""
        return () if self.llm is None else (self.llm, *self.fallbacks)

    @property
    def is_patched(self) -> bool:
        """True if a call may need another card: for another model, or changed instructions."""
        return bool(self.fallbacks) or not isinstance(self.persona, str)

    def model_of(self, card: AgentCard) -> Model | None:
        """Return the model that a card names, else the first."""
        if self.fallbacks:
            for model in self.models:
                if (model.name, model.provider) == (card.model, card.provider):
                    return model
        return self.llm

    def pick(self, lane: LaneState, now: Model, is_open: Callable[[Model], bool]) -> Model:
        """Return the model for a lane's next call; `is_open`: the breaker of a model holds calls back."""
        # A person's new message begins with the first one again.
        is_new = not (lane.attempt or lane.steps)
        models = self.models if is_new else self.models[self.models.index(now) :]
        return next((model for model in models if not is_open(model)), models[0] if is_new else now)

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
            return replace(agents[agent], tools=(), handoffs=())
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
        tools = as_runnables([*agent.tools, *agent.own_tools])
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
