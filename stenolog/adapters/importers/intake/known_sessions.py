"""Conversations of earlier imports, found by their ids in files.

So a renamed one is continued, and a deleted one stays deleted. The log keeps the id's hash with the
conversation's number, which is never reused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from hashlib import sha256
from itertools import chain, count, takewhile
from typing import TYPE_CHECKING, Any, NamedTuple

from stenolog.adapters.importers.conversion.converter import SourceConversation
from stenolog.adapters.importers.conversion.steps import Append, ExistingLog, Step, read_existing
from stenolog.adapters.store.contract.values import Cursor
from stenolog.domain.errors import CallerError
from stenolog.projections.messages.json_fields import conversation_name

if TYPE_CHECKING:
    from stenolog.adapters.conversation.log import Conversation, Log

PREFIX = "imported "
"""The beginning of the names under which the log notes conversations of earlier imports."""


class Place(NamedTuple):
    """A conversation's name in the log, and the marks by which later imports find it.

    `key` is its number there if an earlier import was found.
    """

    name: str
    marks: tuple[str, ...] = ()
    is_deleted: bool = False
    key: int | None = None


def mark_of(id: str) -> str:
    """Return the log's mark for a conversation of that id."""
    # A hash, since of a deleted conversation no word stays.
    return f"{PREFIX}{sha256(id.encode(errors='surrogatepass')).hexdigest()}"


def name_now(log: Log, mark: str) -> str | None:
    """Return an imported conversation's present name; None if there is none."""
    return _name_of(log, log.recorder.load_cursor(mark).position)


def _name_of(log: Log, key: int) -> str | None:
    return log.recorder.conversations.name_of(key) if key else None


def is_deleted(log: Log, mark: str) -> bool:
    """Return whether the conversation imported under this mark is deleted."""
    key = log.recorder.load_cursor(mark).position
    return key > 0 and log.recorder.conversations.name_of(key) is None


def note(log: Log, place: Place) -> None:
    """Mark a logged conversation without a mark, such as one from its own export."""
    key = log.recorder.conversations.find(place.name)
    for mark in place.marks:
        if key is not None and name_now(log, mark) is None:
            log.recorder.save_cursor(mark, Cursor(key))


def _unknown(_: Conversation) -> bool:
    return False


class Naming:
    """Names for a file's conversations: the requested one, else their own.

    One logged under the requested name keeps it, wherever it is in the file. `is_alone`: it is the file's
    only one, so the logged one of that name must be it.

    `file` is the scope in which own names are unique; without it nothing is found by id. `is_session`: own
    names are session ids, unique everywhere. `is_stream`: the file may be an earlier one that has grown.
    `again`: deleted conversations are imported again. `asked` has the requested name, if any.
    """

    def __init__(
        self,
        log: Log,
        stem: str,
        asked: str | None,
        *,
        file: str = "",
        is_session: bool = False,
        is_stream: bool = False,
        again: bool = False,
    ) -> None:
        self._log = log
        self._file = file
        self._is_session = is_session
        self.is_grown = is_stream and asked is None
        """True if of one name only that is continued with which the file begins."""
        self.again = again
        self._stem = stem
        self.asked = [] if asked is None else [asked]
        self._used: set[str] = set()
        self.is_alone = True

    def knows(self, own: str) -> bool:
        """Return whether the log has a session of that id, under any name."""
        marks = (mark_of("\n".join(each)) for each in ([own], [own, *self.asked]))
        return own in self._log or any(name_now(self._log, mark) is not None for mark in marks)

    def find_place(self, own: str, is_held: Callable[[Conversation], bool] = _unknown) -> Place:
        """Return a conversation's place: an earlier import's, else by its name."""
        id = own if own and self._is_session else self._file and f"{self._file}\n{own}"
        if not id:
            return Place(self.name(own, is_held))
        first = mark_of(id)
        mark = mark_of("\n".join([id, *self.asked])) if self.asked else first
        key = self._log.recorder.load_cursor(mark).position
        if (now := _name_of(self._log, key)) is not None:
            self._used.add(now)
            return Place(now, (mark,), key=key)
        usual = conversation_name(own or self._stem)
        # One that came back by its own export is there by its name.
        is_back = bool(own) and self._is_session and usual in self._log
        if not (self.again or is_back) and is_deleted(self._log, mark):
            return Place(usual, (mark,), is_deleted=True)
        # A copy under a name that was asked for is not the session's, where it is in the log already.
        is_copy = bool(self.asked) and name_now(self._log, first) is not None
        return Place(self.name(own, is_held), (mark,) if is_copy else tuple(dict.fromkeys((mark, first))))

    def name(self, own: str, is_held: Callable[[Conversation], bool] = _unknown) -> str:
        """Return a conversation's name; its own may be empty or taken."""
        inner = "/".join([*self.asked, conversation_name(own or self._stem)])
        free = self.asked if self.is_alone or not any(name in self._log for name in self.asked) else []
        kept: Iterator[str] = (name for name in (*self.asked, inner) if self.asked and name in self._log)
        names: Iterator[str] = chain(free, _numbered(inner))
        if self.is_grown and not own and is_held is not _unknown:
            kept = takewhile(self._log.__contains__, _numbered(inner))
            names = (name for name in _numbered(inner) if name not in self._log)
        found = next((name for name in kept if name not in self._used and is_held(self._log[name])), None)
        name = found or next(name for name in names if name not in self._used)
        self._used.add(name)
        return name


def is_held(source: SourceConversation, conversation: Conversation) -> bool:
    """Return whether a logged conversation is the one in the file.

    They must share more than settings.
    """
    converter = source.make(read_existing(conversation.entries()))
    try:
        for record in source.records:
            with suppress(ValueError, ArithmeticError, RecursionError):
                converter.take(record)
        converter.end()
    except CallerError:
        return False
    return converter.writer.already > 1


def begins_with(source: SourceConversation) -> Callable[[Conversation], bool]:
    """Return whether the conversation in a file begins with all that a logged one has of a file."""

    @cache
    def parts() -> dict[str | None, Any]:
        converter = source.make(ExistingLog())
        steps: list[Step] = []
        for record in source.records:
            with suppress(ValueError, ArithmeticError, RecursionError):
                steps += converter.take(record)
        drafts = (step.draft for step in (*steps, *converter.end()) if isinstance(step, Append))
        return {draft.id: getattr(draft.event, "parts", None) for draft in drafts}

    def is_begun(conversation: Conversation) -> bool:
        said = 0
        for entry in conversation.entries():
            if getattr(entry.event, "source", None) and (had := getattr(entry.event, "parts", ())):
                said += 1
                if parts().get(entry.id) != had:
                    return False
        return said > 0

    return is_begun


def _numbered(name: str) -> Iterator[str]:
    return chain([name], (f"{name}-{number}" for number in count(2)))
