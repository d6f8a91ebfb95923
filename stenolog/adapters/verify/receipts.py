"""The receipts of a log: is every request that was sent built again byte for byte?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import chain, groupby
from typing import NamedTuple

from stenolog.adapters.log import Conversation, Log
from stenolog.adapters.queries.token_counters import COUNTERS
from stenolog.domain.entry import Entry, to_entry
from stenolog.domain.errors import StoredDataError
from stenolog.domain.events import ModeSwitch
from stenolog.projections.requests.receipts import Proof, proofs
from stenolog.projections.requests.tokens import Counter

from .parallel import Chunk, cores, heads, run_in_processes, shares

SIZE = 1_000
"""So many positions are a task: a second or some."""
WORTH = 10_000
"""More positions are worth another process."""


class Proved(NamedTuple):
    """A conversation, and what became of each of its receipts."""

    conversation: str
    proofs: list[Proof]


def prove(
    subject: Log | Conversation, *, counters: Mapping[str, Counter] = COUNTERS, jobs: int | None = 1
) -> Iterator[Proved]:
    """Build the requests of a conversation again, or those of all; what a fork inherits is its parent's.

    Entries that cannot be read leave what was built on them unproved; nothing is raised for them. `jobs` is a
    number of processes; None takes one for each processor, where that pays.
    """
    log, whole = (subject, False) if isinstance(subject, Log) else (subject.log, True)
    found = heads(log, [subject.name] if isinstance(subject, Conversation) else log.names(archived=True))
    if jobs is None:
        jobs = cores() if sum(found.values()) > WORTH else 1
    made = run_in_processes(log, partial(_proved, whole, counters), shares(found, SIZE, split=jobs > 1), jobs)
    for name, parts in groupby(chain.from_iterable(made), lambda part: part.conversation):
        yield Proved(name, [proof for part in parts for proof in part.proofs])


def _proved(whole: bool, counters: Mapping[str, Counter], log: Log, task: Sequence[Chunk]) -> list[Proved]:
    """Check the receipts of each share; with `whole`, also those that a fork inherits."""
    return [_of_share(log, share, whole, counters) for share in task]


def _of_share(log: Log, share: Chunk, whole: bool, counters: Mapping[str, Counter]) -> Proved:
    entries = [*_readable(log[share.conversation])]
    own = 0 if whole else _inherited(entries)
    within = range(max(share.positions.start, own + 1), share.positions.stop)
    return Proved(share.conversation, proofs(entries, within=within, blobs=log.blobs, counters=counters))


def _readable(conversation: Conversation) -> Iterator[Entry]:
    """The entries that can still be read, up to where even their places are lost."""
    with suppress(StoredDataError):
        for record in conversation.records():
            with suppress(StoredDataError, ValueError, TypeError, OverflowError):
                yield to_entry(conversation.name, record)


def _inherited(entries: list[Entry]) -> int:
    """The position up to which the entries are the parent's; 0 where it is no fork."""
    opened = (entry for entry in entries if isinstance(entry.event, ModeSwitch) and entry.event.fork)
    return max((entry.position - 1 for entry in opened), default=0)
