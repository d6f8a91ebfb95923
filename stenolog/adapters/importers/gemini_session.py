"""The common parts of sessions of Gemini CLI and of Qwen Code, which is made of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence

from stenolog.adapters.providers.json_fields import Blobs, Json, title_of
from stenolog.domain.entry import EPOCH
from stenolog.domain.events import AssistantMessage, AuthorKind, ToolResult, UserMessage
from stenolog.domain.parts import AssistantPart, TextPart
from stenolog.domain.values import Usage

from .event_writer import Answer, EventWriter, merged, position_ranges
from .gemini_content import Response, parts_in, text_in, user_part
from .settings_writer import SettingsWriter
from .steps import ExistingLog, Step

USER = "user"


class GeminiSession:
    """A session on its way into the log: its messages by their ids, and what leaves the context."""

    system: str
    main: str
    provider: str

    def __init__(self, log: ExistingLog) -> None:
        self.writer = EventWriter(self.system, self.main, log)
        self.setup = SettingsWriter(self.writer)
        self.setup.card(self.main, provider=self.provider)
        self.ignored: Counter[str] = Counter()
        self.decisions: Counter[str] = Counter()
        self.time = EPOCH
        self.positions: dict[str, list[int]] = {}
        """The positions that each message has become, by its id."""
        self.in_context: list[str] = []
        """The ids of the messages that are in context, in order."""

    def end(self) -> list[Step]:
        """Return the steps left at the end of the file."""
        self.writer.close()
        return self.writer.drain()

    def add_user_message(self, id: str, content: Json, kind: AuthorKind) -> None:
        """Write what a person said, or what the program or a schedule says in the user's name."""
        if kind == "person" and self.setup.title is None and (title := title_of(text_in(content))):
            self.setup.title = title
        self.setup.settle(id, self.time)
        blobs: Blobs = {}
        message = UserMessage(
            parts=tuple(user_part(part, self.provider, blobs) for part in parts_in(content)),
            author_kind=kind,
            to=(self.main,),
            source=self.writer.source(id, USER, id),
        )
        self._note(id, self.writer.write(message, id, self.time, blobs))

    def add_answer(
        self, id: str, parts: Sequence[AssistantPart], model: str, usage: Usage | None, message: str = ""
    ) -> None:
        """Write an answer, or a part of that `message` that came later."""
        if model:
            self.setup.card(self.main, model=model)
        self.setup.settle(id, self.time)
        answer = Answer(self.main, id, self.time, [*parts], (USER,), model, usage=usage)
        self.writer.add_part(id, answer)
        self._note(message or id, self.writer.here)

    def add_result(self, id: str, message: str, response: Response, blobs: Blobs, *, failed: bool) -> None:
        """Write the result of a call; one that is told a second time is passed over."""
        call = self.writer.closed(response.call_id)
        if call is None and self.writer.find_call(response.call_id) is not None:
            return
        self.setup.settle(id, self.time)
        result = ToolResult(
            call_id=response.call_id,
            call=call.ref if call else None,
            name=call.name if call else response.name,
            parts=response.parts,
            is_error=failed or response.is_error,
            source=self.writer.source(response.call_id, "tool", id),
        )
        self._note(message, self.writer.write(result, id, self.time, blobs))

    def hide(self, ids: Collection[str]) -> None:
        """Take messages out of context that the user went back before; they stay as a fork."""
        gone = [position for id in self.in_context if id in ids for position in self.positions[id]]
        self.in_context = [id for id in self.in_context if id not in ids]
        if gone:
            self.writer.close()
            self.setup.hides = merged((*(self.setup.hides or ()), *position_ranges(gone, set())))
            self.setup.branches = True
            self.decisions["rewound"] += 1

    def summarise(self, id: str, text: str, kept: Iterable[str]) -> None:
        """Write a summary in the place of all messages but the `kept` ones."""
        stays = {position for each in kept for position in self.positions.get(each, ())}
        hidden = {p for span in self.setup.hides or () for p in range(span.first, span.last + 1)}
        covers = self.writer.visible(1, hidden | stays)
        if not covers:
            return
        if open_calls := [p for p in self.writer.open_calls(self.main) if p not in stays]:
            self.setup.hides = merged((*(self.setup.hides or ()), *position_ranges(open_calls, set())))
        self.setup.settle(id, self.time)
        summary = AssistantMessage(
            agent=self.main,
            purpose="summary",
            covers=covers,
            parts=[TextPart(text=text)],
            to=(USER,),
            source=self.writer.source(id, "compacted"),
        )
        self._note(id, self.writer.write(summary, id, self.time))
        self.decisions["compaction as a summary"] += 1

    def _note(self, id: str, position: int) -> None:
        places = self.positions.setdefault(id, [])
        if position not in places:
            places.append(position)
        if id not in self.in_context:
            self.in_context.append(id)
