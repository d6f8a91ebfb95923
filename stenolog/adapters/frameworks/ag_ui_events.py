"""Events of AG-UI from entries and answers in progress, and the messages they add up to.

An answer is one AG-UI message: text and calls. Its id exists before its entry, so that live and reconnected
clients use the same: `lane@position` of what it answers, with `~2` and so on for later attempts. What answers
nothing has its entry's id.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ag_ui.core import events as ag
from ag_ui.core import types

from stenolog.adapters.engine.options import StreamDelta
from stenolog.domain.entry import Entry
from stenolog.domain.events import AssistantMessage, LlmError, ModeSwitch, ToolResult, Unknown, UserMessage
from stenolog.domain.lanes.state import State, address
from stenolog.domain.lanes.step import INITIAL, evolve
from stenolog.domain.parts import Part, ReasoningPart, RefusalPart, TextPart, text_of
from stenolog.domain.settings import NOTHING, Settings, configure
from stenolog.domain.values import ToolQuestion
from stenolog.projections.views.lines import in_words
from stenolog.projections.views.timeline import changes
from stenolog.projections.views.tool_pairs import CallKey, ToolCallIndex

from .ag_ui_interrupts import interrupts
from .shared import InContext

Events = Iterator[ag.BaseEvent]
ROLES = {"person": "user", "agent": "user", "system": "system", "schedule": "system"}
SPOKEN = ("text", "refusal")


@dataclass
class Open:
    """An answer in progress: what was sent of it, and its open messages."""

    id: str
    lane: str
    last: str = ""
    told: dict[str, list[str]] = field(default_factory=dict)
    """The text streamed so far, piece by piece: the `text`, and the `reasoning`."""
    reasons: bool = False
    speaks: bool = False

    def add(self, kind: str, words: str) -> Events:
        """Yield the next piece of text. Text after another item begins a new line."""
        kind = "text" if kind in SPOKEN else kind
        if words and kind in ("text", "reasoning"):
            said = self.told.setdefault(kind, [])
            more = f"\n{words}" if said and self.last != kind else words
            said.append(more)
            yield from self._say(kind, more)
        self.last = kind

    def finish(self, whole: Open) -> Events:
        """Yield the unstreamed rest of the answer, and close all parts."""
        for kind in ("reasoning", "text"):
            words, said = ("".join(each.told.get(kind, ())) for each in (whole, self))
            if words.startswith(said) and words != said:
                yield from self._say(kind, words.removeprefix(said))
        yield from self.close()

    def close(self) -> Events:
        """Close all open parts."""
        yield from self._thought()
        if self.speaks:
            self.speaks = False
            yield ag.TextMessageEndEvent(message_id=self.id)

    def _thought(self) -> Events:
        if self.reasons:
            self.reasons = False
            yield ag.ReasoningMessageEndEvent(message_id=self.reasoning_id)
            yield ag.ReasoningEndEvent(message_id=self.reasoning_id)

    @property
    def reasoning_id(self) -> str:
        return f"{self.id} reasoning"

    def _say(self, kind: str, words: str) -> Events:
        if kind == "reasoning":
            if not self.reasons:
                self.reasons = True
                yield ag.ReasoningStartEvent(message_id=self.reasoning_id)
                yield ag.ReasoningMessageStartEvent(message_id=self.reasoning_id, role="reasoning")
            yield ag.ReasoningMessageContentEvent(message_id=self.reasoning_id, delta=words)
        else:
            yield from self._thought()
            if not self.speaks:
                self.speaks = True
                yield ag.TextMessageStartEvent(message_id=self.id, role="assistant", name=self.lane)
            yield ag.TextMessageContentEvent(message_id=self.id, delta=words)


class EventStream:
    """Converter of a conversation to one run."""

    seen: frozenset[str] = frozenset()
    """The messages that the client has, by id: they are not sent again."""

    def __init__(self, thread: str, run: str) -> None:
        self.thread = thread
        self.run = run
        self.position = 0
        self.places: dict[str, int] = {}
        """The position of the entry of each message, by its id."""
        self.settings: Settings = NOTHING
        self.state: State = INITIAL
        self._taken: set[str] = set()
        self._attempts: dict[str, int] = {}
        self._open: dict[str, Open] = {}
        self._pairing = ToolCallIndex()
        self._calls: dict[CallKey, str] = {}
        self._questions: dict[int, ToolQuestion] = {}
        self._call_ids: set[str] = set()
        self._failed: dict[str, LlmError] = {}
        self._node = ""

    def begin(self) -> Events:
        """Yield the run's start, and the current state if a run came before."""
        yield ag.RunStartedEvent(thread_id=self.thread, run_id=self.run)
        self._failed = {}
        if self.position:
            yield self._snapshot_event()
        if self._node:
            yield ag.StepStartedEvent(step_name=self._node)

    def end(self, error: str = "") -> Events:
        """Yield the run's end: failed with a lane, or waiting for a person."""
        for answer in self._open.values():
            yield from answer.close()
        self._open = {}
        if self._node:
            yield ag.StepFinishedEvent(step_name=self._node)
        failed = next(iter(self._failed.items()), None)
        if error:
            yield ag.RunErrorEvent(message=error)
        elif failed is not None:
            yield ag.RunErrorEvent(message=f"{failed[0]}: {_failure(failed[1])}", code=failed[1].category)
        else:
            waits = interrupts(self.state, self._calls, self._questions)
            outcome = ag.RunFinishedInterruptOutcome(interrupts=waits) if waits else None
            yield ag.RunFinishedEvent(thread_id=self.thread, run_id=self.run, outcome=outcome)

    def delta(self, delta: StreamDelta) -> Events:
        """Yield an answer's next piece; the protocol has no event for a program's own actions."""
        if delta.kind == "act":
            return
        key = f"{delta.lane}@{delta.cause}"
        if key not in self._open:
            self._open[key] = Open(self._answer_id(key), delta.lane)
        yield from self._open[key].add(delta.kind, delta.text)

    def entry(self, entry: Entry) -> Events:
        """Yield the events of the next entry of the log."""
        self.position = entry.position
        self.state, before = evolve(self.state, entry), self.settings
        self.settings = configure(before, entry)
        pair = self._pairing.take(entry)
        match entry.event:
            case UserMessage() as said:
                yield from self._user(entry, said)
            case AssistantMessage(purpose="summary" | "memory" | "routing" as purpose) as said:
                apart = {"lane": address(said.agent, said.task), "text": said.text}
                yield ag.CustomEvent(name=f"stenolog.{purpose}", value=apart)
            case AssistantMessage(agent=agent, task=task, cause=cause, parts=parts) as said:
                lane = address(agent, task)
                answer = self._answer(entry, lane, cause)
                self._failed.pop(lane, None)
                yield from answer.finish(complete(parts))
                yield from self._called(entry, said, answer.id)
            case ToolResult() as result:
                call = self._calls.get(pair.call.key) if pair and pair.call else None
                id = self._placed(entry, _free(self._taken, entry.id))
                text = _text_of(result.parts)
                called = call or result.call_id or id
                yield ag.ToolCallResultEvent(message_id=id, tool_call_id=called, content=text, role="tool")
            case LlmError() as error:
                yield from self._error(entry, error)
            case ModeSwitch() as switch:
                yield from self._switched(switch, before)
            case Unknown(topic=topic):
                value = {"position": entry.position, "topic": topic}
                yield ag.CustomEvent(name="stenolog.unknown", value=value)

    def _user(self, entry: Entry, said: UserMessage) -> Events:
        if said.parts and not said.in_context:
            yield ag.CustomEvent(name="stenolog.note", value={"text": _text_of(said.parts)})
        elif said.parts and entry.id not in self.seen:
            id, name = self._placed(entry, _free(self._taken, entry.id)), said.author or None
            yield ag.TextMessageStartEvent(message_id=id, role=_role(said), name=name)
            if words := _text_of(said.parts):
                yield ag.TextMessageContentEvent(message_id=id, delta=words)
            yield ag.TextMessageEndEvent(message_id=id)
        if said.control is not None:
            if said.control.question is not None:
                self._questions[entry.position] = said.control.question
            value = {"action": said.control.action, "agent": said.control.agent, "task": said.control.task}
            yield ag.CustomEvent(name="stenolog.control", value=value)

    def _called(self, entry: Entry, said: AssistantMessage, parent: str) -> Events:
        for nth, call in enumerate(said.tool_calls):
            id = _free(self._call_ids, call.id or f"{parent} call {nth + 1}")
            self._calls[CallKey(entry.position, nth)] = id
            yield ag.ToolCallStartEvent(tool_call_id=id, tool_call_name=call.name, parent_message_id=parent)
            if call.arguments:
                yield ag.ToolCallArgsEvent(tool_call_id=id, delta=call.arguments)
            yield ag.ToolCallEndEvent(tool_call_id=id)

    def _error(self, entry: Entry, error: LlmError) -> Events:
        lane = address(error.agent, error.task)
        yield from self._answer(entry, lane, error.cause).finish(complete(error.parts))
        if error.category == "cancelled" and error.retry_at:
            return  # its program stopped it, and the next run asks again
        if error.retry_at is None and error.category != "cancelled":
            self._failed[lane] = error
        again = {"retry_at": error.retry_at.isoformat()} if error.retry_at else {}
        value = {"lane": lane, "category": error.category, "message": error.message, **again}
        yield ag.CustomEvent(name="stenolog.error", value=value)

    def _switched(self, switch: ModeSwitch, before: Settings) -> Events:
        node = self.settings.active_run.node if self.settings.active_run else ""
        if node != self._node:
            if self._node:
                yield ag.StepFinishedEvent(step_name=self._node)
            if node:
                yield ag.StepStartedEvent(step_name=node)
            self._node = node
        if _settings_state(self.settings) != _settings_state(before):
            yield self._snapshot_event()
        if changed := changes(switch):
            yield ag.CustomEvent(name="stenolog.mode_switch", value=changed)

    def _snapshot_event(self) -> ag.BaseEvent:
        return ag.StateSnapshotEvent(snapshot=_settings_state(self.settings))

    def _answer(self, entry: Entry, lane: str, cause: int | None) -> Open:
        if cause is None:
            answer = Open(_free(self._taken, entry.id), lane)
            self._placed(entry, answer.reasoning_id)
            self._placed(entry, answer.id)
            return answer
        key = f"{lane}@{cause}"
        answer = self._open.pop(key) if key in self._open else Open(self._answer_id(key), lane)
        self._attempts[key] = self._attempts.get(key, 0) + 1
        self._placed(entry, answer.id)
        self._placed(entry, answer.reasoning_id)
        return answer

    def _placed(self, entry: Entry, id: str) -> str:
        self.places[id] = entry.position
        return id

    def _answer_id(self, key: str) -> str:
        attempts = self._attempts.get(key, 0)
        return _free(self._taken, f"{key}~{attempts + 1}" if attempts else key)


