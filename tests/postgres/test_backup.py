"""A backup of a log in PostgreSQL: an SQLite log with the same heads, the same history, the same cursors."""

from __future__ import annotations

import sqlite3
import subprocess
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest

import stenolog
from stenolog.adapters.conversation.verifying.integrity import restore, verify
from stenolog.adapters.store.contract.values import Claim, Cursor, Stream
from stenolog.adapters.store.postgres.backup import PostgresLogRows
from stenolog.adapters.store.reading.reader import imported_spans
from stenolog.adapters.store.sqlite import copied_log, copies
from stenolog.adapters.store.sqlite.statements import schema
from stenolog.errors import CorruptLogError, StoreError
from stenolog.events import UserMessage
from stenolog.importers import import_file
from tests.forked import python
from tests.postgres.server import EACH_VERSION, Server

SESSION = Path(__file__).parents[2] / "docs" / "examples" / "session.jsonl"


@pytest.fixture(params=EACH_VERSION)
def address(request: pytest.FixtureRequest, postgres: Callable[[str], Server]) -> Iterator[str]:
    with postgres(request.param).schema() as found:
        yield found


@pytest.fixture
def log(address: str) -> Iterator[stenolog.Log]:
    """Return a log with everything that becomes of conversations."""
    with stenolog.open(address) as log:
        said(log, "demo", "a", "b", "c")
        log["demo"].fork(3, "fork")
        log["fork"].archive()
        said(log, "secret", "a secret", "and more", "a long secret " * 300)
        log["secret"].erase(2)
        log["secret"].rename("not so secret")
        import_file(log, SESSION, name="session")
        said(log, "gone", "nobody asked")
        log["gone"].delete()
        log.blobs.put(b"a picture")
        log.recorder.save_cursor("a follower", Cursor(log.recorder.max_notification_id() or 0))
        yield log


def said(log: stenolog.Log, name: str, *texts: str) -> None:
    log[name].extend([UserMessage(text=text) for text in texts])


def heads(log: stenolog.Log) -> dict[str, tuple[int, str]]:
    return {name: (log[name].position, log[name].digest) for name in log.names(archived=True)}


def facts(log: stenolog.Log) -> dict[str, Any]:
    recorder = log.recorder
    with recorder.inspect() as inspection:
        return {
            "conversations": inspection.conversations(),
            "history": list(inspection.history()),
            "cursors": [one for one in inspection.cursors() if not one[0].startswith("erasing")],
            "blobs": list(inspection.blobs()),
            "newest": inspection.newest(),
            "records": {name: list(log[name].records()) for name in log.names(archived=True)},
            "order": [(row.notification, row.key, row.position) for row in recorder.committed(0, limit=999)],
            "imported": {name: imported_spans(recorder, log[name].stream) for name in log.names()},
        }


def test_a_backup_has_all_that_the_log_has_with_the_same_numbers(log: stenolog.Log, tmp_path: Path) -> None:
    before = verify(log)
    log.backup(tmp_path / "home.db")
    with stenolog.open(tmp_path / "home.db") as home:
        assert facts(home) == facts(log)
        assert (verify(home).problems, verify(home).head) == ((), before.head)
        assert home.recorder.seal_key != log.recorder.seal_key


def test_a_head_that_was_noted_on_the_server_stands_in_a_later_backup(
    log: stenolog.Log, tmp_path: Path
) -> None:
    noted = verify(log).head
    said(log, "demo", "more")
    log.backup(tmp_path / "home.db")

    with stenolog.open(tmp_path / "home.db") as home:
        assert verify(home, head=noted).problems == ()


def test_a_backup_goes_on_as_a_log_and_uses_no_number_again(log: stenolog.Log, tmp_path: Path) -> None:
    newest = log.recorder.max_notification_id() or 0
    log.backup(tmp_path / "home.db")
    with stenolog.open(tmp_path / "home.db") as home:
        used = {one.stream for one in facts(home)["history"]}
        said(home, "new", "a")
        said(home, "demo", "d")

        assert home.recorder.conversations.find("new") not in used
        assert min(row.notification for row in home.recorder.committed(newest)) > newest
        assert verify(home).problems == ()
    with stenolog.open(tmp_path / "home.db") as home:
        assert verify(home).problems == ()


