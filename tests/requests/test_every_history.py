"""Whatever a log holds, every request is one that its provider takes, and every byte of it is explained."""

from __future__ import annotations

import os

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stenolog import Entry, Request
from stenolog.projections.requests import WIRES, build, lanes
from stenolog.projections.requests.laws import breaches
from stenolog.projections.requests.rules import RULES
from stenolog.projections.requests.sections import MESSAGES
from tests.requests.histories import LARGE, PNG, history
from tests.requests.judging import MODELS, complaints, needs_judges

EXAMPLES = int(os.environ.get("STENOLOG_EXAMPLES", "500"))
BLOBS = {PNG: b"\x89PNG", LARGE: bytes(4 * 1024 * 1024)}
seeds = st.integers(min_value=0, max_value=2**32)
examples = settings(max_examples=EXAMPLES, derandomize=True, deadline=None, database=None)


def every_request(log: list[Entry], wire: str) -> list[Request]:
    """The request of every lane of a log."""
    return [build(log, lane.agent, task=lane.task, wire=wire, blobs=BLOBS) for lane in lanes(log)]


@pytest.mark.parametrize("wire", WIRES)
@given(seed=seeds)
@examples
def test_no_request_breaks_a_law_of_its_wire(wire: str, seed: int) -> None:
    for request in every_request(history(seed), wire):
        assert list(breaches(wire, request.body)) == []


@needs_judges
@pytest.mark.parametrize("wire", MODELS)
@given(seed=seeds)
@examples
def test_the_judges_find_no_error_in_any_request(wire: str, seed: int) -> None:
    for request in every_request(history(seed), wire):
        assert complaints(wire, request.body) == []


@pytest.mark.parametrize("wire", WIRES)
@given(seed=seeds)
@examples
def test_building_twice_gives_the_same_bytes(wire: str, seed: int) -> None:
    once, again = (every_request(history(seed), wire) for _ in range(2))

    assert [request.bytes for request in once] == [request.bytes for request in again]
    assert [request.sha256 for request in once] == [request.sha256 for request in again]


@pytest.mark.parametrize("wire", WIRES)
@given(seed=seeds)
@examples
def test_every_entry_is_in_the_request_or_left_out_by_a_rule(wire: str, seed: int) -> None:
    log = history(seed)
    for request in every_request(log, wire):
        said = {position for part in request.parts for position in part.positions}
        left_out = {p for run in request.dropped for p in range(run.first, run.last + 1)}
        spoken = {entry.position for entry in log if entry.event.kind != "mode_switch"}

        assert spoken <= said | left_out


@pytest.mark.parametrize("wire", MODELS)
@given(seed=seeds)
@examples
def test_every_message_of_the_body_is_explained(wire: str, seed: int) -> None:
    for request in every_request(history(seed), wire):
        explained = {part.message for part in request.parts}

        said = next(request.body[key] for key in MESSAGES if key in request.body)

        assert set(range(len(said))) <= explained


@given(seed=seeds)
@examples
def test_one_lanes_words_are_the_same_whatever_the_conversation_is_called(seed: int) -> None:
    log = history(seed)
    renamed = [entry._replace(conversation="other") for entry in log]

    assert [r.bytes for r in every_request(log, "anthropic")] == [
        r.bytes for r in every_request(renamed, "anthropic")
    ]


@given(seed=seeds)
@examples
def test_every_rule_in_an_explanation_is_in_the_list_of_rules(seed: int) -> None:
    for wire in WIRES:
        for request in every_request(history(seed), wire):
            named = {part.rule for part in request.parts} | {run.rule for run in request.dropped}

            assert named <= set(RULES)


def test_every_rule_in_the_list_is_met_in_some_history() -> None:
    requests = [r for seed in range(600) for wire in WIRES for r in every_request(history(seed), wire)]

    met = {part.rule for r in requests for part in r.parts} | {
        run.rule for r in requests for run in r.dropped
    }

    assert set(RULES) - met == set()