def run_input(stream: EventStream, asked: Iterable[Entry]) -> types.RunAgentInput:
    """Return the input of a run: the messages that it was given, and the state before it."""
    given = [
        types.UserMessage(id=entry.id, content=_text_of(entry.event.parts), name=entry.event.author or None)
        for entry in asked
        if isinstance(entry.event, UserMessage)
    ]
    return types.RunAgentInput(
        thread_id=stream.thread,
        run_id=stream.run,
        state=_settings_state(stream.settings),
        messages=[*given],
        tools=[],
        context=[],
        forwarded_props={},
    )


def complete(parts: Sequence[Part]) -> Open:
    """Return the complete text of an answer of these parts."""
    said = Open("", "")
    for part in parts:
        match part:
            case TextPart(text=text) | RefusalPart(text=text):
                _ = [*said.add("text", text)]
            case ReasoningPart(text=text):
                _ = [*said.add("reasoning", text)]
            case _:
                said.last = "other"
    return said


def _free(taken: set[str], id: str) -> str:
    found, number = id, 1
    while found in taken:
        number += 1
        found = f"{id}~{number}"
    taken.add(found)
    return found


def _text_of(parts: Sequence[Part]) -> str:
    is_text = all(isinstance(part, TextPart) for part in parts)
    return text_of(tuple(parts)) if is_text else in_words(parts)


