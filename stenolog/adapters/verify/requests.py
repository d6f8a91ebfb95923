"""Is every request that a log could lead to one that its provider takes?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import chain
from typing import NamedTuple

from stenolog.adapters.log import Log
from stenolog.adapters.queries.token_counters import COUNTERS
from stenolog.domain.errors import CallerError, StenologError, StoredDataError
from stenolog.projections.requests.validate import Checked, checked
from stenolog.projections.requests.validation import LAWS

from .parallel import Chunk, cores, heads, run_in_processes, shares

SIZE = 500
"""So many positions make a task: some seconds, where each of them is checked."""
WORTH, WORTH_AT_ENDS = 500, 50_000
"""More positions are worth another process; or more entries, where each lane is checked behind its last."""


class CheckedRequests(NamedTuple):
    """The result of checking some positions: the number of requests, and those that break a law.

    `error` is the reason that the other requests could not be built.
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
    """Check the requests of conversations, in order; a long one is found in several parts.

    `apis` are names of APIs, every registered one where it is None. `jobs` is a number of processes; None
    takes one for each processor, where that pays. With more than one the main module of the program is
    imported in each.
    """
    found, chosen = heads(log, names), tuple(LAWS if apis is None else apis)
    if jobs is None:
        jobs = cores() if sum(found.values()) > (WORTH if all_prefixes else WORTH_AT_ENDS) else 1
    tasks = shares(found, SIZE, split=all_prefixes)
    return chain.from_iterable(run_in_processes(log, partial(_checked, chosen, all_prefixes), tasks, jobs))


def _checked(
    apis: Sequence[str], all_prefixes: bool, log: Log, task: Sequence[Chunk]
) -> list[CheckedRequests]:
    return [_found(log, share, apis, all_prefixes) for share in task]


def _found(log: Log, share: Chunk, apis: Sequence[str], all_prefixes: bool) -> CheckedRequests:
    """One share, whatever is wrong with it: the others are to be checked all the same."""
    name, positions = share
    requests, invalid, error = 0, list[Checked](), None
    try:
        for one in checked(
            log[name].entries(at=None if all_prefixes else positions.stop - 1),
            apis=apis,
            all_prefixes=all_prefixes,
            within=positions if all_prefixes else None,
            blobs=log.blobs,
            counters=COUNTERS,
        ):
            requests += 1
            if one.breaches:
                invalid.append(one)
    except (CallerError, StoredDataError) as failed:
        error = failed
    return CheckedRequests(name, positions, requests, tuple(invalid), error)
