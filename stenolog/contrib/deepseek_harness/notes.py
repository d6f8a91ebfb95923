"""Entries of a dsh session that no model saw: what people typed beside a turn, and what is not understood."""

from __future__ import annotations

from stenolog.events import AuthorKind, UserMessage
from stenolog.importers import (
    Blobs,
    JsonObject,
    SessionConverter,
    as_dict,
    as_int,
    as_list,
    as_str,
    compact_json,
    key_of,
)
from stenolog.parts import TextPart

from .content import INPUTS, SYSTEM
from .vocabulary import PACKED


class Notes:
    """The entries of a session that are out of context."""

    def __init__(self, session: SessionConverter) -> None:
        self._session = session
        self._next: int | None = None
        self._queued: dict[str, JsonObject] = {}

    def write(self, key: str, words: str, record: JsonObject) -> None:
        """Write what is not understood, with the record that it is about."""
        self._put(f"{key}/note", words, "system", SYSTEM, {"record": record})

    def take(self, kind: str, data: JsonObject, key: str) -> bool:
        """Take an event in which a person speaks beside the conversation; return whether it was one."""
        match kind:
            case "agent/inbox/spliced":
                for message in map(as_dict, as_list(data.get("inserted"))):
                    if id := key_of(as_str(message.get("id"))):
                        self._queued[id] = message
                self._session.ignored[kind] += 1
            case "feedback/record":
                self._put(key, as_str(data.get("text")), "person", "", {"feedback": True})
            case "command/run":
                words = f"/{as_str(data.get('name')).lstrip('/')}{_spaced(as_str(data.get('args')))}"
                self._put(key, words, "person", "", {"command": as_str(data.get("commandId"))})
            case "command/done" if words := as_str(data.get("text")):
                about = {"command": as_str(data.get("commandId")), "kind": as_str(data.get("kind"))}
                self._put(key, words, "system", SYSTEM, about)
            case "command/done":
                self._session.ignored[kind] += 1
            case _:
                return False
        return True

    def forget_queued(self, id: str) -> None:
        """Forget a message of the queue that has entered the conversation."""
        self._queued.pop(id, None)

    def write_queued(self) -> None:
        """Write the messages that were queued and never entered the conversation."""
        for id, message in self._queued.items():
            blobs: Blobs = {}
            parts = INPUTS.parts(message.get("content"), blobs)
            key = f"queued-{id}"
            note = UserMessage(
                parts=parts,
                to=(self._session.writer.main,),
                in_context=False,
                meta={SYSTEM: {"queued": True}},
                source=self._session.writer.source(id, "queued", key),
            )
            self._session.put(note, key, blobs)

    def write_unfinished(self, blocks: list[JsonObject]) -> None:
        """Write the beginning of an answer that the file breaks off, or never had a message of."""
        if blocks:
            words = "\n".join(as_str(block.get("text")) or compact_json(block) for block in blocks)
            self.write("unfinished", f"an answer that the file breaks off: {words}", {"blocks": blocks})

    def numbered(self, value: JsonObject) -> JsonObject:
        """Return an event with its number; where one is missing before it, a note says so.

        Numbers are contiguous, so that a session whose numbers were taken out has those of its order.
        """
        seq = value.get("seq", value.get("seq0"))
        if not isinstance(seq, int) or isinstance(seq, bool):
            seq = self._next or 0
            value = {**value, "seq0" if value.get("type") in PACKED else "seq": seq}
        if self._next is not None and seq > self._next:
            one = seq - 1 == self._next
            missing = f"record {self._next} is" if one else f"records {self._next} to {seq - 1} are"
            self.write(f"gap-{self._next}", f"{missing} missing in the file", {"next": seq})
            self._session.decisions["gap in the numbers"] += 1
        self._next = seq + (_members(value) if value.get("type") in PACKED else 1)
        return value

    def _put(self, key: str, words: str, kind: AuthorKind, author: str, about: JsonObject) -> None:
        if not words:
            return
        session, key = self._session, self._session.unique(key)
        note = UserMessage(
            parts=(TextPart(text=words),),
            author=author,
            author_kind=kind,
            to=(session.writer.main,),
            in_context=False,
            meta={SYSTEM: about},
            source=session.writer.source(key, "note", key),
        )
        session.put(note, key)


def _members(row: JsonObject) -> int:
    """Return the number of events that a row stands for."""
    data = as_dict(row.get("data"))
    return max(as_int(len(as_list(data.get("texts") or data.get("args")))), 1)


def _spaced(arguments: str) -> str:
    return f" {arguments.strip()}" if arguments.strip() else ""
