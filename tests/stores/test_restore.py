"""A backup is put in the place of a log, whole, and nothing that was there is lost."""

from __future__ import annotations

import shutil
import stat
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import stenolog
from stenolog import Log, UserMessage
from stenolog.adapters.conversation.verifying.integrity import verify
from stenolog.adapters.store.repair import restoring
from stenolog.adapters.store.sqlite.turn.gate import RESTORE_MARK
from stenolog.errors import CorruptLogError, HeldError, NotADatabaseError, StoreError, StoreTimeoutError
from stenolog.maintenance import hold, holds, release
from tests.cli.conftest import cli
from tests.stores import workers
from tests.stores.conftest import path, said, texts

__all__ = ["cli", "path"]


@pytest.fixture
def backup(path: Path) -> Path:
    """Return a backup of a log that says "old"; the log has said "new" since, and its process was killed."""
    with stenolog.open(path) as log:
        said(log["demo"], "old")
        log["demo"].state()
        log.search("old")
        log.backup(path.with_name("copy.db"))
    process = workers.started(workers.crash_after, str(path), ["new", "newer"])
    process.join(workers.PATIENCE)
    assert path.with_name("talks.db-wal").stat().st_size > 0
    return path.with_name("copy.db")


def derived(path: Path) -> list[str]:
    """Return the files in the log's folder that are derived from entries of any log."""
    return [
        each.name
        for each in path.parent.iterdir()
        if each.name.endswith(("-checkpoints", "-search", "-bookmarks"))
    ]


def words(path: Path) -> list[str]:
    """Return the words of a sound log."""
    with stenolog.open(path) as log:
        assert verify(log).ok
        return texts(log["demo"])


