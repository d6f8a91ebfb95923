"""Answers as the providers' SDKs return them, or as their JSON: the fields show the provider."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from stenolog.adapters.providers.errors import hiding
from stenolog.domain.errors import CallerError
from stenolog.projections.formats import FORMATS
from stenolog.projections.formats.deltas import ModelResponse
from stenolog.projections.formats.failures import failure, stated
from stenolog.projections.formats.gemini.stream import standard_base64
from stenolog.projections.formats.streaming import StreamReader
from stenolog.projections.messages.json_fields import as_dict


def answer_of(answer: object) -> ModelResponse:
    """Return the answer that an SDK's object, or its JSON, holds.

    Raises `ModelError` if it says nothing, and `CallerError` if it is none.
    """
    given = as_json(answer)
    with hiding(()):
        for reader in _readers():
            if reader.is_answer(given):
                return reader.read_answer(given)
        if given.get("error"):
            raise failure(*stated(given))
    raise CallerError(f"expected an answer of {_apis()}, found {answer!r:.200}")


def reader_of(event: Mapping[str, Any]) -> StreamReader:
    """Return a reader for the stream that begins with this event. Raises `CallerError`."""
    for reader in _readers():
        if reader.is_event(event):
            return reader
    raise CallerError(f"expected a chunk or an event of {_apis()}, found {dict(event)!r:.200}")


def _readers() -> Iterator[StreamReader]:
    return (format.stream() for format in FORMATS.values() if format.stream is not None)


def _apis() -> str:
    *some, last = (format.name for format in FORMATS.values() if format.stream is not None)
    return f"{', '.join(some)} or {last}"


def as_json(given: object) -> dict[str, Any]:
    """Return the JSON of an SDK's object, as its provider sent it. Raises `CallerError` for another."""
    if isinstance(given, Mapping):
        return dict(given)
    dump = getattr(given, "model_dump", None)
    if not callable(dump):
        raise CallerError(f"expected an object of an SDK of {_apis()}, or its JSON, found {given!r:.200}")
    # `exclude_unset` gives back what the provider sent, without the SDK's defaults.
    if not type(given).__module__.startswith("google."):
        return as_dict(dump(mode="json", by_alias=True, exclude_unset=True, warnings=False))
    # Google's SDK sets fields that were not sent to None.
    return standard_base64(as_dict(dump(mode="json", by_alias=True, exclude_none=True, warnings=False)))
