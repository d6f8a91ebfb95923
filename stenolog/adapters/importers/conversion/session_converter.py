"""Base of converters of coding agents' sessions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from hashlib import sha256
from typing import Any

from stenolog.domain import events
from stenolog.domain.entry import EPOCH, OPENING_ID
from stenolog.domain.errors import DuplicateIdError
from stenolog.domain.parts import AssistantPart, TextPart, UserPart
from stenolog.domain.values import PositionRange, Usage
from stenolog.projections.messages.json_fields import Blobs, compact_json, title_of

from .answers import Answer
from .converter import RecordConverter
from .event_writer import EventWriter
from .settings_writer import SettingsWriter, settings_id
from .steps import ExistingLog, merged

USER = "user"


class SessionConverter(RecordConverter):
    """A session on its way into the log: messages by id, and what leaves context.

    `system` is the program, `main` its agent, `provider` that of its card. A message is known by its file's
    id, and may become several entries. Other agents are sub-agents of `main`.
    """

    system: str
    main: str
    provider: str = ""

    def __init__(self, log: ExistingLog) -> None:
        super().__init__(EventWriter(self.system, self.main, log))
        self.setup = SettingsWriter(self.writer)
        self.setup.card(self.main, provider=self.provider)
        self.time = EPOCH
        self.positions: dict[str, list[int]] = {}
        """The positions that each message has become, by its id."""
        self.in_context: dict[str, None] = {}
        """The ids of the messages that are in context, in order."""
        self._visited: set[int] = set()
        self._ids: Counter[str] = Counter()

    def write_user(
        self,
        id: str,
        parts: Sequence[UserPart],
        kind: events.AuthorKind = "person",
        *,
        message: str = "",
        agent: str = "",
        role: str = USER,
        blobs: Blobs | None = None,
        **fields: Any,
    ) -> int:
        """Write a person's words, or a program's or schedule's in the user's name; return the position.

        `message` is the message that it is part of, by default itself. `fields` are the event's.
        """
        event = events.UserMessage(
            parts=tuple(parts),
            author_kind=kind,
            to=(agent or self.main,),
            source=self.writer.source(message or id, role, id),
            **fields,
        )
        if kind == "person" and not agent:
            self.name_after(event.text)
        return self.put(event, id, blobs, message)

    def unique(self, id: str) -> str:
        """Return the id, numbered if repeated in the file."""
        self._ids[id] += 1
        return id if self._ids[id] == 1 else f"{id}-{self._ids[id]}"

    def put(self, event: events.Known, id: str, blobs: Blobs | None = None, message: str = "") -> int:
        """Write an event after changed settings; return its position."""
        self.setup.settle(id, self.time)
        position = self.writer.write(event, id, self.time, blobs or {})
        self.note(message or id, position)
        return position

    def write_whole(
        self,
        id: str,
        parts: Sequence[AssistantPart],
        *,
        agent: str = "",
        blobs: Blobs | None = None,
        **fields: Any,
    ) -> int:
        """Write an answer that no other record continues; return its position."""
        event = events.AssistantMessage(
            agent=agent or self.main,
            parts=tuple(parts),
            to=self._to(agent),
            source=self.writer.source(id, "assistant", id),
            **fields,
        )
        return self.put(event, id, blobs)

    def write_answer(self, id: str, answer: Answer, message: str = "") -> None:
        """Write an answer's record; successive ones of one `source_id` are one entry."""
        self.add_part(id, answer)
        self.note(message or id, self.writer.here)

    def add_part(self, id: str, answer: Answer) -> None:
        """Add a record to an answer that may continue: `note` its position once complete."""
        if self.writer.starts_message(id, answer.agent, answer.source_id):
            if answer.model:
                self.setup.card(answer.agent, model=answer.model)
            self.setup.settle(id, answer.time)
            answer.cause = self.writer.last_question(answer.agent)
        self.writer.add_part(id, answer)

    def answer(
        self,
        id: str,
        parts: Sequence[AssistantPart],
        *,
        agent: str = "",
        model: str = "",
        usage: Usage | None = None,
        finish_reason: str = "",
    ) -> Answer:
        """Return an answer to write; only a sub-agent itself is shown its own."""
        return Answer(
            agent or self.main, id, self.time, [*parts], self._to(agent), model, finish_reason, usage
        )

    def _to(self, agent: str) -> tuple[str, ...]:
        return (USER if agent in ("", self.main) else agent,)

    def write_result(
        self,
        id: str,
        call_id: str,
        parts: Sequence[UserPart],
        *,
        message: str = "",
        agent: str = "",
        name: str = "",
        blobs: Blobs | None = None,
        is_repeated: bool = False,
        **fields: Any,
    ) -> int:
        """Write a tool call's result; `name` is the tool's if the call is unknown.

        If the file may repeat results (`is_repeated`), a second one is skipped. Returns the position, 0 if
        skipped.
        """
        call = self.writer.closed(call_id)
        if is_repeated and call is None and self.writer.find_call(call_id) is not None:
            return 0
        result = events.ToolResult(
            call_id=call_id,
            call=call.ref if call else None,
            to=() if call else (agent or self.main,),
            name=call.name if call else name,
            parts=tuple(parts),
            source=self.writer.source(call_id, "tool", id),
            **fields,
        )
        return self.put(result, id, blobs, message)

    def write_error(
        self,
        id: str,
        wording: str,
        category: events.ErrorCategory,
        parts: Sequence[AssistantPart] = (),
        *,
        message: str = "",
        agent: str = "",
        **fields: Any,
    ) -> int:
        """Write a model's failure with the parts that had arrived."""
        error = events.LlmError(
            agent=agent or self.main,
            category=category,
            message=wording,
            parts=tuple(parts),
            source=self.writer.source(message, "error", id),
            **fields,
        )
        return self.put(error, id, message=message)

    def write_facts(self, facts: Mapping[str, Any], name: str = "facts") -> None:
        """Write a session's facts beside its messages; later changes are another entry."""
        filled = {name: value for name, value in facts.items() if value not in (None, "", {}, [])}
        if filled and self.positions:
            self.setup.also(self.system, filled)
            digest = sha256(compact_json(filled).encode(errors="replace")).hexdigest()[:16]
            self.setup.settle(f"{name}-{digest}", self.time)

    def check_beginning(self, what: str) -> None:
        """Raise `DuplicateIdError` if the log has another session with this name and ids."""
        first = self.writer.log.first
        origin = getattr(first.event, "source", None) if first else None
        if first and origin and origin.system == self.system and first.time != self.time:
            raise DuplicateIdError(
                f"expected the {what} that was imported before, which began at {first.time.isoformat()}, "
                f"found one that began at {self.time.isoformat()}: give it another name"
            )

    def name_after(self, wording: str) -> None:
        """Use a person's first words as title until the file has one."""
        if self.setup.title is None and (title := title_of(wording)):
            self.setup.title = title

    def note(self, id: str, position: int) -> None:
        """Remember that a message became the entry at a position, in context."""
        self._visited.add(position)
        positions = self.positions.setdefault(id, [])
        if position not in positions:
            positions.append(position)
        self.in_context.setdefault(id)

    def hide(self, ids: Collection[str]) -> None:
        """Hide messages that the user went back before; they stay as a fork."""
        hidden = [position for id in self.in_context if id in ids for position in self.positions[id]]
        self.in_context = {id: None for id in self.in_context if id not in ids}
        self.hide_positions(hidden)

    def hide_positions(self, positions: Collection[int]) -> None:
        """Hide entries; they stay as a fork."""
        if positions:
            self.writer.close()
            self._take_out(positions)
            self.setup.branches = True
            self.decisions["rewound"] += 1

    def vanished(self, id: str) -> list[int]:
        """Return log positions whose records are gone from the file.

        Only those before the record `id`, which continues without them. All records before it must have been
        read.
        """
        log = self.writer.log
        own = {entry.position for entry in log.own}
        end = log.positions.get(settings_id(id), log.head + 1)
        return sorted(
            position
            for entry, position in log.positions.items()
            if position < end and position not in self._visited and position not in own
            if entry != OPENING_ID and ":settings" not in entry
        )

    def write_summary(
        self,
        id: str,
        parts: Sequence[AssistantPart],
        retained: Iterable[str] = (),
        *,
        role: str = "compacted",
        **fields: Any,
    ) -> list[int]:
        """Write a summary of the main agent's messages, except `retained` ones; return their positions.

        Open calls, which no summary may cover, leave the context.
        """
        retained = list(retained)
        stays = {position for each in retained for position in self.positions.get(each, ())}
        hidden = {p for span in self.setup.hides or () for p in range(span.first, span.last + 1)}
        covers = self.writer.visible(1, hidden | stays)
        if not (covers or parts):
            return []
        unanswered = [position for position in self.writer.open_calls(self.main) if position not in stays]
        self._take_out(unanswered)
        summary = events.AssistantMessage(
            agent=self.main,
            purpose="summary",
            covers=covers,
            parts=tuple(parts),
            to=(USER,),
            source=self.writer.source(id, role, id),
            **fields,
        )
        self.put(summary, id)
        self.in_context = dict.fromkeys((*retained, id))
        self.decisions["compaction as a summary"] += 1
        return unanswered

    def _take_out(self, positions: Collection[int]) -> None:
        if positions:
            spans: tuple[PositionRange, ...] = self.setup.hides or ()
            self.setup.hides = merged((*spans, *self.writer.ranges(positions)))


def text_parts(wording: str) -> list[TextPart]:
    """Return a text as parts; none if it is empty."""
    return [TextPart(text=wording)] if wording else []
