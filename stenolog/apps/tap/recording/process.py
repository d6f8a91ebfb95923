"""Process that records: it reads the journal of a run, and appends to the log."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic_core import from_json

from stenolog.adapters.conversation.log import open as open_log
from stenolog.adapters.importers.door.times import as_time
from stenolog.apps.tap.exchanges.exchange import RecordedExchange, headers_in, without_encoding
from stenolog.apps.tap.exchanges.websocket import Websocket
from stenolog.apps.tap.journal import JournalReader, JournalRecord
from stenolog.domain.errors import OperationalError
from stenolog.projections.messages.json_fields import as_dict, as_list, as_str

from .transcriber import Transcriber

# Providers refuse more: Anthropic takes 32 MB, Gemini 20 MB, OpenAI 50 MB of pictures.
MAX_CONTENT_BYTES = 64 * 1024 * 1024
"""Bytes of a request that are taken apart; a larger one is kept as blobs."""
BLOB_BYTES = 16 * 1024 * 1024
RETRY_SECONDS = 1.0
"""The pause before an entry is appended again that the store did not take."""


class Content:
    """A request's content: in memory, or as blobs if too large."""

    def __init__(self, put: Callable[[bytes], str]) -> None:
        self._put = put
        self._bytes = bytearray()
        self._blobs: list[str] = []

    def add(self, piece: bytes) -> None:
        """Add the next piece."""
        self._bytes += piece
        if len(self._bytes) > (BLOB_BYTES if self._blobs else MAX_CONTENT_BYTES):
            for at in range(0, len(self._bytes), BLOB_BYTES):
                self._blobs.append(self._put(bytes(self._bytes[at : at + BLOB_BYTES])))
            self._bytes.clear()

    def finish(self) -> tuple[bytes, tuple[str, ...]]:
        """Return the content, or else its blobs."""
        if self._blobs and self._bytes:
            self._blobs.append(self._put(bytes(self._bytes)))
            self._bytes.clear()
        return bytes(self._bytes), tuple(self._blobs)


class Assembler:
    """Assembler of a run's records, in order, which records each whole exchange."""

    def __init__(self, recording: Transcriber, sleep: Callable[[float], object] = time.sleep) -> None:
        self._recording = recording
        self._sleep = sleep
        self._exchanges: dict[int, RecordedExchange] = {}
        self._contents: dict[int, Content] = {}
        self._websockets: dict[int, Websocket] = {}

    def take(self, record: JournalRecord) -> Iterator[int]:
        """Take a record; yield the numbers of durably recorded exchanges."""
        number, payload = record.exchange, record.payload
        if record.kind == "request":
            self._exchanges[number] = _begun(_json(payload), record.time_ns)
            self._contents[number] = Content(self._recording.log.blobs.put)
            return
        if record.kind == "gap":
            self._gap(number, _json(payload))
            yield number
            return
        exchange = self._exchanges.get(number)
        if exchange is None:
            if record.kind == "end":  # its beginning is in a segment that was recorded and is gone
                yield number
            return
        match record.kind:
            case "body":
                self._contents[number].add(payload)
            case "ready":
                exchange.content, exchange.blobs = self._contents.pop(number).finish()
                _ready(exchange, _json(payload))
                self._until_stored(lambda: self._recording.request(exchange))
            case "response":
                given = _json(payload)
                exchange.status = int(given.get("status", 0))
                exchange.answer_headers = headers_in(given.get("headers"))
                if exchange.status == 101:
                    self._websockets[number] = Websocket(exchange)
            case "data":
                exchange.first_ns = exchange.first_ns or record.time_ns
                if len(exchange.answer) < MAX_CONTENT_BYTES:  # what comes behind is no answer of a model
                    exchange.answer += payload
            case "up" | "down" if number in self._websockets:
                for done in self._websockets[number].take(record.kind, payload, record.time_ns):
                    self._turn(done)
            case "end":
                yield from self._end(number, exchange, record)
            case _:
                pass

    def _end(self, number: int, exchange: RecordedExchange, record: JournalRecord) -> Iterator[int]:
        given = _json(record.payload)
        exchange.reason, exchange.ended_ns = as_str(given.get("reason")), record.time_ns
        if given.get("decoded"):
            exchange.answer_headers = without_encoding(exchange.answer_headers)
        if (websocket := self._websockets.pop(number, None)) is not None:
            for done in websocket.close(exchange.reason, record.time_ns):
                self._turn(done)
        else:
            self._until_stored(lambda: self._recording.answer(exchange))
        del self._exchanges[number]
        self._contents.pop(number, None)
        yield number

    def _turn(self, turn: tuple[RecordedExchange, bool]) -> None:
        exchange, is_answer = turn
        record = self._recording.answer if is_answer else self._recording.request
        self._until_stored(lambda: record(exchange))

    def _gap(self, number: int, given: Mapping[str, Any]) -> None:
        reason, count = as_str(given.get("reason")), given.get("exchanges")
        id = f"{as_str(given.get('since'))}-{number}"
        number_of = len(count) if isinstance(count, list) else int(count or 0)
        self._until_stored(lambda: self._recording.gap(reason, number_of, id))

    def _until_stored(self, store: Callable[[], object]) -> None:
        """Store something; retry while the disk is full: the journal keeps it."""
        while True:
            try:
                store()
                return
            except OperationalError:
                self._sleep(RETRY_SECONDS)


