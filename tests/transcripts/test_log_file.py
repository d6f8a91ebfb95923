"""A log of stenolog in a file, imported into another log: all of it or nothing, with its own digests."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

import stenolog
from stenolog.adapters.conversation.verifying.integrity import verify
from stenolog.adapters.importers.importer import import_stream
from stenolog.adapters.importers.own import log_file
from stenolog.adapters.importers.own.jsonl import export_jsonl
from stenolog.adapters.store.contract.values import Continuation, ExportPart
from stenolog.adapters.store.reading import reader
from stenolog.adapters.store.reading.reader import imported_spans
from stenolog.errors import CallerError, ConversationExistsError, CorruptLogError
from stenolog.events import UserMessage
from stenolog.importers import import_file, recognise
from stenolog.parts import ImagePart
from tests.forked import python
from tests.postgres.server import EACH_VERSION, Server

SESSION = Path(__file__).parents[2] / "docs" / "examples" / "session.jsonl"


@pytest.fixture(params=["sqlite", *EACH_VERSION])
def target(
    request: pytest.FixtureRequest, postgres: Callable[[str], Server], tmp_path: Path
) -> Iterator[str]:
    """Return where the log is that is imported into."""
    if request.param == "sqlite":
        yield str(tmp_path / "target.db")
        return
    with postgres(request.param).schema() as address:
        yield address


@pytest.fixture
def log(target: str) -> Iterator[stenolog.Log]:
    with stenolog.open(target) as log:
        yield log


@pytest.fixture
def talks(tmp_path: Path) -> Path:
    """Return a log of two conversations and a fork of a fork; one is archived, one entry is erased."""
    path = tmp_path / "talks.db"
    with stenolog.open(path) as log:
        said(log, "demo", "a", "b", "c")
        log["demo"].fork(3, "fork")
        said(log, "fork", "d")
        log["fork"].fork(5, "fork of it")
        log["fork"].archive()
        picture = ImagePart(blob=log.blobs.put(b"a picture"), media_type="image/png")
        log["beside"].append(UserMessage(parts=[picture]))
        said(log, "beside", "a secret")
        log["beside"].erase(3)
        import_file(log, SESSION, name="session")
    return path


def said(log: stenolog.Log, name: str, *texts: str) -> None:
    log[name].extend([UserMessage(text=text) for text in texts])


def facts(log: stenolog.Log) -> dict[str, Any]:
    """Return everything that an import brings."""
    names = log.names(archived=True)
    return {
        "archived": [name for name in names if name not in log],
        "current": log.names(),
        "records": {name: list(log[name].records()) for name in names},
        "forked at": {name: [one.after for one in log.recorder.lineage(log[name].stream)] for name in names},
        "imported": {name: imported_spans(log.recorder, log[name].stream) for name in names},
        "blobs": {sha: log.blobs[sha] for sha in log.blobs},
    }


def facts_of(path: Path) -> dict[str, Any]:
    with stenolog.open(path) as log:
        return facts(log)


def moment(log: stenolog.Log) -> tuple[Any, ...]:
    """Return what is another one after each change of a log."""
    with log.recorder.inspect() as inspection:
        return log.recorder.max_notification_id(), list(inspection.history()), list(inspection.cursors())


def test_a_log_comes_in_with_all_that_it_has(log: stenolog.Log, talks: Path) -> None:
    report = import_file(log, talks)

    assert facts(log) == facts_of(talks)
    assert verify(log).problems == ()
    assert report.format == recognise(talks) == "stenolog-db"
    assert [(one.name, one.appended, one.already) for one in report.conversations][:4] == [
        ("demo", 4, 0),
        ("fork", 2, 0),
        ("fork of it", 1, 0),
        ("beside", 4, 0),
    ]


def test_what_is_in_the_log_already_stays_beside_it(log: stenolog.Log, talks: Path) -> None:
    said(log, "mine", "a")
    before = list(log["mine"].records())
    import_file(log, talks)

    assert log.names()[0] == "mine"
    assert list(log["mine"].records()) == before
    assert verify(log).problems == ()


def test_the_second_time_nothing_is_written(log: stenolog.Log, talks: Path) -> None:
    import_file(log, talks)
    before = moment(log)
    report = import_file(log, talks)

    assert moment(log) == before
    assert {one.appended for one in report.conversations} == {0}
    assert [one.already for one in report.conversations][:4] == [4, 2, 1, 4]


def test_of_a_log_that_has_grown_the_rest_comes_in(log: stenolog.Log, talks: Path) -> None:
    import_file(log, talks)
    with stenolog.open(talks) as grown:
        said(grown, "demo", "more")
        said(grown, "fork", "more")
        grown["fork of it"].fork(4, "new")
        grown.blobs.put(b"another picture")
    report = import_file(log, talks)

    assert facts(log) == facts_of(talks)
    assert {one.name: one.appended for one in report.conversations if one.appended} == {
        "demo": 1,
        "fork": 1,
        "new": 1,
    }
    assert verify(log).problems == ()


def test_a_conversation_that_has_grown_here_keeps_what_it_has(log: stenolog.Log, talks: Path) -> None:
    import_file(log, talks)
    said(log, "demo", "here alone")
    before = moment(log)
    import_file(log, talks)

    assert moment(log) == before


@pytest.mark.parametrize("texts", [("a", "b", "c"), ("x",), ("a", "b", "c", "d", "e", "f")])
def test_another_conversation_of_the_same_name_refuses_all(
    log: stenolog.Log, talks: Path, texts: tuple[str, ...]
) -> None:
    said(log, "beside", *texts)
    before = moment(log)

    with pytest.raises(ConversationExistsError, match="'beside': another conversation of this name"):
        import_file(log, talks)
    assert moment(log) == before
    assert log.names(archived=True) == ["beside"]
    assert not [*log.blobs]


def test_an_import_that_breaks_off_leaves_nothing(
    log: stenolog.Log, talks: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said(log, "mine", "a")
    before = moment(log)
    with monkeypatch.context() as patch:
        patch.setattr(reader, "records", breaking_off(reader.records))
        with pytest.raises(KeyboardInterrupt):
            import_file(log, talks)

    assert moment(log) == before
    assert (log.names(archived=True), [*log.blobs]) == (["mine"], [])
    import_file(log, talks)
    assert {**facts(log), "current": None}["records"].keys() == {*facts_of(talks)["records"], "mine"}


def breaking_off(records: Callable[..., Iterator[Any]], entries: int = 6) -> Callable[..., Iterator[Any]]:
    """Return the function, which is interrupted after so many entries of all conversations."""
    left = entries

    def until_then(*arguments: Any) -> Iterator[Any]:
        nonlocal left
        for record in records(*arguments):
            if not left:
                raise KeyboardInterrupt
            left -= 1
            yield record

    return until_then


KILLED = """
import os, signal, sys
import stenolog
from stenolog.adapters.store.reading import reader
from stenolog.adapters.importers.importer import import_stream
from stenolog.importers import import_file
records = reader.records
def killed(recorder, stream, *rest):
    yield from records(recorder, stream, *rest)
    if stream.name == "fork of it":
        os.kill(os.getpid(), signal.SIGKILL)