def test_the_log_is_the_backup_and_what_was_there_opens_by_another_name(path: Path, backup: Path) -> None:
    done = stenolog.maintenance.restore(backup, path)

    assert derived(path) == []
    assert (done.conversations, done.entries) == (1, 2)
    assert words(path) == ["old"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    aside, *others = done.moved
    assert {each.removeprefix(aside) for each in others} >= {"-wal"}
    assert words(Path(aside)) == ["old", "new", "newer"]
    assert words(backup) == ["old"]
    assert not [each for each in path.parent.iterdir() if "stenolog" in each.name]
    with stenolog.open(path) as log:
        said(log["demo"], "goes on")
        assert [hit.position for hit in log.search("goes")] == [3]


def test_where_there_is_no_log_the_backup_becomes_one(path: Path, backup: Path) -> None:
    new = path.with_name("new.db")

    assert stenolog.maintenance.restore(backup, new).moved == ()
    assert words(new) == ["old"]


def test_a_damaged_log_is_replaced_too(path: Path, backup: Path) -> None:
    path.write_bytes(b"garbage" * 1000)
    (aside, *_) = stenolog.maintenance.restore(backup, path).moved

    assert words(path) == ["old"]
    assert Path(aside).read_bytes() == b"garbage" * 1000


def test_a_backup_with_a_write_ahead_log_is_restored_with_it(path: Path, backup: Path) -> None:
    for end in ("", "-wal"):
        shutil.copy(f"{path}{end}", f"{path}.copied{end}")
    stenolog.maintenance.restore(f"{path}.copied", path)

    assert words(path) == ["old", "new", "newer"]


class TestRefused:
    """Where it is refused everything stays as it is."""

    @pytest.fixture(autouse=True)
    def nothing_changes(self, path: Path, backup: Path) -> Any:
        before = {each.name: each.stat().st_size for each in path.parent.iterdir()}
        yield
        assert not [each for each in path.parent.iterdir() if ".before-" in each.name]
        after = {each.name for each in path.parent.iterdir()}
        assert after - {"talks.db-shm"} >= before.keys() - {"talks.db-wal", "talks.db-shm"}
        assert words(path) == ["old", "new", "newer"]

    def test_while_this_process_has_the_log_open(self, path: Path, backup: Path) -> None:
        with stenolog.open(path) as log:
            with pytest.raises(StoreTimeoutError, match="open in this process"):
                stenolog.maintenance.restore(backup, path)
            assert texts(log["demo"]) == ["old", "new", "newer"]

    def test_while_another_process_has_the_log_open(self, path: Path, backup: Path) -> None:
        receiver, sender = workers.CONTEXT.Pipe(duplex=False)
        process = workers.started(workers.put_and_wait, str(path), sender)
        assert receiver.poll(workers.PATIENCE)
        try:
            with pytest.raises(StoreTimeoutError, match="another process has it open"):
                stenolog.maintenance.restore(backup, path)
        finally:
            process.kill()
            process.join(workers.PATIENCE)

    def test_a_damaged_backup(self, path: Path, backup: Path) -> None:
        content = backup.read_bytes()
        assert content.count(b'"old"') == 1
        backup.write_bytes(content.replace(b'"old"', b'"odd"'))

        with pytest.raises(
            CorruptLogError, match="not restored, because it is damaged: 'demo' at position 2"
        ):
            stenolog.maintenance.restore(backup, path)

    @pytest.mark.parametrize("conversation", ["demo", None])
    def test_a_backup_without_a_hold_in_force(
        self, path: Path, backup: Path, conversation: str | None
    ) -> None:
        killed = path.with_name("killed.db")
        with stenolog.open(path) as log:
            hold(log, conversation, reason="case")
            for end in ("", "-wal"):
                shutil.copy(f"{path}{end}", f"{killed}{end}")
        for each in (path, killed):
            with pytest.raises(HeldError, match="case: in force, and not in the backup"):
                stenolog.maintenance.restore(backup, each)

    def test_what_is_no_backup(self, path: Path, backup: Path) -> None:
        backup.write_text("something else")
        for no_backup in (backup, path.parent, path.with_name("nowhere.db")):
            with pytest.raises(NotADatabaseError):
                stenolog.maintenance.restore(no_backup, path)

    def test_a_place_where_a_name_cannot_be_given(
        self, path: Path, backup: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def fail(*_: object) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(restoring, "publish", fail)
        with pytest.raises(StoreError, match="No space left"):
            stenolog.maintenance.restore(backup, path)


@pytest.mark.parametrize("steps", range(11))
def test_one_that_is_killed_anywhere_leaves_the_log_as_it_was_or_is_done_again(
    steps: int, path: Path, backup: Path
) -> None:
    process = workers.started(workers.restore_and_die, str(path), str(backup), steps)
    process.join(workers.PATIENCE)

    if path.with_name(f"{path.name}{RESTORE_MARK}").exists():
        with pytest.raises(StoreError, match="a restore was interrupted: run `stenolog db restore` again"):
            stenolog.open(path)
        stenolog.maintenance.restore(backup, path)
    found = words(path)
    assert not [each for each in path.parent.iterdir() if "stenolog" in each.name]
    aside = sorted(path.parent.glob("talks.db.before-*"), key=lambda each: len(each.name))
    if found == ["old"]:
        assert words(aside[0]) == ["old", "new", "newer"]
    else:
        assert (found, aside) == (["old", "new", "newer"], [])


def test_what_a_log_that_is_gone_left_beside_it_is_not_the_restored_ones(path: Path, backup: Path) -> None:
    with stenolog.open(path) as log:
        log["demo"].state()
        log.search("newer")
    assert len(derived(path)) == 2
    for each in (path, path.with_name("talks.db-wal"), path.with_name("talks.db-shm")):
        each.unlink(missing_ok=True)

    done = stenolog.maintenance.restore(backup, path)

    assert (done.moved, derived(path)) == ((), [])
    with stenolog.open(path) as log:
        assert (log.search("newer"), len(log.search("old"))) == ([], 1)


def test_nothing_is_mixed_up_where_others_open_the_log_meanwhile(path: Path) -> None:
    with stenolog.open(path) as log:
        log["demo"].extend([UserMessage(text="x" * 500)] * 100)
        log.backup(path.with_name("copy.db"))
    restorer = workers.started(workers.restore_often, str(path), str(path.with_name("copy.db")), 60)

    opened = workers.run(3, workers.open_and_say, str(path), 60)

    restorer.join(workers.PATIENCE)
    assert restorer.exitcode == 0
    assert all(isinstance(times, int) for times in opened), opened
    for each in (path, *path.parent.glob("talks.db.before-*")):
        if "-" not in each.name.removeprefix("talks.db.before-")[15:]:
            with stenolog.open(each) as log:
                assert verify(log).problems == ()


def test_the_command_names_what_it_moved(cli: Callable[..., Any], path: Path, backup: Path) -> None:
    ran = cli("db", "restore", "copy.db")

    first, *rest = ran.out.splitlines()
    moved = [line for line in rest if "moved aside" in line]
    assert first == "✓ talks.db is restored from copy.db: 1 conversation, 2 entries"
    assert all(line.startswith(f"· moved aside: {path}.before-") for line in moved)
    assert cli("db", "restore", "nowhere.db").status == 3
    assert cli("db", "restore", "copy.db", "--json").envelope["data"]["entries"] == 2


# A backup is a whole log, taken while others go on writing.


def test_a_restore_lifts_no_hold_unless_asked_to(cli: Callable[..., Any], path: Path) -> None:
    with stenolog.open(path) as log:
        said(log["demo"], "old")
        hold(log, "demo", reason="in both")
        log.backup(path.with_name("copy.db"))
        release(log, hold(log, reason="released").number)
    assert cli("db", "restore", "copy.db").status == 0
    with stenolog.open(path) as log:
        hold(log, reason="later")

    assert cli("db", "restore", "copy.db").status == 2
    assert cli("db", "restore", "copy.db", "--lift-holds").status == 0
    with stenolog.open(path) as log:
        assert [one.reason for one in holds(log)] == ["in both"]


def test_others_go_on_writing_meanwhile(path: Path, tmp_path: Path) -> None:
    with stenolog.open(path, synchronous="normal") as log:
        conversation = log["demo"]
        conversation.extend([UserMessage(text="x" * 500) for _ in range(2000)])

        def write() -> None:
            for _ in range(300):
                said(conversation, "meanwhile")

        with ThreadPoolExecutor() as pool:
            writing = pool.submit(write)
            for number in range(3):
                log.backup(tmp_path / f"copy{number}.db")
            writing.result()

    for number in range(3):
        with stenolog.open(tmp_path / f"copy{number}.db") as copy:
            assert copy["demo"].position >= 2001
            assert verify(copy).ok


def test_a_backup_that_fails_leaves_nothing_behind(log: Log, tmp_path: Path) -> None:
    said(log["demo"], "a")
    (tmp_path / "copy.db.stenolog-part").mkdir()

    with pytest.raises(StoreError):
        log.backup(tmp_path / "copy.db")
    assert not (tmp_path / "copy.db").exists()
    with pytest.raises(StoreError, match="does not exist"):
        log.backup(tmp_path / "nowhere" / "copy.db")


def test_a_backup_needs_no_file_beside_it(log: Log, tmp_path: Path) -> None:
    said(log["demo"], "a")
    (tmp_path / "alone").mkdir()
    log.backup(tmp_path / "alone" / "copy.db")

    assert [each.name for each in (tmp_path / "alone").iterdir()] == ["copy.db"]
    with stenolog.open(tmp_path / "alone" / "copy.db") as copy:
        assert texts(copy["demo"]) == ["a"]


def test_what_a_killed_backup_left_goes_with_the_next_one_and_not_before_its_process(
    path: Path, tmp_path: Path
) -> None:
    with stenolog.open(path) as log:
        said(log["demo"], "a")
    part, other = tmp_path / "copy.db.stenolog-part", tmp_path / "mine.part"
    other.write_text("precious")
    receiver, sender = workers.CONTEXT.Pipe(duplex=False)
    process = workers.started(workers.back_up_for_ever, str(path), str(tmp_path / "copy.db"), sender)
    assert receiver.poll(workers.PATIENCE)
    with stenolog.open(path) as log:
        log.backup(tmp_path / "second.db")
        with pytest.raises(StoreTimeoutError, match="another process is writing it"):
            log.backup(tmp_path / "copy.db")
        stenolog.open(tmp_path / "copy.db").close()
        (tmp_path / "copy.db").unlink()
        assert part.stat().st_size > 0

        process.kill()
        process.join(workers.PATIENCE)
        assert part.exists()
        log.backup(tmp_path / "third.db")
    assert not part.exists()
    assert other.read_text() == "precious"


def test_what_a_killed_backup_left_beside_a_log_goes_when_that_is_opened(path: Path) -> None:
    part = path.with_name("talks.db.stenolog-part")
    part.write_bytes(b"words")
    stenolog.open(path).close()

    assert not part.exists()
