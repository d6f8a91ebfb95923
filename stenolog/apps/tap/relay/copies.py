"""Copies of the bytes that pass, parsed by h11 and added to the journal.

h11 only listens: forwarding needs it only to find a message's end.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Callable, Coroutine
from typing import Any, TypeAlias

import h11
from pydantic_core import to_json

from stenolog.apps.tap.heads import MAX_HEAD_BYTES, recorded_answer_headers
from stenolog.apps.tap.journal_writer import Committed, JournalEntry, JournalWriter

from .framing import ambiguous, fault

MEMORY_BYTES = 1 << 20
"""Size of the part of a request's body that stays in memory until it goes up; the remainder is read back."""
COMMIT_SECONDS = 5.0
"""A request waits no longer than this for the disk: traffic goes on when the disk hangs."""
PART_BYTES = 1 << 20
"""A redacted body is recorded in such parts: no record is larger than `journal.MAX_PAYLOAD_BYTES`."""
MAX_REDACTED_BYTES = 64 << 20
"""A larger body is not recorded if it would have to be redacted. No provider takes one to a model."""
REDACTED_AT_ONCE_BYTES = 64 << 10
"""A larger body is redacted in a thread, since it takes up to seconds, and others are forwarded meanwhile."""
REDACTING_SECONDS = 3.0
"""The end of the tap waits no longer than this for answers that are being redacted."""
GATHER_SECONDS = 0.005
"""Records that no request waits for go to the writer together, since each wake-up of its thread costs
time."""
BACKLOG_BYTES = 16 << 20
"""Answers are read no faster than the disk takes them, from this backlog on."""
MAX_BACKLOG_BYTES = 64 << 20
"""Exchanges that add to a larger backlog are not recorded further: the disk hangs."""
TOO_SLOW = f"the disk took longer than {COMMIT_SECONDS:.0f} s"

Redact: TypeAlias = Callable[[bytes, str], tuple[bytes, tuple[str, ...]]]
"""Takes content and its Content-Encoding; gives it decoded, without secrets, and the kinds of these."""
_CONTENT_EVENTS = (h11.NEED_DATA, h11.PAUSED)


class Recording:
    """Journal as the event loop uses it: records go to the writer in batches.

    `redact` removes secrets from requests and answers before they are written.
    """

    def __init__(
        self,
        writer: JournalWriter,
        run: str,
        first_number: int,
        waits: bool = True,
        redact: Redact | None = None,
    ) -> None:
        self.run, self.waits, self.redact = run, waits, redact
        self._writer = writer
        self._number = first_number
        self._batch: list[JournalEntry | Committed] = []
        self._added_bytes = 0
        self._hung_at = -1
        self._dropped: set[int] = set()
        self._redacting: set[asyncio.Task[None]] = set()
        self._loop = asyncio.get_running_loop()

    def next_number(self) -> int:
        """Return a new exchange number of this run."""
        self._number += 1
        return self._number

    @property
    def backlog_bytes(self) -> int:
        """The payloads that wait for the disk."""
        return self._added_bytes - self._writer.handled_bytes

    def is_behind(self) -> bool:
        """Return whether to wait for the disk; one that hangs is not waited for again."""
        return self.backlog_bytes > BACKLOG_BYTES and self._writer.handled_bytes != self._hung_at

    def note_hanging(self) -> None:
        """Note that the disk hangs."""
        self._hung_at = self._writer.handled_bytes

    def add(self, kind: str, exchange: int, payload: bytes, in_memory: bool = True) -> JournalEntry:
        """Append a record; its payload can be read back unless it stays in memory."""
        entry = JournalEntry(kind, exchange, payload, in_memory)
        if not self._is_dropped(entry):
            self._added_bytes += len(payload)
            self._put(entry)
        return entry

    def _is_dropped(self, entry: JournalEntry) -> bool:
        """Return whether the exchange is no longer recorded; the first such record ends it."""
        exchange = entry.exchange
        if exchange in self._dropped:
            if entry.kind == "end":
                self._dropped.discard(exchange)
            return True
        if entry.kind == "end" or self.backlog_bytes + len(entry.payload) <= MAX_BACKLOG_BYTES:
            return False
        self._dropped.add(exchange)
        end = {"reason": f"not-recorded: {TOO_SLOW}", "sha256": ""}
        self._put(JournalEntry("end", exchange, to_json(end), True))
        return True

    def add_json(self, kind: str, exchange: int, value: dict[str, Any]) -> None:
        """Append a record with a JSON payload."""
        self.add(kind, exchange, to_json(value, inf_nan_mode="null"))

    def committed(self) -> asyncio.Future[str]:
        """Return a future of "" once all added records are on disk, or of the reason why not."""
        future: asyncio.Future[str] = self._loop.create_future()
        timer = self._loop.call_later(COMMIT_SECONDS, _resolve, future, TOO_SLOW)
        future.add_done_callback(lambda _: timer.cancel())

        def committed(problem: str) -> None:
            self._loop.call_soon_threadsafe(_resolve, future, problem)

        self._put(committed)
        return future

    def redact_apart(self, work: Coroutine[Any, Any, None]) -> None:
        """Redact and write an answer beside the traffic."""
        task = asyncio.create_task(work)
        self._redacting.add(task)
        task.add_done_callback(self._redacting.discard)

    async def redacting_done(self) -> None:
        """Wait a moment for the answers being redacted."""
        if self._redacting:
            await asyncio.wait(self._redacting, timeout=REDACTING_SECONDS)

    def flush(self) -> None:
        """Pass the batch to the writer."""
        if self._batch:
            batch, self._batch = self._batch, []
            self._writer.put(batch)

    def _put(self, item: JournalEntry | Committed) -> None:
        if not isinstance(item, JournalEntry):
            self._loop.call_soon(self.flush)
        elif not self._batch:
            self._loop.call_later(GATHER_SECONDS, self.flush)
        self._batch.append(item)


