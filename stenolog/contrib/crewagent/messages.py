"""The messages of one conversation as import steps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import count, takewhile

from stenolog import events, importers
from stenolog.errors import DuplicateIdError, InvalidEventError
from stenolog.events import ModeSwitch
from stenolog.importers import Blobs, Json, Record, as_dict, as_str, as_time

from .message_format import MessageReader, agent_of, is_native, ours_of
from .output_files import NOWHERE, OutputFiles
from .references import MODE, OPENING, Trail, ids_of, is_made, made_up, placed
from .schema import ACTIVE, JOIN, MAIN, OURS, SETTINGS, SYSTEM, Message, Shown, read


class CrewAgent(importers.RecordConverter):
    """Converter of a CrewAgent conversation's `records`.

    `about` is the index's entry, `files` has whole outputs. A message without a time has the previous one's.
    """

    def __init__(
        self,
        log: importers.ExistingLog,
        about: Message,
        records: Sequence[Record],
        files: OutputFiles = NOWHERE,
    ) -> None:
        super().__init__(importers.EventWriter(SYSTEM, MAIN, log, closes=False))
        self._held = log
        self._about = about
        self._ids = ids_of(records)
        self._speakers = Speakers(records)
        self._joined: set[str] = set()
        self._last = ("", 0)
        self._mode = ""
        self._reader = MessageReader(Shown.stated(about), files)
        self._at = as_time(read(about, "createdAt")[0].get("createdAt"))
        self._positions = dict(log.positions)
        self._trail = Trail()
        self._is_checked = self._is_open = False

    def take(self, record: Record) -> list[importers.Step]:
        """Return the steps for a message, its number as its line. Raises `DuplicateIdError`."""
        self._check_same()
        message: Json = record.value
        if not isinstance(message, dict):
            raise ValueError(f"expected an object, found {type(message).__name__}")
        plain, _ = read(message)
        self._at, self._mode = as_time(plain.get("createdAt"), self._at), as_str(plain.get("mode"))
        id = self._ids[record.line]
        blobs = _blobs(message)
        try:
            if not is_native(message) or not (self._is_open or plain.get("partType") == "mode_switch"):
                self._settle(id, plain)
            if not is_native(message):
                self._join(id, self._speakers.named_by(record.line))
            heard = self._reader.read(
                self._placed(message), id, self._at, blobs, self._speakers.addressees(record.line)
            )
            event = self._restricted(heard, id, message)
        except InvalidEventError as error:
            raise ValueError(str(error)) from None
        self._is_open = True
        self._say(event, id, blobs)
        if isinstance(event, events.ToolResult) and self._reader.is_missing and not event.blob:
            self.ignored[
                "missing: files of whole outputs (link @state beside the folder, and import into a new log)"
            ] += 1
        return self.writer.drain()

    def end(self) -> list[importers.Step]:
        """Return the remaining steps: the switch to the mode that is active now."""
        id, position = self._last
        mode = as_str(self._about.get(ACTIVE))
        names = (made_up(id, f"{ACTIVE}{number}") for number in count(1))
        earlier = [*takewhile(self._positions.__contains__, names)]
        is_grown = position > self._held.head
        now = (self._mode, self._reader.mode) if is_grown else (self._held.settings.mode,)
        # Where the log has gone on behind the file, its mode is the newer one.
        is_newest = max(position, *map(self._positions.__getitem__, earlier), 0) >= self._held.head
        if id and mode and mode not in now and is_newest:
            switch = self._reader.switch({"mode": mode}, source=replace(self._source(), role=ACTIVE))
            self._say(switch, made_up(id, f"{ACTIVE}{len(earlier) + 1}"), {})
        return self.writer.drain()

    def _check_same(self) -> None:
        if self._is_checked:
            return
        self._is_checked = True
        ours = {as_str(self._about.get("id")), as_str(as_dict(self._about.get(OURS)).get("id"))}
        first = self._held.first.event if self._held.first else None
        source = first.source if isinstance(first, ModeSwitch) and is_made(first) else None
        theirs = source.id if source else ""
        is_another = theirs and ours != {""} and theirs not in ours
        known = (id for own in self._ids.values() for id in (own, made_up(own, OPENING)))
        if self._held.head and (is_another or not any(map(self.writer.holds, known))):
            raise DuplicateIdError(
                "expected a message of the conversation that the log has by this name, found another "
                "conversation: give it another name"
            )

    def _placed(self, message: Message) -> Message:
        """Return the message, with the export's references to entries as positions here."""
        ours = ours_of(message)
        if ours is None:
            return message
        return {**message, OURS: {**ours, "set": placed(as_dict(ours.get("set")), self._positions)}}

    def _restricted(self, event: events.Known, id: str, message: Message) -> events.Known:
        """Return the event as far as a file may set it.

        Raises ValueError for one that only a person may write. A receipt stays only if its request can be
        built here.
        """
        if self._held.head and not self.writer.holds(id):
            self._check_is_no_consent(event)
        if not isinstance(event, events.AssistantMessage | events.LlmError) or event.receipt is None:
            return event
        is_same = as_dict(message.get(OURS)).get("prefix") == self._trail.at(event.receipt.view)
        return event if is_same else replace(event, receipt=None)

    def _check_is_no_consent(self, event: events.Known) -> None:
        """Raise ValueError if a file would approve calls of a logged conversation."""
        if isinstance(event, events.UserMessage) and event.control is not None:
            raise ValueError(f"expected words, found {event.control.action!r}, which a file cannot tell")
        cards = event.cards if isinstance(event, ModeSwitch) else {}
        for agent, card in cards.items():
            if free := self._held.approvals.get(agent, set()) - importers.approvals_on(card):
                names = ", ".join(sorted(free))
                raise ValueError(f"expected a card of {agent} that leaves {names} to be approved by a person")

    def _say(self, event: events.Known, id: str, blobs: Blobs) -> None:
        position = self.writer.write(event, id, self._at, blobs)
        self._positions[id] = position
        self._trail.note(event, id, position)
        self._reader.note(event)
        self._last = id, position
        if isinstance(event, ModeSwitch):
            self._joined.update(event.joins)

    def _join(self, id: str, agents: Sequence[str]) -> None:
        new = [agent for agent in agents if agent not in self._joined]
        made = made_up(id, JOIN)
        if new and (self.writer.holds(made) or not self.writer.holds(id)):
            cards: dict[str, events.AgentCard | None] = {agent: events.AgentCard() for agent in new}
            source = replace(self._source(), role=JOIN)
            self._say(ModeSwitch(joins=new, cards=cards, source=source), made, {})

    def _settle(self, id: str, plain: Message) -> None:
        mode = as_str(plain.get("mode"))
        if not self._is_open:
            self._is_open = True
            self._open(id, plain)
        elif mode and mode != self._reader.mode and plain.get("partType") != "mode_switch":
            self._say(self._reader.switch(plain, source=self._source()), made_up(id, MODE), {})

    def _open(self, id: str, plain: Message) -> None:
        first = self._held.first
        if first is None:
            self._say(self._opening(plain), made_up(id, OPENING), {})
        elif isinstance(first.event, ModeSwitch) and is_made(first.event):
            self._say(first.event, first.id, {})

    def _opening(self, plain: Message) -> ModeSwitch:
        return ModeSwitch(
            mode=as_str(plain.get("mode")) or _mode_of(self._about) or events.DEFAULT_MODE,
            active_run=self._reader.switch(plain).active_run,
            title=as_str(self._about.get("title")) or events.UNCHANGED,
            joins=self._speakers.agents,
            cards={agent: events.AgentCard() for agent in self._speakers.agents},
            meta={SYSTEM: self._about} if self._about else {},
            source=self._source(),
        )

    def _source(self) -> events.Origin:
        return events.Origin(system=SYSTEM, id=as_str(self._about.get("id")), role=SETTINGS)