def _json(payload: bytes) -> dict[str, Any]:
    try:
        return as_dict(json.loads(payload))
    except ValueError:
        return {}


def _ready(exchange: RecordedExchange, given: Mapping[str, Any]) -> None:
    exchange.sha256 = as_str(given.get("sha256"))
    exchange.redacted = tuple(map(str, as_list(given.get("redacted"))))
    if given.get("decoded"):
        exchange.headers = without_encoding(exchange.headers)


def _begun(given: Mapping[str, Any], time_ns: int) -> RecordedExchange:
    return RecordedExchange(
        id=as_str(given.get("id")),
        time=as_time(given.get("time")),
        method=as_str(given.get("method")),
        path=as_str(given.get("path")),
        upstream=as_str(given.get("upstream")),
        host=as_str(given.get("host")),
        run=as_str(given.get("run")),
        headers=headers_in(given.get("headers")),
        redacts=given.get("redacts") is True,
        unproven=given.get("unproven") is True,
        begun_ns=time_ns,
    )


HEAD = "ref: refs/heads/"
LONGEST = 4_096
"""Characters of a file of git's that are read."""


def working_place(cwd: str) -> dict[str, str]:
    """Return `cwd`, and its git repository's `branch`, if any."""
    if not cwd:
        return {}
    branch = next((found for folder in (Path(cwd), *Path(cwd).parents) if (found := _branch(folder))), "")
    return {"cwd": cwd, "branch": branch} if branch else {"cwd": cwd}


def _branch(folder: Path) -> str:
    git = folder / ".git"
    try:
        if git.is_file():  # a work tree of its own
            git = folder / _read(git).removeprefix("gitdir: ").strip()
        head = _read(git / "HEAD").strip()
    except (OSError, ValueError):  # a path with a null character is no path
        return ""
    return head.removeprefix(HEAD) if head.startswith(HEAD) else ""


def _read(path: Path) -> str:
    with path.open(encoding="utf-8", errors="replace") as file:
        return file.read(LONGEST)


@dataclass(frozen=True)
class RecordingConfig:
    """Configuration of the process; `database` is a path or an address.

    `notify` is the inherited read end of the relays' pipe; None reads a run that is over. `cwd` is the
    recorded command's folder, "" if unknown.
    """

    folder: str
    database: str
    notify: int | None
    cwd: str = ""


def record(config: RecordingConfig) -> int:
    """Record a run's exchanges until its last relay ends; return their number."""
    reader = JournalReader(Path(config.folder), config.notify)
    recorded = 0
    with open_log(config.database) as log:
        # Each request is built once, for its receipt, and seldom asked for again.
        log.stores_sessions = False
        assembler = Assembler(Transcriber(log, work=working_place(config.cwd)))
        for each in reader:
            for exchange in assembler.take(each):
                recorded += each.kind == "end"
                reader.done(exchange)
    reader.close()
    return recorded


if __name__ == "__main__":
    record(RecordingConfig(**from_json(sys.stdin.buffer.read())))