def _resolve(future: asyncio.Future[str], problem: str) -> None:
    if not future.done():
        future.set_result(problem)


class RequestCopy:
    """Body of a request, recorded without framing, and collected as sent for the upstream."""

    def __init__(
        self, recording: Recording, exchange: int, parser: h11.Connection, encoding: str = ""
    ) -> None:
        self.pieces: list[bytes | JournalEntry] = []
        self.complete = False
        self.bytes = 0
        self.trailing = b""
        self.unrecorded_since = 0
        self._recording, self._exchange, self._parser = recording, exchange, parser
        self._digest = hashlib.sha256()
        self._in_memory = 0
        self._encoding = encoding
        self._held = bytearray()
        self._redacted: tuple[bytes, tuple[str, ...]] | None = None

    def feed(self, data: bytes) -> None:
        """Take the client's next bytes. Raises `h11.RemoteProtocolError` for wrong framing."""
        if data:  # no bytes mean the end of a connection to h11
            self._parser.receive_data(data)
        contents = []
        while True:
            event = self._parser.next_event()
            if isinstance(event, h11.Data):
                contents.append(bytes(event.data))
            elif isinstance(event, h11.EndOfMessage):
                self.complete = True
                self.trailing = self._parser.trailing_data[0]
                break
            elif event in _CONTENT_EVENTS:
                break
        self._collect(data[: len(data) - len(self.trailing)], contents)

    @property
    def is_too_large(self) -> bool:
        """True if the body is too large to be redacted, and so not recorded."""
        return self._recording.redact is not None and self.bytes > MAX_REDACTED_BYTES

    @property
    def takes_long(self) -> bool:
        """True if the caller must await `redact_apart` before `ready`."""
        return len(self._held) > REDACTED_AT_ONCE_BYTES or bool(self._encoding and self._held)

    async def redact_apart(self) -> None:
        """Redact the body in a thread; if that fails, nothing of it is recorded."""
        assert self._recording.redact is not None
        self._redacted = b"", ("unreadable",)
        self._redacted = await asyncio.to_thread(self._recording.redact, bytes(self._held), self._encoding)

    def ready(self) -> None:
        """Record that the request is complete."""
        value: dict[str, Any] = {"bytes": self.bytes, "sha256": self._digest.hexdigest()}
        if self.is_too_large:
            value |= {"redacted": ["too-large"], "decoded": True}
        elif self._recording.redact is not None:
            content, kinds = self._redacted or self._recording.redact(bytes(self._held), self._encoding)
            self._held.clear()
            for at in range(0, len(content), PART_BYTES):
                self._recording.add("body", self._exchange, content[at : at + PART_BYTES])
            value |= {"redacted": list(kinds), "decoded": True}
        self._recording.add_json("ready", self._exchange, value)

    def _hold(self, sent: bytes, contents: list[bytes]) -> None:
        """Keep all in memory: nothing may be on disk before redaction."""
        self.pieces.append(sent)
        for content in contents:
            self.bytes += len(content)
            self._digest.update(content)
            self._held += content
        if self.is_too_large:
            self._held.clear()

    def _collect(self, sent: bytes, contents: list[bytes]) -> None:
        if self._recording.redact is not None:
            self._hold(sent, contents)
            return
        in_memory = self._in_memory + len(sent) <= MEMORY_BYTES
        at = 0
        for content in contents:
            self.bytes += len(content)
            self._digest.update(content)
            entry = self._recording.add("body", self._exchange, content, in_memory)
            if not in_memory:
                # Wherever the content is found, the parts together are the bytes that were sent.
                found = sent.find(content, at)
                self.pieces += [sent[at:found], entry] if found > at else [entry]
                at = found + len(content)
        if in_memory:
            self._in_memory += len(sent)
        if at < len(sent):
            self.pieces.append(sent[at:])


