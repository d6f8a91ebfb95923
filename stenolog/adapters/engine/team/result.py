"""Result of a run: the answer, what it used, the new entries, and why the run ended."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from stenolog.adapters.conversation.log import Conversation
from stenolog.adapters.engine import approvals
from stenolog.adapters.engine.agent import Agent, WorkerTool
from stenolog.adapters.models.base import Model
from stenolog.adapters.tools.base import BaseTool
from stenolog.domain.entry import Entry
from stenolog.domain.errors import AgentNotFoundError, ModelError, ToolError
from stenolog.domain.events import AssistantMessage, LlmError, ToolResult, UserMessage
from stenolog.domain.lanes.limits import MICRO_PER_USD
from stenolog.domain.lanes.state import address
from stenolog.domain.policy import FullHistory
from stenolog.domain.values import CallRef, Control, Usage
from stenolog.domain.verdict import child_of, own_meta, verdict_of
from stenolog.projections.prices import Price, Prices

if TYPE_CHECKING:
    from stenolog.adapters.engine.output import Output
    from stenolog.projections.views.usage import UsageTotals

LOGGER = logging.getLogger("stenolog.engine")
RunEnd: TypeAlias = Literal["rest", "approval", "question", "failed", "limit", "cancelled"]
"""Why a run ended: `rest`, every agent has answered."""


@dataclass(frozen=True)
class RunResult:
    """Result of `Team.run_to_end`.

    `answer` is the text of the last answer, `output` that of an agent with a typed output, else the text.
    `usage` and `cost`, in USD, are those of this run's model calls, workers included; `cost` is None if a
    model has no price. `entries` are the new ones. `why` says why the run ended. `error` has the category and
    the message if it failed, a limit stopped it, or a check asks a person. `pending` are the calls that wait
    for one.
    """

    answer: str
    output: Any
    usage: Usage
    cost: float | None
    entries: tuple[Entry, ...]
    why: RunEnd
    error: LlmError | None
    pending: tuple[approvals.PendingApproval, ...]
    conversation: Conversation = field(repr=False)

    def messages(self, api: str | None = None, agent: str = "") -> list[dict[str, Any]]:
        """Return the new messages as an agent's model is sent them, in a provider's format.

        `api` is one of `stenolog.requests.FORMATS`; None: the agent's own. `agent` defaults to the last that
        answered. Raises `AgentNotFoundError`; and as `Conversation.request`.
        """
        who = agent or next(_speakers(reversed(self.entries)), "")
        if not self.entries:
            return []
        if not who:
            raise AgentNotFoundError("messages: expected an agent that has answered, found none; name one")
        name, _, task = who.partition("/")
        last, new = self.entries[-1].position, {entry.position for entry in self.entries}
        request = self.conversation.request(name, last, api, task=task, policy=FullHistory())
        said = [part for part in request.parts if part.message >= 0 and part.rule != "preview-note"]
        places = dict.fromkeys(part.message for part in said if not new.isdisjoint(part.positions))
        body: Any = request.body[request.messages_key]
        return [deepcopy(body[place]) for place in sorted(places)]


class LastAnswer:
    """The last answer of a run: its text, or its value if its agent has an output."""

    def __init__(self, agents: Mapping[str, Any]) -> None:
        self._agents = agents
        self._callers: dict[str, str] = {}
        self._wordless: set[str] = set()
        self.has_answered = False
        self.text = ""
        self.value: Any = ""

    def take(self, entry: Entry) -> None:
        """Take the next entry in."""
        match entry.event:
            case AssistantMessage(purpose="answer") as answer:
                self._callers[entry.id] = answer.agent
                if not answer.text:
                    self._wordless.add(entry.id)
                self.text = answer.text or self.text
                self.has_answered |= bool(answer.text)
                self.value = self._read(answer)
            case ToolResult(call=CallRef(entry=caller)) as result if "output" in own_meta(result):
                output = self._output(self._callers.get(caller, ""))
                if output is not None:
                    self.has_answered = True
                    self.value = output.of_value(own_meta(result)["output"])
            case ToolResult(call=CallRef(entry=caller), is_error=False) as result if self._ends(
                result, caller
            ):
                # The tool has the last word if its agent said nothing with the call.
                self.has_answered, self.text, self.value = True, result.text, result.text
            case _:
                pass

    def _ends(self, result: ToolResult, caller: str) -> bool:
        tools = getattr(self._agents.get(self._callers.get(caller, "")), "tools", ())
        specs = (tool.spec for tool in tools if isinstance(tool, BaseTool))
        return caller in self._wordless and any(spec.ends_run and spec.name == result.name for spec in specs)

    def take_after(self, conversation: Conversation, id: str) -> None:
        """Take in what followed the message of an id, before a person's next one."""
        asked = conversation.entry_by_id(id)
        for entry in conversation.entries(after=asked.position) if asked else ():
            match entry.event:
                case UserMessage(author_kind="person", control=None):
                    break
                case _:
                    self.take(entry)

    def _read(self, answer: AssistantMessage) -> Any:
        output = self._output(answer.agent)
        if output is None or answer.tool_calls:
            return self.text
        try:
            return output.read(answer.text)
        # Another program may have answered without the type.
        except ToolError:
            return self.text

    def _output(self, agent: str) -> Output | None:
        return getattr(self._agents.get(agent), "output", None)