def test_a_backup_is_written_ahead_as_every_log_so_that_readers_stop_no_writer(
    log: stenolog.Log, tmp_path: Path
) -> None:
    log.backup(tmp_path / "home.db")
    with (
        stenolog.open(tmp_path / "home.db") as home,
        closing(sqlite3.connect(tmp_path / "home.db")) as reader,
    ):
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM stored_events").fetchone()
        said(home, "demo", "while another one reads")

        assert reader.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_claims_and_drafts_stay_on_the_server(log: stenolog.Log, tmp_path: Path) -> None:
    stream = Stream("demo", log.recorder.conversations.find("demo"))
    claim = Claim(0, "coder", "model", 2, 1, "key", "owner", 0)
    (taken,) = log.recorder.claims.take(stream, [claim], 4)
    assert taken is not None
    log.recorder.drafts.add([(taken.fence, b"half a word")])
    log.backup(tmp_path / "home.db")

    with stenolog.open(tmp_path / "home.db") as home:
        assert home.recorder.claims.everywhere() == []


def test_a_backup_is_of_one_moment_while_others_append(
    log: stenolog.Log, address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = heads(log)
    entries = PostgresLogRows.entries

    def meanwhile(rows: PostgresLogRows) -> Iterator[Iterable[Any]]:
        with stenolog.open(address) as other:
            said(other, "demo", "meanwhile")
            other["fork"].delete()
            said(other, "late", "meanwhile")
        return entries(rows)

    with monkeypatch.context() as patch:
        patch.setattr(PostgresLogRows, "entries", meanwhile)
        log.backup(tmp_path / "home.db")
    with stenolog.open(tmp_path / "home.db") as home:
        assert heads(home) == before
        assert verify(home).problems == ()


@pytest.mark.parametrize("error", [KeyboardInterrupt, StoreError("no space left")])
def test_a_backup_that_breaks_off_leaves_nothing(
    log: stenolog.Log, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Any
) -> None:
    def broken(*_: Any) -> None:
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(copies, "publish", broken)
        with pytest.raises((KeyboardInterrupt, StoreError)):
            log.backup(tmp_path / "home.db")

    assert [*tmp_path.iterdir()] == []
    log.backup(tmp_path / "home.db")
    assert (tmp_path / "home.db").is_file()


def test_a_server_that_goes_away_leaves_no_half_of_a_backup(
    log: stenolog.Log, address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    migrate = schema.migrate

    def cut(*arguments: Any) -> None:
        with psycopg.connect(address.rpartition("&schema=")[0], autocommit=True) as connection:
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()"
            )
        migrate(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(schema, "migrate", cut)
        with pytest.raises(StoreError):
            log.backup(tmp_path / "home.db")
    assert [*tmp_path.iterdir()] == []


def test_rows_that_were_not_written_are_told(
    log: stenolog.Log, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(copied_log, "ENTRY", copied_log.ENTRY.replace("INSERT", "INSERT OR IGNORE"))
        patch.setattr(copied_log, "HEADS", f"SELECT * FROM ({copied_log.HEADS}) LIMIT 1")
        with pytest.raises(CorruptLogError, match="end elsewhere"):
            log.backup(tmp_path / "home.db")
    assert [*tmp_path.iterdir()] == []


def test_a_backup_takes_the_place_of_a_log_in_a_file(log: stenolog.Log, tmp_path: Path) -> None:
    log.backup(tmp_path / "home.db")
    with stenolog.open(tmp_path / "talks.db") as talks:
        said(talks, "before", "a")
    done = restore(tmp_path / "home.db", tmp_path / "talks.db")

    with stenolog.open(tmp_path / "talks.db") as talks:
        assert heads(talks) == heads(log)
    assert done.conversations == len(heads(log))


def test_an_empty_log_is_backed_up_too(address: str, tmp_path: Path) -> None:
    with stenolog.open(address) as log:
        log.backup(tmp_path / "home.db")
    with stenolog.open(tmp_path / "home.db") as home:
        assert verify(home).problems == ()
        said(home, "demo", "a")
        assert verify(home).problems == ()


def test_the_command_takes_a_log_home(log: stenolog.Log, address: str, tmp_path: Path) -> None:
    command = python("-m", "stenolog", "db", "backup", str(tmp_path / "home.db"), "--db", address)
    done = subprocess.run(command, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
    assert "is backed up as" in done.stdout
    with stenolog.open(tmp_path / "home.db") as home:
        assert heads(home) == heads(log)
