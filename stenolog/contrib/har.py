"""HTTP archives of version 1.2, as browsers and proxies write them: their calls of models' APIs.

The form is that of http://www.softwareishard.com/blog/har-12-spec/, and of `_error` in
ChromeDevTools/devtools-frontend, `front_end/models/har/Log.ts`.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Iterator
from functools import partial
from typing import Any, BinaryIO

from stenolog import importers
from stenolog.importers import Json, JsonLinesReader, JsonObject, as_dict, as_list, as_str, as_time


def is_archive(document: Json) -> bool:
    """Return whether a JSON value is an archive."""
    log = as_dict(as_dict(document).get("log"))
    return isinstance(log.get("entries"), list) and not {"version", "creator"}.isdisjoint(log)


def entries(reading: JsonLinesReader, stream: BinaryIO) -> Iterator[tuple[Any, Json]]:
    """Yield an archive's entries with their numbers."""
    log = as_dict(as_dict(reading.document(stream)).get("log"))
    for number, entry in enumerate(as_list(log.get("entries")), 1):
        yield importers.ValuePlace(number, "entry"), entry


def call_of(entry: JsonObject) -> importers.RecordedCall:
    """Return the call of an entry."""
    request, response = as_dict(entry.get("request")), as_dict(entry.get("response"))
    posted, content = as_dict(request.get("postData")), as_dict(response.get("content"))
    answer = _answer(content)
    took, receive = (_ms(of.get(name)) for of, name in ((entry, "time"), (_timings(entry), "receive")))
    return importers.RecordedCall(
        as_time(entry.get("startedDateTime")),
        as_str(posted.get("text")).encode(errors="replace"),
        answer or b"",
        status=importers.as_int(response.get("status")),
        url=as_str(request.get("url")),
        method=as_str(request.get("method")),
        headers=_headers(request),
        answer_headers=_headers(response),
        first_ms=took - receive,
        took_ms=took,
        reason=_reason(response, answer),
    )


def _timings(entry: JsonObject) -> JsonObject:
    return as_dict(entry.get("timings"))


def _ms(value: Json) -> float:
    return float(value) if isinstance(value, int | float) and 0 < value < 1e9 else 0.0


def _answer(content: JsonObject) -> bytes | None:
    """Return an answer's bytes; None if they cannot be read."""
    text = as_str(content.get("text"))
    if content.get("encoding") == "base64":
        try:
            return b64decode(text)
        except ValueError:
            return None
    return text.encode(errors="replace")


def _reason(response: JsonObject, answer: bytes | None) -> str:
    """Return why an answer has no end, or was not kept."""
    if error := as_str(response.get("_error")):
        return f"upstream-closed: {error}"
    if answer is None:
        return "not-recorded: content.text: expected base64, found other text"
    return "" if answer else "not-recorded: the archive does not have it"


def _headers(of: JsonObject) -> list[tuple[str, str]]:
    pairs = (as_dict(each) for each in as_list(of.get("headers")))
    return [(as_str(pair.get("name")), as_str(pair.get("value"))) for pair in pairs]


HAR = importers.Importer(
    "har", write=partial(importers.write_calls, call_of, items=entries), is_document=is_archive
)
