"""The database of a session of Cursor's agent, `~/.cursor/chats/…/store.db`: blobs that name each other.

Source: src/core/store-stack/store-db.ts of S2thend/cursor-history. A blob is a message in JSON, or names
messages and further blobs; `meta` names the one to begin with.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any, BinaryIO

from stenolog import importers
from stenolog.errors import UnknownFormatError
from stenolog.importers import Blobs, JsonObject, Record, as_dict, as_str, as_time, compact_json
from stenolog.parts import AssistantPart, UserPart

from .transcript import CursorSession

_MESSAGE, _TREE, _CONTENT = 1, 2, 4
"""The fields of a blob: a message, a further blob, and the JSON of a message."""
_HASH = 32
_DEEPEST = 200
_ANSWERS = importers.PartTable[AssistantPart](
    "cursor",
    {
        "text": importers.text_maker(),
        "reasoning": importers.reasoning_maker(text="text", signature="signature"),
        "redacted-reasoning": importers.reasoning_maker(encrypted="data"),
        "tool-call": importers.call_maker("args", "toolName", "toolCallId"),
    },
)
_INPUTS = importers.PartTable[UserPart](
    "cursor",
    {
        "text": importers.text_maker(),
        "image": importers.media_maker("image"),
        "file": importers.media_maker(name="filename", default="application/octet-stream"),
    },
)


class CursorStore(CursorSession):
    """Converter of a session's messages; `head` is what `meta` says of it."""

    def __init__(self, log: importers.ExistingLog, head: JsonObject) -> None:
        super().__init__(log)
        self.setup.title = importers.title_of(as_str(head.get("name"))) or None
        self.setup.mode = as_str(head.get("mode")) or self.setup.mode
        self.setup.card(self.main, model=as_str(head.get("lastUsedModel")))
        self.time = as_time(head.get("createdAt"), self.time)

    def take(self, record: Record) -> list[importers.Step]:
        """Return the steps for a message, known by its hash."""
        message = record.value
        id, content = self.unique(as_str(message["hash"])), message.get("content")
        blobs: Blobs = {}
        match message.get("role"):
            case "system" if isinstance(content, str):
                self.setup.card(self.main, persona=content)
            case "user" | "system" if parts := _INPUTS.parts(content, blobs):
                is_said = message["role"] == "user" and not all(map(self.is_added, parts))
                self.write_user(id, parts, "person" if is_said else "system", blobs=blobs)
            case "assistant" if answer := _ANSWERS.parts(content, blobs, provider=self.system, key=id):
                model, asked = self.setup.cards[self.main].model or "", self.writer.last_question(self.main)
                self.write_whole(id, answer, model=model, blobs=blobs, cause=asked)
            case "tool":
                for nth, block in enumerate(importers.blocks_in(content)):
                    result = block.get("result")
                    words = result if isinstance(result, str) else compact_json(result)
                    call, name = as_str(block.get("toolCallId")), as_str(block.get("toolName"))
                    failed = block.get("isError") is True
                    said = importers.text_parts(words)
                    self.write_result(f"{id}:{nth}", call, said, message=id, name=name, is_error=failed)
            case role:
                self.ignored[f"message/{role}"] += 1
        return self.writer.drain()

    def end(self) -> list[importers.Step]:
        """Return the steps left; messages that the session no longer names are hidden."""
        if gone := self.writer.hide_missing(self.time):
            self.decisions["taken out of the session"] += gone
        return super().end()


def read(stream: BinaryIO, reader: importers.JsonLinesReader) -> Iterator[importers.SourceConversation]:
    """Yield the session of a database."""
    with importers.sqlite_database(stream, "meta", "blobs") as connection, connection.at_one_moment():
        sessions = [*_sessions(connection, reader)]
    yield from sessions


def _sessions(connection: Any, reader: importers.JsonLinesReader) -> Iterator[importers.SourceConversation]:
    blobs = _BlobTree(connection, reader)
    for (value,) in connection.execute("SELECT value FROM meta WHERE key = '0'").fetchall():
        head = blobs.json(_decoded(value))
        messages = blobs.messages(as_str(head.get("latestRootBlobId")))
        records = [Record(str(nth), message) for nth, message in enumerate(messages, 1)]
        make = partial(CursorStore, head=head)
        yield importers.SourceConversation(as_str(head.get("agentId")), records, make)


def _decoded(value: Any) -> bytes:
    """Return a value of `meta`: JSON, or its bytes as hexadecimal digits."""
    raw = value if isinstance(value, bytes) else str(value).encode()
    try:
        return bytes.fromhex(raw.decode())
    except ValueError:
        return raw


class _BlobTree:
    """The blobs of a database, each read once."""

    def __init__(self, connection: Any, reader: importers.JsonLinesReader) -> None:
        self._connection = connection
        self._reader = reader
        self._visited: set[str] = set()

    def messages(self, id: str, depth: int = 0) -> Iterator[JsonObject]:
        """Yield the messages below a blob, in order, each with its hash."""
        if id in self._visited or depth > _DEEPEST:
            return
        self._visited.add(id)
        for field, content in _fields(self._blob(id)):
            if len(content) == _HASH and field == _TREE:
                yield from self.messages(content.hex(), depth + 1)
            elif len(content) == _HASH and field == _MESSAGE:
                raw = self._blob(content.hex())
                if raw[:1] != b"{":
                    raw = next((inner for field, inner in _fields(raw) if field == _CONTENT), b"")
                if message := self.json(raw):
                    yield {**message, "hash": content.hex()}

    def json(self, raw: bytes) -> JsonObject:
        """Return an object; an empty one, which the report names, for anything else."""
        try:
            return as_dict(self._reader.cell(raw))
        except UnknownFormatError as error:
            self._reader.skipped.append(importers.Skipped(len(self._visited), str(error), "blob"))
            return {}

    def _blob(self, id: str) -> bytes:
        row = self._connection.execute("SELECT data FROM blobs WHERE id = ?", (id,)).fetchone()
        data = row[0] if row else b""
        return data if isinstance(data, bytes) else str(data).encode()


def _fields(raw: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the fields of a Protocol Buffers message that have a length, up to its first unreadable one."""
    at = 0
    while at < len(raw):
        tag, at = _number(raw, at)
        if tag & 7 == 2:
            length, at = _number(raw, at)
            yield tag >> 3, raw[at : at + length]
            at += length
        elif tag & 7 == 0:
            _, at = _number(raw, at)
        elif tag & 7 in (1, 5):
            at += 8 if tag & 7 == 1 else 4
        else:
            return


def _number(raw: bytes, at: int) -> tuple[int, int]:
    """Return the variable-length number at a place, and the place after it."""
    number = shift = 0
    while at < len(raw) and shift < 64:
        byte, at = raw[at], at + 1
        number |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            break
    return number, at


CURSOR_STORE = importers.Importer("cursor-store", read=read, name_of=lambda path: path.parent.name)
