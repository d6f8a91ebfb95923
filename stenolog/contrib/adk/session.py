"""A session of ADK as events: agents share one conversation, each under its name."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from functools import partial
from typing import Any, NamedTuple

from stenolog import events, importers
from stenolog.errors import DuplicateIdError
from stenolog.importers import Blobs, Record, as_dict, as_int, as_str, as_time, compact_json
from stenolog.parts import AssistantPart, ToolCall, UserPart

from .events import CARD, CATEGORIES, PROVIDER, USER, AdkEvent, card_of, field, joined, parts_of

SYSTEM = "adk"
OF_ADK = "adk_request_"
"""The beginning of the names of calls that ADK makes for itself, to ask a person; no model is sent them."""


SAME_TIME = 1e-6
"""Seconds that a time may differ from the one that a compaction names."""


class WaitingCall(NamedTuple):
    """A call that waits for its result."""

    ref: events.CallRef
    name: str
    in_context: bool


class ContextMessage(NamedTuple):
    """A message in context, or a summary with the positions it covers."""

    time: float
    invocation: str
    positions: frozenset[int]


class AdkSession(importers.RecordConverter):
    """Converter of an ADK session. `main` speaks first; `about` has the session's facts."""

    def __init__(self, log: importers.ExistingLog, main: str, about: dict[str, Any]) -> None:
        super().__init__(importers.EventWriter(SYSTEM, main, log, closes=False))
        self.setup = importers.SettingsWriter(self.writer, scope="open")
        self.setup.about(SYSTEM, about)
        self._time = events.EPOCH
        self._open: dict[str, deque[WaitingCall]] = {}
        """The calls without a result, by their ids."""
        self._unnamed: dict[str, deque[str]] = {}
        """The ids that calls without one have got, by the tool's name."""
        self._cause: dict[str, int] = {}
        """By invocation, the position of the last input."""
        self._written: list[ContextMessage] = []
        """The messages that are in context."""
        self._results: dict[str, set[int]] = {}
        """The positions of results, by the entry of the call."""
        self._out: set[int] = set()
        """The positions that are no longer in context."""
        self._fragments: list[AdkEvent] = []
        self._seen: dict[str, int] = {}
        """By the key of each event, a hash of it."""

    def take(self, record: Record) -> list[importers.Step]:
        """Return the steps for an event."""
        event = self._event(record)
        if event is None:
            self.ignored["repeated"] += 1
            return []
        self._time = as_time(event.get("timestamp"), self._time)
        if event.is_partial:
            self._fragments.append(event)
            return []
        self._drop_fragments(event)
        self._rewind(event, as_str(field(event.actions, "rewind_before_invocation_id")))
        self._summarise(event, as_dict(event.actions.get("compaction")))
        if (
            event.parts
            or event.get("error_code")
            or event.get("output") is not None
            or event.get("interrupted")
        ):
            self._message(event)
        else:
            self.ignored["actions"] += 1
        return self.writer.drain()

    def end(self) -> list[importers.Step]:
        """Return the steps left at the end of the session."""
        self.ignored["partial"] += len(self._fragments)
        return self.writer.drain()

    def _event(self, record: Record) -> AdkEvent | None:
        """Return a record's event, None if seen before.

        An event without a unique id is known by its number.
        """
        fields = record.value
        id, content = as_str(fields.get("id")), hash(compact_json(fields))
        key = importers.key_of(id) or f"#{record.line}"
        if key in self._seen:
            if self._seen[key] == content:
                return None
            key = f"{key}#{record.line}"
        elif not self._seen:
            self._check_goes_on(key)
        self._seen[key] = content
        return AdkEvent(key, id, as_str(fields.get("author")), as_str(field(fields, "invocation_id")), fields)

    def _check_goes_on(self, key: str) -> None:
        """Check that the first event was imported before, if any was. Raises `DuplicateIdError`."""
        found = {id.partition(":")[0] for id in self.writer.log.positions}
        if self.writer.log.imported and key.partition(":")[0] not in found:
            raise DuplicateIdError(
                f"expected a session that begins as it was imported before, found the event {key!r:.60}: "
                "is it another session? Then give it another name"
            )

    def _message(self, event: AdkEvent) -> None:
        """Write an event's content, results first, as a model reads them."""
        responses = [part for part in event.parts if "functionResponse" in part]
        others = [part for part in event.parts if "functionResponse" not in part]
        for nth, part in enumerate(responses):
            self._result(event, part, f"{event.key}:result-{nth}" if nth or others else event.key)
        if event.is_input:
            if others:
                self._input(event, others)
        elif others or not responses:
            self._answer(event, others)

    def _input(self, event: AdkEvent, parts: list[dict[str, Any]]) -> None:
        blobs: Blobs = {}
        user_parts: list[UserPart] = [importers.gemini_user_part(part, PROVIDER, blobs) for part in parts]
        message = events.UserMessage(
            parts=user_parts,
            meta={SYSTEM: event.about()},
            source=self.writer.source(event.id, USER, event.key),
        )
        if self.setup.title is None and (title := importers.title_of(message.text)):
            self.setup.title = title
        self._cause[event.invocation] = self._put(message, event, event.key, blobs)

    def _answer(self, event: AdkEvent, raw_parts: list[dict[str, Any]]) -> None:
        """Write an agent's message, or its error with the parts that had arrived."""
        agent, model = self._speaker(event), as_str(event.get("model_version"))
        parts = importers.gemini_answer_parts(raw_parts, PROVIDER, model, partial(self._call_id, event))
        calls = [part for part in parts if isinstance(part, ToolCall)]
        code, finished = as_str(event.get("error_code")), as_str(event.get("finish_reason"))
        is_stopped = not parts and event.get("interrupted") is True
        has_failed = bool(code) or is_stopped
        if event.get("output") is not None and not parts and not has_failed:
            self._output(event, agent)
            return
        common: dict[str, Any] = {
            "agent": agent,
            "task": as_str(event.get("isolation_scope")).replace("/", "-"),
            "cause": self._cause.get(event.invocation),
            "model": model,
            "meta": {SYSTEM: event.about()},
            "node": as_str(field(as_dict(event.get("node_info")), "path")),
            "usage": _usage(as_dict(event.get("usage_metadata"))),
            "source": self.writer.source(event.id, "model", event.key),
        }
        if parts and (calls or not has_failed):
            stopped = "interrupted" if event.get("interrupted") is True else finished
            is_for_model = not (calls and all(call.name.startswith(OF_ADK) for call in calls))
            answer = events.AssistantMessage(
                **common, parts=parts, finish_reason=stopped, in_context=is_for_model
            )
            self._put(answer, event, event.key)
            self._note_calls(event.key, calls, is_for_model)
            parts = []
        if has_failed:
            reason = as_str(event.get("error_message")) or code or "interrupted"
            category = (
                "cancelled"
                if is_stopped and not code
                else CATEGORIES.get(code.rpartition(".")[2]) or importers.error_category(reason)
            )
            common["source"] = self.writer.source(event.id, "error", event.key)
            error = events.LlmError(**common, category=category, message=reason, parts=parts)
            self._put(error, event, f"{event.key}:error" if calls else event.key)

    def _output(self, event: AdkEvent, agent: str) -> None:
        """Write a workflow node's output out of context: no model reads it."""
        output = event.get("output")
        text = output if isinstance(output, str) else compact_json(output)
        source, node = (
            self.writer.source(event.id, "output", event.key),
            field(as_dict(event.get("node_info")), "path"),
        )
        answer = events.AssistantMessage(
            agent=agent,
            text=text or '""',
            in_context=False,
            node=as_str(node),
            meta={SYSTEM: event.about()},
            source=source,
        )
        self._put(answer, event, event.key)

    def _speaker(self, event: AdkEvent) -> str:
        """Return the agent of an event, which joins when it speaks first."""
        agent = importers.agent_called(event.author, self.writer.main)
        found = card_of(event.fields.get(CARD))
        if model := as_str(event.get("model_version")):
            found |= {"model": model, "provider": PROVIDER if "gemini" in model else ""}
        self.setup.card(agent, **found)
        return agent

    def _call_id(self, event: AdkEvent, nth: int, name: str) -> str:
        """Return an id for a call without one, so that its result finds it."""
        id = f"{event.key}-{nth}"
        self._unnamed.setdefault(name, deque()).append(id)
        return id

    def _note_calls(self, entry: str, calls: Iterable[ToolCall], is_for_model: bool) -> None:
        for index, call in enumerate(calls):
            opened = WaitingCall(events.CallRef(entry=entry, index=index), call.name, is_for_model)
            self._open.setdefault(call.id, deque()).append(opened)

    def _result(self, event: AdkEvent, part: dict[str, Any], key: str) -> None:
        blobs: Blobs = {}
        for response in importers.gemini_responses([part], PROVIDER, blobs):
            waiting = self._unnamed.get(response.name)
            id = response.call_id or (waiting.popleft() if waiting else "")
            calls = self._open.get(id)
            call = calls.popleft() if calls else None
            result = events.ToolResult(
                call_id=id,
                call=call.ref if call else None,
                name=call.name if call else response.name,
                parts=response.parts,
                is_error=response.is_error,
                in_context=call.in_context if call else not response.name.startswith(OF_ADK),
                meta={SYSTEM: event.about()},
                source=self.writer.source(id, "tool", event.key),
            )
            position = self._put(result, event, key, blobs)
            self._cause[event.invocation] = position
            if call:
                self._results.setdefault(call.ref.entry, set()).add(position)

    def _put(self, message: Any, event: AdkEvent, key: str, blobs: Blobs | None = None) -> int:
        self.setup.settle(key, self._time)
        position = self.writer.write(message, key, self._time, blobs or {})
        self._written.append(ContextMessage(self._time.timestamp(), event.invocation, frozenset({position})))
        return position

    # What streams, and what leaves the context

    def _drop_fragments(self, event: AdkEvent) -> None:
        """Drop fragments that this event completes; write those of an unfinished answer."""
        fragments = self._fragments
        left = [each for each in fragments if each.invocation != event.invocation]
        self._fragments = [each for each in fragments if each not in left and each.author != event.author]
        self.ignored["partial"] += len(fragments) - len(left) - len(self._fragments)
        if not left:
            return
        last = left[-1]
        parts: list[AssistantPart] = []
        for fragment in left:
            if fragment.author == last.author and not fragment.is_input:
                parts += importers.gemini_answer_parts(
                    fragment.parts, PROVIDER, "", partial(self._call_id, fragment)
                )
        if answer := joined(parts):
            agent, source = self._speaker(last), self.writer.source(last.id, "partial", last.key)
            error = events.LlmError(
                agent=agent, category="cancelled", message="left off", parts=answer, source=source
            )
            self._put(error, last, last.key)

    def _rewind(self, event: AdkEvent, invocation: str) -> None:
        starts = [
            nth for nth, each in enumerate(self._written) if invocation and each.invocation == invocation
        ]
        if not starts:
            return
        self._out = self._out.union(*(each.positions for each in self._written[starts[0] :]))
        self._written = self._written[: starts[0]]
        self.setup.hides = tuple(importers.position_ranges(self._out, set()))
        self.setup.branches = True
        self.setup.settle(event.key, self._time)
        self.decisions["rewound"] += 1

    def _summarise(self, event: AdkEvent, compaction: dict[str, Any]) -> None:
        parts = parts_of(field(compaction, "compacted_content"))
        if not parts:
            return
        first, last = (_number(field(compaction, name)) for name in ("start_timestamp", "end_timestamp"))
        unanswered = {call.ref.entry for calls in self._open.values() for call in calls}
        spared = {self.writer.position_of(entry) for entry in unanswered}
        spared = spared.union(*(self._results.get(entry, set()) for entry in unanswered))
        inside = [
            each
            for each in self._written
            if first - SAME_TIME <= each.time <= last + SAME_TIME and not each.positions & spared
        ]
        covered = frozenset[int]().union(*(each.positions for each in inside))
        summary = events.AssistantMessage(
            agent=self._speaker(event) if not event.is_input else self.writer.main,
            purpose="summary",
            covers=tuple(importers.position_ranges(covered, set())),
            parts=importers.gemini_answer_parts(parts, PROVIDER, "", partial(self._call_id, event)),
            source=self.writer.source(event.id, "compaction", event.key),
        )
        key = f"{event.key}:summary"
        self.setup.settle(key, self._time)
        position = self.writer.write(summary, key, self._time)
        # A later compaction of a longer span covers this summary, and what it stands for.
        self._written = [each for each in self._written if not each.positions <= covered]
        self._written.append(ContextMessage(first, event.invocation, covered | {position}))
        self.decisions["compaction as a summary"] += 1


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else 0.0


def _usage(counted: dict[str, Any]) -> events.Usage | None:
    thoughts = as_int(field(counted, "thoughts_token_count"))
    output = as_int(field(counted, "candidates_token_count")) + thoughts
    cached = field(counted, "cached_content_token_count")
    return importers.gemini_usage(field(counted, "prompt_token_count"), output, cached, thoughts)