class RunCollector:
    """Entries, last answer and failures of a run so far."""

    def __init__(self, agents: Mapping[str, Agent]) -> None:
        self.agents = agents
        self.entries: list[Entry] = []
        self.last = LastAnswer(agents)
        self.failed: dict[str, LlmError] = {}
        """The errors that stopped lanes, which have not answered since."""

    def take(self, entry: Entry) -> None:
        """Take the next entry in; warn of retries, which the caller does not see."""
        self.entries.append(entry)
        self.last.take(entry)
        match entry.event:
            case AssistantMessage(purpose="answer", replaces=None) as answer if self.failed:
                self.failed.pop(address(answer.agent, answer.task), None)
            case LlmError(retry_at=None) as error:
                self.failed[address(error.agent, error.task)] = error
            case LlmError(retry_at=again) as error if again and error.category != "cancelled":
                # A retry after a wait would look like a program that hangs.
                waits = (again - entry.time).total_seconds() >= 1
                where, when = address(error.agent, error.task), again.isoformat(timespec="seconds")
                words = f"{where}: {error.category}: {error.message}; next try at {when}"
                LOGGER.log(logging.WARNING if waits else logging.INFO, "%s", words)
            case _:
                pass

    @property
    def error(self) -> LlmError | None:
        """The first error that stopped a lane, and no person did."""
        return next((each for each in self.failed.values() if each.category != "cancelled"), None)

    def check(self) -> None:
        """Raise `ModelError` if a lane has failed."""
        if self.failed and (error := self.error) is not None:
            where = address(error.agent, error.task)
            raise ModelError(error.category, f"{where}: {error.category}: {error.message}")

    def why(self, pending: Sequence[approvals.PendingApproval]) -> RunEnd:
        """Return why the run ended."""
        if (error := self.error) is not None:
            verdict = verdict_of(error)
            # A check asks a person about what an agent was sent, or has answered.
            if verdict is not None and verdict.kind == "held":
                return "approval"
            return "limit" if error.category == "budget" else "failed"
        if pending:
            return "question" if all(each.question for each in pending) else "approval"
        return "cancelled" if _is_cancelled(self.entries) else "rest"


def result_of_run(
    run: RunCollector, conversation: Conversation, before: Mapping[str, int], prices: Prices, id: str
) -> RunResult:
    """Return the result of a run; `before` has the positions of its workers' conversations at its start."""
    pending = approvals.waiting(conversation)
    if id and not run.last.has_answered:
        run.last.take_after(conversation, id)
    used = _used(conversation, run.entries, before)
    free = [Price(llm.name, 0, 0, 0) for llm in _models(run.agents.values()) if llm.charges == "nothing"]
    cost, tokens = used.cost((*prices, *free)), used.sum._asdict()
    return RunResult(
        answer=run.last.text,
        output=run.last.value,
        usage=Usage(**{**tokens, "cost": None}),
        cost=None if cost is None else cost / MICRO_PER_USD,
        entries=tuple(run.entries),
        why=run.why(pending),
        error=run.error,
        pending=tuple(pending),
        conversation=conversation,
    )


def _models(agents: Iterable[Agent]) -> Iterator[Model]:
    for agent in agents:
        yield from agent.models
        yield from _models(tool.worker for tool in agent.tools if isinstance(tool, WorkerTool))


def worker_positions(conversation: Conversation) -> dict[str, int]:
    """Return the positions of the conversations of the workers that are at work."""
    return {name: conversation.log[name].position for name in approvals.workers(conversation)}


def _used(conversation: Conversation, entries: list[Entry], before: Mapping[str, int]) -> UsageTotals:
    """Return what the entries used, and what workers and forks used since the start of the run."""
    from stenolog.projections.views.usage import usage  # late: most programs only ask

    log, seen = conversation.log, {conversation.name}
    total = usage(entries).total
    left = [*approvals.workers(conversation), *_children(entries)]
    while left:
        name = left.pop()
        if name in seen or name not in log:
            continue
        seen.add(name)
        child = log[name]
        new = [*child.entries(before[name] if name in before else _shared(child))]
        total = total.plus(usage(new).total)
        left += _children(new)
    return total


def _children(entries: Iterable[Entry]) -> Iterator[str]:
    """Yield the conversations in which workers, and the authors of summaries, have worked."""
    for entry in entries:
        if isinstance(entry.event, ToolResult | AssistantMessage) and (name := child_of(entry.event)):
            yield name


def _shared(child: Conversation) -> int:
    """Return the last position that a fork shares with its parent; 0 for any other conversation."""
    settings = child.settings()
    return settings.parent.position if settings.is_fork and settings.parent else 0


def _speakers(entries: Iterable[Entry]) -> Iterator[str]:
    for entry in entries:
        match entry.event:
            case AssistantMessage(purpose="answer") as answer:
                yield address(answer.agent, answer.task)
            case _:
                pass


def _is_cancelled(entries: Iterable[Entry]) -> bool:
    """Return whether a person stopped an agent that has not answered since."""
    stopped: set[str] = set()
    for entry in entries:
        match entry.event:
            case AssistantMessage(purpose="answer") as answer:
                stopped -= {address(answer.agent, answer.task), ""}
            case LlmError(category="cancelled", retry_at=None) as error:
                stopped.add(address(error.agent, error.task))
            case UserMessage(control=Control(action="cancel") as control):
                stopped.add(address(control.agent, control.task))
            case _:
                pass
    return bool(stopped)
