"""Opening a file: what it must be, what is made, and what is refused."""

from __future__ import annotations

import gc
import os
import shutil
import sqlite3
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import stenolog
from stenolog import Log, StenologError, ToolResult, UserMessage
from stenolog.adapters.conversation.verifying.integrity import verify
from stenolog.adapters.store.sqlite.statements import schema
from stenolog.errors import (
    CorruptLogError,
    NotADatabaseError,
    StoredDataError,
    StoreError,
    UnsupportedVersionError,
)
from tests.stores.conftest import said, texts

VERSION = schema.VERSION
REFUSING = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
static int locks(int command) {
    return command == F_SETLK || command == F_SETLKW || command == F_OFD_SETLK || command == F_OFD_SETLKW;
}
"""
CONTROL = """
int NAME(int file, int command, ...) {
    va_list rest; va_start(rest, command); void *argument = va_arg(rest, void *); va_end(rest);
    if (locks(command)) { errno = ENOLCK; return -1; }
    return ((int (*)(int, int, ...)) dlsym(RTLD_NEXT, "NAME"))(file, command, argument);
}
"""
REFUSED = {
    "flock": "int flock(int file, int operation) { errno = ENOLCK; return -1; }",
    "fcntl": CONTROL.replace("NAME", "fcntl"),
    "fcntl64": CONTROL.replace("NAME", "fcntl64"),
}
"""Functions of the C library as a file system without a lock service answers them."""


def pragma(path: Path, name: str) -> object:
    connection = sqlite3.connect(path)
    try:
        return connection.execute(f"PRAGMA {name}").fetchone()[0]
    finally:
        connection.close()


def version(path: Path) -> int:
    """Return the version of the format: the lower bits, below the file's own id."""
    return int(str(pragma(path, "user_version"))) & 0xFF


def test_a_new_file_is_made_and_says_what_it_is(path: Path) -> None:
    stenolog.open(path).close()

    assert pragma(path, "application_id") == schema.APPLICATION_ID
    assert version(path) == schema.VERSION
    assert pragma(path, "journal_mode") == "wal"


def test_an_empty_file_is_a_new_one(path: Path) -> None:
    path.touch()

    with stenolog.open(path) as log:
        said(log["demo"], "a")
    with stenolog.open(path) as log:
        assert texts(log["demo"]) == ["a"]


def test_after_closing_only_the_database_and_its_lock_are_left(path: Path) -> None:
    with stenolog.open(path) as log:
        said(log["demo"], "a")
        log["demo"].state()

    assert {each.name for each in path.parent.iterdir()} - {"talks.db-checkpoints"} == {
        "talks.db",
        "talks.db-lock",
    }


def test_logs_in_memory_know_nothing_of_each_other() -> None:
    with stenolog.open(":memory:") as one, stenolog.open(":memory:") as other:
        said(one["demo"], "a")

        assert list(other) == []


def test_a_path_with_odd_characters_is_a_path(tmp_path: Path) -> None:
    path = tmp_path / "talks?mode=memory&x#y %41 ü.db"

    with stenolog.open(path) as log:
        said(log["demo"], "a")
    assert path.exists()


def test_a_relative_path_stays_where_it_was_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    with stenolog.open("talks.db") as log:
        monkeypatch.chdir(tmp_path / "elsewhere")
        said(log["demo"], "a")
        log["demo"].extend([UserMessage(text="b")] * 100)
        assert log["demo"].state().position == 102

    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_durability_is_full_unless_told_otherwise(path: Path) -> None:
    def synchronous(log: stenolog.Log) -> object:
        return log.datastore.writer.execute("PRAGMA synchronous").fetchone()[0]

    with stenolog.open(path) as log:
        assert synchronous(log) == 2
    with stenolog.open(path, synchronous="normal") as log:
        assert synchronous(log) == 1
    with pytest.raises(ValueError, match="'full' or 'normal'"):
        stenolog.open(path, synchronous="off")  # type: ignore[arg-type]


class TestRefused:
    """What is not ours is refused, and left as it was."""

    @pytest.mark.parametrize(
        "content", [b"hello", b"\0" * 5000, b"SQLite format 2\0", b"x" * 100_000, b"{}\n{}\n"]
    )
    def test_a_file_that_is_no_database(self, path: Path, content: bytes) -> None:
        path.write_bytes(content)

        with pytest.raises(NotADatabaseError, match="expected a stenolog database"):
            stenolog.open(path)
        assert path.read_bytes() == content

    def test_the_database_of_another_program(self, path: Path) -> None:
        with sqlite3.connect(path) as connection:
            connection.execute("CREATE TABLE customers (name)")
        connection.close()
        before = path.read_bytes()

        with pytest.raises(NotADatabaseError, match="another program"):
            stenolog.open(path)
        assert path.read_bytes() == before
        assert [each.name for each in path.parent.iterdir()] == ["talks.db"]

    def test_the_database_of_another_application_id(self, path: Path) -> None:
        with sqlite3.connect(path) as connection:
            connection.execute("PRAGMA application_id = 7")
        connection.close()

        with pytest.raises(NotADatabaseError, match="0x7"):
            stenolog.open(path)

    def test_one_of_a_later_release(self, path: Path) -> None:
        stenolog.open(path).close()
        with sqlite3.connect(path) as connection:
            connection.execute(f"PRAGMA user_version = {schema.VERSION + 1}")
        connection.close()

        with pytest.raises(
            UnsupportedVersionError, match=f"file format {schema.VERSION + 1}.*upgrade stenolog"
        ):
            stenolog.open(path)

    def test_a_directory(self, tmp_path: Path) -> None:
        with pytest.raises(NotADatabaseError, match="found a directory"):
            stenolog.open(tmp_path)

    def test_a_place_that_does_not_exist(self, tmp_path: Path) -> None:
        with pytest.raises(StoreError, match="does not exist"):
            stenolog.open(tmp_path / "nowhere" / "talks.db")
        assert list(tmp_path.iterdir()) == []

    @pytest.mark.parametrize("part", [0.1, 0.5, 0.9, 0.999])
    def test_a_truncated_one_is_refused_or_found_by_verify(self, path: Path, part: float) -> None:
        with stenolog.open(path) as log:
            log["demo"].extend([UserMessage(text="x" * 500) for _ in range(100)])
        content = path.read_bytes()
        path.write_bytes(content[: int(len(content) * part)])

        try:
            with stenolog.open(path) as log:
                assert not verify(log).ok
                with pytest.raises(StoredDataError):
                    list(log["demo"].entries(strict=True))
        except CorruptLogError:
            pass


