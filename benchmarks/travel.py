"""A conversation as it stood then: at half of its length, and anywhere, against as it stands now."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from random import Random
from typing import Any

from benchmarks._ratio import Row, compared, least
from benchmarks.state import filled
from stenolog import Conversation, Fold, fold
from stenolog.adapters.conversation import log as logs
from stenolog.adapters.conversation.queries.folds import SETTINGS, STATE
from stenolog.projections.views.usage import usage

ENTRIES, FOLDED = 100_000, 20_000
LIMIT = 2.0
SHARE = 64
"""Bytes an entry that what is kept of a fold may take, so that any position is at hand."""


@fold(initial=0, state=int)
def characters(total: int, entry: Any) -> int:
    return total + len(getattr(entry.event, "text", ""))


FOLDS: dict[str, Fold[Any]] = {
    "state": STATE.fold,
    "settings": SETTINGS.fold,
    "usage": usage,
    "a fold of one's own": characters,
}


def run() -> Iterable[Row]:
    with (
        tempfile.TemporaryDirectory() as folder,
        logs.open(Path(folder, "t.db"), synchronous="normal") as log,
    ):
        talk = filled(log["talk"], ENTRIES)
        for name, folded in FOLDS.items():
            talk.fold(folded)
            for where, then in (("T/2", half), ("anywhere", anywhere)):
                past_s, now_s = compared(then(talk, folded), lambda: talk.fold(folded), rounds=300)  # noqa: B023
                note = f"{past_s * 1e6:.0f} against {now_s * 1e6:.0f} µs"
                yield Row(f"{name} at {where} of {ENTRIES:,} entries", past_s / now_s, LIMIT, note=note)
        size = Path(folder, "t.db-checkpoints").stat().st_size
        yield anew(talk)
    share = size / ENTRIES / len(FOLDS)
    yield Row("what is kept of a fold for it, an entry", share, SHARE, "B", "the mean of these four")


def anew(talk: Conversation) -> Row:
    """Measure the cost of keeping every state on the way."""

    def keeping() -> object:
        assert talk.stream.key is not None
        talk.log.checkpoints.drop(talk.stream.key)
        return talk.state(at=FOLDED)

    kept_s, bare_s = least(keeping, lambda: STATE.fold(talk.entries(at=FOLDED)), rounds=5)
    note = f"{kept_s / FOLDED * 1e6:.1f} against {bare_s / FOLDED * 1e6:.1f} µs of CPU an entry"
    return Row("the first fold of a log against folding alone", kept_s / bare_s, 1.6, note=note)


def half(talk: Conversation, folded: Any) -> Callable[[], object]:
    return lambda: talk.fold(folded, ENTRIES // 2)


def anywhere(talk: Conversation, folded: Any) -> Callable[[], object]:
    random = Random(1)
    return lambda: talk.fold(folded, random.randrange(1, ENTRIES))
