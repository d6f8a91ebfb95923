"""Files of opencode: how its folder, database and exports are found, earlier and later forms, bad files."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

import stenolog
from stenolog import Log
from stenolog.errors import UnknownFormatError
from stenolog.importers import files_in, import_file, recognise
from stenolog.parts import ReasoningPart
from tests.requests.judging import SHARED
from tests.transcripts.acceptance import (
    assert_accepted,
    assert_again_adds_nothing,
    assert_nothing_lost,
)
from tests.transcripts.given import Json
from tests.transcripts.opencode_given import (
    TABLES,
    TALK,
    events,
    session,
    shown,
    taken,
    write_database,
    write_folder,
)
from tests.transcripts.samples import said_in
from tests.transcripts.soundness import assert_sound

SAMPLES = sorted((SHARED / "transcripts" / "agent_sessions_fixtures").glob("*opencode*.json"))
needs_samples = pytest.mark.skipif(not SAMPLES, reason="the transcripts are not beside this checkout")


@pytest.fixture
def log() -> Iterator[Log]:
    with stenolog.open(":memory:") as log:
        yield log
        assert_sound(log)


def test_a_folder_and_the_database_that_it_became_are_one_session(log: Log, tmp_path: Path) -> None:
    taken(log, write_folder(tmp_path / "storage", [session()], TALK))
    report = taken(log, write_database(tmp_path / "opencode.db", [session()], TALK))

    assert list(log) == ["ses_1"]
    assert report.conversations[0].appended == 0


def test_the_folder_is_found_by_its_content(tmp_path: Path) -> None:
    write_folder(tmp_path / "share" / "storage", [session()], TALK)
    (tmp_path / "share" / "storage" / "todo").mkdir()
    other = tmp_path / "storage" / "message" / "x"
    other.mkdir(parents=True)
    (other / "y.json").write_text('{"role": "user", "content": "Hi"}')

    assert list(files_in(tmp_path / "share")) == [tmp_path / "share" / "storage"]
    assert list(files_in(tmp_path / "storage")) == [other / "y.json"]
    with stenolog.open(":memory:") as log:
        assert import_file(log, tmp_path / "share").format == "opencode"


@pytest.mark.parametrize(
    ("value", "name"),
    [
        (TALK[0].info, "a message of an opencode session"),
        (TALK[0].parts[0], "a part of an opencode message"),
        ({"id": "p", "type": "text", "text": "Hi", "time": {}}, "a part of an opencode message"),
        (session(), "an opencode session without its messages"),
    ],
)
def test_a_single_file_of_the_folder_is_refused_with_the_reason(value: Json, name: str) -> None:
    with pytest.raises(
        UnknownFormatError, match=f"found {name}, which is imported with the folder `storage`"
    ):
        recognise(json.dumps(value).encode())


def test_messages_of_the_later_table_are_read_where_there_are_no_others(log: Log, tmp_path: Path) -> None:
    done = {"status": "completed", "input": {"command": "ls"}, "content": [{"type": "text", "text": "a.txt"}]}
    tool = {"type": "tool", "id": "c1", "name": "bash", "state": done, "time": {"created": 3, "completed": 4}}
    thought = {
        "type": "reasoning",
        "id": "r",
        "text": "Hm.",
        "providerMetadata": {"anthropic": {"signature": "s"}},
    }
    model = {"id": "gpt-x", "providerID": "openai"}
    rows: list[tuple[str, Json]] = [
        ("user", {"text": "List it.", "time": {"created": 1}}),
        ("synthetic", {"text": "A reminder.", "time": {"created": 1}}),
        (
            "assistant",
            {
                "agent": "build",
                "model": model,
                "content": [thought, {"type": "text", "id": "t", "text": "I look."}, tool],
                "time": {"created": 2, "completed": 5},
            },
        ),
        ("shell", {"command": "pwd", "output": "/home", "callID": "s", "time": {"created": 6}}),
        ("agent-switched", {"agent": "plan", "time": {"created": 6}}),
        ("compaction", {"summary": "They listed.", "recent": "", "reason": "auto", "time": {"created": 7}}),
        ("user", {"text": "And now?", "time": {"created": 8}}),
    ]
    path = write_database(tmp_path / "opencode.db", [session()], [])
    with closing(sqlite3.connect(path)) as connection:
        for seq, (type, data) in enumerate(rows):
            connection.execute(
                "INSERT INTO session_message VALUES (?,?,?,?,?)",
                (f"msg_{seq}", "ses_1", type, seq, json.dumps(data)),
            )
        connection.commit()
    report = taken(log, path)

    assert [event.kind for event in events(log)] == [
        "user_message",
        "user_message",
        "assistant_message",
        "tool_result",
        "user_message",
        "assistant_message",
        "user_message",
    ]
    assert events(log)[2].parts[0] == ReasoningPart(text="Hm.", provider="anthropic", signature="s")
    assert report.conversations[0].ignored["message/agent-switched"] == 1
    assert shown(log, "List it.", "They listed.", "And now?") == [False, True, True]


def test_a_database_that_is_not_opencodes_is_refused_and_none_is_changed(tmp_path: Path) -> None:
    path = write_database(tmp_path / "opencode.db", [session()], TALK)
    before = path.read_bytes()
    with stenolog.open(":memory:") as log:
        import_file(log, path)
    other = tmp_path / "other.db"
    with closing(sqlite3.connect(other)) as connection:
        connection.executescript(TABLES.partition(";")[0])

    assert path.read_bytes() == before
    with pytest.raises(UnknownFormatError, match="with the tables session"):
        recognise(other)


def storage_of_samples(folder: Path, form: str) -> Path:
    """Return the storage folder that the samples of a form were taken from, as far as they are there."""
    for file in SAMPLES:
        _, found, path = file.name.partition(f"opencode__{form}__")
        if found:
            target = folder / form / path.replace("__", "/")
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(file, target)
    return folder / form


@needs_samples
@pytest.mark.parametrize("form", ["storage_legacy", "storage_v2"])
def test_a_real_folder_loses_nothing_and_comes_in_once(form: str, tmp_path: Path) -> None:
    folder = storage_of_samples(tmp_path, form)
    known = {json.loads(file.read_text())["id"] for file in folder.glob("message/**/*.json")}
    for file in folder.glob("part/**/*.json"):  # of some messages, the samples have the parts alone
        part = json.loads(file.read_text())
        if part.get("messageID", file.parent.name) not in known:
            file.unlink()

    if any(folder.glob("part/**/*.json")):
        assert_nothing_lost(folder, said_in(folder, frozenset()))
        assert_again_adds_nothing(folder)
        assert_accepted(folder)
