"""The plain types that the values are made of: whatever they accept can be written, and read again."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any, TypeAlias

from pydantic import AfterValidator, AwareDatetime, Field, JsonValue

Positive: TypeAlias = Annotated[int, Field(ge=1, lt=2**63)]
"""An integer from 1; `Integer` with a bound of its own would keep the wider one."""
Natural: TypeAlias = Annotated[int, Field(ge=0, lt=2**63)]
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
DEEPEST = 100
"""Maximum nesting depth of JSON: half of what the decoder can read, since an event adds levels of its own."""
LARGEST = 10**1000
"""Exclusive bound of integers in JSON: JSON Schemas have more than 64 bits, the decoder reads 4300 digits."""


def in_utc(time: datetime) -> datetime:
    """Convert a time to UTC. Raises `ValueError` if it has no offset, or no year from 1 to 9999."""
    try:
        return EPOCH + (time - EPOCH)
    except (OverflowError, TypeError):
        raise ValueError("expected an aware datetime of the years 1 to 9999 in UTC") from None


def check_json(value: Any, depth: int = 0) -> Any:
    """The JSON value itself, if what is written of it can be read again; else a `ValueError`.

    No NaN, no infinity, no half of a surrogate pair, no integer from `LARGEST` on, at most `DEEPEST`
    levels.
    """
    if depth > DEEPEST:
        raise ValueError(f"expected JSON of at most {DEEPEST} levels")
    match value:
        case str():
            check_utf8(value)
        case float():
            if not -float("inf") < value < float("inf"):
                raise ValueError("expected a finite number")
        case int():
            if not -LARGEST < value < LARGEST:
                raise ValueError("expected an integer of at most 1000 digits")
        case list():
            for inner in value:
                check_json(inner, depth + 1)
        case dict():
            for key, inner in value.items():
                check_utf8(key)
                check_json(inner, depth + 1)
        case _:
            pass
    return value


def deep_copy_json(value: Any) -> Any:
    """The JSON value with objects and lists of its own."""
    if isinstance(value, dict):
        return {key: deep_copy_json(inner) for key, inner in value.items()}
    return [deep_copy_json(inner) for inner in value] if isinstance(value, list | tuple) else value


def check_utf8(text: str) -> str:
    """The text, if it can be written as UTF-8; else a `ValueError`."""
    text.encode()
    return text


def clean(text: str) -> str:
    """The text as it can be written: halves of a surrogate pair become their character, a lone one U+FFFD."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


Name: TypeAlias = Annotated[str, Field(min_length=1, pattern=r"\A[^/]*\z")]
"""An agent's name: `agent/task` is the address of one of its lanes, so it holds no slash."""
Integer: TypeAlias = Annotated[int, Field(ge=-(2**63), lt=2**63)]
Key: TypeAlias = Annotated[str, AfterValidator(check_utf8)]
Json: TypeAlias = Annotated[dict[str, JsonValue], AfterValidator(check_json)]
Utc: TypeAlias = Annotated[AwareDatetime, AfterValidator(in_utc)]
