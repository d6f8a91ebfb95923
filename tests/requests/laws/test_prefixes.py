"""A prefix that is checked from what has changed is checked as though it were a log of its own."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from random import Random

import pytest

from stenolog import Entry
from stenolog.domain.errors import InvalidPolicyError, UnsupportedVersionError
from stenolog.projections.formats import FORMATS, format_of
from stenolog.projections.formats.checks import Body, Finding, IncrementalValidator, Law, law, per_message
from stenolog.projections.requests import lanes, proofs
from stenolog.projections.requests.incremental import series
from stenolog.projections.requests.incremental.series import from_window, windows
from stenolog.projections.requests.incremental.session import RequestSession
from stenolog.projections.requests.proofs import Checked, checked, invalid_requests
from stenolog.projections.requests.sendable import takes_part
from tests.random_cases import seeds
from tests.requests.histories import BLOBS, at_work, history
from tests.requests.judging import MODELS, complaints, faults, needs_judges
from tests.requests.policies import SMALL
from tests.requests.sessions import session_log

APIS = ("openai-chat", "anthropic")


@per_message
def each_message(at: str, message: Body) -> Iterator[Finding]:
    """No message may be sent at all."""
    yield at, json.dumps(message)


@law
def around(body: Body) -> Iterator[Finding]:
    """Nothing may stand around them."""
    yield "", json.dumps({name: value for name, value in body.items() if name != "messages"})


@pytest.fixture
def forbidding_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """Set laws that find everything in a body: their findings are equal if the bodies are."""
    laws: tuple[Law, ...] = (each_message, around)
    monkeypatch.setattr(
        proofs,
        "validator_of",
        lambda api: IncrementalValidator((*laws, *FORMATS[api].laws), format_of(api).messages),
    )


def alone(log: list[Entry], positions: range) -> list[Checked]:
    """Return the same, each prefix by itself."""
    return [one for end in positions for one in checked(log[:end], apis=APIS, blobs=BLOBS)]


def in_order(found: list[Checked]) -> list[Checked]:
    return sorted(found, key=lambda one: one.position)


def agreeing(log: list[Entry], positions: range) -> list[Checked]:
    """Return the requests at positions, of lanes that had begun, checked alone and along the log."""
    found = in_order(list(checked(log, apis=APIS, all_prefixes=True, within=positions, blobs=BLOBS)))
    begun = {end: {lane.address for lane in lanes(log[:end])} for end in positions}
    found = [one for one in found if one.lane in begun[one.position]]
    assert found == alone(log, positions)
    return found


@pytest.mark.usefixtures("forbidding_all")
def test_every_prefix_of_a_random_history_is_checked_as_a_log_of_its_own() -> None:
    agreed = 0
    for log in (history(seed, longest=20) for seed in range(30)):
        with suppress(InvalidPolicyError, UnsupportedVersionError):  # a request of it cannot be built
            agreed += len(agreeing(log, range(1, len(log) + 1)))

    assert agreed > 500


@pytest.mark.usefixtures("forbidding_all")
def test_every_prefix_of_a_session_is_checked_as_a_log_of_its_own() -> None:
    found = agreeing(session_log(3, 110), range(1, 111))

    assert len({one.lane for one in found}) == 3
    assert all(one.violations for one in found)


@pytest.mark.slow
@pytest.mark.usefixtures("forbidding_all")
def test_prefixes_of_a_long_session_are_checked_as_logs_of_their_own() -> None:
    log = session_log(1, 500)
    for first in Random(5).sample(range(20, 490), 8):
        agreeing(log, range(first, first + 10))


def test_what_breaks_a_law_is_found_at_every_position_where_it_stands(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    @per_message
    def no_errors(at: str, message: Body) -> Iterator[Finding]:
        """Nobody speaks of a ledger."""
        if "ledger" in json.dumps(message):
            yield at, "a ledger"

    monkeypatch.setattr(
        proofs, "validator_of", lambda api: IncrementalValidator([no_errors], format_of(api).messages)
    )
    log = session_log(2, 60)
    first = next(entry.position for entry in log if "ledger" in getattr(entry.event, "text", ""))

    found = list(invalid_requests(log, apis=["plain", "openai-chat"], all_prefixes=True))

    assert min(one.position for one in found) == first
    assert {one.api for one in found} == {"plain", "openai-chat"}
    assert sum(one.position == 60 for one in found) == 2 * 3


def test_only_the_positions_that_are_asked_for_are_checked() -> None:
    log = session_log(1, 40)
    whole = list(checked(log, apis=["anthropic"], all_prefixes=True))

    parts = [
        list(checked(log, apis=["anthropic"], all_prefixes=True, within=range(first, first + 15)))
        for first in (1, 16, 31)
    ]

    assert in_order([one for part in parts for one in part]) == in_order(whole)
    assert {one.position for one in parts[1]} == {*range(16, 31)}


def test_requests_are_made_one_from_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []

    class Counted(RequestSession):
        def __init__(self, window: object, api: str, blobs: object, *, explained: bool) -> None:
            super().__init__(window, api, blobs, explained=explained)  # type: ignore[arg-type]
            made.append(api)

    monkeypatch.setattr(series, "RequestSession", Counted)

    assert len(list(checked(session_log(1, 50), apis=APIS, all_prefixes=True))) == 50 * 3 * 2
    assert sorted(made) == sorted(APIS * 3)


@needs_judges
@seeds(6, slow=200, nightly=4_000)
def test_every_prefix_of_what_an_engine_wrote_makes_a_valid_request(seeds: range) -> None:
    """Questions, patched cards, hand-offs, refused and replaced answers, wherever they stand."""
    for seed in seeds:
        log, name = at_work(seed), Random(seed).choice([*SMALL])
        for lane in lanes(log):
            made = (each for each in windows(log, lane, SMALL[name]) if takes_part(each))
            for each in (window for window in made if window.state.blocked is None):
                requests = {api: from_window(each, api, BLOBS) for api in MODELS}
                found = [fault for api, request in requests.items() for fault in faults(api, request)]
                assert found == [], (seed, name, lane.address, each.position)


@needs_judges
def test_what_no_law_finds_fault_with_the_judges_take() -> None:
    read: list[tuple[str, Body]] = []

    class Judged(IncrementalValidator):
        def __init__(self, api: str) -> None:
            super().__init__(FORMATS[api].laws)
            self.api = api

        def violations(self, body: Body) -> list[object]:  # type: ignore[override]
            read.append((self.api, json.loads(json.dumps(body))))
            return list(super().violations(body))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(proofs, "validator_of", Judged)
        found = list(checked(session_log(4, 70), apis=tuple(MODELS), all_prefixes=True))

    assert [one for one in found if one.violations] == []
    assert [fault for api, body in read[::3] for fault in complaints(api, body)] == []
    assert len(read) == len(found) == 70 * 3 * 4
