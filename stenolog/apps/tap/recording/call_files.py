"""Files of recorded calls of models' APIs, which the tap's recorder writes into a log."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from datetime import datetime, timedelta
from hashlib import sha256
from itertools import islice
from typing import Any, BinaryIO, NamedTuple, TypeAlias
from urllib.parse import SplitResult, quote, urlsplit

from stenolog.adapters.conversation.log import Conversation, Log
from stenolog.adapters.conversation.log import open as open_log
from stenolog.adapters.importers.door.json_lines import (
    JsonLinesReader,
    JsonObject,
    Record,
    Skipped,
    ValuePlace,
)
from stenolog.adapters.importers.door.record_spool import RecordSpool
from stenolog.adapters.importers.intake import known_sessions
from stenolog.adapters.importers.intake.report import Imported, LeftOut
from stenolog.adapters.importers.intake.whole_file import WholeFile
from stenolog.apps.tap.exchanges.answers import answer_of
from stenolog.apps.tap.exchanges.exchange import Answered, RecordedExchange, headers_in, without_encoding
from stenolog.apps.tap.exchanges.identity import SESSION_HEADERS, client_of
from stenolog.apps.tap.exchanges.redaction import redacted_content
from stenolog.apps.tap.exchanges.wire import api_of, wire_request
from stenolog.apps.tap.heads import (
    recorded_answer_headers,
    recorded_request_headers,
    recorded_target,
    without_secrets,
)
from stenolog.domain.entry import EPOCH
from stenolog.domain.errors import CallerError, UnknownFormatError
from stenolog.domain.parts import AssistantPart
from stenolog.domain.values import Usage
from stenolog.projections.formats import FORMATS, providers
from stenolog.projections.formats.base import Format
from stenolog.projections.formats.reading import objects_in
from stenolog.projections.messages.json_fields import (
    Json,
    as_dict,
    as_str,
    compact_json,
    key_of,
    micro_dollars,
)

from .placing import new_name
from .session import Session
from .transcriber import Transcriber

Headers: TypeAlias = Iterable[tuple[str, str]]
MOST_MS = 1e9
"""More milliseconds than these are no time of an answer."""
NAMED = 5
"""The addresses that an error names, of calls that ask no model."""


class RecordedCall(NamedTuple):
    """A call of a model's API as a file has it.

    `request` and `answer` are the bodies' bytes, or their JSON if the bytes are not known. Without a `url`,
    the body shows the API. Of URLs and `headers` only what can be no secret is recorded. `first_ms` and
    `took_ms` are the milliseconds until the answer's beginning and end. `reason` says why it has no end.
    `session` is the file's id of the conversation, `id` that of the call. `dollars` is the price that it
    states; `parts` and `usage` are the answer's, if the file has them in a form of its own.
    """

    began: datetime
    request: bytes | Json
    answer: bytes | Json = b""
    status: int = 200
    url: str = ""
    method: str = "POST"
    id: str = ""
    session: str = ""
    headers: Headers = ()
    answer_headers: Headers = ()
    first_ms: float = 0
    took_ms: float = 0
    reason: str = ""
    dollars: Json = None
    parts: Sequence[AssistantPart] = ()
    usage: Usage | None = None


CallReader: TypeAlias = Callable[[JsonObject], RecordedCall]
"""A function that reads a record's call. It raises `ValueError` with what is missing."""
Items: TypeAlias = Callable[[JsonLinesReader, BinaryIO], Iterator[tuple[ValuePlace, Json]]]


def call_items(reading: JsonLinesReader, stream: BinaryIO) -> Iterator[tuple[ValuePlace, Json]]:
    """Yield values on lines, of a list, or of a list under `data`, as APIs answer."""
    for place, value in reading.items(stream):
        if isinstance(data := as_dict(value).get("data"), list):
            yield from ((ValuePlace(number, "item"), each) for number, each in enumerate(data, 1))
        else:
            yield place, value


