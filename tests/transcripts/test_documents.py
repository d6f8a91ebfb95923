"""Files of one JSON document, compressed files, and what files of conversations have in common."""

from __future__ import annotations

import gzip
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as some

import stenolog
from stenolog import UserMessage
from stenolog.adapters.importers.door import json_lines
from stenolog.adapters.importers.door.json_lines import DEEPEST, JsonLinesReader
from stenolog.contrib.adk.files import read as read_adk
from stenolog.contrib.ai_sdk.files import read as read_ai_sdk
from stenolog.contrib.atif.trajectory import read as read_atif
from stenolog.contrib.pydantic_ai import read as read_pydantic_ai
from stenolog.contrib.workflow import import_rows
from stenolog.errors import CallerError, UnknownFormatError
from stenolog.importers import Record, RecordSpool, Report, files_in, import_file, recognise, size_of
from tests.transcripts.crewagent_given import folder, imported, index, keep, message
from tests.transcripts.given import Import, lines, user
from tests.transcripts.signing import event, key

NUMBERS = some.integers() | some.floats(allow_nan=False, allow_infinity=False)
VALUES = some.recursive(
    some.none() | some.booleans() | NUMBERS | some.text(),
    lambda inner: some.lists(inner) | some.dictionaries(some.text(), inner),
)


def read(raw: bytes) -> tuple[Any, dict[str, int]]:
    """Return a document, and what was mended in it."""
    reading = JsonLinesReader()
    return reading.document(io.BytesIO(raw)), dict(reading.repaired)


def mended(raw: bytes) -> tuple[Any, dict[str, int]]:
    """Return the same, read as text."""
    with mock.patch.object(json_lines, "_sound", side_effect=ValueError):
        return read(raw)


@given(VALUES, some.booleans())
def test_a_sound_document_is_read_as_any_other(value: Any, ascii: bool) -> None:
    raw = json.dumps(value, ensure_ascii=ascii).encode()

    assert repr(read(raw)) == repr(mended(raw)) == repr((value, {}))


@pytest.mark.parametrize(
    ("raw", "value", "repaired"),
    [
        (b"[1e999, -1e999]", ["1e999", "-1e999"], {"NaN and infinities": 2}),
        (b"[NaN]", ["NaN"], {"NaN and infinities": 1}),
        (b'["\\ud800"]', ["\ufffd"], {"lone surrogates": 1}),
        (b'["\xff"]', ["\ufffd"], {"bytes that are not UTF-8": 1}),
        (b'\xef\xbb\xbf{"a": 1, "b": 2, "a": 3}\n', {"a": 3, "b": 2}, {}),
        (b'{"a": 1, "b": 2, "a": 3}\0', {"a": 3, "b": 2}, {}),
        (b'["\\ud83d\\ude00", 123456789012345678901234567890]', ["😀", 123456789012345678901234567890], {}),
    ],
)
def test_what_can_be_mended_is(raw: bytes, value: Any, repaired: dict[str, int]) -> None:
    assert read(raw) == (value, repaired)
    assert json.dumps(read(raw)[0]) == json.dumps(value)


@pytest.mark.parametrize("inside", ["", "1", '"]["'])
def test_nesting_ends_where_it_ends_on_a_line(inside: str) -> None:
    deepest = "[" * DEEPEST + inside + "]" * DEEPEST

    assert read(deepest.encode()) == (json.loads(deepest), {})
    with pytest.raises(UnknownFormatError, match="deeper nesting"):
        read(f"[{deepest}]".encode())


SESSION = lines(user("u1", None, "Hi"), user("u2", "u1", "More"))


def texts(into: Import) -> list[str]:
    return [event.text for event in into.said if isinstance(event, UserMessage)]


def test_a_compressed_file_is_recognised_imported_and_known_again(into: Import, tmp_path: Path) -> None:
    into.file(gzip.compress(SESSION), "talk.jsonl.gz")
    assert (into.report.format, texts(into)) == ("claude-code", ["Hi", "More"])
    assert recognise(tmp_path / "talk.jsonl.gz") == "claude-code"
    into.file(SESSION, "talk.jsonl")
    assert [found.appended for found in into.report.conversations] == [0]


