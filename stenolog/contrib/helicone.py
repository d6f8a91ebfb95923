"""Calls that Helicone logged: what its export tool writes, and what its API answers.

The form is `HeliconeRequest` in Helicone/helicone, `packages/llm-mapper/types.ts`, as
`examples/export/typescript/index.ts` writes it.
"""

from __future__ import annotations

from functools import partial

from stenolog import importers
from stenolog.importers import Json, JsonObject, as_dict, as_int, as_list, as_str, as_time

FIELDS = frozenset(("request_id", "request_created_at", "response_status"))
CANCELLED = -3
"""The status of a call whose client went away."""


def call_of(record: JsonObject) -> importers.RecordedCall:
    """Return a logged call. Raises `ValueError` for one without its bodies."""
    body, answer = as_dict(record.get("request_body")), record.get("response_body")
    if not body or "helicone_message" in body:
        raise ValueError("a call without its bodies (Helicone's tool exports them with --include-body)")
    streamed = as_dict(answer).get("streamed_data")
    status = as_int(record.get("response_status"))
    properties = as_dict(record.get("request_properties"))
    return importers.RecordedCall(
        as_time(record.get("request_created_at")),
        body,
        streamed.encode() if isinstance(streamed, str) else streamed or answer or b"",
        status=max(status, 0),
        reason="client-closed" if status == CANCELLED else "",
        url=as_str(record.get("request_path")),
        id=as_str(record.get("request_id")),
        session=as_str(properties.get("Helicone-Session-Id")),
        first_ms=as_int(record.get("time_to_first_token")),
        took_ms=as_int(record.get("delay_ms")),
        dollars=record.get("costUSD") or record.get("cost"),
    )


def is_logged(value: Json) -> bool:
    """Return whether a value is a logged call, or has such calls."""
    inner = value if isinstance(value, list) else [value, *as_list(as_dict(value).get("data"))]
    return any(as_dict(each).keys() >= FIELDS for each in inner)


HELICONE = importers.Importer(
    "helicone", write=partial(importers.write_calls, call_of), is_document=is_logged, is_record=is_logged
)
