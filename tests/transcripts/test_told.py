"""What files of whole conversations have in common, whatever their format."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import stenolog
from stenolog.errors import CallerError
from stenolog.importers import import_file, size_of
from tests.transcripts.given import Import
from tests.transcripts.signing import key

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"
FILES = ["neurocrew.json", "nostr.jsonl", "workflow.csv", "crewagent/conversations", "session.jsonl"]


@pytest.mark.parametrize("file", FILES)
def test_progress_goes_up_to_the_bytes_of_any_file(file: str) -> None:
    done: list[int] = []
    with stenolog.open(":memory:") as log:
        import_file(log, EXAMPLES / file, progress=done.append)

    assert len(done) > 2
    assert done == sorted(done)
    assert done[-1] == size_of(EXAMPLES / file) > 0


@pytest.mark.parametrize("file", ["neurocrew.json", "crewagent/conversations", "session.jsonl"])
def test_agents_are_named_for_events_of_nostr_alone(file: str) -> None:
    with stenolog.open(":memory:") as log, pytest.raises(CallerError, match="expected Nostr events"):
        import_file(log, EXAMPLES / file, agents={key("coder"): "coder"})


def test_what_is_skipped_is_told_by_its_place_in_the_list(into: Import) -> None:
    messages = [{"role": "user", "content": "Hi", "includeInContext": True}, 5]

    (skipped,) = into.file(json.dumps(messages).encode()).report.conversations[0].skipped

    assert (skipped.unit, skipped.line) == ("message", 2)
