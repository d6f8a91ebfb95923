"""Outline of a conversation: its turns, and the work of sub-agents in them, with the tokens of each.

>>> Outline().rows
[]
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from stenolog.domain.entry import Entry
from stenolog.domain.events import AssistantMessage, LlmError, ModeSwitch, UserMessage
from stenolog.domain.lanes.limits import Tokens, added
from stenolog.domain.lanes.state import address

from .blocks import arguments_of
from .lines import USER
from .overview import is_turn, models_on, person_words, shortened, used_by
from .tool_pairs import CallKey

NEAR = 32
"""A brief is compared with so many of its author's last calls."""
COMPARED = 200
"""The first characters by which a brief is known."""


class OutlineRow(NamedTuple):
    """A turn, or the work of a sub-agent in it, whose tokens the turn has too.

    `position` is that of a person's message, or of the brief; `words` are its first. `lane` is the
    sub-agent's address, "" for a turn, and `call` the call that started it. `tokens` are by model, `billed`
    those of calls that state their cost. Calls before the first turn are in a row without words.
    """

    position: int
    words: str
    lane: str = ""
    call: CallKey = CallKey(0, 0)
    tokens: dict[str, Tokens] = {}  # noqa: RUF012 - never changed in place
    billed: dict[str, Tokens] = {}  # noqa: RUF012 - as above


class Outline:
    """The rows so far, in the order of their positions; it takes the log entry by entry."""

    def __init__(self) -> None:
        self.rows: list[OutlineRow] = []
        self.begins: list[int] = []
        """The positions at which turns begin."""
        self._turn = -1
        self._rows_of: dict[str, int] = {}
        self._cards: dict[str, str] = {}
        self._briefs: dict[str, deque[tuple[CallKey, list[str]]]] = {}

    def take(self, entry: Entry) -> None:
        """Take the next entry in."""
        event, at = entry.event, entry.position
        if isinstance(event, ModeSwitch):
            self._cards |= models_on(event)
        elif isinstance(event, UserMessage):
            if is_turn(event):
                self._begin(OutlineRow(at, shortened(person_words(event.text))))
            elif call := self._started_by(event):
                for lane in (each for each in event.to if each != USER):
                    self._rows_of[lane] = len(self.rows)
                    self.rows.append(OutlineRow(at, shortened(person_words(event.text)), lane, call))
        elif isinstance(event, AssistantMessage | LlmError):
            self._spend(event, at)
        if isinstance(event, AssistantMessage):
            found = self._briefs.setdefault(address(event.agent, event.task), deque(maxlen=NEAR))
            found.extend(_briefs(event, at))

    def dump(self) -> dict[str, Any]:
        """Return the outline as JSON."""
        return {
            "rows": self.rows,
            "turn": self._turn,
            "rows_of": self._rows_of,
            "cards": self._cards,
            "briefs": {lane: list(found) for lane, found in self._briefs.items()},
        }

    @classmethod
    def load(cls, stored: Mapping[str, Any]) -> Outline:
        """Return a stored outline."""
        found = cls()
        for position, words, lane, call, *used in stored["rows"]:
            tokens, billed = ({model: Tokens(*each) for model, each in by.items()} for by in used)
            found.rows.append(OutlineRow(position, words, lane, CallKey(*call), tokens, billed))
        found.begins = [row.position for row in found.rows if not row.lane]
        found._turn, found._rows_of, found._cards = stored["turn"], stored["rows_of"], stored["cards"]
        for lane, briefs in stored["briefs"].items():
            found._briefs[lane] = deque(((CallKey(*key), texts) for key, texts in briefs), maxlen=NEAR)
        return found

    def _begin(self, row: OutlineRow) -> None:
        self._turn = len(self.rows)
        self.rows.append(row)
        self.begins.append(row.position)

    def _spend(self, event: AssistantMessage | LlmError, at: int) -> None:
        used = used_by(event, self._cards)
        if used is None:
            return
        if self._turn < 0:
            self._begin(OutlineRow(at, ""))
        model, usage = used
        for number in {self._turn, self._rows_of.get(address(event.agent, event.task), self._turn)}:
            row = self.rows[number]
            self.rows[number] = (
                row._replace(tokens=added(row.tokens, model, usage))
                if usage.cost is None
                else row._replace(billed=added(row.billed, model, usage))
            )

    def _started_by(self, message: UserMessage) -> CallKey | None:
        if message.author_kind != "agent" or message.author in message.to:
            return None
        calls = self._briefs.get(message.author, ())
        brief = message.text.strip()[:COMPARED]
        found = (key for key, texts in reversed(calls) if brief and brief in texts)
        return next(found, None)


def _briefs(answer: AssistantMessage, at: int) -> Iterator[tuple[CallKey, list[str]]]:
    for nth, call in enumerate(answer.tool_calls):
        given = arguments_of(call.arguments)
        texts = [value.strip()[:COMPARED] for value in given.values() if isinstance(value, str)]
        yield CallKey(at, nth), texts
