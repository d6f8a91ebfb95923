"""The messages of one conversation, in their order, to the steps that take it down."""

from __future__ import annotations

from collections import Counter
from datetime import datetime

from stenolog.domain.entry import EPOCH, check_name
from stenolog.domain.errors import InvalidEvent
from stenolog.domain.events import UNCHANGED, ModeSwitch
from stenolog.domain.settings import DEFAULT_MODE
from stenolog.domain.values import Card, Source

from ..fields import Json, key_of, obj, text, when
from ..lines import Record
from ..media import Blobs, keep_base64
from ..openai.messages import MAIN
from ..scribe import Scribe
from ..steps import Held, Step
from .hearing import Ear, is_native, ours_of
from .schema import SETTINGS, SYSTEM, Message, read

MILLISECONDS = 1e11
"""A time from this number on counts milliseconds since 1970, and not seconds."""


class CrewAgent:
    """Takes the messages of one conversation; `about` is what the index says of it.

    Where a message has no time, it has that of the one before it.
    """

    def __init__(self, log: Held, about: Message) -> None:
        self.scribe = Scribe(SYSTEM, MAIN, log)
        self.beyond: Counter[str] = Counter()
        self.decided: Counter[str] = Counter()
        self._about = about
        self._ear = Ear(results=about.get("includeToolResultsInContext") is not False)
        self._at = time_of(read(about, "createdAt")[0].get("createdAt"), EPOCH)
        self._used: set[str] = set()
        self._is_open = False

    def take(self, record: Record) -> list[Step]:
        """What a message adds; its line is its number in the list."""
        message: Json = record.value
        if not isinstance(message, dict):
            raise ValueError(f"message {record.line}: expected an object, found {type(message).__name__}")
        plain, _ = read(message)
        self._at = time_of(plain.get("timestamp"), self._at)
        id = self._id((ours_of(message) or plain).get("id", plain.get("id")), record.line)
        blobs = _blobs(message)
        try:
            if not is_native(message) or not (self._is_open or plain.get("partType") == "mode_switch"):
                self._settle(id, plain)
            event = self._ear.hear(message, id, self._at, blobs)
        except InvalidEvent as error:
            raise ValueError(f"message {record.line}: {error}") from None
        self._is_open = True
        self._ear.note(event)
        self.scribe.say(event, id, self._at, blobs)
        return self.scribe.drain()

    def end(self) -> list[Step]:
        """What is left when the list ends."""
        return self.scribe.drain()

    def _id(self, id: Json, line: str) -> str:
        """The entry's id: the message's own, where it is one and nobody has it yet."""
        own = str(id) if isinstance(id, int) else text(id)
        try:
            own = check_name(own, what="id")
        except InvalidEvent:
            own = key_of(own) or f"#{line}"
        if own in self._used:
            own = f"#{line}"
        while own in self._used:
            own += "'"
        self._used.add(own)
        return own

    def _settle(self, id: str, plain: Message) -> None:
        """Open the conversation, or switch its mode, as the message tells without saying so."""
        mode = text(plain.get("mode"))
        if not self._is_open:
            self._is_open = True
            self._switch(f"{key_of(id)}:settings", self._opening(plain))
        elif mode and mode != self._ear.mode and plain.get("partType") != "mode_switch":
            self._switch(f"{key_of(id)}:mode", self._ear.switch(plain, source=self._source()))

    def _opening(self, plain: Message) -> ModeSwitch:
        return ModeSwitch(
            mode=text(plain.get("mode")) or _mode_of(self._about) or DEFAULT_MODE,
            active_run=self._ear.switch(plain).active_run,
            title=text(self._about.get("title")) or UNCHANGED,
            joins=[MAIN],
            cards={MAIN: Card()},
            meta={SYSTEM: self._about} if self._about else {},
            source=self._source(),
        )

    def _switch(self, id: str, switch: ModeSwitch) -> None:
        self._ear.note(switch)
        self.scribe.say(switch, id, self._at)

    def _source(self) -> Source:
        return Source(system=SYSTEM, id=text(self._about.get("id")), role=SETTINGS)


def time_of(value: Json, default: datetime) -> datetime:
    """An ISO time, or seconds or milliseconds since 1970."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return when(value / 1000 if is_number and value >= MILLISECONDS else value, default)


def _mode_of(about: Message) -> str:
    """The mode that a conversation began in, where the index tells it; else the latest."""
    return text((ours_of(about) or {}).get("mode")) or text(about.get("mode"))


def _blobs(message: Message) -> Blobs:
    """What an export has put beside the message, because nothing in it says so."""
    blobs: Blobs = {}
    for content in obj((ours_of(message) or {}).get("blobs")).values():
        keep_base64(text(content), blobs)
    return blobs
