"""Times as typed and as shown: in UTC, or with --local in this zone.

2026-11-20             that day               45m, 2h, 3d, 1w    so long ago
2026-11-20T09:30       that minute            today, yesterday   that day
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, time, timedelta, tzinfo
from typing import NamedTuple

import click

from stenolog.domain.errors import InvalidEventError

A_TIME = "a day or a time (2026-11-20, 2026-11-20T09:30, 2h, 3d, yesterday, today)"
UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
DAYS_AGO = {"today": 0, "yesterday": 1}
AGO = re.compile(rf"(\d{{1,6}})([{''.join(UNITS)}])", re.ASCII)
LONGEST_DAY = len("2026-11-20")


def in_zone(time: datetime) -> datetime:
    """Return a time in UTC, or with --local in this machine's zone."""
    return time.astimezone(_zone())


def _zone() -> tzinfo | None:
    ctx = click.get_current_context(silent=True)
    return None if ctx is not None and ctx.params.get("local") else UTC


def now() -> datetime:
    """Return the present time."""
    return datetime.now(UTC)


def moment(written: str, expected: str = A_TIME, *, to_its_end: bool) -> datetime:
    """Return the written time; a day means its end, or its beginning.

    Raises `InvalidEventError`, naming what was expected.
    """
    try:
        at, is_a_day = _read(written)
    except (ValueError, OverflowError):
        raise InvalidEventError(f"expected {expected}, found {written!r}") from None
    if is_a_day and to_its_end:
        at = datetime.combine(at, time.max, at.tzinfo)
    if at.tzinfo is None:
        at = at.replace(tzinfo=UTC) if _zone() is UTC else at.astimezone()
    return at


def length(written: str, what: str) -> timedelta:
    """Return the length of a written time (45m, 180d). Raises `InvalidEventError`, which names `what`."""
    ago = AGO.fullmatch(written)
    if ago is None:
        raise InvalidEventError(f"{what}: expected a time such as 12h, 180d or 26w, found {written!r}")
    return timedelta(**{UNITS[ago[2]]: int(ago[1])})


class Period(NamedTuple):
    """The time from `--since` to `--until`; None: no limit."""

    first: datetime | None = None
    last: datetime | None = None

    def __contains__(self, time: object) -> bool:
        assert isinstance(time, datetime)
        return (self.first is None or time >= self.first) and (self.last is None or time <= self.last)


def period(since: str | None, until: str | None) -> Period:
    """Return the period between two written times. Raises `InvalidEventError`."""
    return Period(
        None if since is None else moment(since, to_its_end=False),
        None if until is None else moment(until, to_its_end=True),
    )


def _read(written: str) -> tuple[datetime, bool]:
    """Return the time, and whether it is a day. Raises ValueError, OverflowError."""
    if written in DAYS_AGO:
        day = in_zone(now()).date() - timedelta(days=DAYS_AGO[written])
        return datetime.combine(day, time.min), True
    if ago := AGO.fullmatch(written):
        return now() - length(ago[0], "time"), False
    return datetime.fromisoformat(written), len(written) <= LONGEST_DAY
