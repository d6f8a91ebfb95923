"""A local provider that speaks the APIs of Anthropic, OpenAI and Gemini, with a prefix cache of its own.

Its answers follow the script in the prompt (`reading`) and are the same at each run. It records the sha256 of
every body that came and of every answer that left. `python -m tests.tap.fake_provider --record FILE` runs it.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import os
import sys
import threading
import zlib
from base64 import b64encode
from collections import Counter
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from itertools import count
from pathlib import Path
from typing import IO, Any, Self

from tests.tap import answers, compression, reading
from tests.tap.addresses import dialect_of, model_of
from tests.tap.http_side import Hangup, Incoming, Outgoing, receive
from tests.tap.prefix_cache import PrefixCache, Used
from tests.tap.websocket_side import Socket

NONE = Used(0, 0, 0, "")
SLOW_SECONDS = 0.02
STALL_SECONDS = 60.0
PATIENCE_SECONDS = 20.0


@dataclass
class Exchange:
    """A request that came, and what was answered. Lengths of chunks are those of the answer's framing.

    `begun` and `ended` are numbers in the order in which requests came and answers ended. `content` and
    `answer` are in Base64, and only where the provider keeps them.
    """

    number: int
    method: str
    path: str
    headers: list[tuple[str, str]]
    body_sha256: str
    body_bytes: int
    status: int = 0
    answer_sha256: str = ""
    answer_bytes: int = 0
    chunks_sha256: str = ""
    attempt: int = 1
    fault: str = ""
    end: str = ""
    read: int = 0
    written: int = 0
    fresh: int = 0
    new_from: str = ""
    response: str = ""
    plain_sha256: str = ""
    begun: int = 0
    ended: int = 0
    content: str = ""
    answer: str = ""
    answer_headers: list[tuple[str, str]] = field(default_factory=list)


class Provider:
    """A server on loopback, in a thread of its own while it is a context manager."""

    def __init__(
        self, port: int = 0, *, record: IO[str] | None = None, largest: int = 1 << 30, keeps: bool = False
    ) -> None:
        self.exchanges: list[Exchange] = []
        self.largest, self._keeps = largest, keeps
        self._port, self._record = port, record
        self._cache, self._counter = PrefixCache(), count(1)
        self._attempts: Counter[str] = Counter()
        self._stored: dict[str, tuple[str, list[Any]]] = {}
        self._loop = asyncio.new_event_loop()
        self._ready, self._recorded = threading.Event(), threading.Condition()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._server: asyncio.Server | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    def __enter__(self) -> Self:
        self._thread.start()
        self._ready.wait()
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_until_complete(self._listen())
            self._loop.run_forever()
        finally:
            self._loop.run_until_complete(self._stop())
            self._loop.close()

    async def _stop(self) -> None:
        """Close the server and its connections."""
        if self._server is not None:
            self._server.close()
        connections = asyncio.all_tasks() - {asyncio.current_task()}
        for connection in connections:
            connection.cancel()
        await asyncio.gather(*connections, return_exceptions=True)

    async def _listen(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self._port, limit=1 << 20)
        self._port = self._server.sockets[0].getsockname()[1]
        self._ready.set()

    async def serve(self) -> None:
        """Serve in the caller's loop, until it is cancelled."""
        await self._listen()
        print(self.url, flush=True)
        assert self._server is not None
        await self._server.serve_forever()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, Hangup, asyncio.IncompleteReadError, asyncio.CancelledError):
            while True:
                incoming = await receive(reader, writer, self.largest)
                if incoming.header("upgrade").lower() == "websocket":
                    await self._converse(incoming, reader, writer)
                    break
                outgoing = Outgoing(writer, incoming)
                await self._handle(incoming, outgoing)
                if incoming.closes or outgoing.closed:
                    break
        writer.close()
        with suppress(OSError, asyncio.CancelledError):
            await writer.wait_closed()

    async def _handle(self, incoming: Incoming, outgoing: Outgoing) -> None:
        exchange = self.begin(incoming, incoming.content)
        try:
            await self._answer(incoming, outgoing, exchange)
            exchange.end = "cut" if outgoing.closed else ""
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            exchange.end = "client-closed"
            raise
        finally:
            exchange.status, exchange.answer_headers = outgoing.status, outgoing.headers
            self.finish(exchange, outgoing.content, outgoing.lengths)

    def begin(self, incoming: Incoming, content: bytes) -> Exchange:
        """Return the record of a request that came."""
        number, digest = next(self._counter), sha256(content).hexdigest()
        lines = (incoming.method, incoming.target, incoming.headers)
        exchange = Exchange(number, *lines, digest, len(content), begun=number)
        if self._keeps:
            exchange.content = b64encode(content).decode()
        return exchange

    def finish(self, exchange: Exchange, content: bytes, lengths: list[int]) -> None:
        """Record an answer that left."""
        exchange.answer_sha256, exchange.answer_bytes = sha256(content).hexdigest(), len(content)
        exchange.ended = next(self._counter)
        if self._keeps:
            exchange.answer = b64encode(content).decode()
        exchange.chunks_sha256 = sha256(json.dumps(lengths).encode()).hexdigest()
        with self._recorded:
            self.exchanges.append(exchange)
            self._recorded.notify_all()
        if self._record is not None:
            self._record.write(json.dumps(asdict(exchange)) + "\n")
            self._record.flush()

    def wait(self, exchanges: int) -> list[Exchange]:
        """Wait until so many exchanges have ended, and return all that have."""
        with self._recorded:
            enough = self._recorded.wait_for(lambda: len(self.exchanges) >= exchanges, PATIENCE_SECONDS)
            assert enough, f"{len(self.exchanges)} of {exchanges} exchanges have ended"
            return [*self.exchanges]

    async def _answer(self, incoming: Incoming, outgoing: Outgoing, exchange: Exchange) -> None:
        dialect, counts = dialect_of(incoming.target)
        if incoming.too_large:
            return await self._json(outgoing, incoming, 413, answers.error(dialect, 413, "Request too large"))
        if incoming.method != "POST":
            models = {"object": "list", "data": [], "models": []}
            return await self._json(outgoing, incoming, 200, models)
        try:
            plain = compression.inflate(incoming.content, incoming.header("content-encoding"))
            exchange.plain_sha256 = sha256(plain).hexdigest()
            body = json.loads(plain)
            if not isinstance(body, dict):
                raise ValueError("an object was expected")
        except ValueError as error:
            return await self._json(outgoing, incoming, 400, answers.error(dialect, 400, str(error)))
        if not dialect:
            return await self._json(outgoing, incoming, 404, answers.error(dialect, 404, incoming.target))
        if dialect == "gemini":
            body |= {
                "model": model_of(incoming.target),
                "stream": ":streamGenerateContent" in incoming.target,
            }
        if counts:
            return await self._json(outgoing, incoming, 200, self._count(dialect, body))
        order = self.order(dialect, body, exchange)
        return await self._play(dialect, order, incoming, outgoing, exchange)

    async def _converse(
        self, incoming: Incoming, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Answer the messages of a websocket, each as a request of its own."""
        socket = Socket(reader, writer)
        await socket.accept(incoming)
        while (message := await socket.receive()) is not None:
            exchange = self.begin(incoming, message)
            sent: list[bytes] = []
            exchange.plain_sha256 = exchange.body_sha256
            body = json.loads(message)
            order = self.order("responses", body, exchange)
            for one in response_events(order, exchange.fault):
                sent.append(json.dumps(one, ensure_ascii=False).encode())
                await socket.send(sent[-1])
            exchange.status = 101
            self.finish(exchange, b"\n".join(sent), [len(one) for one in sent])

    def _count(self, dialect: str, body: dict[str, Any]) -> dict[str, Any]:
        tokens = len(json.dumps(body)) // 4
        match dialect:
            case "messages":
                return {"input_tokens": tokens}
            case "gemini":
                return {"totalTokens": tokens}
            case "embeddings":
                vector = {"object": "embedding", "index": 0, "embedding": [0.0, 1e-07, -0.5]}
                usage = {"prompt_tokens": tokens, "total_tokens": tokens}
                return {"object": "list", "data": [vector], "model": body.get("model"), "usage": usage}
            case _:
                return {"output": [{"type": "compaction", "encrypted_content": answers.secret(str(tokens))}]}

    def order(self, dialect: str, body: dict[str, Any], exchange: Exchange) -> answers.Order:
        """Return the answer to make, and store the request: its attempt, its prefix, its response."""
        earlier = self._items(body.get("previous_response_id"))
        conversation = json.dumps([body.get(key) for key in ("messages", "input", "contents")])
        identity = sha256(f"{dialect}{body.get('previous_response_id')}{conversation}".encode()).hexdigest()
        self._attempts[identity] += 1
        exchange.attempt = self._attempts[identity]
        number = sha256(f"{identity}/{exchange.attempt}".encode()).hexdigest()[:20]
        conversed = reading.read(body, earlier)
        built = reading.plan(conversed, number)
        exchange.fault = built.fault if exchange.attempt <= built.faults else ""
        used = NONE
        if not exchange.fault.isdigit():
            used = self._cache.messages(body) if dialect == "messages" else self._cache.steps(body, earlier)
        exchange.read, exchange.written, exchange.fresh, exchange.new_from = used
        order = answers.Order(body, built, used, number, str(body.get("model")), conversed.tools)
        exchange.response = number
        if dialect == "responses":
            supplied = body.get("input") or []
            listed = [{"role": "user", "content": supplied}] if isinstance(supplied, str) else supplied
            answer = [] if body.get("generate") is False else answers.items(order)
            self._stored[f"resp_{number}"] = (body.get("previous_response_id") or "", [*listed, *answer])
        return order

    def _items(self, response: Any) -> list[Any]:
        """Return the items of a stored response and of those before it."""
        turns = []
        while response in self._stored:
            response, items = self._stored[response]
            turns.append(items)
        return [item for items in reversed(turns) for item in items]

    async def _play(
        self, dialect: str, order: answers.Order, incoming: Incoming, outgoing: Outgoing, exchange: Exchange
    ) -> None:
        fault = exchange.fault
        if fault.isdigit():
            headers = (("retry-after", "0"), ("retry-after-ms", "10"))
            overloaded = answers.error(dialect, int(fault), "Overloaded")
            return await self._json(outgoing, incoming, int(fault), overloaded, headers)
        if fault == "EVENT" and not order.body.get("stream"):
            return await self._json(outgoing, incoming, 503, answers.error(dialect, 503, "Overloaded"))
        chunks = answers.DIALECTS[dialect](order)
        if fault and len(chunks) == 1:
            chunks = [chunks[0][: len(chunks[0]) // 2], chunks[0][len(chunks[0]) // 2 :]]
        half = max(len(chunks) // 2, 1)
        if fault == "EVENT":
            chunks = [*chunks[:half], answers.error_event(dialect)]
        if not order.body.get("stream"):
            return await self._whole(chunks, incoming, outgoing, fault)
        encoder = compression.encoder(incoming.header("accept-encoding"), exchange.response)
        lines = [
            ("content-type", answers.EVENTS),
            ("request-id", f"req_{exchange.response}"),
            *encoder.headers,
        ]
        await outgoing.head(200, lines, None)
        if int(exchange.response[:2], 16) % 3 == 0:
            chunks, half = ragged(chunks, exchange.response), half * 2
        for nth, chunk in enumerate(chunks):
            if fault in ("CUT", "STALL") and nth == half:
                return await self._break(outgoing, fault)
            await outgoing.part(encoder.part(chunk))
            if order.plan.slow:
                await asyncio.sleep(SLOW_SECONDS)
        await outgoing.part(encoder.end())
        return await outgoing.finish()

    async def _whole(self, chunks: list[bytes], incoming: Incoming, outgoing: Outgoing, fault: str) -> None:
        content = b"".join(chunks)
        encoder = compression.encoder(incoming.header("accept-encoding"), sha256(content).hexdigest())
        sent = encoder.part(content) + encoder.end()
        headers = [
            ("content-type", "application/json"),
            ("request-id", f"req_{sha256(content).hexdigest()[:12]}"),
        ]
        await outgoing.head(200, [*headers, *encoder.headers], len(sent))
        if fault in ("CUT", "STALL"):
            await outgoing.part(sent[: len(sent) // 2])
            return await self._break(outgoing, fault)
        await outgoing.part(sent)
        return await outgoing.finish()

    async def _break(self, outgoing: Outgoing, fault: str) -> None:
        if fault == "STALL":
            await outgoing.wait_for_hangup(STALL_SECONDS)
        outgoing.cut()

    async def _json(
        self,
        outgoing: Outgoing,
        incoming: Incoming,
        status: int,
        body: dict[str, Any],
        headers: tuple[tuple[str, str], ...] = (),
    ) -> None:
        content = b"" if incoming.method == "HEAD" else json.dumps(body).encode()
        plain = [("content-type", "application/json"), ("request-id", f"req_{status}"), *headers]
        if "gzip" in incoming.header("accept-encoding") and content:
            content, plain = gzip.compress(content, mtime=0), [*plain, ("content-encoding", "gzip")]
        await outgoing.head(status, plain, len(content))
        await outgoing.part(content)
        await outgoing.finish()


def response_events(order: answers.Order, fault: str) -> list[dict[str, Any]]:
    """Return the events of an answer on a websocket; a warm-up has no output, a fault is one event."""
    if order.body.get("generate") is False:
        order = order._replace(plan=reading.Plan())
    elif fault.isdigit():
        return [{**answers.error("", int(fault), "Overloaded"), "type": "error", "status": int(fault)}]
    return answers.response(order)[1]


def ragged(chunks: list[bytes], seed: str) -> list[bytes]:
    """Return the same bytes in other pieces, which end within events, lines and characters."""
    content, cut, built, nth = b"".join(chunks), 0, [], 0
    while cut < len(content):
        size = 1 + zlib.crc32(f"{seed}/{nth}".encode()) % (3 if nth % 7 == 0 else 900)
        built.append(content[cut : cut + size])
        cut, nth = cut + size, nth + 1
    return built


def main(arguments: list[str]) -> None:
    """Run a provider alone: `--port N`, `--record FILE`, `--keep yes` for the bodies too."""
    options = dict(zip(arguments[::2], arguments[1::2], strict=True))
    with Path(options.get("--record", os.devnull)).open("a") as record, suppress(KeyboardInterrupt):
        asyncio.run(
            Provider(int(options.get("--port", "0")), record=record, keeps="--keep" in options).serve()
        )


if __name__ == "__main__":
    main(sys.argv[1:])
