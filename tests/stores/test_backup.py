"""A backup is a whole log, taken while others go on writing."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import stenolog
from stenolog import Log, UserMessage
from stenolog.errors import StoreError, StoreTimeoutError
from stenolog.maintenance import verify
from tests.stores import workers
from tests.stores.conftest import said, texts


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
