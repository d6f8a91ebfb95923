"""Steps of a run: its entries without what differs from run to run, in streams that keep their order.

Entries of one stream follow one another: a lane's answers, the results of one call, what one author said to
the same agents. Between streams the order is chance: parallel calls and lanes may come in any.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from hashlib import sha256
from typing import Any, Literal, NamedTuple, TypeAlias

from pydantic_core import from_json

from stenolog.domain import events
from stenolog.domain.codec import REGISTRY
from stenolog.domain.entry import Entry
from stenolog.domain.lanes.state import address
from stenolog.domain.parts import call_text
from stenolog.domain.settings import NOTHING, Settings, configure
from stenolog.projections.messages.body_digest import compact
from stenolog.projections.requests import LaneId
from stenolog.projections.requests.pipeline.visibility import exclusion_rule
from stenolog.projections.views.tool_pairs import Call, CallKey, ToolCallIndex

StepKind: TypeAlias = Literal["answer", "error", "result", "decision", "message", "setting", "unknown"]
Stream: TypeAlias = tuple[Hashable, ...]
Mask: TypeAlias = Callable[[str], str]

ORDERED = ("answer", "error")
"""Kinds of step that come one by one: after the first different one, nothing of a stream is the same."""
UNORDERED = ("result", "decision")
"""Kinds of step that come in any order: those of equal calls that were made side by side."""
GENERATED = re.compile(r"[0-9a-f]{12}\b")
"""The suffix of a worker's task or conversation, which the engine makes anew for each call."""
WORD = re.compile(r"[\w.:~-]{6,}")
PROVIDERS_ID = re.compile(
    r"\b(?:msg|toolu|srvtoolu|call|resp|rs|fc|req|chatcmpl|gen)[_-](?=\w*\d)[\w-]{8,}\b", re.ASCII
)
ID = "[id]"
KEPT: Mapping[str, tuple[str, ...]] = {
    "user_message": ("parts", "control", "in_context", "tags"),
    "assistant_message": ("parts", "in_context", "to"),
    "tool_result": ("parts", "is_error", "blob", "in_context"),
    "llm_error": ("category", "parts"),
    "mode_switch": ("agents", "mode", "cards", "joins", "leaves", "scope", "active_run", "handoff", "turns"),
}
"""The fields of an event that make it what it is, in whichever run."""


class Step(NamedTuple):
    """An entry of a run as a step: its stream, and a digest of what it does.

    `lane` is the agent's address of an answer or an error, `view` the position of its request, `attempts` the
    stream of the failed calls before it. `call` is the call that a result or a decision is of, `settings` are
    those before. An `aside` changes nothing by itself: no request has it, or it is a failed call.
    """

    position: int
    kind: StepKind
    stream: Stream
    digest: str
    event: events.Event
    settings: Settings
    lane: str = ""
    view: int = 0
    attempts: Stream = ()
    call: Call | None = None
    aside: bool = False

    @property
    def is_command(self) -> bool:
        """True if it is a command to the engine, such as to cancel."""
        return isinstance(self.event, events.UserMessage) and self.event.control is not None

    @property
    def refers_to(self) -> tuple[range, ...]:
        """The positions that it replaces, covers, hides, or begins the context after."""
        match self.event:
            case events.UserMessage(replaces=int(replaced)) | events.AssistantMessage(replaces=int(replaced)):
                return (range(replaced, replaced + 1),)
            case events.AssistantMessage(covers=covers):
                return tuple(range(span.first, span.last + 1) for span in covers)
            case events.ModeSwitch(hides=hides, context_from=start):
                hidden = hides if isinstance(hides, tuple) else ()
                gone = range(1, start) if isinstance(start, int) else range(0)
                return (gone, *(range(span.first, span.last + 1) for span in hidden))
            case _:
                return ()

    def reaches(self, lane: str) -> bool:
        """Return whether a lane is shown it."""
        agent, _, task = lane.partition("/")
        if isinstance(self.event, events.ModeSwitch):
            named = {*self.event.agents, *self.event.cards, *self.event.joins, *self.event.leaves}
            return not named or agent in named
        if self.lane == lane:
            return True
        scope = self.settings.scope_of(agent)
        return not exclusion_rule(self.event, LaneId(agent, task), scope, self.call)


def steps(entries: Iterable[Entry], *, calls: bool = False, mask: Mask = str) -> list[Step]:
    """Return the steps of a run, in the log's order.

    `calls`: answers that call the same tools are the same, whatever they say. `mask` is applied to all texts.
    Titles, and records of where a log came from, are no steps.
    """
    reader = _Reader(list(entries), calls, mask)
    return [step for entry in reader.log if (step := reader.step(entry)) is not None]


def kept_fields(event: events.Known) -> dict[str, Any]:
    """Return the fields of an event that make it what it is, in whichever run, as JSON."""
    fields = from_json(REGISTRY.dump(event)[1])
    found = {name: fields[name] for name in KEPT[event.kind] if name in fields}
    for name in ("call", "identity", "signature"):
        found.get("control", {}).pop(name, None)
    for card in found.get("cards", {}).values():
        (card or {}).pop("patched", None)
    return found


