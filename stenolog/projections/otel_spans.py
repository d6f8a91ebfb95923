"""Spans: what agents did, in the terms of OpenTelemetry's semantic conventions for generative AI.

A lane's work, from what asked it until it came to rest, is an `invoke_agent`; its children are its model
calls (`chat`) and its tool calls (`execute_tool`). What one message led to, by whomever, is one trace. Ids
are made of digests: the same log gives the same spans, so exporting them twice does no harm.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Any, Literal, NamedTuple, TypeAlias

from stenolog.domain import events
from stenolog.domain.entry import Entry
from stenolog.domain.lanes.lifecycle import BUSY
from stenolog.domain.lanes.state import OpenCall, State, address, find_call
from stenolog.domain.lanes.step import INITIAL, Transition, step
from stenolog.domain.parts import ToolCall
from stenolog.domain.settings import NOTHING, Settings, configure
from stenolog.domain.verdict import child_of

from .formats import providers
from .otel_messages import InputMessages, output_messages
from .views.usage import is_new_session

Attribute: TypeAlias = str | int | float | list[str]
Attributes: TypeAlias = dict[str, Attribute]
Kind: TypeAlias = Literal["client", "internal"]
PARAMETERS = ("temperature", "max_tokens", "top_p", "top_k", "seed", "frequency_penalty", "presence_penalty")
NOT_MADE = "budget"
"""The category of an error that no call was made for."""


class Span(NamedTuple):
    """One piece of work. `trace` has 32 hexadecimal digits, `id` and `parent` (empty: none) have 16.

    `position` is that of the entry that ended it; `error` is the kind of failure, empty where there was none.
    """

    position: int
    name: str
    kind: Kind
    trace: str
    id: str
    parent: str
    start: datetime
    end: datetime
    attributes: Attributes
    error: str = ""
    message: str = ""


class _Work(NamedTuple):
    """A lane at work: its span in the making."""

    trace: str
    id: str
    since: datetime
    cause: int
    parent: str


class _Call(NamedTuple):
    """A call that has no result yet."""

    lane: str
    time: datetime
    call: ToolCall


def spans(
    entries: Iterable[Entry],
    *,
    content: bool = False,
    after: int = 0,
    inputs: InputMessages | None = None,
) -> Iterator[Span]:
    """Yield each piece of work at the entry that ends it; unfinished work has no span.

    `content` adds what was said, what tools were called with and what they gave, and `inputs`, of the same
    entries, what models were sent: both may be private. What ended up to the position `after` is left out; in
    a fork, `inherited` is where its own begins.
    """
    watch = _Watch(content, inputs)
    for entry in entries:
        found = watch.take(entry)
        if entry.position > after:
            yield from found


def inherited(settings: Settings) -> int:
    """Return the position up to which a fork shares its parent's entries; 0 if it is none."""
    return settings.parent.position if settings.is_fork and settings.parent else 0


