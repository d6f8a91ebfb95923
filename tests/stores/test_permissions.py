"""Everything that is written is readable by its owner alone."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import stenolog
from stenolog import AssistantMessage, UserMessage
from stenolog.adapters.store.sqlite import copies
from stenolog.adapters.store.sqlite.liveness import LivenessLock
from stenolog.domain.errors import NotADatabaseError
from tests.cli.conftest import cli
from tests.stores.conftest import path

__all__ = ["cli", "path"]
SIDECARS = {"-wal", "-shm", "-lock", "-checkpoints", "-search", "-runner-one"}


@pytest.fixture(params=[0o000, 0o022, 0o077], ids=oct)
def umask(request: pytest.FixtureRequest) -> Iterator[None]:
    before = os.umask(request.param)
    yield
    os.umask(before)


def modes(folder: Path) -> dict[str, int]:
    """Return the permissions of each file in a folder, by its path there."""
    files = (each for each in folder.rglob("*") if each.is_file())
    return {str(each.relative_to(folder)): stat.S_IMODE(each.stat().st_mode) for each in files}


def used(path: Path) -> stenolog.Log:
    """Return a log, still open, whose files beside it are all there."""
    log = stenolog.open(path)
    pair = (UserMessage(text="a word"), AssistantMessage(agent="a", text="another"))
    log["demo"].extend(pair * 70)
    log["demo"].state()
    log["demo"].request("a")
    log.search("word")
    log.close()
    log = stenolog.open(path)
    log["demo"].append(UserMessage(text="one more"))
    return log


@pytest.mark.usefixtures("umask")
def test_a_log_and_all_files_beside_it_are_for_their_owner_alone(path: Path) -> None:
    with used(path) as log:
        lock = LivenessLock(log.datastore.file, "one")
        found = modes(path.parent)
        lock.close()

    assert {name.removeprefix(path.name) for name in found} >= {"", *SIDECARS}
    assert set(found.values()) == {0o600}


@pytest.mark.usefixtures("umask")
def test_a_backup_is_for_its_owner_alone_also_while_it_is_written(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: dict[str, int] = {}
    fill = copies.fill

    def filled(*args: object) -> None:
        fill(*args)  # type: ignore[arg-type]
        seen.update(modes(path.parent))

    monkeypatch.setattr(copies, "fill", filled)
    with stenolog.open(path) as log:
        log["demo"].append(UserMessage(text="a word"))
        path.chmod(0o644)
        log.backup(path.with_name("copy.db"))

    assert seen["copy.db.stenolog-part"] == 0o600
    assert modes(path.parent)["copy.db"] == 0o600


@pytest.mark.usefixtures("umask")
def test_what_a_command_writes_is_for_its_owner_alone(cli: Callable[..., object], tmp_path: Path) -> None:
    cli("demo", "--db", "talks.db")
    commands = (
        ("export", "-o", "all.jsonl"),
        ("export", "demo", "--as", "crewagent", "-o", "crew"),
        ("check", "gate", "-o", "gate.jsonl"),
        ("outputs", "demo", "--materialise", "files"),
        ("db", "backup", "copy.db"),
    )
    for command in commands:
        cli(*command)

    found = modes(tmp_path)
    made = {name.partition("/")[0] for name in found}
    assert made >= {"talks.db", "all.jsonl", "crew", "gate.jsonl", "files", "copy.db"}
    assert {name: oct(mode) for name, mode in found.items() if mode & 0o077} == {}


def test_an_export_over_a_file_keeps_its_permissions(cli: Callable[..., object], tmp_path: Path) -> None:
    cli("demo", "--db", "talks.db")
    cli("export", "-o", "all.jsonl")
    (tmp_path / "all.jsonl").chmod(0o640)
    cli("export", "-o", "all.jsonl")

    assert modes(tmp_path)["all.jsonl"] == 0o640


def test_the_files_beside_a_log_follow_the_permissions_that_its_owner_gave_it(path: Path) -> None:
    stenolog.open(path).close()
    path.chmod(0o660)
    with used(path):
        assert set(modes(path.parent).values()) == {0o660}

    path.chmod(0o600)
    with used(path):
        assert set(modes(path.parent).values()) == {0o600}


def test_the_log_itself_keeps_the_permissions_that_it_has(path: Path) -> None:
    stenolog.open(path).close()
    path.chmod(0o644)
    with used(path):
        assert modes(path.parent)[path.name] == 0o644


@pytest.mark.parametrize("kind", ["a pipe", "a device", "a socket"])
def test_what_is_no_regular_file_is_refused_as_a_log(kind: str, path: Path) -> None:
    import socket

    if kind == "a pipe":
        os.mkfifo(path)
    elif kind == "a device":
        path.symlink_to(os.devnull)
    else:
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(str(path))

    with pytest.raises(NotADatabaseError, match=f"expected a file, found {kind}"):
        stenolog.open(path)


@pytest.mark.parametrize("beside", ["-checkpoints", "-search"])
def test_a_pipe_beside_a_log_stops_nobody(beside: str, path: Path) -> None:
    os.mkfifo(f"{path}{beside}")
    with used(path) as log:
        assert len(log.search("word")) == 20
