"""Every projection of a log as bytes. As a program, it reads logs and prints the hash of each one's bytes.

It imports nothing that only the tests need, so that any Python with stenolog's own dependencies can run it.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from hashlib import sha256
from typing import Any

from pydantic_core import to_json

from stenolog import Entry, NewEntry, StenologError
from stenolog.domain.codec import REGISTRY
from stenolog.domain.entry import EPOCH, MICROSECOND, microseconds
from stenolog.domain.lanes.step import fold
from stenolog.domain.settings import settings
from stenolog.projections.fold import transitions
from stenolog.projections.formats import FORMATS
from stenolog.projections.requests import build, lanes
from stenolog.projections.views.timeline import timeline
from stenolog.testing import entries


def projection_bytes(log: Sequence[Entry]) -> bytes:
    """Return all projections of a log, as JSON."""
    return to_json(
        {
            "digest": log[-1].digest if log else "",
            "timeline": timeline(log),
            "transitions": list(transitions(log)),
            "state": fold(log),
            "settings": settings(log),
            "requests": list(_requests(log)),
        }
    )


def _requests(log: Sequence[Entry]) -> Iterator[Any]:
    for lane in lanes(log):
        for api in FORMATS:
            try:
                request = build(log, lane.agent, task=lane.task, api=api)
            except StenologError as error:
                yield type(error).__name__, str(error)
            else:
                yield request.body, request.sendable, request.reason, request.parts, request.omissions


def fingerprint(log: Sequence[Entry]) -> str:
    """Return the hash of a log's projections."""
    return sha256(projection_bytes(log)).hexdigest()


def written(logs: Iterable[Sequence[Entry]]) -> str:
    """Return logs as text, one a line, for another process."""
    return "\n".join(json.dumps([_row(entry) for entry in log]) for log in logs)


def _row(entry: Entry) -> tuple[str, int, str, str]:
    topic, payload = REGISTRY.dump(entry.event)
    return entry.id, microseconds(entry.time), topic, payload.decode("latin-1")


def read(lines: Iterable[str]) -> Iterator[list[Entry]]:
    """Yield the logs that `written` wrote."""
    for line in lines:
        rows = [
            (id, at, REGISTRY.load(topic, payload.encode("latin-1")))
            for id, at, topic, payload in json.loads(line)
        ]
        yield entries(*(NewEntry(event, id, EPOCH + at * MICROSECOND) for id, at, event in rows))


if __name__ == "__main__":
    for log in read(sys.stdin):
        print(fingerprint(log))