def _role(said: UserMessage) -> Any:
    return ROLES[said.author_kind]


def _settings_state(settings: Settings) -> dict[str, Any]:
    return {"mode": settings.mode, "members": [*settings.members], "title": settings.title}


def _failure(error: LlmError) -> str:
    return f"{error.category}: {error.message}" if error.message else error.category


SAYS: dict[str, Any] = {
    "assistant": types.AssistantMessage,
    "user": types.UserMessage,
    "system": types.SystemMessage,
}


def messages(events: Iterable[ag.BaseEvent]) -> list[types.Message]:
    """Return the messages in the order they began; results follow their call's message."""
    made: list[Any] = []
    by_id: dict[str, Any] = {}
    calls: dict[str, tuple[types.ToolCall, Any]] = {}

    def begin(message: Any) -> None:
        made.append(message)
        by_id[message.id] = message

    for event in events:
        match event:
            case ag.TextMessageStartEvent(message_id=id, role=role, name=name):
                begin(SAYS[role or "assistant"](id=id, content="", name=name))
            case ag.ReasoningMessageStartEvent(message_id=id):
                begin(types.ReasoningMessage(id=id, content=""))
            case ag.TextMessageContentEvent() | ag.ReasoningMessageContentEvent():
                by_id[event.message_id].content += event.delta
            case ag.ToolCallStartEvent(tool_call_id=id, tool_call_name=name, parent_message_id=parent):
                if parent not in by_id:
                    begin(types.AssistantMessage(id=parent or id))
                caller = by_id[parent or id]
                function = types.FunctionCall(name=name, arguments="")
                call = types.ToolCall(id=id, type="function", function=function)
                caller.tool_calls = [*(caller.tool_calls or ()), call]
                calls[id] = call, caller
            case ag.ToolCallArgsEvent(tool_call_id=id, delta=more):
                calls[id][0].function.arguments += more
            case ag.ToolCallResultEvent(message_id=id, tool_call_id=call_id, content=content):
                result = types.ToolMessage(id=id, tool_call_id=call_id, content=content)
                made.insert(_insert_position(made, calls.get(call_id)), result)
            case _:
                pass
    return made


def in_context(
    made: Sequence[types.Message], places: Mapping[str, int], now: InContext
) -> list[types.Message]:
    """Return the messages in context, edits applied; results follow their call's message."""
    order = {entry.position: nth for nth, entry in enumerate(now.entries)}
    callers = {call.id: message.id for message in made for call in getattr(message, "tool_calls", None) or ()}

    def position_of(message: types.Message) -> int | None:
        own = order.get(places.get(message.id, 0))
        if not isinstance(message, types.ToolMessage) or message.tool_call_id not in callers:
            return own
        return None if own is None else order.get(places.get(callers[message.tool_call_id], 0))

    placed = [(nth, message) for message in made if (nth := position_of(message)) is not None]
    return [message for _, message in sorted(placed, key=lambda pair: pair[0])]


def _insert_position(made: list[Any], called: tuple[types.ToolCall, Any] | None) -> int:
    """Return a result's index: after its call's message and earlier results."""
    if called is None:
        return len(made)
    place = next(nth for nth, message in enumerate(made) if message is called[1]) + 1
    while place < len(made) and isinstance(made[place], types.ToolMessage):
        place += 1
    return place
