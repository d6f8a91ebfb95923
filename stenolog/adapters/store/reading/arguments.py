"""Checks of the public API's times, numbers and texts; `StreamHandle` checks positions.

Errors say what was expected and found.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import datetime

from stenolog.domain.entry import microseconds
from stenolog.domain.errors import ConversationNotFoundError, InvalidEventError

AWARE = "an aware datetime, such as datetime(2026, 1, 31, tzinfo=UTC)"


def missing(name: str, path: str) -> ConversationNotFoundError:
    """Return the error for a conversation that has no entries."""
    return ConversationNotFoundError(
        f"{name!r}: no such conversation in {path}; its first append would begin it"
    )


def instant(what: str, time: datetime | None) -> int | None:
    """Return the time in microseconds since 1970; None is any. Raises `InvalidEventError`."""
    if time is None:
        return None
    if not isinstance(time, datetime) or time.utcoffset() is None:
        raise InvalidEventError(f"{what}: expected {AWARE}, found {time!r}")
    return microseconds(time)


def number(what: str, asked: int) -> int:
    """Return the number. Raises `InvalidEventError`."""
    # `True` is an int to Python; as a number it is a slip.
    if isinstance(asked, bool) or not isinstance(asked, int) or asked < 0:
        raise InvalidEventError(f"{what}: expected a number from 0, found {asked!r}")
    return asked


def text(what: str, asked: str) -> str:
    """Return the words. Raises `InvalidEventError`."""
    if not isinstance(asked, str):
        raise InvalidEventError(f"{what}: expected text, found {asked!r:.80}")
    return asked


def some_of(what: str, asked: str | Iterable[str], known: Collection[str]) -> tuple[str, ...]:
    """Return the wanted names; a text is one of them. Raises `InvalidEventError`."""
    wanted = (asked,) if isinstance(asked, str) or not isinstance(asked, Iterable) else tuple(asked)
    if unknown := [each for each in wanted if each not in tuple(known)]:
        raise InvalidEventError(f"{what}: expected {', '.join(known)}; found {unknown[0]!r:.80}")
    return wanted
