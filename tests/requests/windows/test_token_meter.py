"""The meter of tokens: after every entry it counts what the size of the request counts, for each history."""

from __future__ import annotations

import pytest

from stenolog.projections.formats import FORMATS
from stenolog.projections.requests import LaneId
from stenolog.projections.requests.incremental.series import windows
from stenolog.projections.requests.incremental.session import RequestSession, TokenMeter
from stenolog.projections.requests.sendable import may_be_asked
from tests.random_cases import seeds
from tests.requests.histories import BLOBS, history
from tests.requests.policies import SMALL

POLICIES = {"its own": None, **SMALL}


def differing(seed: int, policy: str, api: str) -> list[tuple[int, int, int]]:
    """Return the positions where the meter counts other tokens than the request, with both counts."""
    log = history(seed, longest=40)
    found: list[tuple[int, int, int]] = []
    for agent in ("coder", "reviewer"):
        meter: TokenMeter | None = None
        session: RequestSession | None = None
        for window in windows(log, LaneId(agent), POLICIES[policy], blobs=BLOBS):
            if meter is None or session is None or meter.window is not window:
                meter, session = TokenMeter(window, api, BLOBS), RequestSession(window, api, BLOBS)
            if window.state.blocked is None and may_be_asked(window):
                counted, told = meter.tokens(), session.request().size.tokens
                found += [(window.position, counted, told)] if counted != told else []
    return found


@seeds(1, slow=10)
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("api", FORMATS)
def test_the_meter_counts_what_the_size_of_the_request_counts(api: str, policy: str, seeds: range) -> None:
    for seed in seeds:
        assert differing(seed, policy, api) == []
