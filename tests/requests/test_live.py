"""Requests that are made of what changed are the requests that are made of the whole log."""

from __future__ import annotations

import copy
from random import Random

import pytest

from stenolog import Request
from stenolog.domain.errors import LaterRelease
from stenolog.projections.requests import WIRES, lanes
from stenolog.projections.requests.build import from_window, takes_part, windows
from stenolog.projections.requests.live import Live
from stenolog.projections.requests.window import Window
from tests.requests.histories import BLOBS, history
from tests.requests.policies import SMALL

SEEDS = range(24)


def written_at_once(request: Request, wire: str) -> object:
    """The body, written in one go, of the pieces that the request is made of."""
    view = request.explain.view  # type: ignore[attr-defined]
    return WIRES[wire].render(view.pieces, view.front, BLOBS).body


@pytest.mark.parametrize("seed", SEEDS)
def test_after_each_entry_it_is_the_request_that_is_made_anew(seed: int) -> None:
    log = history(seed, longest=24)
    chosen = Random(seed).choice([None, *SMALL.values()])
    wires = [*WIRES]
    for lane in lanes(log):
        live: dict[str, Live] = {}
        window: Window | None = None
        bodies: list[tuple[object, object]] = []
        try:
            for length, anew in enumerate(windows(log, lane, chosen, blobs=BLOBS), 1):
                if window is not anew:
                    window, live = anew, {wire: Live(anew, wire, BLOBS) for wire in wires}
                if not takes_part(anew):
                    continue
                made_by = {wire: live[wire].request() for wire in wires}
                for wire, made in made_by.items() if length % 4 == seed % 4 else ():
                    fresh = Window(lane, anew.policy, anew.counter, blobs=BLOBS)
                    for entry in log[:length]:
                        fresh.take(entry)
                    expected = from_window(fresh, wire, BLOBS)
                    assert made.body == expected.body == written_at_once(made, wire)
                    assert made == expected
                    bodies.append((made.body, copy.deepcopy(made.body)))
        except LaterRelease:
            pass
        assert all(body == as_it_was for body, as_it_was in bodies)
