"""Calls that LiteLLM logged: its standard payload, and rows of its proxy's spend logs.

The forms are `StandardLoggingPayload` in BerriAI/litellm, `litellm/types/utils.py`, and `LiteLLM_SpendLogs`
in `litellm/proxy/schema.prisma`. The body is LiteLLM's own, before it is translated for a provider.
"""

from __future__ import annotations

import json
from contextlib import suppress
from functools import partial
from typing import Any

from stenolog import importers
from stenolog.importers import Json, JsonObject, as_dict, as_list, as_str, as_time

PAYLOAD = frozenset(("call_type", "startTime", "model_parameters"))
ROW = frozenset(("call_type", "startTime", "request_id"))
_MESSAGES = (("responses", "input"), ("generate_content", "contents"), ("", "messages"))
"""The key of the messages, by a word in the type of a call."""
REDACTED = "redacted-by-litellm"
_INTERNAL = (
    "api_key",
    "headers",
    "extra_headers",
    "secret_fields",
    "litellm_metadata",
    "proxy_server_request",
)
"""The parameters that LiteLLM adds for itself, or that have keys."""


def call_of(logged: JsonObject) -> importers.RecordedCall:
    """Return a logged call. Raises `ValueError` for one without its messages."""
    record = as_dict(logged.get("standard_logging_object")) or logged
    id = as_str(record.get("id")) or as_str(record.get("request_id"))
    began, first, ended = (as_time(record.get(f"{name}Time")) for name in ("start", "completionStart", "end"))
    response = _json(record.get("response"))
    choice = as_dict(next(iter(as_list(as_dict(response).get("choices"))), None))
    dollars = record.get("response_cost") or record.get("spend")
    call = importers.RecordedCall(
        began,
        _body(record),
        response,
        id=id,
        headers=[("user-agent", as_str(record.get("user_agent")))],
        first_ms=(first - began).total_seconds() * 1_000,
        took_ms=(ended - began).total_seconds() * 1_000,
        dollars=dollars,
        parts=importers.litellm_answer(as_dict(choice.get("message")), id),
        usage=importers.litellm_usage(as_dict(response).get("usage"), dollars),
    )
    failure = _failure(record)
    return (
        call if failure is None else call._replace(answer=failure[1], status=failure[0], parts=(), usage=None)
    )


def _body(record: JsonObject) -> JsonObject:
    """Return the request's body: as the proxy had it, or else put together."""
    type = as_str(record.get("call_type"))
    key = next(key for word, key in _MESSAGES if word in type)
    body = as_dict(_json(record.get("proxy_server_request")))
    if not body.get(key):
        said = _json(record.get("messages"))
        body = {"model": record.get("model"), key: said, **as_dict(record.get("model_parameters"))}
    if not body.get(key):
        raise ValueError("a call without its messages (the proxy logs them with store_prompts_in_spend_logs)")
    words = [body[key], *(as_dict(each).get("content") for each in as_list(body[key]))]
    if REDACTED in words:
        raise ValueError("a call whose messages LiteLLM redacted (turn_off_message_logging)")
    kept = {name: value for name, value in body.items() if name not in _INTERNAL}
    if user := as_str(as_dict(kept.pop("metadata", None)).get("user_id")):
        kept["metadata"] = {"user_id": user}
    return kept


def _failure(record: JsonObject) -> tuple[int, Any] | None:
    """Return the status and the error of a call that failed."""
    about = as_dict(record.get("error_information")) or as_dict(
        as_dict(_json(record.get("metadata"))).get("error_information")
    )
    words = as_str(about.get("error_message")) or as_str(record.get("error_str"))
    if as_str(record.get("status")) != "failure" and not words:
        return None
    code = as_str(about.get("error_code"))
    return int(code) if code.isdecimal() and 400 <= int(code) < 600 else 500, {
        "error": {"message": words or "failed"}
    }


def _json(value: Json) -> Json:
    with suppress(ValueError, RecursionError):
        return json.loads(value) if isinstance(value, str) and value[:1] in ("{", "[") else value
    return value


def is_logged(value: Json) -> bool:
    """Return whether a value is a logged call, or has such calls."""
    inner = value if isinstance(value, list) else [value, *as_list(as_dict(value).get("data"))]
    found = [as_dict(as_dict(each).get("standard_logging_object")) or as_dict(each) for each in inner]
    return any(each.keys() >= PAYLOAD or each.keys() >= ROW for each in found)


LITELLM = importers.Importer(
    "litellm", write=partial(importers.write_calls, call_of), is_document=is_logged, is_record=is_logged
)