class AnswerCopy:
    """Answer of a server: head and content are recorded, and its end is found.

    If redacted, it is held until the end: a stream may have a secret in pieces.
    """

    def __init__(self, recording: Recording, exchange: int, method: bytes, upgrade: bytes) -> None:
        self.started = self.complete = self.switched = False
        self.problem = ""
        self.trailing = b""
        self._recording, self._exchange = recording, exchange
        self._digest = hashlib.sha256()
        self._held, self._begun_ns, self._too_large, self._encoding = bytearray(), 0, False, ""
        # The parser must know the method to find the end of the answer, and of an upgrade to accept one.
        self._parser = h11.Connection(h11.CLIENT, max_incomplete_event_size=MAX_HEAD_BYTES)
        headers = [(b"host", b"-")]
        if upgrade:
            headers += [(b"connection", b"upgrade"), (b"upgrade", upgrade)]
        self._parser.send(h11.Request(method=method, target=b"*", headers=headers))
        self._parser.send(h11.EndOfMessage())

    def sha256(self) -> str:
        """Return the content's digest so far."""
        return self._digest.hexdigest()

    def feed(self, data: bytes) -> None:
        """Take the server's next bytes; none at the end of its connection."""
        self.started = self.started or bool(data)
        if self.complete or self.switched or self.problem:
            return
        try:
            self._parser.receive_data(data)
            while not (self.complete or self.switched):
                event = self._parser.next_event()
                if event in _CONTENT_EVENTS:
                    break
                self._take(event)
        except h11.RemoteProtocolError as error:
            self.problem = f"answer-not-understood: {fault(error)}" if data else "upstream-closed"

    def _take(self, event: Any) -> None:
        if isinstance(event, h11.Data):
            content = bytes(event.data)
            self._digest.update(content)
            if self._recording.redact is None:
                self._recording.add("data", self._exchange, content)
            else:
                self._hold(content)
        elif isinstance(event, h11.Response):
            self._record_head(event)
            if (ambiguity := ambiguous(b"", event.headers)) is not None:
                # It has gone down already, and the client may read its end elsewhere than is recorded here.
                raise h11.RemoteProtocolError(ambiguity)
        elif isinstance(event, h11.InformationalResponse) and event.status_code == 101:
            self._record_head(event)
            self.switched = True
            self.trailing = self._parser.trailing_data[0]
        elif isinstance(event, h11.EndOfMessage):
            self.complete = True
        elif isinstance(event, h11.ConnectionClosed):
            self.problem = "upstream-closed"
            self.complete = False
            raise h11.RemoteProtocolError("the connection was closed before the answer")

    def end(self, reason: str) -> None:
        """Record the end, after what was held; a thread redacts a long text."""
        if not self._held and not self._too_large:
            self._record_end(reason)
        elif len(self._held) <= REDACTED_AT_ONCE_BYTES and not self._encoding:
            self._record_redacted(reason, self._redacted())
        else:
            self._recording.redact_apart(self._end_apart(reason))

    async def _end_apart(self, reason: str) -> None:
        self._record_redacted(reason, await asyncio.to_thread(self._redacted))

    def _redacted(self) -> tuple[bytes, tuple[str, ...]]:
        assert self._recording.redact is not None
        if self._too_large:
            return b"", ("too-large",)
        try:
            return self._recording.redact(bytes(self._held), self._encoding)
        except Exception:  # nothing of it is recorded then
            return b"", ("unreadable",)

    def _record_redacted(self, reason: str, found: tuple[bytes, tuple[str, ...]]) -> None:
        content, kinds = found
        for at in range(0, len(content), PART_BYTES):
            entry = self._recording.add("data", self._exchange, content[at : at + PART_BYTES])
            entry.time_ns = self._begun_ns if at == 0 else entry.time_ns
        if not content:
            why = kinds[0] if kinds else "empty"
            reason = reason or f"not-recorded: the answer could not be redacted ({why})"
        self._held.clear()
        self._record_end(reason, redacted=list(kinds), decoded=True)

    def _record_end(self, reason: str, **more: Any) -> None:
        self._recording.add_json("end", self._exchange, {"reason": reason, "sha256": self.sha256(), **more})

    def _hold(self, content: bytes) -> None:
        self._begun_ns = self._begun_ns or time.time_ns()
        self._too_large = self._too_large or len(self._held) + len(content) > MAX_REDACTED_BYTES
        if self._too_large:
            self._held.clear()
        else:
            self._held += content

    def _record_head(self, event: h11.Response | h11.InformationalResponse) -> None:
        headers = recorded_answer_headers(event.headers.raw_items())
        self._encoding = next(
            (value.decode("latin-1") for name, value in event.headers if name == b"content-encoding"), ""
        )
        self._recording.add_json(
            "response", self._exchange, {"status": event.status_code, "headers": headers}
        )
