"""Exchange of a tap: a request, forwarded once it is on disk, and its answer."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import h11

from stenolog.apps.tap.heads import (
    REDACTED,
    forwarded_head,
    recorded_request_headers,
    recorded_target,
    without_secrets,
)
from stenolog.apps.tap.journal_writer import JournalEntry

from . import copies as recording
from .copies import AnswerCopy, Recording, RequestCopy
from .guard import Route
from .sides import ClientSide, UpstreamSide

JOINED_BYTES = 1 << 20
"""A request up to this size is written at once, so that it needs one system call and few TLS records."""
COMMIT_BYTES = 4 << 20
"""A client waits for the disk after each such part of its body."""
BACKLOG_POLL_SECONDS = 0.02
EARLY_ANSWER_SECONDS = 1.0
"""After an answer to a request that was not read to its end, the upstream has this long to read on."""


class Exchange:
    """One request and its answer.

    The request is forwarded once it is on disk; at once if the journal cannot be written.
    """

    def __init__(
        self, client: ClientSide, recording: Recording, route: Route, head: bytes, parser: h11.Connection,
        request: h11.Request,
    ) -> None:  # fmt: skip
        self.ended = self.switched = False
        self.number = recording.next_number()
        self._client, self._recording, self._route = client, recording, route
        upgrade = next((value for name, value in request.headers if name == b"upgrade"), b"")
        host = route.upstream.authority.encode()
        self._head = forwarded_head(head, route.target, host, route.upstream.authorization.encode())
        self._answer = AnswerCopy(recording, self.number, request.method, upgrade)
        self._request = RequestCopy(recording, self.number, parser, _encoding_of(request))
        self._upstream: UpstreamSide | None = None
        self._sent = self._early = False
        self._confirmed_bytes = 0
        self._may_go = asyncio.Event()
        self._more = asyncio.Event()
        self._up: list[bytes] = []
        self._up_bytes, self._up_held = 0, False
        self._record_request(request)
        self._task = asyncio.create_task(self._forward())
        self._redacting: asyncio.Task[None] | None = None

    @property
    def complete(self) -> bool:
        return self._request.complete

    def client_data(self, data: bytes) -> bytes:
        """Take the client's next bytes; return those after the request.

        Raises `h11.RemoteProtocolError` for wrong framing.
        """
        if self.switched:
            self._up.append(data)
            self._up_bytes += len(data)
            if self._up_bytes > JOINED_BYTES and not self._up_held:
                self._up_held = True
                self._client.hold_reading()
            self._record_switched("up", data)
            self._more.set()
            return b""
        self._request.feed(data)
        self._more.set()
        if self._request.complete and self._request.takes_long:
            self._redacting = asyncio.create_task(self._redact())
        elif self._request.complete:
            self._request.ready()
            self._commit()
        elif self._request.is_too_large:
            self._may_go.set()  # nothing of the body is going to be on disk
        elif self._recording.redact is None and self._request.bytes - self._confirmed_bytes > COMMIT_BYTES:
            self._confirmed_bytes = self._request.bytes
            self._client.hold_reading()
            self._commit()
        return self._request.trailing

    async def _redact(self) -> None:
        with suppress(Exception):  # traffic goes on, whatever becomes of the record
            await self._request.redact_apart()
        if not self.ended:
            self._request.ready()
            self._commit()

    def upstream_data(self, data: bytes) -> None:
        """Pass the upstream's bytes on, then record them."""
        self._client.write(data)
        if self._recording.is_behind() and self._upstream:
            self._upstream.pause_reading("journal")
            self._wait_for_journal(recording.COMMIT_SECONDS)
        if self.switched:
            self._record_switched("down", data)
            return
        self._answer.feed(data)
        if self._answer.switched:
            self.switched = True
            if self._answer.trailing:
                self._record_switched("down", self._answer.trailing)
        elif self._answer.complete:
            self._answered()

    def upstream_closed(self, error: Exception | None) -> None:
        """End as the client would have seen it."""
        if self.switched:
            self.end("" if error is None else f"upstream-failed: {_text(error)}")
            self._client.close()
            return
        was_complete = self._answer.complete
        if not was_complete:
            self._answer.feed(b"")
        if was_complete or (error is None and self._answer.complete):
            self.end("")
        elif error is None:
            self.end(self._answer.problem or "upstream-closed")
        else:
            self.end(f"upstream-failed: {_text(error)}")
        self._client.close(reset=error is not None and not was_complete and self._answer.started)

    def client_closed(self) -> None:
        """End with the client's connection."""
        self.end("" if self._answer.complete else "client-closed")

    def gives_way(self) -> bool:
        """End an answer that was not understood, since the client has gone on."""
        if self._answer.problem and not self.ended:
            self.end(self._answer.problem)
        return self.ended

    def end(self, reason: str) -> None:
        """Record the end, and stop forwarding."""
        if self.ended:
            return
        self.ended = True
        if self._upstream:
            self._upstream.resume_reading("journal")
        self._answer.end(reason)
        if self._task is not asyncio.current_task():
            self._task.cancel()

    def _wait_for_journal(self, remaining: float) -> None:
        """Read on once the disk has caught up, or hangs."""
        if self.ended or not self._upstream:
            return
        if remaining <= 0:
            self._recording.note_hanging()
        if not self._recording.is_behind():
            self._upstream.resume_reading("journal")
            return
        again = remaining - BACKLOG_POLL_SECONDS
        asyncio.get_running_loop().call_later(BACKLOG_POLL_SECONDS, self._wait_for_journal, again)

    def _answered(self) -> None:
        """End with the answer, unless the upstream still reads the request."""
        if self._sent:
            self._finish()
        elif not self._early:
            self._early = True
            asyncio.get_running_loop().call_later(EARLY_ANSWER_SECONDS, self._give_up)

    def _give_up(self) -> None:
        if not self.ended and self._upstream:
            self._upstream.abort()

    def _finish(self) -> None:
        self.end("")
        self._client.exchange_ended()

    def _record_switched(self, kind: str, data: bytes) -> None:
        """Record bytes of another protocol, unless they would need redaction."""
        if self._recording.redact is None:
            self._recording.add(kind, self.number, data)

    def _record_request(self, request: h11.Request) -> None:
        target = recorded_target(self._route.target.decode("latin-1"))
        value: dict[str, Any] = {
            "id": f"{self._recording.run}-{self.number}",
            "time": datetime.now(UTC).isoformat(),
            "method": request.method.decode("latin-1"),
            "path": target,
            "upstream": self._route.upstream.name,
            "host": self._route.upstream.origin,
            "headers": recorded_request_headers(request.headers.raw_items()),
            "run": self._recording.run,
        }
        if not self._recording.waits:
            value["unproven"] = True
        if self._recording.redact is not None:
            value["redacts"] = True
        if REDACTED in f"{target}{value['headers']}":
            value["redacted"] = True
        self._recording.add_json("request", self.number, value)

    def _commit(self) -> None:
        """Wait for the disk in the background; an unwritable journal releases the request."""
        complete = self._request.complete
        if not self._recording.waits:
            if complete:
                self._may_go.set()
            else:
                self._client.release_reading()
            return

        def resolved(future: asyncio.Future[str]) -> None:
            if not complete:
                self._client.release_reading()
            if complete or future.result():
                self._may_go.set()

        self._recording.committed().add_done_callback(resolved)

    async def _forward(self) -> None:
        try:
            connecting = asyncio.ensure_future(self._client.upstream_for(self._route.upstream))
            try:
                await self._may_go.wait()
                upstream = await connecting
                if upstream.closed:  # an idle connection that the server has closed in the meantime
                    upstream = await self._client.upstream_for(self._route.upstream)
            finally:
                if not connecting.done():
                    connecting.cancel()
                elif not connecting.cancelled():
                    connecting.exception()  # it counts as seen, also where the client has gone before it
        except OSError as error:
            self._refused(_text(error))
            return
        self._upstream = upstream
        upstream.begin(self)
        try:
            await self._send(upstream)
        except OSError as error:  # the journal's file cannot be read back
            self.end(f"upstream-failed: {_text(error)}")
            upstream.abort()
            self._client.close(reset=True)
            return
        self._sent = True
        if self._answer.complete:
            self._finish()
        else:
            await self._send_websocket(upstream)

    def _refused(self, reason: str) -> None:
        self.end(f"upstream-failed: {reason}")
        self._client.refuse(502, f"stenolog tap cannot reach {self._route.upstream.origin}: {reason}")

    async def _send(self, upstream: UpstreamSide) -> None:
        pieces = self._request.pieces
        first = [self._head]
        at, size = 0, 0
        while at < len(pieces) and size < JOINED_BYTES and isinstance(piece := pieces[at], bytes):
            first.append(piece)
            pieces[at] = b""
            at, size = at + 1, size + len(piece)
        upstream.write(b"".join(first))
        while True:
            while at < len(pieces):
                # A turn of the loop, so that an answer is read before the next write can fail.
                await asyncio.sleep(0)
                await self._drained(upstream)
                piece, pieces[at] = pieces[at], b""
                upstream.write(piece.load() if isinstance(piece, JournalEntry) else piece)
                at += 1
            if self._request.complete:
                return
            self._more.clear()
            await self._more.wait()

    async def _drained(self, upstream: UpstreamSide) -> None:
        if upstream.writable.is_set():
            return
        streams = not self._request.complete
        if streams:
            self._client.hold_reading()
        await upstream.writable.wait()
        if streams:
            self._client.release_reading()

    async def _send_websocket(self, upstream: UpstreamSide) -> None:
        """Send a client's bytes after an upgrade, each part once on disk."""
        while True:
            self._more.clear()
            if self._up:
                part, self._up, self._up_bytes = b"".join(self._up), [], 0
                if self._recording.waits:
                    await self._recording.committed()
                await upstream.writable.wait()
                upstream.write(part)
                if self._up_held:
                    self._up_held = False
                    self._client.release_reading()
            else:
                await self._more.wait()


def _text(error: Exception) -> str:
    reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return without_secrets(" ".join(str(reason).split()))


def _encoding_of(request: h11.Request) -> str:
    found = next((value for name, value in request.headers if name == b"content-encoding"), b"")
    return found.decode("latin-1")