class _Watch:
    """State carried from one entry to the next."""

    def __init__(self, content: bool, inputs: InputMessages | None) -> None:
        self._content = content
        self._inputs = inputs
        self._compacted: set[str] = set()
        self._state: State = INITIAL
        self._settings: Settings = NOTHING
        self._works: dict[str, _Work] = {}
        self._calls: dict[tuple[str, int], _Call] = {}
        self._asked: dict[str, datetime] = {}

    def take(self, entry: Entry) -> list[Span]:
        """Return the spans that end with this entry, the children before their parent."""
        before = self._state
        self._settings = configure(self._settings, entry)
        if self._inputs is not None:
            self._inputs.take(entry)
        self._state, moves = step(before, entry)
        if isinstance(entry.event, events.ModeSwitch) and entry.event.fork:
            self._part(entry)
        work = self._works.get(_lane_of(entry.event))
        for move in moves:
            if move.source not in BUSY and move.target in BUSY:
                self._begin(move, entry, work)
        found = [*self._called(entry, before, work), *self._moved(entry, moves)]
        self._compact(entry.event)
        return found

    def _compact(self, event: events.Event) -> None:
        """Note the lanes whose context is a summary of what came before."""
        match event:
            case events.AssistantMessage(purpose="summary", covers=covers) if covers:
                self._compacted |= {address(event.agent, event.task), *event.to}
            case events.ModeSwitch(context_from=int(), agents=agents):
                gone = {lane for lane in self._compacted if lane.partition("/")[0] in agents}
                self._compacted -= gone if agents else self._compacted
            case _:
                pass

    def _part(self, entry: Entry) -> None:
        """Begin a fork: calls and work of the lanes so far are reported in its parent."""
        self._calls = {}
        self._asked = dict.fromkeys(self._asked, entry.time)
        for lane, work in self._works.items():
            self._works[lane] = work._replace(
                id=_stable_id(entry, f"work {lane}"), since=entry.time, parent=""
            )

    def _begin(self, move: Transition, entry: Entry, by: _Work | None) -> None:
        trace = by.trace if by else _stable_id(entry, "trace", 32)
        parent = by.id if by and isinstance(entry.event, events.UserMessage) else ""
        id = _stable_id(entry, f"work {move.lane}")
        self._works[move.lane] = _Work(trace, id, entry.time, entry.position, parent)

    def _called(self, entry: Entry, before: State, work: _Work | None) -> Iterator[Span]:
        match entry.event:
            case events.AssistantMessage() | events.LlmError() as said:
                yield from self._asked_model(
                    entry, said, work.trace if work else _stable_id(entry, "trace", 32)
                )
            case events.ToolResult() as result:
                yield from self._ran(entry, result, find_call(before, result))
            case _:
                pass

    def _moved(self, entry: Entry, moves: Iterable[Transition]) -> Iterator[Span]:
        """Yield the work that has ended, and note when a model is asked."""
        for move in moves:
            if move.target == "awaiting_llm":
                self._asked.setdefault(move.lane, entry.time)
            else:
                self._asked.pop(move.lane, None)
            if move.source in BUSY and move.target not in BUSY and move.lane in self._works:
                yield self._rests(entry, move, self._works.pop(move.lane))

    def _asked_model(
        self, entry: Entry, said: events.AssistantMessage | events.LlmError, trace: str
    ) -> Iterator[Span]:
        where = address(said.agent, said.task)
        if isinstance(said, events.AssistantMessage):
            for nth, call in enumerate(said.tool_calls):
                self._calls[entry.id, nth] = _Call(where, entry.time, call)
        elif said.category == NOT_MADE or is_new_session(said):
            return
        if child_of(said):
            return  # no call was made, or it was made in another conversation, and is told of there
        asked = self._asked.pop(where, entry.time)
        model = said.model or self._settings.card_of(said.agent).model
        failed = said if isinstance(said, events.LlmError) and not events.was_stopped(said) else None
        yield Span(
            position=entry.position,
            name=f"chat {model}".strip(),
            kind="client",
            trace=trace,
            id=_stable_id(entry, "chat"),
            parent=self._works[where].id if where in self._works else "",
            start=_start(entry.time, said.duration_ms, asked),
            end=entry.time,
            attributes=self._common("chat", where, entry) | self._of_model(entry, said, model),
            error=failed.category if failed else "",
            message=failed.message if failed else "",
        )

    def _of_model(
        self, entry: Entry, said: events.AssistantMessage | events.LlmError, model: str
    ) -> Attributes:
        card = self._settings.card_of(said.agent)
        told: dict[str, Any] = {
            "gen_ai.provider.name": _telemetry_name(card.provider),
            "gen_ai.request.model": card.model or model,
            "gen_ai.response.model": said.model,
        }
        told |= {f"gen_ai.request.{name}": card.parameters.get(name) for name in PARAMETERS}
        if said.usage is not None:
            told |= {
                "gen_ai.usage.input_tokens": said.usage.input,
                "gen_ai.usage.output_tokens": said.usage.output,
                "gen_ai.usage.cache_read.input_tokens": said.usage.cache_read or None,
                "gen_ai.usage.cache_write.input_tokens": said.usage.cache_write or None,
                "gen_ai.usage.reasoning.output_tokens": said.usage.reasoning or None,
            }
        if said.receipt is not None:
            told["stenolog.request.sha256"] = said.receipt.sha256
        if isinstance(said, events.AssistantMessage):
            told["gen_ai.response.finish_reasons"] = [said.finish_reason] if said.finish_reason else None
            if said.first_token_ms is not None:
                told["gen_ai.response.time_to_first_chunk"] = said.first_token_ms / 1000
            if said.purpose != "answer":
                told["stenolog.purpose"] = said.purpose
        else:
            told |= {
                "stenolog.attempt": said.attempt,
                "stenolog.will_retry": str(bool(said.retry_at)).lower(),
            }
        if self._content and said.parts:
            told["gen_ai.output.messages"] = output_messages(said)
        if self._inputs is not None:
            told.update(self._inputs.pop(entry.position))
        if address(said.agent, said.task) in self._compacted:
            told["gen_ai.conversation.compacted"] = True
        return _set_attributes(told)

    def _ran(
        self, entry: Entry, result: events.ToolResult, found: tuple[Any, OpenCall] | None
    ) -> Iterator[Span]:
        open_call = found[1] if found else None
        asked = self._calls.pop((open_call.entry, open_call.nth), None) if open_call else None
        if asked is None:
            return  # nobody has called it, or it was told of before
        told: dict[str, Any] = {
            "gen_ai.tool.name": asked.call.name,
            "gen_ai.tool.call.id": asked.call.id,
            "gen_ai.tool.type": "function",
            "stenolog.child.conversation": child_of(result) or None,
        }
        if self._content:
            told |= {
                "gen_ai.tool.call.arguments": asked.call.arguments,
                "gen_ai.tool.call.result": result.text,
            }
        work = self._works.get(asked.lane)
        yield Span(
            position=entry.position,
            name=f"execute_tool {asked.call.name}",
            kind="internal",
            trace=work.trace if work else _stable_id(entry, "trace", 32),
            id=_stable_id(entry, "tool"),
            parent=work.id if work else "",
            start=_start(entry.time, result.duration_ms, asked.time),
            end=entry.time,
            attributes=self._common("execute_tool", asked.lane, entry) | _set_attributes(told),
            error="tool_error" if result.is_error else "",
        )

    def _rests(self, entry: Entry, move: Transition, work: _Work) -> Span:
        """Return the span of a lane's work, which has ended."""
        agent = move.lane.partition("/")[0]
        failed = self._state.lane(move.lane).category if move.target == "failed" else ""
        parent = self._settings.parent
        told: dict[str, Any] = {
            "stenolog.cause": work.cause,
            "stenolog.reason": move.decision.reason,
            "stenolog.parent.conversation": parent.conversation if parent else None,
            "stenolog.parent.position": parent.position if parent else None,
        }
        return Span(
            position=entry.position,
            name=f"invoke_agent {agent}",
            kind="internal",
            trace=work.trace,
            id=work.id,
            parent=work.parent,
            start=min(work.since, entry.time),
            end=entry.time,
            attributes=self._common("invoke_agent", move.lane, entry) | _set_attributes(told),
            error=(failed or "failed") if move.target == "failed" else "",
        )

    def _common(self, operation: str, where: str, entry: Entry) -> Attributes:
        run = "" if isinstance(entry.event, events.Unknown) else entry.event.run
        return _set_attributes(
            {
                "gen_ai.operation.name": operation,
                "gen_ai.conversation.id": entry.conversation,
                "gen_ai.agent.name": where.partition("/")[0],
                "stenolog.lane": where,
                "stenolog.run": run,
                "stenolog.position": entry.position,
            }
        )


def _lane_of(event: events.Known | events.Unknown) -> str:
    """Return the lane that says it: the one that gives a task, too, for one of its calls."""
    match event:
        case events.AssistantMessage(agent=agent, task=task) | events.LlmError(agent=agent, task=task):
            return address(agent, task)
        case events.UserMessage(author_kind="agent", author=lane, cause=int()):
            return lane
        case _:
            return ""


def _stable_id(entry: Entry, what: str, digits: int = 16) -> str:
    return sha256(f"{entry.digest} {what}".encode()).hexdigest()[:digits]


def _start(end: datetime, took: int | None, asked: datetime) -> datetime:
    return min(asked if took is None else end - timedelta(milliseconds=took), end)


def _set_attributes(attributes: dict[str, Any]) -> Attributes:
    kinds = (str, int, float, list)
    return {name: value for name, value in attributes.items() if isinstance(value, kinds) and value != ""}


def _telemetry_name(provider: str) -> str:
    named = (each.telemetry for _, each in providers() if each.telemetry and provider in each.names)
    return next(named, provider)
