"""The receipts of a log: is every request that was sent built again byte for byte?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import NamedTuple

from stenolog.domain.entry import Entry, to_entry
from stenolog.domain.errors import StoredDataError
from stenolog.domain.events import ModeSwitch
from stenolog.projections.requests.proof import Proof, proofs
from stenolog.projections.requests.tokens import Counter

from .conversation import Conversation
from .counters import COUNTERS
from .log import Log


class Proved(NamedTuple):
    """A conversation, and what became of each of its receipts."""

    conversation: str
    proofs: list[Proof]


def prove(subject: Log | Conversation, *, counters: Mapping[str, Counter] = COUNTERS) -> Iterator[Proved]:
    """Build the requests of a conversation again, or those of all; what a fork inherits is its parent's.

    Entries that cannot be read leave what was built on them unproved; nothing is raised for them.
    """
    if isinstance(subject, Conversation):
        yield _proved(subject, [*_readable(subject)], counters)
        return
    for name in subject.names(archived=True):
        entries = [*_readable(subject[name])]
        yield _proved(subject[name], entries, counters, after=_inherited(entries))


def _proved(
    talk: Conversation, entries: list[Entry], counters: Mapping[str, Counter], *, after: int = 0
) -> Proved:
    found = proofs(entries, blobs=talk.log.blobs, counters=counters)
    return Proved(talk.name, [proof for proof in found if proof.position > after])


def _readable(talk: Conversation) -> Iterator[Entry]:
    """The entries that can still be read, up to where even their places are lost."""
    with suppress(StoredDataError):
        for record in talk.records():
            with suppress(StoredDataError, ValueError, TypeError, OverflowError):
                yield to_entry(talk.name, record)


def _inherited(entries: list[Entry]) -> int:
    """The position up to which the entries are the parent's; 0 where it is no fork."""
    opened = (entry for entry in entries if isinstance(entry.event, ModeSwitch) and entry.event.fork)
    return max((entry.position - 1 for entry in opened), default=0)
