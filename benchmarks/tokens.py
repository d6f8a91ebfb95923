"""Tokens of the shared transcripts' requests, each foretold by the bills before it.

A request is foretold as what the one before was billed, and its growth since at the rate known then. Only a
lane's first bill is not foretold.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from itertools import pairwise
from statistics import median
from typing import NamedTuple

from benchmarks._ratio import Row
from stenolog.projections.context_curve.tracer import ContextTracer
from stenolog.projections.requests import LaneId, lanes
from stenolog.projections.requests.lane_rates import LaneRates
from stenolog.projections.requests.pipeline.lane_apis import lane_apis
from tests.requests.corpus import Talk, conversations, files

LIMIT = 3


class Foretold(NamedTuple):
    """A request as `billed`, and the tokens that it grew by: as billed, at the rate, and as estimated."""

    billed: int
    grown: int
    at_rate: int
    estimated: int


def run() -> Iterable[Row]:
    talks = [talk for file in files() for talk in conversations(file)]
    found = [one for talk in talks for lane in lanes(talk.entries) for one in foretold(talk, lane)]
    off = sorted(100 * abs(one.at_rate - one.grown) / one.billed for one in found)
    note = f"{len(off):,} requests of {len(talks)} conversations"
    yield Row("tokens: a request's total is off by, median", median(off), LIMIT, "%", note)
    yield Row("tokens: so are nine of ten by at most", off[len(off) * 9 // 10], LIMIT, "%")
    grew = [one for one in found if one.grown > 0 and one.estimated > 0]
    for name, limit in (("at_rate", math.inf), ("estimated", math.inf)):
        off = sorted(100 * abs(getattr(one, name) - one.grown) / one.grown for one in grew)
        whole = 100 * sum(getattr(one, name) for one in grew) / sum(one.grown for one in grew) - 100
        note = f"{whole:+.1f} % over all {len(grew):,}"
        yield Row(f"tokens: a request's growth {name} is off by, median", median(off), limit, "%", note)


def foretold(talk: Talk, lane: LaneId) -> Iterator[Foretold]:
    """Yield the requests of a lane that have a bill before them."""
    entries, api = talk.entries, lane_apis(talk.entries).of(lane)
    tracer = ContextTracer(lane, api, lambda after, at: entries[after:at], blobs=talk.blobs)
    tracer.extend(len(entries))
    rates = LaneRates(lane).extend(entries)
    billed = [(each.at, each.billed, each.tokens) for each in tracer.samples if each.billed and each.tokens]
    for (_, before, had), (at, now, has) in pairwise(billed):
        assert before is not None
        assert had is not None
        assert now is not None
        assert has is not None
        grown = rates.at(at).of(has) - rates.at(at).of(had)
        yield Foretold(now, now - before, grown, has - had)