def write_calls(call_of: CallReader, file: WholeFile, items: Items = call_items) -> None:
    """Append a file's calls of models to its log, in the order of their times.

    `items` yields the file's records. Raises `UnknownFormatError` for a file without such a call.
    """
    if file.keeps_raw:
        raise CallerError("keep_raw: a recording of calls may hold keys, and its original is not kept")
    spool, others, lost = RecordSpool(), Counter[str](), Counter[str]()
    for place, value in items(file.reading, file.stream):
        if not isinstance(value, dict):
            file.reading.skip(place, "an object", value)
            continue
        try:
            call = _call(call_of, value)
            is_one = _asks_a_model(exchange_of(call, ""))
        except ValueError as error:
            reason = without_secrets(str(error))
            lost[reason] += 1
            file.reading.skipped.append(Skipped(place.number, reason, place.unit))
            continue
        file.moved(file.stream.tell())
        if is_one:
            spool.add(f"{_microseconds(call.began):020}", Record(str(place.number), value))
        else:
            others[_address(call)] += 1
    if not (keys := sorted(spool)):
        raise UnknownFormatError(_without_calls(others, lost))
    with closing(_Recording(file)) as recording:
        for record in (record for key in keys for record in spool.records(key)):
            recording.take(exchange_of(call_of(record.value), file.report.format), record)
        recording.end(others)


def _call(call_of: CallReader, value: Json) -> RecordedCall:
    try:
        return call_of(value)
    except (LookupError, TypeError, AttributeError, ArithmeticError) as error:
        raise ValueError(f"{type(error).__name__}: {error}") from error


def _without_calls(others: Counter[str], lost: Counter[str]) -> str:
    found = ", ".join(f"{name} ({n})" for name, n in (*others.most_common(NAMED), *lost.most_common(1)))
    return f"expected a call of a model's API with its messages, found {found or 'none'}"


def _address(call: RecordedCall) -> str:
    url = urlsplit(call.url)
    return f"{call.method} {url.hostname or ''}{recorded_target(url.path)}"[:120]