reader.records = killed
with stenolog.open(sys.argv[1]) as log:
    import_file(log, sys.argv[2])
"""


def test_an_import_whose_process_is_killed_leaves_nothing(
    log: stenolog.Log, target: str, talks: Path
) -> None:
    said(log, "mine", "a")
    before = moment(log)
    ended = subprocess.run([sys.executable, "-c", KILLED, target, talks], check=False)

    assert ended.returncode == -9
    assert moment(log) == before
    import_file(log, talks)
    assert verify(log).problems == ()


def test_a_damaged_log_is_refused_as_a_whole(log: stenolog.Log, talks: Path) -> None:
    with sqlite3.connect(talks) as connection:
        connection.execute("UPDATE stored_events SET state = x'7b7d' WHERE originator_version = 2")
    connection.close()

    with pytest.raises(CorruptLogError, match=r"'demo' at position 2: digest.*db salvage"):
        import_file(log, talks)
    assert log.names(archived=True) == []


def test_the_log_that_is_read_stays_as_it_is_and_may_be_in_use(log: stenolog.Log, talks: Path) -> None:
    beside = sorted(path.name for path in talks.parent.glob("talks*"))
    bytes_before = sha256(talks.read_bytes()).hexdigest()
    import_file(log, talks)
    assert sorted(path.name for path in talks.parent.glob("talks*")) == beside
    assert sha256(talks.read_bytes()).hexdigest() == bytes_before

    with stenolog.open(talks) as used:
        said(used, "demo", "in the write-ahead log alone")
        import_file(log, talks)
        assert log["demo"].digest == used["demo"].digest


def test_a_log_that_was_never_closed_is_recognised_too(log: stenolog.Log, tmp_path: Path) -> None:
    with stenolog.open(tmp_path / "new.db") as used:
        said(used, "demo", "in the write-ahead log alone")

        assert recognise(tmp_path / "new.db") == "stenolog-db"
        assert [one.appended for one in import_file(log, tmp_path / "new.db").conversations] == [2]


def test_a_log_comes_from_a_stream(log: stenolog.Log, talks: Path) -> None:
    with talks.open("rb") as stream:
        report = import_stream(log, stream)

    assert report.file == "stdin"
    assert facts(log) == facts_of(talks)


def test_a_conversation_that_was_renamed_here_is_continued_under_its_name(
    log: stenolog.Log, talks: Path
) -> None:
    import_file(log, talks)
    log["demo"].rename("mine")
    with stenolog.open(talks) as grown:
        said(grown, "demo", "more")
        grown["demo"].fork(5, "late")
    report = import_file(log, talks)

    assert [(one.name, one.appended) for one in report.conversations if one.appended] == [
        ("mine", 1),
        ("late", 1),
    ]
    assert "demo" not in log
    assert log.recorder.lineage(log["late"].stream)[0].key == log.recorder.conversations.find("mine")


def test_a_conversation_that_was_deleted_here_stays_deleted_with_its_forks_unless_asked_for(
    log: stenolog.Log, talks: Path
) -> None:
    import_file(log, talks)
    for name in ("fork of it", "fork"):
        log[name].delete()
    with stenolog.open(talks) as grown:
        grown["fork"].fork(4, "of what is gone")
    left_out = [one.name for one in import_file(log, talks).left_out]
    names = log.names(archived=True)
    import_file(log, talks, again=True)

    assert left_out == ["fork", "fork of it", "of what is gone"]
    assert not {*names} & {*left_out}
    assert {*log.names(archived=True)} == {*names, *left_out}
    assert verify(log).problems == ()


def test_a_conversation_that_was_deleted_here_and_is_back_by_its_export_is_continued(
    log: stenolog.Log, talks: Path, tmp_path: Path
) -> None:
    import_file(log, talks)
    with (tmp_path / "export.jsonl").open("w") as export:
        export_jsonl(log["beside"], export)
    log["beside"].delete()
    import_file(log, tmp_path / "export.jsonl")
    with stenolog.open(talks) as grown:
        said(grown, "beside", "more")
    report = import_file(log, talks)

    assert [(one.name, one.appended) for one in report.conversations if one.appended] == [("beside", 1)]
    assert report.left_out == []


def test_a_session_that_came_in_with_the_log_is_known_here(
    log: stenolog.Log, talks: Path, tmp_path: Path
) -> None:
    import_file(log, talks)
    log["session"].rename("my session")
    before = moment(log)
    report = import_file(log, SESSION, name="session")

    assert [(one.name, one.appended) for one in report.conversations] == [("my session", 0)]
    assert moment(log)[:2] == before[:2]


@pytest.mark.parametrize("option", [{"name": "x"}, {"keep_raw": True}, {"agents": {"a": "b"}}])
def test_options_that_mean_nothing_to_a_log_are_refused(
    log: stenolog.Log, talks: Path, option: dict[str, Any]
) -> None:
    with pytest.raises(CallerError, match=next(iter(option))):
        import_file(log, talks, **option)
    assert log.names(archived=True) == []


def test_what_others_append_between_the_look_and_the_writing_is_looked_at_again(
    log: stenolog.Log, target: str, talks: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import_file(log, talks)
    with stenolog.open(talks) as grown:
        said(grown, "demo", "more", "and more")
        more = list(grown["demo"].records(after=4))
    write, others = log_file._Plan.write, iter([more[:1]])

    def written(plan: Any) -> None:
        for records in others:
            parts: list[ExportPart] = [Continuation("demo", 4, 5), *records]
            log.recorder.insert_export(iter(parts))
        write(plan)

    monkeypatch.setattr(log_file._Plan, "write", written)
    report = import_file(log, talks)

    assert [one.appended for one in report.conversations if one.name == "demo"] == [1]
    assert facts(log)["records"] == facts_of(talks)["records"]


def test_a_log_that_is_imported_into_itself_stays_as_it_is(talks: Path) -> None:
    with stenolog.open(talks) as log:
        before = moment(log)
        report = import_file(log, talks)

        assert {one.appended for one in report.conversations} == {0}
        assert moment(log) == before


def test_the_command_imports_a_database_and_says_so(target: str, talks: Path) -> None:
    command = python("-m", "stenolog", "import", str(talks), "--db", target)
    first, second = (subprocess.run(command, capture_output=True, text=True, check=False) for _ in "12")

    assert (first.returncode, second.returncode) == (0, 0), first.stderr
    assert "✓ demo  4 entries  stenolog-db" in first.stdout
    assert "✓ demo  0 new entries (4 already there)  stenolog-db" in second.stdout
