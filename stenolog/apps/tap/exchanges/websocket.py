"""Turns of a websocket: each client message that asks for a response, and its events.

Codex uses OpenAI's Responses so. Frames are only read, with the agreed compression.
"""

from __future__ import annotations

import json
from collections.abc import Generator, Iterator
from dataclasses import replace
from typing import Any

from stenolog.projections.formats.openai_responses.stream import ASKS, ENDS
from stenolog.projections.messages.json_fields import Json, as_dict, as_str

from .exchange import LARGEST_CONTENT, RecordedExchange


class Websocket:
    """Frames of both directions, and the turn under way. `exchange` is the upgrade."""

    def __init__(self, exchange: RecordedExchange) -> None:
        from websockets.streams import StreamReader

        self._exchange = exchange
        self._readers = {"up": StreamReader(), "down": StreamReader()}
        self._messages: dict[str, bytearray] = {"up": bytearray(), "down": bytearray()}
        agreed = exchange.answer_headers.get("sec-websocket-extensions", "")
        self._extensions = {
            way: [_deflate(agreed, way)] if "permessage-deflate" in agreed else [] for way in self._readers
        }
        self._parsers = {way: self._frames(way) for way in self._readers}
        self._turn: RecordedExchange | None = None
        self._number = 0

    def take(self, way: str, data: bytes, time_ns: int) -> Iterator[tuple[RecordedExchange, bool]]:
        """Take bytes of one direction; yield each whole request, and each answer, marked."""
        self._readers[way].feed_data(data)
        for message in self._whole_messages(way):
            if way == "up":
                yield from self._on_request(message, time_ns)
            else:
                yield from self._on_event(message, time_ns)

    def close(self, reason: str, time_ns: int) -> Iterator[tuple[RecordedExchange, bool]]:
        """Yield the turn under way as one that ended early."""
        if self._turn is not None:
            yield self._ended(time_ns, reason or "upstream-closed")

    def _frames(self, way: str) -> Generator[Any, Any, Any]:
        from websockets.frames import Frame

        reader, is_masked = self._readers[way], way == "up"
        while True:
            yield from self._one(Frame, reader, is_masked, way)

    def _one(self, kind: Any, reader: Any, is_masked: bool, way: str) -> Generator[Any, Any, None]:
        room = LARGEST_CONTENT - len(self._messages[way])
        frame = yield from kind.parse(
            reader.read_exact, mask=is_masked, max_size=room, extensions=self._extensions[way]
        )
        if frame.opcode in (0, 1, 2):
            self._messages[way] += frame.data
            if frame.fin:
                message = bytes(self._messages[way])
                self._messages[way].clear()
                yield message

    def _whole_messages(self, way: str) -> Iterator[bytes]:
        from websockets.exceptions import PayloadTooBig, ProtocolError

        while True:
            try:
                found = next(self._parsers[way])
            except (ProtocolError, PayloadTooBig, StopIteration, EOFError):
                return  # what is no frame is relayed all the same, and cannot be read
            if found is None:
                return
            yield found

    def _on_request(self, message: bytes, time_ns: int) -> Iterator[tuple[RecordedExchange, bool]]:
        given = _json(message)
        if given.get("type") != ASKS:
            return
        if self._turn is not None:
            yield self._ended(time_ns, "superseded")
        self._number += 1
        upgrade = self._exchange
        self._turn = replace(
            upgrade,
            id=f"{upgrade.id}.{self._number}",
            method="POST",
            path=upgrade.path,
            content=message,
            sha256="",
            status=200,
            answer_headers={"content-type": "text/event-stream"},
            answer=bytearray(),
            begun_ns=time_ns,
            first_ns=0,
            ended_ns=0,
            reason="",
        )
        yield self._turn, False

    def _on_event(self, message: bytes, time_ns: int) -> Iterator[tuple[RecordedExchange, bool]]:
        turn = self._turn
        if turn is None:
            return
        turn.first_ns = turn.first_ns or time_ns
        turn.answer += b"data: " + message.replace(b"\n", b" ") + b"\n\n"
        if as_str(_json(message).get("type")) in (*ENDS, "error"):
            yield self._ended(time_ns, "")

    def _ended(self, time_ns: int, reason: str) -> tuple[RecordedExchange, bool]:
        turn, self._turn = self._turn, None
        assert turn is not None
        turn.ended_ns, turn.reason = time_ns, reason
        return turn, True


def _json(message: bytes) -> dict[str, Json]:
    try:
        return as_dict(json.loads(message))
    except (ValueError, RecursionError):
        return {}


def _deflate(agreed: str, way: str) -> Any:
    from websockets.extensions.permessage_deflate import PerMessageDeflate

    parameters = {
        name.strip(): value.strip()
        for name, _, value in (each.partition("=") for each in agreed.split(";")[1:])
    }
    side = "client" if way == "up" else "server"
    bits = int(parameters.get(f"{side}_max_window_bits") or 15)
    fresh = f"{side}_no_context_takeover" in parameters
    return PerMessageDeflate(
        remote_no_context_takeover=fresh,
        local_no_context_takeover=False,
        remote_max_window_bits=bits,
        local_max_window_bits=15,
    )
