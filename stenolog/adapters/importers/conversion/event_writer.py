"""Writer of an import's events, which computes positions without touching the log.

A converter reads a file from its start each time. Logged entries, recognised by entry id or by records in
`source.lines`, keep their position and are not written again. So a grown file appends only what is new.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from datetime import datetime

from stenolog.domain.entry import EPOCH, NewEntry
from stenolog.domain.errors import DuplicateIdError
from stenolog.domain.events import AssistantMessage, Known, LlmError, ModeSwitch, ToolResult, UserMessage
from stenolog.domain.parts import ToolCall
from stenolog.domain.values import CallRef, Origin, PositionRange, Usage
from stenolog.projections.messages.json_fields import called_in

from .answers import NO_RESULT, Answer, LeftCalls, OpenCall, PlacedCall
from .steps import (
    NO_BLOBS,
    Answered,
    Append,
    Branch,
    ExistingLog,
    Step,
    combined,
    position_ranges,
    positions_in,
)


class EventWriter:
    """Writer of one conversation's events; `main` is its main agent.

    `already` counts entries that the log had. `closes` False: results may come long after a person went on,
    so calls without one stay open.
    """

    def __init__(self, system: str, main: str, log: ExistingLog, *, closes: bool = True) -> None:
        self.system = system
        self._closes = closes
        self.main = main
        self.log = log
        self.already = 0
        self.can_go_on = True
        self._here = 0
        self.answer: Answer | None = None
        self._said: tuple[AssistantMessage, str, datetime] | None = None
        self._latest_answer = 0
        self._steps: list[Step] = []
        self._next = log.head + 1
        self._new: dict[str, int] = {}
        self._recalled: set[str] = set()
        self._calls: dict[str, list[OpenCall]] = {}
        answers = sorted(set(log.answers.values()), key=lambda answer: answer.position)
        self._made = {
            id: PlacedCall(answer.position, answer.agent) for answer in answers for id, _ in answer.calls
        }
        self._resulted: dict[str, int] = {}
        self._asked: dict[str, int] = {}
        self._owners: dict[str, str] = {}
        self._message_positions: dict[str, int] = {}
        self._results: dict[str, list[int]] = {}
        self._seen: list[int] = []
        self._silent = {entry.position for entry in log.own if isinstance(entry.event, ModeSwitch)}
        self._in_file: set[int] = set()
        self._used = dict(log.used)
        self._left = LeftCalls()
        self._time = EPOCH

    def drain(self) -> list[Step]:
        """Return the steps since the last time."""
        steps, self._steps = self._steps, []
        return steps

    @property
    def here(self) -> int:
        """The last position; reading it closes the open answer."""
        self.close()
        return self._here

    def position_of(self, id: str) -> int:
        """Return the position of that event: the next, unless logged."""
        self.close()
        return self.log.positions.get(id, self._next)

    def latest_position(self, line: str) -> int:
        """Return the last record's position; an open answer stays open."""
        if (held := self.log.answers.get(line)) is not None:
            return held.position
        return self._next if self.answer is not None else self._here

    def with_calls(self, positions: Iterable[int]) -> set[int]:
        """Return the positions, with all calls and results that belong to them."""
        self.close()
        found = set(positions)
        for entry, results in self._results.items():
            own = self._message_positions.get(entry)
            group = set[int]() if own is None else {own, *results}
            found |= group if found & group else set()
        return found

    def source(self, id: str, role: str, *lines: str) -> Origin:
        """Return the origin of an event."""
        return Origin(system=self.system, id=id, role=role, lines=lines)

    def holds(self, id: str) -> bool:
        """Return whether the log held this entry before the import."""
        return id in self.log.positions

    def holds_other(self, id: str, event: Known) -> bool:
        """Return whether the log has this entry with other parts."""
        known = self.log.said.get(id)
        return known is not None and known != hash(getattr(event, "parts", ()))

    def write(self, event: Known, id: str, time: datetime, blobs: Mapping[str, bytes] = NO_BLOBS) -> int:
        """Write an event after the open answer, unless logged; return its position."""
        self.close()
        return self._put(event, id, time, blobs)

    def say(self, event: AssistantMessage, id: str, time: datetime) -> None:
        """Write an answer with the next event: a result without an id makes its words a call."""
        self.close()
        self._said = (event, id, time)

    def hide_missing(self, time: datetime, cut: Collection[int] = ()) -> int:
        """Hide imported messages that are gone from the file, and `cut`; return the number of the former.

        Ones that came back are shown again. Call once, at the end of a file, for formats that remove messages
        and hold whole conversations.
        """
        self.close()
        hidden = positions_in(self.log.settings.hides)
        missing = self.log.imported - self._in_file - hidden
        wanted = (hidden - (self.log.hidden & self._in_file)) | missing | set(cut)
        if wanted != hidden:
            hides = tuple(position_ranges(wanted, set()))
            switch = ModeSwitch(hides=hides, source=self.source("", "settings"))
            self._put(switch, f"missing-{self._next}", time, NO_BLOBS)
        return len(missing)

    def branch(self) -> None:
        """Keep the entries up to here as a fork."""
        self.close()
        self._steps.append(Branch(self._next - 1))

    def starts_message(self, line: str, agent: str, source_id: str) -> bool:
        """Return whether a record begins a message."""
        if (held := self.log.answers.get(line)) is not None:
            return held.first == line
        return self.answer is None or not self.answer.is_of(agent, source_id)

    def add_part(self, line: str, heard: Answer) -> None:
        """Add a record to the open answer: successive records are one message."""
        if (held := self.log.answers.get(line)) is not None:
            self.close()
            self._close_calls(held.agent, heard.time, only_known=True)
            self._recall(held)
            return
        if self.answer is not None and self.answer.is_of(heard.agent, heard.source_id):
            self.answer.add(heard)
        else:
            self.close()
            self._close_calls(heard.agent, heard.time)
            self.answer = heard
        self.answer.lines.append(line)

    def close(self) -> None:
        """Complete the open answer, as far as the file shows."""
        if (said := self._said) is not None:
            self._said = None
            self._put(*said, NO_BLOBS)
        if (answer := self.answer) is None:
            return
        self.answer = None
        event = AssistantMessage(
            agent=answer.agent,
            parts=tuple(answer.parts),
            to=answer.to,
            model=answer.model,
            finish_reason=answer.finish_reason,
            usage=self._unused(answer),
            cause=answer.cause,
            source=self.source(answer.source_id, "assistant", *answer.lines),
        )
        self._put(event, answer.lines[0], answer.time, NO_BLOBS)

    def _unused(self, answer: Answer) -> Usage | None:
        """Return an answer's usage beyond its earlier parts: each has the total so far."""
        message = answer.agent, answer.source_id
        before, now = self._used.get(message), answer.usage
        if now is None:
            return None
        self._used[message] = now
        return now if before is None else combined(now, before, lambda total, had: max(total - had, 0))

    def count(self, id: str, usage: Usage) -> None:
        """Set the tokens of a message that was written but not drained."""
        for nth, step in enumerate(self._steps):
            if isinstance(step, Append) and step.draft.id == id:
                event = step.draft.event
                if isinstance(event, AssistantMessage):
                    counted = step.draft._replace(event=replace(event, usage=usage))
                    self._steps[nth] = step._replace(draft=counted)

    def answered(self, call_id: str) -> CallRef | None:
        """Return and close that id's latest open call."""
        call = self.closed(call_id)
        return call.ref if call else None

    def closed(self, call_id: str) -> OpenCall | None:
        """Close a call and return it with its tool's name."""
        self.close()
        calls = self._calls.get(call_id)
        return calls.pop() if calls else None

    def call_before(self, name: str = "") -> str:
        """Return the id of the call that a result without one answers, or "".

        The latest answer's next open call, if possible of that tool; else the call in its words.
        """
        if self._said is not None and not self._said[0].tool_calls:
            event, id, time = self._said
            called, arguments = called_in(event.text)
            call = ToolCall(id=f"{id}-words", name=name or called or "tool", arguments=arguments)
            calling = replace(event, parts=(*event.parts, call))
            if not self.holds_other(id, calling):
                self._said = (calling, id, time)
        self.close()
        open = [
            (c.name != name, c.ref.index, id)
            for id, calls in self._calls.items()
            for c in calls
            if c.position == self._latest_answer
        ]
        return min(open, default=(0, 0, ""))[2]

    def find_call(self, call_id: str) -> PlacedCall | None:
        """Return that id's latest call, open or not."""
        self.close()
        return self._made.get(call_id)

    def result_of(self, call_id: str) -> int | None:
        """Return that id's latest result's position."""
        self.close()
        return self._resulted.get(call_id)

    def last_question(self, agent: str) -> int | None:
        """Return the position that an agent has to answer: its last message or tool result."""
        self.close()
        return self._asked.get(agent)

    def open_calls(self, agent: str) -> list[int]:
        """Return the positions of an agent's open calls, and of results beside them."""
        self.close()
        open = [c for calls in self._calls.values() for c in calls if self._owners[c.ref.entry] == agent]
        return sorted({p for c in open for p in (c.position, *self._results.get(c.ref.entry, ()))})

    def unanswered(self, name: str) -> str:
        """Return that tool's latest open call's id, or ""."""
        self.close()
        found = [(c.position, id) for id, calls in self._calls.items() for c in calls if c.name == name]
        return max(found, default=(0, ""))[1]

    def visible(self, start: int, spared: Iterable[int]) -> tuple[PositionRange, ...]:
        """Return the spans the main agent saw from `start` on, for a summary to replace.

        Without positions in `spared`, and without messages that have an open call and their results.
        """
        self.close()
        out = set(spared)
        for call in (call for calls in self._calls.values() for call in calls):
            out |= {call.position, *self._results.get(call.ref.entry, ())}
        return tuple(position_ranges((p for p in self._seen if p >= start and p not in out), self._silent))

    def ranges(self, positions: Iterable[int]) -> tuple[PositionRange, ...]:
        """Return positions as ranges, across settings."""
        return tuple(position_ranges(positions, self._silent))

    def finish(self) -> list[Step]:
        """Return results for calls that a person went on after."""
        self.close()
        before = sum(map(len, self._calls.values()))
        for agent in self._left.agents():
            self._close_calls(agent, self._time)
        # Read again, the calls would be open: their results may be next.
        self.can_go_on = before == sum(map(len, self._calls.values()))
        return self.drain()

    def go_on(self, head: int) -> None:
        """Go on after a caller's own entry at `head` as a new import of the grown file would."""
        self._silent.add(head)
        self._next, self.log.head = head + 1, head
        self.log.positions.update(self._new)
        self._new.clear()

    def _close_calls(self, agent: str, time: datetime, *, only_known: bool = False) -> None:
        """Write a result for each open call of the last response, if a person went on.

        It comes before the next answer, so a growing file gives what the whole file gives. With `only_known`,
        that answer is logged, and no new result is written.
        """
        entries, asked = self._left.entries_of(agent), self._asked.get(agent)
        calls = [(c, id) for id, open in self._calls.items() for c in open if c.ref.entry in entries]
        settled = {e.event.call for e in self.log.own if isinstance(e.event, ToolResult)} if calls else set()
        for call, call_id in sorted(calls, key=lambda each: (each[0].position, each[0].ref.index)):
            id = f"{call.ref.entry}:{call.ref.index}{NO_RESULT}"
            if self.holds(id) or not (only_known or call.ref in settled):
                self._calls[call_id].remove(call)
                self._put(self._left.result(call_id, call.ref, call.name), id, time, NO_BLOBS)
        # The lane still answers the person.
        if asked is not None:
            self._asked[agent] = asked

    def _put(self, event: Known, id: str, time: datetime, blobs: Mapping[str, bytes]) -> int:
        self._time = time
        if isinstance(event, AssistantMessage) and event.purpose == "answer":
            self._close_calls(event.agent, time, only_known=self.holds(id))
        elif isinstance(event, ToolResult):
            event = self._left.late(event)
        position = self.log.positions.get(id)
        if position is None:
            position = self._next
            self._next += 1
            self._steps.append(Append(NewEntry(event, id, time), blobs))
            self._new[id] = position
        else:
            self._check_same(event, id)
            self.already += 1
        self._note(event, id, position)
        return position

    def _check_same(self, event: Known, id: str) -> None:
        """Raise `DuplicateIdError` if an imported line had other content.

        An entry known only by its line number might be of another file.
        """
        is_by_line = id.startswith("#") and isinstance(event, UserMessage | ToolResult)
        if is_by_line and self.holds_other(id, event):
            raise DuplicateIdError(
                f"expected line {id.removeprefix('#')} as it was imported before, found other words: "
                "is it another transcript? Then give it another name"
            )

    def _recall(self, held: Answered) -> None:
        if held.id not in self._recalled:
            self._recalled.add(held.id)
            self.already += 1
            self._here = held.position
            self._in_file.add(held.position)
            self._note_answer(held)

    def _note(self, event: Known, id: str, position: int) -> None:
        """Remember open calls and the main agent's messages."""
        self._here = position
        self._in_file.add(position)
        match event:
            case AssistantMessage(agent=agent, tool_calls=calls):
                open_calls = tuple((call.id, call.name) for call in calls)
                message = event.source.id if event.source else ""
                self._note_answer(Answered(id, position, agent, "", open_calls, message, event.purpose))
                return
            case ToolResult(call=call, call_id=call_id, to=to):
                self._resulted[call_id] = position
                if call is not None:
                    self._results.setdefault(call.entry, []).append(position)
                    to = (self._owners.get(call.entry, ""),)
                self._asked.update(dict.fromkeys(to, position))
                seen = not to or self.main in to
            case UserMessage(to=to, in_context=in_context, author_kind=kind):
                if in_context and kind != "system":
                    self._asked.update(dict.fromkeys(to, position))
                if in_context and kind == "person" and self._closes:
                    self._left.spoken(to)
                seen = in_context and (not to or self.main in to)
            case LlmError(agent=agent):
                seen = agent == self.main
                if event.category == "cancelled":
                    self._left.cancelled(agent)
            case ModeSwitch():
                self._silent.add(position)
                return
        if seen:
            self._seen.append(position)

    def _note_answer(self, answer: Answered) -> None:
        self._owners[answer.id] = answer.agent
        if answer.purpose == "answer":
            self._left.answered(answer.agent, answer.id, answer.message)
        self._message_positions[answer.id] = self._latest_answer = answer.position
        for nth, (call_id, name) in reversed(list(enumerate(answer.calls))):
            opened = OpenCall(CallRef(entry=answer.id, index=nth), name, answer.position)
            self._calls.setdefault(call_id, []).append(opened)
            self._made[call_id] = PlacedCall(answer.position, answer.agent)
        if answer.agent == self.main:
            self._seen.append(answer.position)
