"""The real transcripts beside the project, imported, with every request that they could have led to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

import stenolog
from stenolog import Entry, NotATranscript
from stenolog.adapters.transcripts import import_file
from stenolog.projections.requests import Lane, Request, build, lanes
from tests.requests.judging import MODELS, SHARED

TRANSCRIPTS = SHARED / "transcripts"
THOROUGH = ("claude_code", "claude_code_fixtures", "codex", "tau_bench")
"""The folders whose files must import wherever they hold a conversation."""


class Talk(NamedTuple):
    """One imported conversation: the file it is from, its entries, and the blobs they name."""

    file: Path
    name: str
    entries: list[Entry]
    blobs: Mapping[str, bytes]


def files(*folders: str) -> list[Path]:
    """The data files in those folders of the corpus, or in all."""
    found = (path for path in TRANSCRIPTS.rglob("*") if path.is_file() and path.suffix != ".md")
    return sorted(path for path in found if not folders or path.relative_to(TRANSCRIPTS).parts[0] in folders)


@cache
def talks(file: Path) -> tuple[Talk, ...]:
    """The conversations of a file, forks included; none where it holds none."""
    with stenolog.open(":memory:") as log:
        try:
            import_file(log, file)
        except NotATranscript:
            return ()
        blobs = dict(log.blobs)
        return tuple(Talk(file, name, list(log[name].entries()), blobs) for name in log.names(archived=True))


def requests(
    talk: Talk, wires: tuple[str, ...] = tuple(MODELS), *, every: int = 1
) -> Iterator[tuple[Lane, int, str, Request]]:
    """The request of each lane on each wire, at every position of the talk, or at every so manieth one."""
    since: dict[Lane, int] = {}
    for entry in talk.entries:
        for lane in lanes([entry]):
            since.setdefault(lane, entry.position)
    for length in [*range(1, len(talk.entries), every), len(talk.entries)]:
        prefix = talk.entries[:length]
        for lane in (lane for lane, first in since.items() if first <= prefix[-1].position):
            for wire in wires:
                request = build(prefix, lane.agent, task=lane.task, wire=wire, blobs=talk.blobs)
                yield lane, length, wire, request
