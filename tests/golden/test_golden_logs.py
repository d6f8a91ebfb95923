"""Logs that a release has written are read by every later one: the same entries, lanes and requests.

A log and its facts stay as they are once their release is out. Before that, or after a wanted change of the
requests: `python -m tests.golden.make --facts`, and read the difference. A release that makes requests in
another way raises `PIPELINE`, or the version of the API, and keeps these facts: what older versions made is
then not compared any more.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import stenolog
from stenolog import Log
from stenolog.adapters.conversation.verifying.integrity import verify
from stenolog.adapters.conversation.verifying.requests import prove
from stenolog.requests import every_request, lanes
from tests.golden.recording import DIGITS, facts

LOGS = sorted(Path(__file__).parent.glob("*.db"))
each_log = pytest.mark.parametrize("path", LOGS, ids=lambda path: path.stem)


@pytest.fixture
def log(path: Path, tmp_path: Path) -> Iterator[Log]:
    """Yield a copy of a golden log."""
    with stenolog.open(shutil.copy(path, tmp_path / "log.db")) as opened:
        yield opened


@pytest.fixture
def recorded(path: Path) -> Any:
    """Return the recording of the log."""
    return json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))


def test_this_release_has_golden_logs() -> None:
    assert any(path.name.startswith(f"{stenolog.__version__}-") for path in LOGS)


@each_log
def test_a_golden_log_verifies_and_its_digests_are_the_recorded_ones(log: Log, recorded: Any) -> None:
    assert verify(log).problems == ()
    assert {name: found["digests"] for name, found in recorded["conversations"].items()} == {
        name: [entry.digest[:DIGITS] for entry in log[name].entries()] for name in log.names(archived=True)
    }
    assert {name: log[name].digest for name in log} == {
        name: found["head"] for name, found in recorded["conversations"].items()
    }


@each_log
def test_the_lanes_of_a_golden_log_stand_at_each_position_as_recorded(log: Log, recorded: Any) -> None:
    now = facts(log)["conversations"]

    assert {name: found["states"] for name, found in now.items()} == {
        name: found["states"] for name, found in recorded["conversations"].items()
    }


@each_log
def test_each_request_of_a_golden_log_is_the_recorded_one_on_every_api(log: Log, recorded: Any) -> None:
    now = facts(log)
    same = {name for name, version in recorded["apis"].items() if now["apis"].get(name) == version}

    assert now["pipeline"] != recorded["pipeline"] or _requests(now, same) == _requests(recorded, same)


@each_log
def test_the_requests_that_were_sent_in_a_golden_log_are_proved_or_of_an_older_version(log: Log) -> None:
    found = [proof for each in prove(log) for proof in each.proofs]

    assert [proof for proof in found if proof.outcome == "differs"] == []


@each_log
def test_a_new_process_makes_the_request_at_the_head_of_a_golden_log(log: Log, path: Path) -> None:
    for name in log.names(archived=True):
        entries = list(log[name].entries())
        for lane in lanes(entries):
            for expected in [*every_request(entries, lane.agent, task=lane.task, blobs=log.blobs)][-1:]:
                if expected.at == log[name].position:
                    assert log[name].request(lane.agent, task=lane.task) == expected


def _requests(found: Any, apis: set[str]) -> Any:
    """Return the digests of all requests on some APIs."""
    return {
        (name, lane, api): digests
        for name, conversation in found["conversations"].items()
        for lane, by_api in conversation["requests"].items()
        for api, digests in by_api.items()
        if api in apis
    }
