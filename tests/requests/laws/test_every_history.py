"""Whatever a log holds, every request is one that its provider takes, and every byte of it is explained.

A fixed sample of random histories, each under a policy that its seed chooses. The whole of it, twenty
thousand of them, is `python -m benchmarks fuzz`.
"""

from __future__ import annotations

import os
from functools import cache
from random import Random
from typing import NamedTuple

import pytest

from stenolog import Entry, Request
from stenolog.requests import FORMATS, RULES, LaneId, build, lanes, validate
from tests.requests.histories import BLOBS, history
from tests.requests.judging import MODELS, faults, needs_judges
from tests.requests.lossless import unaccounted
from tests.requests.policies import SMALL

pytestmark = pytest.mark.slow

SEEDS = range(int(os.environ.get("STENOLOG_EXAMPLES", "700")))


class Made(NamedTuple):
    """The request of a lane of a random history."""

    seed: int
    log: list[Entry]
    request: Request


@cache
def sample(api: str) -> tuple[Made, ...]:
    """Return the requests of every lane of every history, on an API."""
    logs = [(seed, history(seed)) for seed in SEEDS]
    return tuple(
        Made(seed, log, requested(log, lane, api, seed)) for seed, log in logs for lane in lanes(log)
    )


def requested(log: list[Entry], lane: LaneId, api: str, seed: int) -> Request:
    """Return a lane's request under the policy that a seed chooses."""
    chosen = SMALL[Random(seed).choice(list(SMALL))]
    return build(log, lane.agent, task=lane.task, api=api, policy=chosen, blobs=BLOBS)


@needs_judges
@pytest.mark.parametrize("api", MODELS)
def test_the_judges_find_no_error_in_any_request_and_none_is_over_its_budget(api: str) -> None:
    assert [(made.seed, fault) for made in sample(api) for fault in faults(api, made.request)] == []


def test_no_request_of_plain_text_breaks_a_law() -> None:
    broken = [(m.seed, violation) for m in sample("plain") for violation in validate("plain", m.request.body)]

    assert broken == []


@pytest.mark.parametrize("api", FORMATS)
def test_building_twice_gives_the_same_bytes(api: str) -> None:
    for made in sample(api)[::3]:
        again = requested(history(made.seed), LaneId(made.request.agent, made.request.task), api, made.seed)

        assert (made.seed, again.bytes) == (made.seed, made.request.bytes)
        assert again.sha256 == made.request.sha256


@pytest.mark.parametrize("api", MODELS)
def test_every_entry_is_in_the_request_word_for_word_or_left_out_by_a_rule(api: str) -> None:
    assert [(made.seed, lost) for made in sample(api) for lost in unaccounted(made.log, made.request)] == []


@pytest.mark.parametrize("api", MODELS)
def test_every_message_of_the_body_is_explained(api: str) -> None:
    for made in sample(api):
        explained = {part.message for part in made.request.parts}

        said = made.request.body[made.request.messages_key]

        assert set(range(len(said))) <= explained, made.seed


def test_one_lanes_words_are_the_same_whatever_the_conversation_is_called() -> None:
    for made in sample("anthropic")[::3]:
        renamed = [entry._replace(conversation="other") for entry in made.log]
        lane = LaneId(made.request.agent, made.request.task)

        assert requested(renamed, lane, "anthropic", made.seed).bytes == made.request.bytes


ELSEWHERE = {
    "client", "erased", "fields-not-carried", "held", "lost", "no-tools-found", "refused-answer", "withheld"
}  # fmt: skip
"""Rules of what no random history holds: what is gone, recorded forms, providers' own fields."""


def test_the_rules_that_explain_requests_are_those_in_the_list() -> None:
    met = {rule for api in FORMATS for made in sample(api) for rule in rules(made.request)}
    # Few of the sample draw the one policy that shortens results.
    for log in map(history, SEEDS[:100]):
        for lane in lanes(log):
            met |= rules(build(log, lane.agent, task=lane.task, policy=SMALL["everything"], blobs=BLOBS))

    assert sorted(met | ELSEWHERE) == sorted(RULES)
    assert not met & ELSEWHERE


def rules(request: Request) -> set[str]:
    """Return the rules that a request is explained by."""
    return {part.rule for part in request.parts} | {run.rule for run in request.omissions}
