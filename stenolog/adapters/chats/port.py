"""What goes out of a conversation, and the way out: the port that every chat, mail or feed shares."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import NamedTuple, TypeAlias

from stenolog.domain.entry import Entry
from stenolog.domain.settings import Settings


class Piece(NamedTuple):
    """A part of what an entry has to say outside: number `nth` of `number`, counted from 1.

    `speaker` is the lane that said it, or that it is about.
    """

    text: str
    speaker: str
    position: int
    nth: int
    number: int


Send: TypeAlias = Callable[[Piece], Awaitable[None]]
"""Hands a piece over, and returns when it is there. Raises `OSError` where it may work later, so that it is
tried again, and `PermissionError` where nothing is wanted there any more."""
Render: TypeAlias = Callable[[Entry, Settings], Iterable[str]]
"""The pieces of an entry, under the settings that hold there; none: it is not for outside. It depends on
these two alone, for an entry that was sent in part is rendered again after a restart."""
Backoff: TypeAlias = Callable[[int], float]
"""How many seconds to wait after so many failures in a row."""


def backoff(failures: int) -> float:
    """One second after the first failure, then twice as long each time, up to a minute."""
    return float(min(60, 2 ** min(failures - 1, 6)))