class _Reader:
    """Facts of a log that are known while its entries become steps."""

    def __init__(self, log: Sequence[Entry], calls: bool, mask: Mask) -> None:
        self.log = log
        self._calls_only = calls
        self._mask_more = mask
        self._ids = set(_ids(log))
        self._pairing = ToolCallIndex()
        self._settings = NOTHING
        self._answers: Counter[Stream] = Counter()
        self._lanes: dict[str, str] = {}
        self._briefs: Counter[str] = Counter()
        self._named: dict[tuple[str, int], Call] = {}
        self._streams: dict[CallKey, Stream] = {}

    def step(self, entry: Entry) -> Step | None:
        """Return the next entry's step; None if it is none."""
        before, self._settings = self._settings, configure(self._settings, entry)
        pair = self._pairing.take(entry)
        event, made = entry.event, None
        match event:
            case events.AssistantMessage():
                made = self._answer(entry, event, before)
            case events.LlmError():
                lane = address(event.agent, event.task)
                stream = self._attempts(self._lane(lane), "answer")
                made = self._step_of(
                    entry, "error", stream, before, lane=lane, view=_view(entry, event.receipt)
                )
            case events.ToolResult():
                call = pair.call if pair is not None else None
                made = self._of_call(entry, "result", call, before)
            case events.UserMessage(control=control):
                call = None
                if control is not None and control.call is not None:
                    call = self._named.get((control.call.entry, control.call.index))
                made = (
                    self._message(entry, event, before)
                    if call is None
                    else self._of_call(entry, "decision", call, before)
                )
            case events.ModeSwitch():
                made = self._switch(entry, event, before)
            case events.Unknown(topic=topic):
                made = self._step_of(entry, "unknown", ("unknown", topic), before)
        return made

    def _step_of(self, entry: Entry, kind: StepKind, stream: Stream, settings: Settings, **more: Any) -> Step:
        event = entry.event
        aside = kind == "error" or not getattr(event, "in_context", True)
        found = self._content(event)
        digest = sha256(compact(found).encode("utf-8", "surrogatepass")).hexdigest()
        return Step(entry.position, kind, stream, digest, event, settings, aside=aside, **more)

    def _answer(self, entry: Entry, answer: events.AssistantMessage, before: Settings) -> Step:
        lane = address(answer.agent, answer.task)
        stream = self._lane(lane), answer.purpose
        attempts = self._attempts(*stream)
        self._answers[stream] += 1
        for index, call in enumerate(answer.tool_calls):
            text, key = self._masked(call_text(call)), CallKey(entry.position, index)
            self._streams[key] = (*attempts[1:], text)
            self._named[entry.id, index] = Call(key, entry.id, call.id, call.name, answer.agent, answer.task)
        view = _view(entry, answer.receipt)
        return self._step_of(
            entry, "answer", ("answer", *stream), before, lane=lane, view=view, attempts=attempts
        )

    def _attempts(self, lane: str, purpose: str) -> Stream:
        return "error", lane, purpose, self._answers[lane, purpose]

    def _of_call(self, entry: Entry, kind: StepKind, call: Call | None, before: Settings) -> Step:
        event: Any = entry.event
        if call is None:
            stream: Stream = (kind, event.name, *map(self._lane, event.to))
        else:
            stream = (kind, *self._streams[call.key])
        return self._step_of(entry, kind, stream, before, call=call)

    def _message(self, entry: Entry, message: events.UserMessage, before: Settings) -> Step:
        for where in message.to:
            if GENERATED.search(where) and where not in self._lanes:
                brief = f"{where.partition('/')[0]}/{self._masked(message.text)}"
                self._lanes[where] = f"{brief}#{self._briefs[brief]}"
                self._briefs[brief] += 1
        author = self._lane(message.author)
        stream = "message", message.author_kind, author, *map(self._lane, message.to)
        return self._step_of(entry, "message", stream, before)

    def _switch(self, entry: Entry, switch: events.ModeSwitch, before: Settings) -> Step | None:
        if not self._content(switch) and switch.hides is switch.context_from is events.UNCHANGED:
            return None
        named = sorted({*switch.agents, *switch.cards, *switch.joins, *switch.leaves})
        return self._step_of(entry, "setting", ("setting", *named), before)

    def _lane(self, where: str) -> str:
        return self._lanes.get(where, where)

    def _content(self, event: events.Event) -> Any:
        """Return what an event does, without ids, times and positions."""
        if isinstance(event, events.Unknown):
            return event.payload.hex()
        found = kept_fields(event)
        if "parts" in found:
            # What was thought is not done, and calls of one answer run side by side.
            called = sorted(map(call_text, getattr(event, "tool_calls", ())))
            said = [part for part in found["parts"] if part["type"] not in ("tool_call", "reasoning")]
            is_answer = isinstance(event, events.AssistantMessage)
            found["parts"] = [called] if is_answer and self._calls_only else [said, called]
        return self._plain(found)

    def _plain(self, value: Any) -> Any:
        match value:
            case dict():
                return {key: self._plain(value[key]) for key in sorted(value)}
            case list():
                return [self._plain(inner) for inner in value]
            case str():
                return self._masked(value)
            case _:
                return value

    def _masked(self, text: str) -> str:
        def without_id(word: re.Match[str]) -> str:
            return ID if word[0] in self._ids or word[0] in self._lanes else word[0]

        return self._mask_more(PROVIDERS_ID.sub(ID, WORD.sub(without_id, text)))


def _ids(log: Iterable[Entry]) -> Iterable[str]:
    """Yield the ids of calls and entries that may be quoted in a text: no words are among them."""
    for entry in log:
        yield from (found for found in (entry.id,) if len(found) >= 8 and re.search(r"\d", found))
        for call in getattr(entry.event, "tool_calls", ()):
            if re.search(r"\d", call.id):
                yield call.id


def _view(entry: Entry, receipt: Any) -> int:
    return entry.position - 1 if receipt is None else receipt.view
