"""`kill -9` at random moments: nothing acknowledged is lost, and nothing is done twice that must not be."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.engine.killing import Story, killed, told

pytestmark = pytest.mark.slow
KILLS = int(os.environ.get("STENOLOG_KILLS", "20"))
EVERY = 5
"""Of the prefixes, every so many are asked for their requests."""


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Story:
    """Return the story of a workload that was killed again and again."""
    folder = tmp_path_factory.mktemp("killed")
    return told(folder, killed(folder, KILLS, seed=4), every=EVERY)


def test_of_two_processes_that_are_killed_in_turn_the_other_goes_on(tmp_path: Path) -> None:
    story = told(tmp_path, killed(tmp_path, KILLS // 3, seed=3, processes=2), every=EVERY, shared=True)

    assert story.faults == []
    assert story.counts["kills with effects in flight"] > 0


def test_the_kills_fall_into_the_work(story: Story) -> None:
    counts = story.counts

    assert counts["kills"] == KILLS
    assert counts["kills with effects in flight"] > KILLS // 2
    assert counts["entries acknowledged"] > KILLS
    assert counts["pieces older than 250 ms when their process was killed"] > KILLS
    assert counts["calls that may not be repeated"] > 0


def test_every_entry_that_was_acknowledged_stands_unchanged(story: Story) -> None:
    assert story.wrong("entry") == []


def test_a_call_that_may_not_be_repeated_runs_once_at_most(story: Story) -> None:
    assert story.wrong("twice") == []


def test_a_call_that_no_kill_fell_into_runs_once_exactly(story: Story) -> None:
    assert story.wrong("once") == []


def test_a_call_that_may_be_repeated_is_under_the_same_key(story: Story) -> None:
    assert story.wrong("repeat") == []
    assert story.wrong("key") == []


def test_every_call_has_one_result_and_nothing_runs_that_was_not_called(story: Story) -> None:
    assert story.wrong("result") == []
    assert story.wrong("call") == []


def test_what_streamed_longer_ago_than_a_quarter_of_a_second_is_kept(story: Story) -> None:
    assert story.wrong("piece") == []


def test_a_kill_repeats_no_more_model_calls_than_were_in_flight(story: Story) -> None:
    assert story.wrong("model") == []


def test_every_conversation_comes_to_its_end(story: Story) -> None:
    assert story.wrong("finished") == []


def test_the_log_is_whole_and_every_request_in_it_can_be_proved(story: Story) -> None:
    assert story.wrong("verify") == []


def test_every_prefix_asks_for_requests_that_a_provider_takes(story: Story) -> None:
    assert story.wrong("request") == []
