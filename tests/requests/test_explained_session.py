"""Requests that are explained one after another: the same as those that are explained by themselves."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import stenolog
from stenolog.apps.cli.commands.see.demo import record_all
from stenolog.domain.entry import Entry
from stenolog.projections.formats import FORMATS
from stenolog.projections.requests import LaneId, lanes
from stenolog.projections.requests.incremental.explained import ExplainedSession
from stenolog.projections.requests.incremental.session import RequestSession, windows
from stenolog.projections.requests.sendable import may_be_asked
from tests.one_file.stories import long_story


@pytest.fixture(scope="module", params=["demo", "long"])
def entries(request: pytest.FixtureRequest) -> Iterator[list[Entry]]:
    with stenolog.open(":memory:") as log:
        if request.param == "demo":
            record_all(log)
        else:
            log["long"].extend(list(long_story(300, budget=2_000)))
        yield list(log[request.param].entries())


def requests(
    entries: list[Entry], lane: LaneId, api: str, session: type[RequestSession]
) -> Iterator[tuple[object, ...]]:
    """Yield body and explanation of each request, by a session of this kind."""
    made: RequestSession | None = None
    for window in windows(entries, lane, None):
        if made is None or made.window is not window:
            made = session(window, api)
        if may_be_asked(window):
            request = made.request()
            yield request.body, request.explanation, request.sha256


@pytest.mark.parametrize("api", FORMATS)
def test_body_and_explanation_are_the_same(entries: list[Entry], api: str) -> None:
    for lane in lanes(entries):
        both = zip(
            requests(entries, lane, api, ExplainedSession),
            requests(entries, lane, api, RequestSession),
            strict=True,
        )
        for one, other in both:
            assert one == other
