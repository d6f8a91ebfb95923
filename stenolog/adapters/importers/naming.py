"""Names for the imported conversations of a file: the name asked for, else their own."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from itertools import chain, count
from typing import TYPE_CHECKING

from stenolog.adapters.providers.json_fields import name_of
from stenolog.domain.errors import CallerError

from .converter import SourceConversation
from .steps import read_existing

if TYPE_CHECKING:
    from stenolog.adapters.log import Conversation, Log


class Naming:
    """Names for the conversations of a file: the name asked for, else their own.

    One that the log has by the name asked for keeps it, wherever it stands in the file by now. `is_alone`:
    there is no other in the file, so that what the log has by that name is to be this one.
    """

    def __init__(self, log: Log, stem: str, asked: str | None) -> None:
        self._log = log
        self._stem = stem
        self._asked = [] if asked is None else [asked]
        self._used: set[str] = set()
        self.is_alone = True

    def name(self, own: str, is_held: Callable[[Conversation], bool] = lambda _: False) -> str:
        """A name for one more conversation, whose own name may be empty, and which the log may hold."""
        inner = "/".join([*self._asked, name_of(own or self._stem)])
        kept = (name for name in (*self._asked, inner) if self._asked and name in self._log)
        free = self._asked if self.is_alone or not any(name in self._log for name in self._asked) else []
        names = chain(free, [inner], (f"{inner}-{number}" for number in count(2)))
        found = next((name for name in kept if name not in self._used and is_held(self._log[name])), None)
        name = found or next(name for name in names if name not in self._used)
        self._used.add(name)
        return name


def is_held(told: SourceConversation, conversation: Conversation) -> bool:
    """Return whether a conversation of the log is the one in the file: it has more of it than its
    settings."""
    converter = told.make(read_existing(conversation.entries()))
    try:
        for record in told.records:
            with suppress(ValueError, ArithmeticError, RecursionError):
                converter.take(record)
        converter.end()
    except CallerError:
        return False
    return converter.scribe.already > 1
