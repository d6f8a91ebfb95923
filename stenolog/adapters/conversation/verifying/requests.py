"""Check of a log's requests in several processes: sent ones are the same, others are valid."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import chain, groupby
from typing import NamedTuple

from stenolog.adapters.conversation.log import Conversation, Log
from stenolog.adapters.conversation.queries.requests.token_counters import COUNTERS
from stenolog.domain.entry import Entry, to_entry
from stenolog.domain.erasure import DAMAGED, ERASED, WITHHELD
from stenolog.domain.errors import CallerError, StenologError, StoredDataError
from stenolog.domain.events import Damaged, ModeSwitch
from stenolog.domain.lanes.state import Blocked, blocked_error
from stenolog.projections.formats import FORMATS
from stenolog.projections.messages.sizes import Counter
from stenolog.projections.requests.proofs import Checked, Proof, checked, proofs

from .parallel import Chunk, cores, heads, run_in_processes, shares

SIZE = 500
"""So many positions make a task: some seconds, where each of them is checked."""
WORTH, WORTH_AT_ENDS = 500, 50_000
"""More positions are worth another process; or more entries, where each lane is checked after its last."""


class CheckedRequests(NamedTuple):
    """Result for some positions: the number of requests, and broken laws.

    `error` is the reason that further requests could not be built.
    """

    conversation: str
    positions: range
    requests: int
    invalid: tuple[Checked, ...]
    error: StenologError | None = None


def check(
    log: Log,
    names: Sequence[str],
    *,
    apis: Sequence[str] | None = None,
    all_prefixes: bool = False,
    jobs: int | None = 1,
) -> Iterator[CheckedRequests]:
    """Check conversations' requests in order; a long one in several parts.

    `apis` are names of APIs, None for all. `jobs` is a number of processes; None: one per processor, if
    worthwhile. With more than one the program's main module is imported in each.
    """
    found, chosen = heads(log, names), tuple(FORMATS if apis is None else apis)
    if jobs is None:
        jobs = cores() if sum(found.values()) > (WORTH if all_prefixes else WORTH_AT_ENDS) else 1
    tasks = shares(found, SIZE, split=all_prefixes)
    return chain.from_iterable(run_in_processes(log, partial(_checked, chosen, all_prefixes), tasks, jobs))


def _checked(
    apis: Sequence[str], all_prefixes: bool, log: Log, task: Sequence[Chunk]
) -> list[CheckedRequests]:
    return [_found(log, share, apis, all_prefixes) for share in task]


def _found(log: Log, share: Chunk, apis: Sequence[str], all_prefixes: bool) -> CheckedRequests:
    """Check a share; report errors, so that other shares are checked."""
    name, positions = share
    requests, invalid, error = 0, list[Checked](), None
    try:
        entries = [*log[name].entries(at=None if all_prefixes else positions.stop - 1)]
        for one in checked(
            entries,
            apis=apis,
            all_prefixes=all_prefixes,
            within=positions if all_prefixes else None,
            blobs=log.blobs,
            counters=COUNTERS,
        ):
            requests += 1
            if one.violations:
                invalid.append(one)
        for entry in entries:
            if isinstance(entry.event, Damaged):  # its author may be a lane of which nothing else is known
                raise blocked_error(Blocked(entry.position, DAMAGED, entry.event.reason))
    except (CallerError, StoredDataError) as failed:
        error = failed
    return CheckedRequests(name, positions, requests, tuple(invalid), error)


PROOF_SIZE = 1_000
"""So many positions are a task: a second or some."""
PROOF_WORTH = 10_000
"""More positions are worth another process."""


class Proved(NamedTuple):
    """A conversation, and what became of each of its receipts."""

    conversation: str
    proofs: list[Proof]


def prove(
    subject: Log | Conversation, *, counters: Mapping[str, Counter] = COUNTERS, jobs: int | None = 1
) -> Iterator[Proved]:
    """Rebuild the requests of one or all conversations; inherited entries are the parent's.

    Unreadable entries leave later requests unproved, without an error. `jobs` is a number of processes; None:
    one per processor, if worthwhile.
    """
    log, whole = (subject, False) if isinstance(subject, Log) else (subject.log, True)
    found = heads(log, [subject.name] if isinstance(subject, Conversation) else log.names(archived=True))
    if jobs is None:
        jobs = cores() if sum(found.values()) > PROOF_WORTH else 1
    made = run_in_processes(
        log, partial(_proved, whole, counters), shares(found, PROOF_SIZE, split=jobs > 1), jobs
    )
    for name, parts in groupby(chain.from_iterable(made), lambda part: part.conversation):
        yield Proved(name, [proof for part in parts for proof in part.proofs])


def _proved(whole: bool, counters: Mapping[str, Counter], log: Log, task: Sequence[Chunk]) -> list[Proved]:
    return [_of_share(log, share, whole, counters) for share in task]


def _of_share(log: Log, share: Chunk, whole: bool, counters: Mapping[str, Counter]) -> Proved:
    entries = [*_readable(log[share.conversation])]
    own = 0 if whole else _inherited(entries)
    within = range(max(share.positions.start, own + 1), share.positions.stop)
    return Proved(share.conversation, proofs(entries, within=within, blobs=log.blobs, counters=counters))


def _readable(conversation: Conversation) -> Iterator[Entry]:
    with suppress(StoredDataError):
        withheld = conversation.withheld()
        for record in conversation.records():
            with suppress(StoredDataError, ValueError, TypeError, OverflowError):
                wordless = WITHHELD if record.position in withheld else ERASED
                yield to_entry(conversation.name, record, wordless=wordless)


def _inherited(entries: list[Entry]) -> int:
    opened = (entry for entry in entries if isinstance(entry.event, ModeSwitch) and entry.event.fork)
    return max((entry.position - 1 for entry in opened), default=0)
