"""Every request that the real transcripts could have led to, before independent judges.

    python -m benchmarks corpus [--every N]

Every prefix of every log (forks too) and of the twelve damaged histories, every lane, four APIs, every
policy; or every N-th prefix and the last. Needs the transcripts and the judges beside the checkout; without
them there is nothing to measure.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from itertools import product
from pathlib import Path

from benchmarks._pool import Found, together
from benchmarks._ratio import Row, accepted
from stenolog import Request
from stenolog.projections.requests.incremental.window import Window
from stenolog.projections.requests.pipeline.must_stay import must_keep, positions_of
from stenolog.projections.views.tool_pairs import pair
from tests.requests.corpus import DAMAGED, TRANSCRIPTS, Talk, conversations, damaged, files, requests
from tests.requests.judging import HERE, MODELS, faults
from tests.requests.lossless import Account, is_native
from tests.requests.policies import REAL

NATIVE = 0.99
"""The share of intact calls that must stay calls."""


def run(every: int = 1) -> Iterable[Row]:
    """Count errors of the judges, violations of the laws, requests over budget, and lost words."""
    if not (HERE and TRANSCRIPTS.is_dir()):
        return
    begun = time.perf_counter()
    largest_first = sorted(files(), key=lambda file: -file.stat().st_size)
    found = together(judged, product([*largest_first, DAMAGED], REAL, [every]))
    lossless = together(accounted, product([*largest_first, DAMAGED], MODELS, [every]))
    told = found.counts
    note = (
        f"{told['requests']:,} requests under {len(REAL)} policies, {told['judged']:,} of them new bytes, "
        f"in {time.perf_counter() - begun:.0f} s"
    )
    yield Row("corpus: errors found by the judges", found.wrong("judge"), 0, "", note)
    yield Row("corpus: violations of the laws", found.wrong("law"), 0, "", note)
    note = f"{told['sendable']:,} to be sent under a budget"
    yield Row("corpus: sendable requests over budget", found.wrong("budget"), 0, "", note)
    note = f"{told['refused']:,} more, of which all must stay"
    refused = Row("corpus: refused though the window could be cut", told["refused too early"], 0, "", note)
    yield accepted(refused, 2)
    yield from kept(lossless)


def kept(found: Found) -> Iterator[Row]:
    """Count lost texts, and calls that are not native."""
    told = found.counts
    said = ", ".join(f"{told[what]:,} {what}" for what in SAID)
    out = ", ".join(f"{name[4:]} {told[name]:,}" for name in sorted(told) if name.startswith("out:"))
    yield Row("lossless: words and calls not in the request", len(found.faults), 0, "", f"found {said}")
    intact = told["native"] + told["not native"]
    note = f"{told['native']:,} of {intact:,} calls with a result; left out as the logs say: {out}"
    yield Row("lossless: intact calls that are not native", told["not native"] / intact, 1 - NATIVE, "", note)


SAID = ("user texts", "answers", "calls", "results", "partial texts")


def judged(job: tuple[Path, str, int]) -> Found:
    """Return the faults of the requests of a file under a policy.

    A request with the bytes of the one before is not judged again.
    """
    file, name, every = job
    found = Found()
    for talk in of(file):
        before: dict[tuple[str, str, str], bytes] = {}
        for window, api, request in requests(talk, REAL[name], every=every):
            count(found, window, request)
            lane = (request.agent, request.task, api)
            if before.get(lane) == request.bytes:
                continue
            before[lane] = request.bytes
            found.counts["judged"] += 1
            where = f"{talk.name} {request.agent}@{request.at} {api}, {name}"
            found.faults += (f"{fault} ({where})" for fault in faults(api, request))
    return found


def count(found: Found, window: Window, request: Request) -> None:
    """Count a request, and what its budget did to it."""
    found.counts["requests"] += 1
    found.counts["sendable"] += bool(window.policy.budget) and request.ready
    if request.reason.startswith("over budget"):
        shown = window.contents()
        stays = set[int]().union(*(positions_of(shown.units[i]) for i in must_keep(window, shown)))
        may_go = any(positions_of(unit).isdisjoint(stays) for unit in shown.units)
        found.counts["refused too early" if may_go else "refused"] += 1


def accounted(job: tuple[Path, str, int]) -> Found:
    """Return the account of everything in a file's logs, on an API, with no budget.

    Entries are looked for in the request at their position, and at the end.
    """
    file, api, every = job
    found, account = Found(), Account()
    for talk in of(file):
        pairs = pair(talk.entries).pairs
        for _, _, request in requests(talk, apis=[api], every=every):
            at_the_end = request.at == len(talk.entries)
            account.of(talk.entries if at_the_end else [talk.entries[request.at - 1]], request)
            call = pairs[request.at].call if request.at in pairs else None
            if call is not None and (call.agent, call.task) == (request.agent, request.task):
                found.counts["native" if is_native(request.at, request) else "not native"] += 1
    found.counts += account.found
    found.counts.update({f"out:{rule}": number for rule, number in account.left_out.items()})
    found.faults = account.lost
    return found


def of(file: Path) -> Iterable[Talk]:
    """Return the conversations of a file of the corpus."""
    return damaged() if file == DAMAGED else conversations(file)
