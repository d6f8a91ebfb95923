"""Exports in formats of others: read by their own schemas, and the same conversation again when imported."""

from __future__ import annotations

import io
import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from atif import Trajectory
from google.protobuf.json_format import ParseDict
from hypothesis import example, given, settings
from opentelemetry.proto.trace.v1.trace_pb2 import TracesData

import stenolog
from stenolog import Conversation, Event, Log, NewEntry, UserMessage
from stenolog.importers import EXPORTERS, import_file
from stenolog.testing import example_conversation
from tests.strategies import decided, histories
from tests.transcripts.crewagent_given import told
from tests.transcripts.given import Json
from tests.transcripts.samples import RECORDED, SAMPLES, Recorded, Sample


def _parsed_otlp(text: str) -> object:
    """Parse an export request by the protocol's definition, without the field that receivers ignore."""
    document = json.loads(text)
    document.pop("stenolog")
    return ParseDict(document, TracesData())


SCHEMAS: dict[str, Callable[[str], object]] = {
    "atif": Trajectory.model_validate_json,
    "otlp": _parsed_otlp,
    "inspect-ai": json.loads,  # its own package reads it in a slow test, for it is large
}
"""The forms that come back whole, with what reads them elsewhere."""
each_form = pytest.mark.parametrize("form", SCHEMAS)


def exported(conversation: Conversation, form: str) -> str:
    """Return the export as text."""
    stream, write = io.StringIO(), EXPORTERS[form].write
    assert write is not None
    write(conversation, stream, "")
    return stream.getvalue()


def assert_comes_back(log: Log, name: str, form: str) -> None:
    """Assert that an export fits its schema, and that an import of it gives the same entries, once."""
    text = exported(log[name], form)
    SCHEMAS[form](text)
    with stenolog.open(":memory:") as other, tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "export.json"
        path.write_text(text)
        first, again, here = (import_file(each, path).conversations for each in (other, other, log))

        assert [one.failed for one in first] == [""]
        assert told(other[name]) == told(log[name])
        assert [one.appended for one in (*again, *here)] == [0, 0]


@each_form
@pytest.mark.parametrize("most", [30, pytest.param(200, marks=pytest.mark.slow)])
def test_any_log_comes_back_from_another_format(form: str, most: int) -> None:
    @settings(max_examples=most)
    @given(histories(12) | decided(12))
    @example(example_conversation())
    def law(history: list[Event]) -> None:
        with stenolog.open(":memory:") as log:
            log["talk"].extend(NewEntry(event, f"e{nth}") for nth, event in enumerate(history, 1))
            if history:
                assert_comes_back(log, "talk", form)

    law()


@each_form
@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.name)
def test_a_session_of_any_program_comes_back_from_another_format(
    form: str, sample: Sample, tmp_path: Path
) -> None:
    with stenolog.open(":memory:") as log:
        import_file(log, sample.file(tmp_path))
        for name in log.names():
            assert_comes_back(log, name, form)


@pytest.mark.slow
@each_form
@pytest.mark.parametrize("recorded", RECORDED, ids=lambda one: one.path.name[-30:])
def test_a_recorded_session_comes_back_from_another_format(form: str, recorded: Recorded) -> None:
    with stenolog.open(":memory:") as log:
        import_file(log, recorded.path)
        for name in log.names():
            assert_comes_back(log, name, form)


@each_form
def test_a_fork_and_an_erased_entry_leave_all_others_at_their_positions(form: str) -> None:
    with stenolog.open(":memory:") as log:
        log["talk"].extend(example_conversation())
        fork = log["talk"].fork(4, "other")
        fork.append(UserMessage(text="Otherwise."))
        assert_comes_back(log, "other", form)
        log["talk"].erase(2)
        text = exported(log["talk"], form)
        with stenolog.open(":memory:") as other, tempfile.TemporaryDirectory() as folder:
            (path := Path(folder) / "export.json").write_text(text)
            import_file(other, path)
            pairs = [*zip(told(log["talk"]), told(other["talk"]), strict=True)]

    assert [nth for nth, (one, two) in enumerate(pairs, 1) if one != two] == [2]
    assert pairs[1][1][2] == UserMessage(author_kind="system", in_context=False, tags=["not-exported"])


@each_form
def test_an_export_that_was_changed_is_read_as_any_other_file_of_its_format(
    form: str, tmp_path: Path
) -> None:
    with stenolog.open(":memory:") as log, stenolog.open(":memory:") as other:
        log["talk"].extend(example_conversation())
        (path := tmp_path / "export.json").write_text(
            exported(log["talk"], form).replace("Ship it.", "Send it.")
        )
        (found,) = import_file(other, path).conversations

        assert [name for name in found.ignored if name.startswith("changed since its export")]
        assert "Send it." in [getattr(entry.event, "text", "") for entry in other[found.name]]


@pytest.mark.parametrize(
    "entry",
    [
        {"draft": -1},
        {"draft": True},
        {"draft": 0, "id": ["a"]},
        {"draft": 0, "at": "2026-01-01"},
        {"draft": 0, "at": "0001-01-01T00:00:00+14:00"},
        {"id": "a", "topic": "user_message", "payload": 5},
    ],
    ids=str,
)
def test_a_remainder_that_says_no_entries_is_read_as_if_there_were_none(entry: Json, tmp_path: Path) -> None:
    with stenolog.open(":memory:") as log, stenolog.open(":memory:") as other:
        log["talk"].extend(example_conversation())
        document = json.loads(exported(log["talk"], "otlp"))
        document["stenolog"]["entries"] = [entry]
        (path := tmp_path / "export.json").write_text(json.dumps(document))
        (found,) = import_file(other, path).conversations

        assert found.failed == ""
        assert [name for name in found.ignored if name.startswith("changed since its export")]


def test_a_trajectory_says_what_its_readers_do_not_see(tmp_path: Path) -> None:
    with stenolog.open(":memory:") as log:
        log["talk"].extend(example_conversation())
        found: dict[str, Any] = json.loads(exported(log["talk"], "atif"))
        report = found["extra"]["completeness"]

        assert report["entries"] == log["talk"].position
        assert sum(report["requests"].values()) == sum(
            entry.event.kind in ("assistant_message", "llm_error") for entry in log["talk"]
        )
        assert "What the model was sent:" in found["notes"]
