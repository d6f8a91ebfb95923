"""Content blocks of dsh's messages as parts, and entries that no model saw.

These are people's words beside a turn, and unknown records.
"""

from __future__ import annotations

from typing import NamedTuple

from stenolog import importers
from stenolog.events import AuthorKind, Usage, UserMessage
from stenolog.importers import Blobs, Json, JsonObject, as_dict, as_int, as_list, as_str, compact_json
from stenolog.parts import AssistantPart, FilePart, TextPart, UserPart

from .vocabulary import PACKED

SYSTEM = "deepseek-harness"


def text_in(content: Json) -> str:
    """Return the words of a content."""
    return "\n".join(
        as_str(block.get("text")) for block in importers.blocks_in(content) if block.get("type") == "text"
    )


def _attachment(block: JsonObject, _: importers.BlockContext) -> FilePart | None:
    about = as_dict(block.get("attachment"))
    media_type = as_str(about.get("mediaType")) or "application/octet-stream"
    if not isinstance(id := about.get("attachmentId"), str):
        return None
    return FilePart(name=as_str(about.get("name")), media_type=media_type, provider=SYSTEM, id=id)


_bytes = importers.media_maker(media_type="mediaType")
INPUTS = importers.PartTable[UserPart](
    SYSTEM,
    {
        "text": importers.text_maker(),
        "file": _attachment,
        "image": lambda block, context: _attachment(block, context) or _bytes(block, context),
    },
)
"""Makers of a user's message, and of a tool's output."""
ANSWERS = importers.PartTable[AssistantPart](
    SYSTEM,
    {
        "text": importers.text_maker(),
        "reasoning": importers.reasoning_maker(text="text", signature="signature"),
        "tool-call": importers.call_maker(),
    },
)


class Outcome(NamedTuple):
    """The result of a call, as one of the versions holds it."""

    call_id: str
    content: Json
    is_error: bool


def outcome_of(data: JsonObject) -> Outcome:
    """Return a call's result: in `data`, in a block of its message, or in the message."""
    message = as_dict(data.get("message"))
    wrapper = next(
        (b for b in importers.blocks_in(message.get("content")) if b.get("type") == "tool-result"), None
    )
    found = wrapper or message or data
    ids = (found.get("toolCallId"), data.get("callId"), as_dict(message.get("source")).get("callId"))
    call_id = next(filter(None, map(as_str, ids)), "")
    is_error = found.get("isError") is True or bool(data.get("error"))
    return Outcome(call_id, found.get("content"), is_error)


def usage_of(counted: Json) -> Usage | None:
    """Return a call's tokens; dsh counts cached ones separately, a log includes them."""
    names = ("inputTokens", "outputTokens", "cacheReadTokens", "cacheWriteTokens", "reasoningTokens")
    plain, output, read, written, reasoning = (as_int(as_dict(counted).get(name)) for name in names)
    if not (plain or output or read or written):
        return None
    return Usage(
        input=plain + read + written,
        output=output,
        cache_read=read,
        cache_write=written,
        reasoning=reasoning,
    )


def tools_in(header: JsonObject) -> list[JsonObject]:
    """Return the tools that a request's header names."""
    return [tool for tool in map(as_dict, as_list(header.get("tools"))) if as_str(tool.get("name"))]


class Notes:
    """The entries of a session that are out of context."""

    def __init__(self, session: importers.SessionConverter) -> None:
        self._session = session
        self._next: int | None = None
        self._queued: dict[str, JsonObject] = {}

    def write(self, key: str, words: str, record: JsonObject) -> None:
        """Write what is not understood, with the record that it is about."""
        self._put(f"{key}/note", words, "system", SYSTEM, {"record": record})

    def take(self, kind: str, data: JsonObject, key: str) -> bool:
        """Read an event in which a person speaks beside the conversation; return whether it was one."""
        match kind:
            case "agent/inbox/spliced":
                for message in map(as_dict, as_list(data.get("inserted"))):
                    if id := importers.key_of(as_str(message.get("id"))):
                        self._queued[id] = message
                self._session.ignored[kind] += 1
            case "feedback/record":
                self._put(key, as_str(data.get("text")), "person", "", {"feedback": True})
            case "command/run":
                words = f"/{as_str(data.get('name')).lstrip('/')} {as_str(data.get('args')).strip()}".rstrip()
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
        """Write the beginning of an answer that breaks off or has no message."""
        if blocks:
            words = "\n".join(as_str(block.get("text")) or compact_json(block) for block in blocks)
            self.write("unfinished", f"an answer that the file breaks off: {words}", {"blocks": blocks})

    def numbered(self, value: JsonObject) -> JsonObject:
        """Return an event with its number; note a gap before it.

        Numbers are contiguous: a session without numbers gets those of its order.
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
    data = as_dict(row.get("data"))
    return max(as_int(len(as_list(data.get("texts") or data.get("args")))), 1)
