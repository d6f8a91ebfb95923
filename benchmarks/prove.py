"""Proving a log: every request that it could lead to before the laws, every one that was sent built again.

On all processors that there are; the limits are those of two.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable
from pathlib import Path

from benchmarks._ratio import Row, cpu_seconds, seconds
from benchmarks.read import drain
from stenolog import Log
from stenolog.adapters.conversation import log as logs
from stenolog.adapters.conversation.verifying.integrity import verify
from stenolog.adapters.conversation.verifying.parallel import cores
from stenolog.adapters.conversation.verifying.requests import check, prove
from stenolog.importers import import_files
from stenolog.projections.requests.proofs import checked
from tests.requests.corpus import TRANSCRIPTS, files
from tests.requests.sessions import conversation, session, session_log

APIS = ("openai-chat", "anthropic")
ENTRIES = 5_000
TALKS, TURNS, KINDS = 1_000, 20, 20
"""So many conversations of so many turns, of which so many are different."""
LIMIT_S = 60
SHORT, LONG = 500, 2_500


def run() -> Iterable[Row]:
    with tempfile.TemporaryDirectory() as folder:
        with logs.open(Path(folder, "long.db"), synchronous="normal") as log:
            log["talk"].extend(session(1, ENTRIES))
            yield prefixes(log, f"every prefix of {ENTRIES:,} entries")
        yield longer()
        if TRANSCRIPTS.is_dir():
            with logs.open(Path(folder, "corpus.db"), synchronous="normal") as log:
                drain(import_files(log, files()))
                yield prefixes(log, "every prefix of the transcripts")
        with logs.open(Path(folder, "talks.db"), synchronous="normal") as log:
            yield verified(log)


def prefixes(log: Log, what: str) -> Row:
    """Return every request that a log could lead to, on two APIs, before their laws."""
    requests = invalid = 0

    def work() -> None:
        nonlocal requests, invalid
        for found in check(log, log.names(archived=True), apis=APIS, all_prefixes=True, jobs=None):
            assert found.error is None, found
            requests += found.requests
            invalid += len(found.invalid)

    cpu, took = _cpu(), seconds(work)
    on = f"on {cores()} processors: {_cpu() - cpu:.0f} s of CPU"
    note = f"{requests:,} requests, {invalid} break a law, {on}"
    return Row(f"prove: {what}, two APIs", took, LIMIT_S, "s", note)


def _cpu() -> float:
    """Return the seconds of CPU of this process and of those that have ended."""
    used = os.times()
    return used.user + used.system + used.children_user + used.children_system


def longer() -> Row:
    """Return a request of a long log against one of a short log: each is made incrementally, and read."""

    def one_request(entries: int) -> float:
        log = session_log(1, entries)
        return cpu_seconds(lambda: [*checked(log, apis=APIS, all_prefixes=True)]) / entries

    one_request(SHORT)
    long_s, short_s = one_request(LONG), min(one_request(SHORT), one_request(SHORT))
    note = f"{long_s * 1e3:.2f} against {short_s * 1e3:.2f} ms for those of three agents on two APIs"
    return Row(f"prove: a position of {LONG:,} entries against {SHORT}", long_s / short_s, 4, note=note)


def verified(log: Log) -> Row:
    """Return a log in which each answer has a receipt: everything worked out anew, the requests too."""
    kinds = [conversation(seed, TURNS) for seed in range(KINDS)]
    for number in range(TALKS):
        log[f"talk {number}"].extend(kinds[number % KINDS])
    outcomes: list[str] = []

    def work() -> None:
        assert verify(log, jobs=None).ok
        outcomes.extend(proof.outcome for proved in prove(log, jobs=None) for proof in proved.proofs)

    cpu, took = _cpu(), seconds(work)
    assert set(outcomes) == {"same"}, set(outcomes)
    note = f"{TALKS / took * 60:,.0f} a minute on {cores()} processors: {_cpu() - cpu:.0f} s of CPU"
    return Row(f"prove: {TALKS:,} conversations of {TURNS} turns verified", took, LIMIT_S, "s", note)
