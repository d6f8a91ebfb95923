"""CrewAgent's conversations: what is broken is told with a reason, and stops nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from stenolog import UserMessage
from stenolog.errors import UnknownFormatError
from stenolog.importers import Report, import_file
from tests.transcripts.crewagent_given import folder, imported, index, message
from tests.transcripts.given import Import
from tests.transcripts.soundness import assert_sound
from tests.transcripts.test_crewagent import A_TURN


def reasons(report: Report) -> list[str]:
    """Return the report's complaints about the folder."""
    return [
        *(skipped.reason for skipped in report.skipped),
        *(skipped.reason for conversation in report.conversations for skipped in conversation.skipped),
        *(conversation.failed for conversation in report.conversations if conversation.failed),
    ]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("[{", "bad/messages.json: expected one JSON document; line 1, column 3"),
        ('[{"role": "user", "content": "cut o', "(is the file cut off?)"),
        ('"words"', "bad/messages.json: expected a list of messages, found str"),
        ("", "bad/messages.json: expected one JSON document"),
    ],
)
def test_a_broken_file_is_told_and_the_others_are_imported(
    into: Import, tmp_path: Path, content: str, reason: str
) -> None:
    made = folder(tmp_path, bad=content, good=A_TURN)

    report = import_file(into.log, made)

    assert [reason in found for found in reasons(report)] == [True]
    assert list(into.log) == ["good"]


def test_missing_messages_are_told_and_the_others_are_imported(into: Import, tmp_path: Path) -> None:
    made = folder(tmp_path, gone=A_TURN, good=A_TURN)
    (made / "gone" / "messages.json").unlink()

    report = import_file(into.log, made)

    assert reasons(report) == ["expected gone/messages.json, found no such file"]
    assert list(into.log) == ["good"]


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        ('[{"id": "good"', "index.json: expected one JSON document"),
        ({"talks": []}, "index.json: expected a list of conversations"),
        (["good"], "found 'good'"),
        ([{"id": "../../etc"}], "an id that names a folder, found {'id': '../../etc'}"),
        ([{"id": "good"}, {"id": "good"}], "expected an id that no other has"),
    ],
)
def test_a_broken_index_is_told_and_what_lies_beside_it_is_imported(
    into: Import, tmp_path: Path, document: Any, reason: str
) -> None:
    made = folder(tmp_path, good=A_TURN)
    index(made, document)

    report = import_file(into.log, made)

    assert [reason in found for found in reasons(report)] == [True]
    assert (list(into.log), report.conversations[0].appended) == (["good"], 6)


DEEP: Any = {}
for _ in range(95):
    DEEP = {"d": DEEP}


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        ("words", "expected an object, found str"),
        ({"content": "whose?"}, "expected a role, found null"),
        ({"role": "user", "content": "", "timestamp": "x", "deep": {"meta": DEEP}}, None),
        ({"role": "user", "content": "Hi", "stenolog": {"native": True, "blobs": {"x": "%"}}}, None),
    ],
)
def test_a_broken_message_is_told_and_the_others_are_imported(
    into: Import, tmp_path: Path, broken: Any, reason: str | None
) -> None:
    made = folder(tmp_path, talk=[A_TURN[0], broken, message("m9", "user", "Bye")])

    report = import_file(into.log, made)

    assert [(reason or "") in found for found in reasons(report)] == [True] * bool(reason)
    assert [getattr(e.event, "text", "") for e in into.log["talk"].entries()][-1] == "Bye"
    assert_sound(into.log)


def test_what_an_export_has_added_is_passed_over_where_it_fits_no_event(into: Import, tmp_path: Path) -> None:
    spoilt = message("m1", "user", "Hi", stenolog={"native": True, "set": {"parts": 7}, "unset": [3]})

    imported(into.log, folder(tmp_path, talk=[spoilt]))

    event = list(into.log["talk"].entries())[-1].event
    assert isinstance(event, UserMessage)
    assert event.text == "Hi"


def test_a_folder_without_any_conversation_is_refused(into: Import, tmp_path: Path) -> None:
    with pytest.raises(
        UnknownFormatError, match=r"expected a folder with index\.json or <id>/messages\.json"
    ):
        import_file(into.log, tmp_path)
