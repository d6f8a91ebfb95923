"""Times in foreign JSON, and the zone of those without one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any
from zoneinfo import ZoneInfo

from stenolog.domain.entry import EPOCH
from stenolog.domain.errors import CallerError

MILLISECONDS = 10**11
"""A time from this number on counts milliseconds: in seconds it would be after the year 5138."""
ZONE: ContextVar[tzinfo | None] = ContextVar("zone", default=UTC)
"""The zone of times that name none; None: this machine's."""


def as_time(value: Any, default: datetime = EPOCH) -> datetime:
    """Return an ISO time, or seconds or milliseconds since 1970, in aware UTC; else the default.

    A time without a zone is in `ZONE`.
    """
    try:
        if isinstance(value, str):
            found = datetime.fromisoformat(value)
            zone = None if found.tzinfo else ZONE.get()
            return (found.replace(tzinfo=zone) if zone else found).astimezone(UTC)
        if isinstance(value, int | float) and not isinstance(value, bool):
            return EPOCH + timedelta(seconds=value / 1000 if abs(value) >= MILLISECONDS else value)
    except (ValueError, OverflowError):
        pass
    return default


@contextmanager
def times_in(zone: str) -> Iterator[None]:
    """Read times without a zone in one: `Europe/Vienna`, `local`, or empty for UTC.

    Raises `CallerError` for another name.
    """
    known: tzinfo | None = UTC
    if zone:
        try:
            known = None if zone == "local" else ZoneInfo(zone)
        except (ValueError, OSError, LookupError):  # no name of a zone
            raise CallerError(
                f"zone: expected a name such as Europe/Vienna, or local, found {zone!r}"
            ) from None
    token = ZONE.set(known)
    try:
        yield
    finally:
        ZONE.reset(token)