class TestReadOnly:
    """A file that may not be written can be read."""

    @pytest.fixture
    def frozen(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        with stenolog.open(path) as log:
            said(log["demo"], "a")
        path.chmod(0o444)
        monkeypatch.setattr(os, "access", lambda *_: False)  # who is root may write everything
        return path

    def test_it_is_read(self, frozen: Path) -> None:
        with stenolog.open(frozen) as log:
            assert texts(log["demo"]) == ["a"]
            assert verify(log).ok

    def test_a_place_where_nothing_can_be_locked_fails_an_append(self, path: Path) -> None:
        path.with_name("talks.db-lock").mkdir()

        with pytest.raises(StoreError, match="cannot be locked"):
            stenolog.open(path)

    @pytest.mark.skipif(not shutil.which("cc"), reason="a C compiler makes the library that refuses locks")
    @pytest.mark.parametrize("refused", [("flock",), ("flock", "fcntl", "fcntl64"), ("fcntl", "fcntl64")])
    def test_a_file_system_that_refuses_locks_is_named_as_the_cause(
        self, path: Path, refused: tuple[str, ...]
    ) -> None:
        source, library = path.with_name("refusing.c"), path.with_name("refusing.so")
        source.write_text(REFUSING + "".join(map(REFUSED.__getitem__, refused)))
        subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)
        program = f"import stenolog; stenolog.open({str(path)!r}, deadline=2.0)['x'].join('a', model='m')"
        environment = {**os.environ, "LD_PRELOAD": str(library)}
        done = subprocess.run(
            [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False
        )

        assert "StoreError" in done.stderr.splitlines()[-1]
        assert "found one that refuses to (No locks available)" in done.stderr

    def test_an_append_fails_and_says_why(self, frozen: Path) -> None:
        with stenolog.open(frozen) as log, pytest.raises(StoreError, match="readonly"):
            said(log["demo"], "b")


class TestClosed:
    """A closed log says that it is closed."""

    def test_every_call_is_refused(self, log: stenolog.Log) -> None:
        conversation = log["demo"]
        said(conversation, "a")
        log.close()

        for call in (
            lambda: said(conversation, "b"),
            lambda: list(conversation.entries()),
            lambda: list(log),
            conversation.state,
        ):
            with pytest.raises(StoreError, match="closed"):
                call()


class TestMigration:
    """A new file is made by the same scripts that bring an old one up to date."""

    @pytest.fixture
    def two_versions(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        with stenolog.open(path) as log:
            said(log["demo"], "a")
        later = (*schema.MIGRATIONS, "CREATE TABLE one (stream INTEGER); CREATE TABLE two (stream INTEGER)")
        monkeypatch.setattr(schema, "MIGRATIONS", later)
        monkeypatch.setattr(schema, "VERSION", VERSION + 1)
        return path

    def test_an_old_file_gets_what_is_new_and_keeps_what_it_has(self, two_versions: Path) -> None:
        with stenolog.open(two_versions) as log:
            assert texts(log["demo"]) == ["a"]
            assert verify(log).ok
        assert version(two_versions) == VERSION + 1

    def test_a_migration_that_fails_changes_nothing(
        self, two_versions: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        broken = (*schema.MIGRATIONS[:VERSION], "CREATE TABLE one (stream); CREATE TABLE nonsense")
        monkeypatch.setattr(schema, "MIGRATIONS", broken)

        with pytest.raises(StenologError):
            stenolog.open(two_versions)
        assert version(two_versions) == VERSION
        monkeypatch.setattr(schema, "VERSION", VERSION)
        with stenolog.open(two_versions) as log:
            assert texts(log["demo"]) == ["a"]


@pytest.mark.parametrize(
    "read",
    [
        lambda log: log["x"].entries(),
        lambda log: log["x"].records(),
        lambda log: iter(log["x"]),
        lambda log: log["x"].tail(after=0, timeout=0),
        lambda log: log["x"].outputs.listed(),
    ],
)
def test_a_log_stays_open_while_what_was_asked_of_it_is_read(
    tmp_path: Path, read: Callable[[Log], Iterator[object]]
) -> None:
    with stenolog.open(tmp_path / "talks.db") as log:
        log["x"].extend([UserMessage(text="hi"), ToolResult(call_id="c", text="there")])
        expected = [str(each) for each in read(log)]
    reading = read(stenolog.open(tmp_path / "talks.db"))
    gc.collect()

    assert [str(each) for each in reading] == expected
    assert len(expected) > 0


def test_a_connection_that_nobody_closed_closes_itself_without_a_warning(path: Path) -> None:
    with stenolog.open(path) as log:
        log["demo"].state()
        connections = [log.datastore.connect(), log.checkpoints.open()]
        log.checkpoints._connection = None
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            connections.clear()
            gc.collect()

    assert [str(each.message) for each in warned] == []