def _mode_of(about: Message) -> str:
    return as_str((ours_of(about) or {}).get("mode")) or as_str(about.get(ACTIVE, about.get("mode")))


def _blobs(message: Message) -> Blobs:
    blobs: Blobs = {}
    for content in as_dict((ours_of(message) or {}).get("blobs")).values():
        importers.keep_base64(as_str(content), blobs)
    return blobs


class Speakers:
    """Agents in CrewAgent's own messages; `agents` begins with the one without an id."""

    def __init__(self, records: Sequence[Record]) -> None:
        numbered = [(record.line, read(as_dict(record.value))[0]) for record in records]
        self._told = {line: plain for line, plain in numbered if not is_native(plain)}
        named = dict.fromkeys(filter(None, map(agent_of, self._told.values())))
        is_unnamed = any(_speaks(plain) and not agent_of(plain) for plain in self._told.values())
        self.agents = [*([MAIN] if is_unnamed or not named else []), *named]
        self._for = dict(self._whom()) if len(self.agents) > 1 else {}

    def named_by(self, line: str) -> tuple[str, ...]:
        """Return the agent of a message, if it names one."""
        agent = agent_of(self._told.get(line, {}))
        return (agent,) if agent else ()

    def addressees(self, line: str) -> tuple[str, ...]:
        """Return a message's addressees; none by name if there is a single agent."""
        return self._for.get(line, ())

    def _whom(self) -> Iterator[tuple[str, tuple[str, ...]]]:
        """Yield a person's messages, each with the agent it names, or that answers, or spoke last."""
        waiting: list[str] = []
        active = self.agents[0]
        for line, plain in self._told.items():
            if plain.get("role") == "user":
                waiting.append(line)
            named = agent_of(plain)
            if not (named or _speaks(plain)):
                continue
            active = named or MAIN
            yield from ((each, (active,)) for each in waiting)
            waiting.clear()
        yield from ((each, (active,)) for each in waiting)


def _speaks(plain: Message) -> bool:
    return plain.get("role") == "assistant"
