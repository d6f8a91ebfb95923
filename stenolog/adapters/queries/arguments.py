"""Checks of the public API's arguments: positions, times, numbers and texts.

Every error says what was expected and what was found.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import datetime
from typing import TYPE_CHECKING

from stenolog.domain.entry import microseconds
from stenolog.domain.errors import ConversationNotFoundError, InvalidEventError, PositionNotFoundError

if TYPE_CHECKING:
    from stenolog.adapters.conversation import Conversation

AWARE = "an aware datetime, such as datetime(2026, 1, 31, tzinfo=UTC)"


def position(conversation: Conversation, asked: int, *, least: int = 0) -> int:
    """The position, if the conversation has come so far.

    Raises `PositionNotFoundError`, and `ConversationNotFoundError` where an entry is asked of one that has
    none.
    """
    remembered = conversation.stream.head  # what it has come to need not be asked of the file
    if remembered is not None and _is_among(asked, least, remembered.position):
        return asked
    head = conversation.position
    if head < least:
        raise missing(conversation.name, conversation.log.path)
    if not _is_among(asked, least, head):
        found = f"{asked!r:.80}"
        raise PositionNotFoundError(
            f"{conversation.name!r}: expected a position from {least} to {head}, found {found}"
        )
    return asked


def _is_among(asked: object, least: int, last: int) -> bool:
    return isinstance(asked, int) and not isinstance(asked, bool) and least <= asked <= last


def missing(name: str, path: str) -> ConversationNotFoundError:
    """Return the error for a conversation that has no entries."""
    return ConversationNotFoundError(
        f"{name!r}: no such conversation in {path}; its first append would begin it"
    )


def instant(what: str, time: datetime | None) -> int | None:
    """The time in microseconds since 1970; None is any. Raises `InvalidEventError`."""
    if time is None:
        return None
    if not isinstance(time, datetime) or time.utcoffset() is None:
        raise InvalidEventError(f"{what}: expected {AWARE}, found {time!r}")
    return microseconds(time)


def number(what: str, asked: int) -> int:
    """So many. Raises `InvalidEventError`."""
    if isinstance(asked, bool) or not isinstance(asked, int) or asked < 0:
        raise InvalidEventError(f"{what}: expected a number from 0, found {asked!r}")
    return asked


def text(what: str, asked: str) -> str:
    """The words. Raises `InvalidEventError`."""
    if not isinstance(asked, str):
        raise InvalidEventError(f"{what}: expected text, found {asked!r:.80}")
    return asked


def some_of(what: str, asked: str | Iterable[str], known: Collection[str]) -> tuple[str, ...]:
    """Those that were asked for; a text is one of them. Raises `InvalidEventError`."""
    wanted = (asked,) if isinstance(asked, str) or not isinstance(asked, Iterable) else tuple(asked)
    if unknown := [each for each in wanted if each not in tuple(known)]:
        raise InvalidEventError(f"{what}: expected {', '.join(known)}; found {unknown[0]!r:.80}")
    return wanted