def test_a_file_whose_end_is_cut_off_yields_what_stands_before_the_cut(into: Import) -> None:
    many = lines(user("u1", None, "Hi"), *(user(f"v{n}", "u1", f"{n * n} loaves") for n in range(2000)))
    content = gzip.compress(many)
    into.file(content[: len(content) // 2], "talk.jsonl.gz")

    assert 1 < len(texts(into)) < 2000
    into.file(content, "talk.jsonl.gz")
    assert len(texts(into)) == 2001


def test_a_file_of_several_frames_is_read_to_its_end(into: Import, tmp_path: Path) -> None:
    import zstandard

    frames = [zstandard.compress(line) for line in SESSION.splitlines(keepends=True)]
    into.file(b"".join(frames), "session.jsonl.zstd")

    assert texts(into) == ["Hi", "More"]
    assert [file.name for file in files_in(tmp_path)] == ["session.jsonl.zstd"]
    with zstandard.open(tmp_path / "whole.zstd", "wb") as file:
        file.write(SESSION)
    broken = b"".join(frames)[:-9]
    into.file(broken, "cut.jsonl.zstd")
    assert [(found.appended, found.already) for found in into.report.conversations] == [(0, 2)]


def test_records_on_disk_can_be_gone_through_again_and_keep_their_lines() -> None:
    spool = RecordSpool()
    records = [Record(str(n), {"n": n, "words": "é" * 3000, "odd": "\ud800"}) for n in range(1, 2001)]
    for record in records:
        spool.add("even" if record.number % 2 == 0 else "odd", record)

    assert list(spool) == ["odd", "even"]
    assert list(spool.records("even")) == list(spool.records("even")) == records[1::2]
    assert list(spool.records("none")) == []


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


# Names of imported conversations: of a file, of one of many in it, and of what is beside them.


X = [message("x1", "user", "X"), message("x2", "assistant", "Well, X.")]
Y = [message("y1", "user", "Y"), message("y2", "assistant", "Well, Y.")]


def named(report: Report) -> dict[str, int]:
    """Return the number of entries appended to each conversation, without any failure."""
    assert [conversation.failed for conversation in report.conversations] == [
        "" for _ in report.conversations
    ]
    return {conversation.name: conversation.appended for conversation in report.conversations}


def test_a_folder_whose_index_is_in_another_order_is_the_same_folder(into: Import, tmp_path: Path) -> None:
    made = folder(tmp_path, x=X, y=Y)
    first = named(imported(into.log, made, name="mine"))
    index(made, [{"id": "y"}, {"id": "x"}])

    again = named(imported(into.log, made, name="mine"))

    assert (first, again) == ({"mine": 3, "mine/y": 3}, {"mine/y": 0, "mine": 0})


def test_a_conversation_that_comes_to_stand_before_it_takes_no_name_away(
    into: Import, tmp_path: Path
) -> None:
    made = folder(tmp_path, x=X)
    imported(into.log, made, name="mine")
    (made / "a").mkdir()
    keep(made, "a", Y)
    index(made, [{"id": "a"}, {"id": "x"}])

    assert named(imported(into.log, made, name="mine")) == {"mine/a": 3, "mine": 0}


def test_one_that_is_left_alone_keeps_its_name_too(into: Import, tmp_path: Path) -> None:
    made = folder(tmp_path, x=X, y=Y)
    imported(into.log, made, name="mine")
    (made / "x" / "messages.json").unlink()
    index(made, [{"id": "y"}])

    assert named(imported(into.log, made, name="mine")) == {"mine/y": 0}


def test_events_that_have_grown_by_an_older_conversation_keep_their_names(
    into: Import, tmp_path: Path
) -> None:
    root, older = event("ann", "Hi", kind=11), event("bob", "Older", kind=11, at=-500)
    file = tmp_path / "events.json"
    file.write_text(json.dumps([root]))
    import_file(into.log, file, name="menu")
    file.write_text(json.dumps([root, older]))

    assert named(import_file(into.log, file, name="menu")) == {f"menu/{older['id']}": 2, "menu": 0}


def test_rows_in_another_order_keep_the_names_of_their_workflows(into: Import) -> None:
    def row(number: int, workflow: str) -> dict[str, Any]:
        return {"id": number, "workflowId": workflow, "role": "user", "content": "Hi"}

    import_rows(into.log, [row(1, "a"), row(2, "b")], name="all")

    assert named(import_rows(into.log, [row(2, "b"), row(1, "a")], name="all")) == {"all/b": 0, "all": 0}


def test_a_name_that_somebody_has_is_nobody_elses(into: Import, tmp_path: Path) -> None:
    into.log["mine"].append(UserMessage(text="Begun here"))

    assert named(imported(into.log, folder(tmp_path, x=X, y=Y), name="mine")) == {"mine/x": 3, "mine/y": 3}


def test_names_that_fall_together_are_numbered(into: Import, tmp_path: Path) -> None:
    made = folder(tmp_path, **{"z": X, "a_": X, "a\u200b": Y})

    assert named(imported(into.log, made, name="mine")) == {"mine": 3, "mine/a_": 3, "mine/a_-2": 3}


def test_a_file_of_messages_is_called_by_its_folder(
    into: Import, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = folder(tmp_path, ann=X, bob=Y)
    monkeypatch.chdir(made / "bob")

    found = [import_file(into.log, path) for path in (made / "ann" / "messages.json", "messages.json")]

    assert [named(report) for report in found] == [{"ann": 3}, {"bob": 3}]


def test_a_file_of_messages_is_never_mixed_into_what_has_its_name(into: Import, tmp_path: Path) -> None:
    for place, messages in (("1", X), ("2", Y)):
        folder(tmp_path / place, talk=messages)

    found = [import_file(into.log, tmp_path / n / "conversations/talk/messages.json") for n in "12"]

    failed = [report.conversations[0].failed for report in found]
    assert (failed[0], "give it another name" in failed[1]) == ("", True)
    assert into.log["talk"].position == 3


@pytest.mark.parametrize("alone", [True, False])
def test_messages_in_an_object_are_the_same_in_a_folder_and_alone(
    into: Import, tmp_path: Path, alone: bool
) -> None:
    told = [message("m1", "user", "Hi"), message("m2", "user", "Aside", includeInContext=False)]
    made = folder(tmp_path, talk={"messages": told, "version": 2})

    found = import_file(into.log, made / "talk/messages.json" if alone else made)

    assert (found.format, dict(found.conversations[0].ignored)) == ("crewagent", {"version": 1})
    assert [part["content"] for part in into.log["talk"].request("assistant").body["messages"]] == ["Hi"]


@pytest.mark.parametrize("beside", [True, False])
@pytest.mark.parametrize(
    ("document", "format"),
    [
        ([event("ann", "Hi", kind=11)], "nostr"),
        ({"messages": [{"role": "user", "content": "Hi"}]}, "openai-chat"),
        ([{"task_id": 1, "trial": 0, "traj": [{"role": "user", "content": "Hi"}]}], "openai-chat"),
    ],
)
def test_a_file_that_is_called_index_is_what_is_in_it(
    into: Import, tmp_path: Path, document: Any, format: str, beside: bool
) -> None:
    made = folder(tmp_path, talk=X) if beside else tmp_path
    index(made, document)

    assert import_file(into.log, made / "index.json").format == format


def test_a_conversation_without_messages_has_nothing_kept_of_it(into: Import, tmp_path: Path) -> None:
    made = folder(tmp_path, talk=[])
    import_file(into.log, made, keep_raw=True)
    keep(made, "talk", X)

    assert named(import_file(into.log, made, keep_raw=True)) == {"talk": 3}


MESSAGE = {"id": "m1", "role": "user", "parts": [{"type": "text", "text": "Hi."}]}
STEP = {"step_id": 1, "source": "user", "message": "Hi."}
SOUND: dict[str, tuple[Callable[..., Any], Any, str]] = {
    "adk": (
        read_adk,
        {"id": "s1", "appName": "a", "userId": "u", "events": []},
        "a session or an evaluation set",
    ),
    "ai-sdk": (read_ai_sdk, {"id": "c1", "messages": [MESSAGE]}, "a chat or a message"),
    "atif": (
        read_atif,
        {"schema_version": "ATIF-v1.2", "session_id": "x", "steps": [STEP]},
        "an ATIF trajectory",
    ),
    "pydantic-ai": (read_pydantic_ai, [{"kind": "request", "parts": []}], "a list of messages"),
}


@pytest.mark.parametrize("format", SOUND)
def test_a_line_that_is_something_else_is_skipped_with_its_number(format: str) -> None:
    read, sound, expected = SOUND[format]
    reading = JsonLinesReader()
    lines = "".join(f"{json.dumps(value)}\n" for value in (sound, 5, "text"))
    found = [*read(io.BytesIO(lines.encode()), reading)]

    assert len(found) == 1
    assert [(each.line, each.reason, each.unit) for each in reading.skipped] == [
        (2, f"expected {expected}, found int", "line"),
        (3, f"expected {expected}, found str", "line"),
    ]


@pytest.mark.parametrize("format", ["adk", "ai-sdk", "atif"])
def test_of_a_list_the_item_is_named(format: str) -> None:
    read, sound, expected = SOUND[format]
    reading = JsonLinesReader()
    found = [*read(io.BytesIO(json.dumps([sound, 5]).encode()), reading)]

    assert len(found) == 1
    assert [(each.line, each.reason) for each in reading.skipped] == [(2, f"expected {expected}, found int")]
