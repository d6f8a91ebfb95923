"""Folds kept up to date: a checkpoint, and the entries since.

>>> from stenolog.projections.base import fold
>>> @fold(initial=0, name="entries")
... def count(total, entry):
...     return total + 1
>>> kept(count, int).dump(3)
b'3'
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from pydantic import TypeAdapter

from stenolog.domain.entry import Entry
from stenolog.domain.errors import UnknownPosition
from stenolog.domain.settings import NOTHING, Settings, configure
from stenolog.domain.state import State
from stenolog.domain.step import INITIAL, evolve
from stenolog.projections.base import Fold

from .stores import reading
from .stores.checkpoints import SPACING, Checkpoint
from .stores.events import LAST

if TYPE_CHECKING:
    from .conversation import Conversation

S = TypeVar("S")
WORTH_KEEPING = 32
"""So many entries must have been folded before their state is worth a checkpoint."""


@dataclass(frozen=True)
class Kept(Generic[S]):
    """A fold whose state can be written down and read back: `load(dump(state)) == state`."""

    fold: Fold[S]
    dump: Callable[[S], bytes]
    load: Callable[[bytes], S]

    @property
    def version(self) -> str:
        """What a checkpoint must have been made by: another release may fold otherwise."""
        from stenolog import __version__  # late: it imports this module

        return f"{self.fold.version} of {__version__}"


def kept(fold: Fold[S], state: type[S]) -> Kept[S]:
    """The fold with its state written as JSON, by pydantic: `state` is its type."""
    json = Json(state)
    return Kept(fold, json.dump, json.load)


class Json(Generic[S]):
    """A type as JSON. Pydantic's adapter is built when it is first needed: it takes milliseconds."""

    def __init__(self, kind: type[S]) -> None:
        self.kind = kind

    def dump(self, value: S) -> bytes:
        return self._adapter.dump_json(value)

    def load(self, text: bytes) -> S:
        return self._adapter.validate_json(text)

    @cached_property
    def _adapter(self) -> TypeAdapter[S]:
        return TypeAdapter(self.kind)


STATE = kept(Fold("state", INITIAL, evolve, version=3), State)
SETTINGS = kept(Fold("settings", NOTHING, configure), Settings)


def current(talk: Conversation, kept: Kept[S], upto: int | None = None) -> S:
    """The state of the fold at `upto`: from a checkpoint that the log agrees with, and the entries since."""
    state: S
    (state,) = together(talk, (kept,), upto)
    return state


def together(talk: Conversation, folds: Sequence[Kept[Any]], upto: int | None = None) -> list[Any]:
    """The states of several folds at one position, by one reading of the entries."""
    begun = [start(talk, kept, upto) for kept in folds]
    states = [state for state, _ in begun]
    last: Entry | None = None
    for last in talk.entries(min(at for _, at in begun), upto):
        for nth, (_, at) in enumerate(begun):
            if last.position > at:
                states[nth] = folds[nth].fold.evolve(states[nth], last)
                if ends_a_stretch(last):
                    keep(talk, folds[nth], last, states[nth])
    if last is not None and upto is None:
        for kept, state, (_, at) in zip(folds, states, begun, strict=True):
            if last.position - at >= WORTH_KEEPING:
                keep(talk, kept, last, state)
    return states


def ends_a_stretch(entry: Entry) -> bool:
    """Whether the state at an entry is kept for good, so that the past is reached quickly too."""
    return entry.position % SPACING == SPACING - 1


def start(talk: Conversation, kept: Kept[S], upto: int | None) -> tuple[S, int]:
    """Where to begin: the last checkpoint's state and position, or the very beginning."""
    stream = talk.stream.key
    if stream is not None:
        last = LAST if upto is None else upto
        found = talk.log.checkpoints.get(stream, kept.fold.name, kept.version, last)
        if found is not None and _agrees(talk, found):
            try:
                return kept.load(found.state), found.position
            except ValueError:  # not what `dump` writes
                pass
    return kept.fold.initial, 0


def _agrees(talk: Conversation, checkpoint: Checkpoint) -> bool:
    try:
        return reading.digest_at(talk.log.datastore, talk.stream, checkpoint.position) == checkpoint.digest
    except UnknownPosition:
        return False


def keep(talk: Conversation, kept: Kept[S], entry: Entry, state: S) -> None:
    """Keep the state of a fold at an entry."""
    assert talk.stream.key is not None, "a conversation with entries has a stream"
    checkpoint = Checkpoint(entry.position, bytes.fromhex(entry.digest), kept.dump(state))
    talk.log.checkpoints.put(talk.stream.key, kept.fold.name, kept.version, checkpoint)
