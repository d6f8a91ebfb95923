"""Requests that are explained one after another: the same as those that are explained by themselves."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import stenolog
from stenolog.apps.cli.commands.see.demo import record_all
from stenolog.domain.entry import Entry
from stenolog.projections.formats import FORMATS
from stenolog.projections.requests import LaneId, lanes
from stenolog.projections.requests.incremental.series import series
from stenolog.projections.requests.sendable import may_be_asked
from tests.one_file.stories import long_story


@pytest.fixture(scope="module", params=["demo", "long"])
def entries(request: pytest.FixtureRequest) -> Iterator[list[Entry]]:
    with stenolog.open(":memory:") as log:
        if request.param == "demo":
            record_all(log)
        else:
            log["long"].extend(list(long_story(120, budget=2_000)))
        yield list(log[request.param].entries())


def requests(
    entries: list[Entry], lane: LaneId, api: str, *, explained: bool
) -> Iterator[tuple[object, ...]]:
    """Yield body and explanation of each request, by a series of this kind."""
    for made in series(entries, lane, None, explained=explained):
        if may_be_asked(made.window):
            request = made.request(api)
            yield request.body, request.explanation, request.sha256


@pytest.mark.parametrize("api", FORMATS)
def test_body_and_explanation_are_the_same(entries: list[Entry], api: str) -> None:
    for lane in lanes(entries):
        both = zip(
            requests(entries, lane, api, explained=True),
            requests(entries, lane, api, explained=False),
            strict=True,
        )
        for one, other in both:
            assert one == other
