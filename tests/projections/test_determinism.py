"""The same log gives the same bytes: under another date, hash seed, time zone, locale, and Python."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from freezegun import freeze_time
from hypothesis import given

from stenolog import AssistantMessage, Entry, Fold, NewEntry, UserMessage, fold
from stenolog.domain.lanes.step import INITIAL, evolve
from stenolog.domain.settings import NOTHING, configure
from stenolog.testing import entries, example_conversation, examples
from tests.projections.determinism import fingerprint, projection_bytes, read, written
from tests.requests.histories import history
from tests.strategies import logs

ROOT = Path(__file__).resolve().parents[2]
PYTHONS = os.environ.get("PYTHONS", "python3.11 python3.12 python3.13").split()
NEEDED = "import eventsourcing, pydantic, sys, transitions; assert sys.version_info >= (3, 11)"


def _logs() -> list[list[Entry]]:
    drawn = [[NewEntry(entry.event, entry.id, entry.time) for entry in history(seed)] for seed in range(24)]
    return [
        entries(*example_conversation()),
        entries(*examples().values()),
        *(entries(*drafts) for drafts in drawn),
    ]


LOGS = _logs()


@cache
def fingerprints() -> list[str]:
    return [fingerprint(log) for log in LOGS]


def elsewhere(python: str, **environment: str) -> list[str]:
    """Return the projections that another process makes of the logs."""
    found = subprocess.run(
        [python, "-m", "tests.projections.determinism"],
        input=written(LOGS),
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUTF8": "1", **environment},
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=120,
        check=False,
    )
    assert found.returncode == 0, found.stderr
    return found.stdout.split()


def test_the_same_log_gives_the_same_bytes_twice() -> None:
    assert [projection_bytes(log) for log in LOGS] == [projection_bytes(log) for log in LOGS]
    assert len(set(fingerprints())) > len(LOGS) // 2


def test_logs_come_back_as_they_were_written() -> None:
    assert list(read(written(LOGS).splitlines())) == LOGS


@pytest.mark.parametrize("date", ["1999-12-31 23:59:59", "2026-02-28 12:00:00", "2100-06-15 04:05:06"])
def test_the_date_changes_nothing(date: str) -> None:
    with freeze_time(date):
        assert [fingerprint(log) for log in LOGS] == fingerprints()


@pytest.mark.parametrize(
    ("seed", "zone", "locale"),
    [("0", "UTC", "C"), ("1", "Asia/Kathmandu", "C.UTF-8"), ("4242", "America/St_Johns", "POSIX")],
)
def test_the_hash_seed_the_time_zone_and_the_locale_change_nothing(seed: str, zone: str, locale: str) -> None:
    assert elsewhere(sys.executable, PYTHONHASHSEED=seed, TZ=zone, LC_ALL=locale) == fingerprints()


def unusable(python: str) -> str:
    """Return why an interpreter cannot read the logs, in one line; empty where it can."""
    path = shutil.which(python)
    # A shim of pyenv stands on the path for every version, and fails where that one is not active.
    if path is None or subprocess.run([path, "-c", ""], capture_output=True, check=False).returncode:
        return f"{python} is not installed here"
    tried = subprocess.run([path, "-c", NEEDED], capture_output=True, text=True, check=False)
    why = tried.stderr.strip().splitlines()
    return f"{python} cannot import what stenolog needs: {why[-1]}" if tried.returncode else ""


@pytest.mark.parametrize("python", PYTHONS)
def test_each_python_at_hand_gives_the_same_bytes(python: str) -> None:
    if why := unusable(python):
        pytest.skip(why)

    assert elsewhere(python) == fingerprints()


@pytest.mark.parametrize(
    ("script", "why"),
    [
        ("echo 'pyenv: python9: command not found' >&2; echo 'Python versions to be found.' >&2; exit 127",
         "python9 is not installed here"),
        ('[ -z "$2" ] && exit; echo Traceback >&2; echo "ModuleNotFoundError: No module named x" >&2; exit 1',
         "python9 cannot import what stenolog needs: ModuleNotFoundError: No module named x"),
        ("exit 0", ""),
    ],
)  # fmt: skip
def test_the_reason_of_a_skip_says_whether_the_python_or_a_package_is_missing(
    script: str, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = tmp_path / "python9"
    python.write_text(f"#!/bin/sh\n{script}\n")
    python.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)

    assert unusable("python9") == why


# Folds: the state after a log, step by step, and taken up again.


@fold(initial=0)
def words_said(total: int, entry: Entry) -> int:
    match entry.event:
        case AssistantMessage(text=text):
            return total + len(text.split())
        case _:
            return total


FOLDS: list[Fold[Any]] = [words_said, Fold("state", INITIAL, evolve), Fold("settings", NOTHING, configure)]


def test_a_fold_is_made_of_a_function_and_called_by_its_name() -> None:
    log = entries(UserMessage(text="one"), AssistantMessage(agent="coder", text="two three"))

    assert words_said(log) == 2
    assert list(words_said.steps(log)) == [0, 0, 2]
    assert (words_said.name, words_said.version, words_said.initial) == ("words_said", 1, 0)


def test_a_fold_may_have_another_name_and_a_version() -> None:
    named = fold(initial=0, name="words", version=3)(words_said.evolve)

    assert (named.name, named.version) == ("words", 3)


def test_a_fold_goes_on_from_a_state_that_was_kept() -> None:
    assert words_said(entries(AssistantMessage(agent="coder", text="two three")), start=40) == 42


@given(log=logs())
def test_the_steps_of_a_fold_are_its_states_after_each_entry(log: list[Entry]) -> None:
    for each in FOLDS:
        assert [*each.steps(log)] == [each(log[:n]) for n in range(len(log) + 1)]


@given(log=logs())
def test_a_fold_in_two_pieces_is_the_fold_in_one(log: list[Entry]) -> None:
    half = len(log) // 2
    for each in FOLDS:
        assert each(log[half:], start=each(log[:half])) == each(log)
