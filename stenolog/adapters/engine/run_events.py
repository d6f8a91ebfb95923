"""Events of a run, which the engine yields as they happen."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from stenolog.adapters.llms.base import Kind
from stenolog.domain.entry import Entry


class EntryAppended(NamedTuple):
    """An entry stands in the log, whoever appended it."""

    entry: Entry


class StreamDelta(NamedTuple):
    """A little more of an answer that is being written; `cause` is the position that it answers.

    Of a tool call it is a little more of the arguments; of an `act`, all of it as JSON. `part` is the index
    of the part that it belongs to.
    """

    lane: str
    cause: int
    text: str
    kind: Kind = "text"
    part: int = 0


RunEvent: TypeAlias = EntryAppended | StreamDelta
