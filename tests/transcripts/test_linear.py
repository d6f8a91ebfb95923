"""What an import costs grows with its file and no faster; and only a regular file is read at all."""

from __future__ import annotations

import json
import os
import sqlite3
from contextlib import closing
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

import stenolog
from stenolog.adapters.conversation.verifying.integrity import verify
from stenolog.adapters.importers.door import json_lines
from stenolog.adapters.programs.claude_code import branches as branches_module
from stenolog.domain.errors import CallerError, UnknownFormatError
from stenolog.domain.values import PositionRange
from stenolog.importers import Refused, import_file, import_files, recognise
from tests.transcripts.given import lines as as_lines
from tests.transcripts.given import user


def test_objects_glued_together_are_each_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_at: list[int] = []
    mended = json_lines.JsonLinesReader._mended

    def counted(self: json_lines.JsonLinesReader, text: str, value: Any) -> Any:
        looked_at.append(len(text))
        return mended(self, text, value)

    monkeypatch.setattr(json_lines.JsonLinesReader, "_mended", counted)
    line = b'{"role":"user","content":"\\u00e9"}' * 1_000
    values = list(json_lines.JsonLinesReader().values(BytesIO(line + b"\n")))

    assert len(values) == 1_000
    assert sum(looked_at) <= 2 * len(line)


def test_a_list_is_copied_only_as_its_bytes_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    buffers: list[str] = []
    reader, raw_decode = json_lines.JsonLinesReader(), json.JSONDecoder.raw_decode

    def counted(text: str, at: int = 0) -> Any:
        if not buffers or text is not buffers[-1]:
            buffers.append(text)
        return raw_decode(reader._decoder, text, at)

    monkeypatch.setattr(reader._decoder, "raw_decode", counted)
    monkeypatch.setattr(json_lines, "LONGEST_DOCUMENT", 1_000)
    monkeypatch.setattr(json_lines, "_CHUNK", 10_000)
    content = json.dumps([{"said": "x"}] * 5_000).encode()

    assert len([*reader.items(BytesIO(content))]) == 5_000
    assert sum(map(len, buffers)) <= 2 * len(content)


@pytest.mark.parametrize("deep", [False, True], ids=["siblings", "behind a long way"])
def test_branches_are_hidden_and_kept_at_a_cost_that_grows_with_their_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, deep: bool
) -> None:
    spans, writes = [0], [0]

    def counted(**fields: int) -> PositionRange:
        spans[0] += 1
        return PositionRange(**fields)

    monkeypatch.setattr(branches_module, "PositionRange", counted)
    way = [user(f"w{n}", f"w{n - 1}" if n else None, "on") for n in range(60 if deep else 1)]
    branches = [user(f"u{n}", way[-1]["uuid"], "x") for n in range(60)]
    file = tmp_path / "talk.jsonl"
    file.write_bytes(as_lines(*way, *branches))
    with stenolog.open(tmp_path / "talks.db") as log:
        log.datastore.commit_hooks.append(lambda _: writes.__setitem__(0, writes[0] + 1))
        report = import_file(log, file)

        conversation, forks = log[report.conversations[0].name], report.conversations[0].forks
        assert len(forks) == 59
        assert log[forks[0]].position == log[forks[1]].position - 2
        assert [span.first for span in conversation.settings().hides] == [
            conversation.settings().hides[0].first
        ]
        assert verify(log).problems == ()
    assert spans[0] <= 2 * 60
    assert writes[0] <= 10


def test_branches_of_an_import_that_was_broken_off_are_kept_once(tmp_path: Path) -> None:
    file = tmp_path / "talk.jsonl"
    records = [user("u0", None, "x"), *(user(f"u{n}", "u0", "x") for n in range(1, 5))]
    with stenolog.open(tmp_path / "talks.db") as log:
        file.write_bytes(as_lines(*records[:4]))
        first = import_file(log, file).conversations[0].forks
        file.write_bytes(as_lines(*records))
        second = import_file(log, file).conversations[0].forks

        assert (len(first), len(second)) == (2, 1)
        assert set(log.names()) == {records[0]["sessionId"], *first, *second}


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes here")
def test_a_named_pipe_is_refused_without_waiting_for_it(tmp_path: Path) -> None:
    pipe = tmp_path / "talk.jsonl"
    os.mkfifo(pipe)
    with stenolog.open(":memory:") as log:
        with pytest.raises(UnknownFormatError, match="expected a regular file, found a named pipe"):
            import_file(log, pipe)
        (refused,) = import_files(log, [pipe])

    assert isinstance(refused, Refused)
    with pytest.raises(UnknownFormatError, match="named pipe"):
        recognise(pipe)


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="there are no devices here")
@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes here")
@pytest.mark.parametrize("end", ["-journal", "-wal", "-shm"])
def test_a_pipe_or_a_link_beside_a_database_is_refused_without_opening_it(tmp_path: Path, end: str) -> None:
    database, link = tmp_path / "talks.db", tmp_path / "link.db"
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("CREATE TABLE session (id)")
    link.symlink_to(database)
    beside = Path(f"{database}{end}")
    for make in (os.mkfifo, partial(os.symlink, tmp_path / "elsewhere")):
        make(beside)
        for path in (database, link):
            with pytest.raises(UnknownFormatError, match=f"beside it, found talks.db{end}"):
                recognise(path)
        beside.unlink()
    assert not (tmp_path / "elsewhere").exists()


def test_a_device_is_refused() -> None:
    with stenolog.open(":memory:") as log, pytest.raises(UnknownFormatError, match="found a device"):
        import_file(log, "/dev/zero")


def test_a_mapping_whose_key_has_no_end_is_refused_unread(tmp_path: Path) -> None:
    (tmp_path / "talk.jsonl").write_bytes(as_lines({"who": "ann", "says": "Hi."}))
    (tmp_path / "talk.mapping.toml").write_text(f"a{'.a' * 200_000} = 1")
    with stenolog.open(":memory:") as log, pytest.raises(CallerError, match="at most 20,000 bytes"):
        import_file(log, tmp_path / "talk.jsonl")