def _microseconds(time: datetime) -> int:
    return max((time - EPOCH) // timedelta(microseconds=1), 0)


def _asks_a_model(exchange: RecordedExchange) -> bool:
    """Return whether an exchange is at an API's address, and its body is of that API."""
    request = wire_request(exchange)
    return request is not None and (
        bool(request.kind) or isinstance(request.body.get(request.key), list | str)
    )


def exchange_of(call: RecordedCall, run: str) -> RecordedExchange:
    """Return a call's exchange, without secrets. Raises `ValueError` for an invalid URL."""
    content = call.request if isinstance(call.request, bytes) else _dumped(call.request)
    answer = call.answer if isinstance(call.answer, bytes) else _dumped(call.answer)
    url = _url(call.url)
    if isinstance(call.request, dict) and not api_of(call.method, url.path)[0]:
        url = url._replace(path=_path_of(call.request, call.answer), query="")
    target = recorded_target(f"{url.path}?{url.query}")
    # Two calls may be the same up to the millisecond, and have other answers.
    named = call.id or f"{call.began.isoformat()} {call.method} {target}"
    id = sha256(named.encode(errors="replace") + (b"" if call.id else content + answer)).hexdigest()[:24]
    begun = _microseconds(call.began) * 1_000
    exchange = RecordedExchange(
        f"call-{id}",
        call.began,
        call.method.upper(),
        target,
        _upstream(url.hostname or ""),
        host=url.hostname or "",
        run=run,
        headers=_headers(call.headers, recorded_request_headers),
        content=content,
        status=call.status,
        answer_headers=_headers(call.answer_headers, recorded_answer_headers),
        answer=bytearray(answer),
        begun_ns=begun,
        first_ns=begun + first if (first := _ns(call.first_ms)) else 0,
        ended_ns=begun + took if (took := _ns(call.took_ms)) else 0,
        reason=call.reason,
        is_parsed=not isinstance(call.request, bytes),
        redacts=True,
    )
    if session := key_of(call.session):
        exchange.headers = {**exchange.headers, SESSION_HEADERS[0]: session}
    if run:
        exchange.sha256 = sha256(content).hexdigest()
        exchange.content, exchange.redacted = redacted_content(content, "")
        exchange.answered = _answered(call, exchange)
    return exchange


def _url(text: str) -> SplitResult:
    try:
        return urlsplit(text)
    except ValueError:
        # Its own words would quote a password.
        raise ValueError("url: expected an address such as https://api.example.com/v1, found none") from None


def _ns(ms: float) -> int:
    return int(ms * 1e6) if 0 < ms < MOST_MS else 0


def _dumped(value: Json) -> bytes:
    return compact_json(value).encode(errors="replace") if value else b""


def _headers(given: Headers, recorded: Callable[[Any], list[list[str]]]) -> dict[str, str]:
    pairs = [(name.encode(errors="replace"), value.encode(errors="replace")) for name, value in given]
    return without_encoding(headers_in(recorded(pairs)))


def _upstream(host: str) -> str:
    of_host = (each for _, each in providers() if urlsplit(each.base).hostname == host)
    return next((each.names[0] for each in of_host), host)


def _path_of(body: JsonObject, answer: bytes | Json) -> str:
    """Return a body's path: the messages show its API, or else the system prompt or the answer."""
    found = [
        (format, format.endpoint, format.read())
        for format in FORMATS.values()
        if format.endpoint and format.read and isinstance(body.get(format.messages), list | str)
    ]
    shown = (
        [each for each in found if each[2].holds(objects_in(body[each[0].messages]))]
        or [each for each in found if not each[2].instructs_by_message and each[2].system(body)]
        or [each for each in found if _is_answer(each[0], answer)]
        or found
    )
    model = quote(as_str(body.get("model")), safe="")
    return next((f"/{place.path.lstrip('/')}".replace("{model}", model) for _, place, _ in shown), "")


def _is_answer(format: Format, answer: bytes | Json) -> bool:
    return format.stream is not None and isinstance(answer, dict) and format.stream().is_answer(answer)


def _answered(call: RecordedCall, exchange: RecordedExchange) -> Answered | None:
    """Return a call's outcome; a gateway may answer in the form of another API than the request's."""
    if (request := wire_request(exchange)) is None:
        return None
    answers = (name for name, format in FORMATS.items() if _is_answer(format, call.answer))
    answered = answer_of(next(answers, request.api), exchange)
    usage, cost = call.usage or answered.usage, micro_dollars(call.dollars)
    if cost is not None:
        usage = replace(usage or Usage(), cost=cost)
    return answered._replace(parts=tuple(call.parts) or answered.parts, usage=usage)


class _Recording:
    """Exchanges on their way into a file's log."""

    def __init__(self, file: WholeFile) -> None:
        self._file = file
        self._tap = Transcriber(file.log, named=self._conversation_of, lost=self._skip)
        self._nowhere: Log | None = None
        self._places: list[known_sessions.Place] = []
        self._touched: dict[str, Session] = {}
        self._record = Record("", {})
        self._known: dict[str, Session] = {}
        self._looked = 0

    def take(self, exchange: RecordedExchange, record: Record) -> None:
        """Append an exchange, unless it is in the log."""
        self._record = record
        name = new_name(client := client_of(exchange), exchange)
        if exchange.id not in self._tap.recorded and self._file.naming.knows(name):
            # It began a conversation, and must not be looked for in what others have become since.
            self._tap.placing.add(name, client, "", exchange)
        if self._tap.request(exchange):
            session = self._tap.places[exchange.id].session
            self._tap.answer(exchange)
            session.recorded.add(exchange.id)
            self._tap.recorded.add(exchange.id)
        else:
            if (found := self._session_of(exchange.id)) is None:
                return
            session = found
        if session.conversation.log is self._file.log:
            self._touched[session.conversation.name] = session

    def _session_of(self, id: str) -> Session | None:
        """Return the session that has an exchange; each session is looked through once."""
        sessions = self._tap.placing.sessions
        if id not in self._known:
            for name in islice(sessions, self._looked, None):
                self._known.update(dict.fromkeys(sessions[name].recorded, sessions[name]))
            self._looked = len(sessions)
        return self._known.get(id)

    def end(self, others: Counter[str]) -> None:
        """Report the conversations; `others` are calls that ask no model, by address."""
        for name, session in self._touched.items():
            written = session.written
            self._file.report.conversations.append(
                Imported(name, written, session.conversation.position - written)
            )
        for place in self._places:
            known_sessions.note(self._file.log, place)
        if self._file.report.conversations:
            self._file.report.conversations[0].ignored += others

    def close(self) -> None:
        if self._nowhere is not None:
            self._nowhere.close()

    def _conversation_of(self, name: str) -> Conversation:
        """Return a new session's conversation: an earlier import's, or one of no log if it was deleted."""
        place = self._file.naming.find_place(name)
        if not place.is_deleted:
            self._places.append(place)
            return self._file.log[place.name]
        self._file.report.left_out.append(LeftOut(place.name, place.marks[0]))
        self._nowhere = self._nowhere or open_log(":memory:")
        return self._nowhere[place.name]

    def _skip(self, exchange: RecordedExchange, error: Exception) -> None:
        reason = f"cannot be taken down: {type(error).__name__}: {error}".partition("\n")[0][:500]
        reason = without_secrets(reason)
        self._file.reading.skipped.append(Skipped(self._record.number, reason, "call"))
