"""Holds: what is covered by one can be neither erased nor deleted until it is released.

They are records of the log's history; the store asks for them in each erasure and deletion.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import NamedTuple

from stenolog.adapters.conversation.erasing import user
from stenolog.adapters.store.reading import arguments
from stenolog.adapters.store.reading.handle import LogHandle, existing_key
from stenolog.domain import history
from stenolog.domain.entry import EPOCH, MICROSECOND, microseconds
from stenolog.domain.errors import InvalidEventError


class Hold(NamedTuple):
    """A hold; on all conversations, present and future ones, if `conversation` is None.

    It covers entries from `since` to `until`, or those younger than `age`; if all are None, every entry.
    """

    number: int
    conversation: str | None
    since: datetime | None
    until: datetime | None
    age: timedelta | None
    by: str
    at: datetime
    reason: str
    released_by: str = ""
    released_at: datetime | None = None
    release_reason: str = ""

    @property
    def is_in_force(self) -> bool:
        """True until it is released."""
        return self.released_at is None


def hold(
    log: LogHandle,
    conversation: str | None = None,
    *,
    since: datetime | None = None,
    until: datetime | None = None,
    younger_than: timedelta | None = None,
    reason: str,
    by: str | None = None,
) -> Hold:
    """Put a conversation, or with None all of them, under hold; return the hold.

    What it covers can be neither erased nor deleted until `release`: a conversation with all that it
    inherits, and its forks. `since` and `until`, aware times, limit it to entries of that time, and
    `younger_than` to entries that are not yet as old; `by` None is the system's user.

    Raises `InvalidEventError`, `ConversationNotFoundError`.
    """
    first, last = map(arguments.instant, ("since", "until"), (since, until))
    age = 0 if younger_than is None else younger_than // MICROSECOND
    if (younger_than is not None and age <= 0) or (age and not (first is last is None)):
        raise InvalidEventError("younger_than: expected a positive time, without since and until")
    if any(time is not None and time <= 0 for time in (first, last)) or (first or 0) > (last or first or 0):
        raise InvalidEventError("since, until: expected times after 1970, the earlier one first")
    stream = history.EVERY_STREAM
    if conversation is not None:
        stream = existing_key(log, log.stream(conversation))
    made = history.Hold(0, stream, first or 0, last or 0, age, _signed(log, by, reason, needed=True))
    number = log.recorder.erasure.note_hold(made.record())
    return _with_names(log, made._replace(number=number))


def holds(log: LogHandle) -> list[Hold]:
    """Return every hold, released ones too, the oldest first."""
    return [_with_names(log, each) for each in history.holds_of(log.recorder.erasure.holds())]


def release(log: LogHandle, number: int, *, reason: str = "", by: str | None = None) -> Hold:
    """Release a hold, and return it. Raises `InvalidEventError` if none of that number is in force."""
    found = history.holds_of(log.recorder.erasure.holds())
    made = next((each for each in found if each.number == number and each.released is None), None)
    if made is None:
        numbers = ", ".join(str(each.number) for each in found if each.released is None) or "none"
        raise InvalidEventError(f"expected the number of a hold in force ({numbers}), found {number}")
    said = _signed(log, by, reason)
    log.recorder.erasure.note_hold(history.release_of(made, said))
    return _with_names(log, made._replace(released=said))


def _signed(log: LogHandle, by: str | None, reason: str, *, needed: bool = False) -> history.Said:
    who = user() if by is None else by
    if not who.strip() or "\n" in who:
        raise InvalidEventError(f"by: expected a name on one line, found {who!r:.60}")
    if needed and not reason.strip():
        raise InvalidEventError("reason: expected why, found nothing")
    return history.Said(who, microseconds(log.edge.clock()), reason)


def _with_names(log: LogHandle, made: history.Hold) -> Hold:
    name = None if made.stream == history.EVERY_STREAM else log.recorder.conversations.name_of(made.stream)
    if made.stream != history.EVERY_STREAM and name is None:
        name = f"conversation {made.stream}, deleted"
    shown = Hold(
        made.number,
        name,
        _time(made.since),
        _time(made.until),
        made.age * MICROSECOND if made.age else None,
        made.said.by,
        EPOCH + made.said.at * MICROSECOND,
        made.said.reason,
    )
    if made.released is None:
        return shown
    by, at, reason = made.released
    return shown._replace(released_by=by, released_at=EPOCH + at * MICROSECOND, release_reason=reason)


def _time(at: int) -> datetime | None:
    return EPOCH + at * MICROSECOND if at else None
