"""Every moment of every transcript exports as a test that passes, and that fails once a word is changed."""

from __future__ import annotations

import os
import subprocess
import sys
from itertools import cycle
from pathlib import Path
from random import Random

import pytest

import stenolog
from stenolog.apps.cli.commands.see import demo
from stenolog.projections.moments.as_pytest import as_pytest
from tests.moments.sweep import calls, exported, ran, with_a_word_changed
from tests.requests.corpus import BUNDLED, TRANSCRIPTS, Talk, conversations, files

ROOT = Path(__file__).parents[2]
HERE = TRANSCRIPTS.is_dir()
APIS = cycle(("openai-chat", "anthropic", "openai-responses", "gemini", "plain"))
SHARED = [
    pytest.param(file, api, marks=pytest.mark.nightly if file.stem == "large-session" else ())
    for file, api in (zip(files(), APIS, strict=False) if HERE else [(Path("absent"), "plain")])
]


def swept(talk: Talk, api: str) -> tuple[int, int]:
    """Export moments of a conversation, 60 to 120 of a long one; return how many, and how many changed."""
    moments = changed = 0
    made = [*calls(talk.entries, api, talk.blobs)]
    for called in made[:: len(made) // 60 or 1]:
        where = (talk.name, called.lane.address, called.at, api)
        moment = exported(talk.entries, called, talk.blobs)
        text = as_pytest(moment)
        assert ran(text) == "", where
        moments += 1
        if other := with_a_word_changed(moment, text, Random(called.at)):
            found = ran(other[0])
            _, _, part = found.partition("\n  part ")
            assert f" {other[1]}" in part, (*where, found)
            assert " differs at /" in found, where
            changed += 1
    return moments, changed


@pytest.mark.parametrize("api", ["openai-chat", "anthropic", "openai-responses", "gemini", "plain"])
def test_every_moment_of_the_bundled_conversations(api: str) -> None:
    found = [swept(talk, api) for file in BUNDLED for talk in conversations(file)]
    with stenolog.open(":memory:") as log:
        demo.record(log[demo.NAME])
        found.append(swept(Talk(ROOT, demo.NAME, list(log[demo.NAME].entries()), dict(log.blobs)), api))

    moments, changed = (sum(column) for column in zip(*found, strict=True))
    assert moments > 25
    assert changed > 0.9 * moments


@pytest.mark.slow
@pytest.mark.skipif(not HERE, reason="the transcripts are not beside this checkout")
@pytest.mark.parametrize(("file", "api"), SHARED, ids=lambda given: getattr(given, "name", given))
def test_every_moment_of_a_real_session(file: Path, api: str) -> None:
    found = [swept(talk, api) for talk in conversations(file)]

    moments, changed = (sum(column) for column in zip((0, 0), *found, strict=True))
    assert moments - changed <= max(3, moments // 10)


@pytest.mark.slow
def test_the_files_of_a_session_pass_under_pytest_and_fail_once_a_word_is_changed(tmp_path: Path) -> None:
    (tmp_path / "changed").mkdir()
    [session] = [file for file in BUNDLED if file.name == "session.jsonl"]
    for talk in conversations(session):
        for called in calls(talk.entries, "anthropic", talk.blobs):
            moment = exported(talk.entries, called, talk.blobs)
            name, text = f"test_{called.lane.agent}_{called.at}.py".replace("-", "_"), as_pytest(moment)
            (tmp_path / name).write_text(text)
            if other := with_a_word_changed(moment, text, Random(called.at)):
                (tmp_path / "changed" / f"c{name}").write_text(other[0])
    passing, changed = list(tmp_path.glob("*.py")), list(tmp_path.glob("changed/*.py"))

    # The options of the run around this test (`-m slow`) are not those of a person who runs an exported file.
    alone = {**os.environ, "PYTEST_ADDOPTS": ""}

    def outcome(files: list[Path]) -> str:
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *map(str, files)]
        return subprocess.run(command, cwd=tmp_path, env=alone, capture_output=True, text=True).stdout

    assert f"{len(passing)} passed" in outcome(passing)
    assert "failed" not in outcome(passing)
    assert f"{len(changed)} failed" in outcome(changed)
    assert " passed" not in outcome(changed)
    assert min(len(passing), len(changed)) > 4
