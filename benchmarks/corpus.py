"""Every request that the real transcripts could have led to, before independent judges.

    python -m benchmarks corpus

Every prefix of every log (forks too), every lane, both wires. Needs the transcripts and the judges beside
the checkout; without them there is nothing to measure.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Iterable

from benchmarks._ratio import Row
from stenolog.projections.requests.laws import breaches
from tests.requests.corpus import THOROUGH, TRANSCRIPTS, files, requests, talks
from tests.requests.judging import HERE, complaints


def run() -> Iterable[Row]:
    """Errors of the judges, breaches of the laws; the time is told, not limited."""
    if not (HERE and TRANSCRIPTS.is_dir()):
        return
    begun = time.perf_counter()
    judged, errors, broken = 0, Counter[str](), Counter[str]()
    for file in files(*THOROUGH):
        for talk in talks(file):
            for lane, length, wire, request in requests(talk):
                judged += 1
                for complaint in complaints(wire, request.body):
                    errors[f"{file.name} {lane.address}@{length} {wire}: {complaint}"] += 1
                for breach in breaches(wire, request.body):
                    broken[f"{file.name} {lane.address}@{length} {wire}: {breach}"] += 1
    for line in [*errors, *broken][:20]:
        print(line, file=sys.stderr)
    note = f"{judged} requests in {time.perf_counter() - begun:.0f} s"
    yield Row("corpus: errors found by the judges", errors.total(), 0, "", note)
    yield Row("corpus: breaches of the laws", broken.total(), 0, "", note)
