"""The stream of one model call, of which dsh keeps every chunk: the parts of an answer that never came.

Versions 0 and 1 have each chunk as an event, or several packed into a row; from version 2 on they stand in
the event of the answer, or of the attempt that failed.
"""

from __future__ import annotations

from collections.abc import Iterable

from stenolog.importers import JsonObject, as_dict, as_int, as_list, as_str

_PACKED = {"text-chunks": "text", "reasoning-chunks": "reasoning"}
_DELTAS = {"text-delta": "text", "reasoning-delta": "reasoning"}


class Attempt:
    """The blocks of one model call, as far as they have streamed, and how it ended."""

    def __init__(self) -> None:
        self._blocks: dict[int, JsonObject] = {}
        self.finish: JsonObject = {}
        self.usage: JsonObject = {}

    def __bool__(self) -> bool:
        return bool(self._blocks or self.finish)

    @property
    def blocks(self) -> list[JsonObject]:
        """The blocks in order; a call of which no name has come is none."""
        found = (self._blocks[index] for index in sorted(self._blocks))
        return [block for block in found if block.get("text") or block.get("name")]

    def take_all(self, stream: Iterable[JsonObject]) -> Attempt:
        """Take a whole stream, as an event holds it, and return the attempt."""
        for item in stream:
            if item.get("type") == "chunk":
                self.take(as_dict(item.get("chunk")))
            else:
                self.take_packed(as_str(item.get("type")), item)
        return self

    def take(self, chunk: JsonObject) -> None:
        """Take one chunk."""
        index, kind = as_int(chunk.get("index")), as_str(chunk.get("type"))
        if kind in _DELTAS:
            self._add(index, _DELTAS[kind], "text", as_str(chunk.get("text")))
        elif kind == "tool-call-delta":
            self._call(index, chunk, as_str(chunk.get("argumentsDelta")))
        elif kind == "block-end" and isinstance(chunk.get("block"), dict):
            self._blocks[index] = chunk["block"]
        elif kind == "usage":
            self.usage = as_dict(chunk.get("usage"))
        elif kind == "finish":
            self.finish = as_dict(chunk.get("reason"))

    def take_packed(self, kind: str, row: JsonObject) -> None:
        """Take a row of several chunks of one block."""
        index = as_int(row.get("index"))
        if kind in _PACKED:
            self._add(index, _PACKED[kind], "text", "".join(map(as_str, as_list(row.get("texts")))))
        elif kind == "tool-call-chunks":
            self._call(index, row, "".join(map(as_str, as_list(row.get("args")))))

    def _call(self, index: int, told: JsonObject, arguments: str) -> None:
        block = self._add(index, "tool-call", "arguments", arguments)
        block.update({name: told[name] for name in ("id", "name") if as_str(told.get(name))})

    def _add(self, index: int, kind: str, field: str, words: str) -> JsonObject:
        block = self._blocks.setdefault(index, {"type": kind, field: ""})
        block[field] = as_str(block.get(field)) + words
        return block
