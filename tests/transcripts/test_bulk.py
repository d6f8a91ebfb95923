"""Many files at once are what each would be by itself, however they are cut into transactions."""

from __future__ import annotations

import base64
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any, BinaryIO

import pytest

import stenolog
from stenolog import Log, StenologError, UserMessage
from stenolog.adapters.conversation.verifying.integrity import verify
from stenolog.adapters.importers.intake import sessions
from stenolog.domain.errors import TableError
from stenolog.errors import UnknownFormatError
from stenolog.importers import (
    Importer,
    Record,
    Refused,
    Report,
    SessionConverter,
    SourceConversation,
    Step,
    import_file,
    import_files,
)
from stenolog.plugins import IMPORTERS
from tests.stores.workers import CONTEXT, started
from tests.transcripts import programs_given
from tests.transcripts.given import assistant, item, lines, message, meta, text, tool_result, tool_use, user
from tests.transcripts.importing import import_in_pieces

PICTURE = base64.b64encode(b"a picture").decode()


def session(name: str, *records: dict[str, Any]) -> bytes:
    return lines(*({**record, "sessionId": name} for record in records))


class Broken(SessionConverter):
    system = main = "broken"

    def take(self, record: Record) -> list[Step]:
        return []


def written(folder: Path) -> list[Path]:
    """Return files of all sorts: branched sessions, two sessions in one file, messages, a rollout."""
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PICTURE}}
    conversation = [
        user("u1", None, "Which test fails?"),
        assistant("a1", "u1", text("Let me see."), tool_use("c1")),
        user("u2", "a1", [tool_result("c1", [image])]),
        assistant("a2", "u2", text("The third.")),
    ]
    again = [user("u3", "a1", "No, which one?"), assistant("a3", "u3", text("The fourth."))]
    side = [
        user("s1", None, "Look.", isSidechain=True),
        assistant("s2", "s1", text("I do."), isSidechain=True),
    ]
    chat = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello."}] * 4
    files = {
        "1.jsonl": session("one", *conversation, *again),
        "2.jsonl": session("two", *conversation),
        "3.jsonl": session("one", *side),
        "4.json": json.dumps(chat).encode(),
        "5.jsonl": lines(*chat),
        "6.jsonl": lines(meta(), *(message("user", f"Number {n}") for n in range(9)), item("reasoning")),
    }
    for name, content in files.items():
        (folder / name).write_bytes(content)
    return [folder / name for name in files]


def contents(log: Log) -> dict[str, list[Any]]:
    """Return the entries of every conversation without digests, whose salts are drawn by chance."""
    return {name: [entry._replace(digest="") for entry in log[name].entries()] for name in log}


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    return written(tmp_path)


@pytest.fixture
def whole(files: list[Path]) -> dict[str, list[Any]]:
    """Return the contents after importing each file by itself."""
    with stenolog.open(":memory:") as log:
        for file in files:
            import_file(log, file)
        return contents(log)


@pytest.fixture
def log() -> Iterator[Log]:
    with stenolog.open(":memory:") as log:
        yield log


@pytest.mark.parametrize("size", [1, 3_000, sessions.BYTES])
def test_files_come_in_together_as_each_does_by_itself(
    log: Log, files: list[Path], whole: dict[str, Any], size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions, "BYTES", size)

    reports = list(import_files(log, files))

    assert contents(log) == whole
    assert [report.file for report in reports] == [str(file) for file in files]
    assert len(log.blobs) == 1


def test_short_files_share_a_transaction(log: Log, files: list[Path]) -> None:
    commits: list[None] = []
    log.datastore.commit_hooks.append(lambda _: commits.append(None))

    list(import_files(log, [files[1], *files[3:]]))

    assert len(commits) == 1


@pytest.mark.parametrize("size", [1, 3_000, sessions.BYTES])
def test_an_import_that_ends_anywhere_is_gone_on_with(
    files: list[Path], whole: dict[str, Any], size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions, "BYTES", size)
    salts = 0

    def draw(count: int) -> bytes:
        nonlocal salts
        salts += 1
        if salts == last:
            raise KeyboardInterrupt
        return bytes(count)

    for last in range(1, 60):
        salts = 0
        with stenolog.open(":memory:", entropy=draw) as log:
            try:
                list(import_files(log, files))
            except KeyboardInterrupt:
                assert len(contents(log)) <= len(whole)
            salts = last
            list(import_files(log, files))

            assert contents(log) == whole, f"ended at entry {last}"
    assert salts == last, "the last import was not interrupted: all places were tried"


@pytest.mark.parametrize("size", [1, 1_500, 3_000, sessions.BYTES])
def test_an_import_that_is_interrupted_tells_every_file_that_is_durable_and_no_other(
    files: list[Path], size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions, "BYTES", size)

    def interrupted() -> Iterator[Path]:
        yield from files[:number]
        raise KeyboardInterrupt

    for number in range(len(files)):
        told: list[Report | Refused] = []
        with stenolog.open(":memory:") as log:
            with pytest.raises(KeyboardInterrupt):
                told.extend(import_files(log, interrupted()))

            assert [each.file for each in told] == [str(file) for file in files[:number]]
            assert all(not appended(import_file(log, file)) for file in files[:number])


@pytest.mark.parametrize("is_done", [True, False])
def test_what_was_being_written_when_it_was_interrupted_is_written_and_told_and_nothing_twice(
    log: Log, files: list[Path], whole: dict[str, Any], monkeypatch: pytest.MonkeyPatch, is_done: bool
) -> None:
    write = log.datastore.group.write
    interrupts = [KeyboardInterrupt()]

    def interrupted(job: Any) -> Any:
        written = write(job) if is_done or not interrupts else None
        if interrupts:
            raise interrupts.pop()
        return written

    monkeypatch.setattr(log.datastore.group, "write", interrupted)
    told: list[Report | Refused] = []
    with pytest.raises(KeyboardInterrupt):
        told.extend(import_files(log, [files[1], *files[3:]]))

    assert [each.file for each in told] == [str(file) for file in (files[1], *files[3:])]
    assert contents(log) == {name: whole[name] for name in log}
    assert sum(appended(each) for each in told if isinstance(each, Report)) > 30


def test_a_file_is_told_once_it_is_durable_and_not_at_the_end_of_all(
    log: Log, files: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions, "BYTES", 1_500)
    read: list[Path] = []

    def counted() -> Iterator[Path]:
        for file in files:
            read.append(file)
            yield file

    behind = [len(read) - told for told, _ in enumerate(import_files(log, counted()), 1)]

    assert behind[0] <= 1
    assert max(behind) < len(files) - 1


def appended(report: Report) -> int:
    return sum(conversation.appended for conversation in report.conversations)


@pytest.mark.slow
def test_an_import_that_is_killed_anywhere_is_gone_on_with(
    tmp_path: Path, files: list[Path], whole: dict[str, Any]
) -> None:
    chance, all_kills = Random(6), 0
    for number in range(6):
        database = tmp_path / f"{number}.db"
        kills = 0
        while killed(database, files, chance.randrange(1, 9), chance.uniform(0.0, 0.003)):
            kills += 1
        with stenolog.open(database) as log:
            assert contents(log) == whole
            assert verify(log).ok
        all_kills += kills
    assert all_kills > 6


def killed(database: Path, files: list[Path], commits: int, later: float) -> bool:
    """Return whether an import was killed a while after so many commits; else it has ended."""
    receiver, sender = CONTEXT.Pipe(duplex=False)
    process = started(import_in_pieces, str(database), [str(file) for file in files], sender)
    sender.close()
    with receiver:
        while commits and os.read(receiver.fileno(), 1):
            commits -= 1
        time.sleep(later)
        process.kill()
        process.join()
    return process.exitcode != 0


def test_a_conversation_that_somebody_writes_to_meanwhile_is_told_and_the_others_come_in(
    log: Log, files: list[Path], whole: dict[str, Any]
) -> None:
    def counted() -> Iterator[Path]:
        yield files[1]
        log["two"].append(UserMessage(text="Me first."))
        yield from files[3:]

    one, *others = import_files(log, counted())

    assert isinstance(one, Report)
    assert "expected position 0, but the log stands at 2" in one.conversations[0].failed
    assert all(isinstance(each, Report) and not each.conversations[0].failed for each in others)
    assert log["two"].position == 2
    assert contents(log)["5"] == whole["5"]


def test_a_file_that_is_no_transcript_is_refused_in_its_place(log: Log, files: list[Path]) -> None:
    files[1].write_text("Buy bread.")

    found = list(import_files(log, [*files[:3], files[0].with_name("nowhere.jsonl")]))

    assert [type(each) for each in found] == [Report, Refused, Report, Refused]
    assert [type(each.error).__name__ for each in found if isinstance(each, Refused)] == [
        "UnknownFormatError",
        "FileNotFoundError",
    ]


@pytest.mark.parametrize("error", [RecursionError("too deep"), KeyError("id"), ZeroDivisionError("0")])
@pytest.mark.parametrize("when", ["start", "read", "record"])
def test_a_file_whose_reader_fails_in_any_way_is_refused_and_the_others_come_in(
    log: Log, files: list[Path], error: Exception, when: str
) -> None:
    def fail() -> Iterator[Any]:
        raise error
        yield

    def is_start(first: bytes, _: object) -> bool:
        return first.startswith(b"broken") and (when != "start" or next(fail()))

    def read(_: BinaryIO, reader: object) -> Iterator[SourceConversation]:
        yield from [SourceConversation("", fail(), Broken)] if when == "record" else fail()

    files[1].write_bytes(b"broken")
    with IMPORTERS.restored():
        IMPORTERS.add("broken", Importer("broken", read=read, is_start=is_start))
        _, refused, _ = import_files(log, files[:3])
        with pytest.raises(UnknownFormatError, match=type(error).__name__):
            import_file(log, files[1])

    assert isinstance(refused, Refused)
    assert (refused.file, type(refused.error)) == (str(files[1]), UnknownFormatError)
    assert "one" in log, "and so is what comes after it"


def test_sub_agents_of_cursor_that_run_each_other_are_imported_however_deep(log: Log, tmp_path: Path) -> None:
    runs = [programs_given.run(f"r{n}", f"c{n}") for n in range(1200)]
    rows = {f"bubbleId:task-c{n}:r{n + 1}": run for n, run in enumerate(runs[1:])}
    found = import_file(log, programs_given.write_cursor(tmp_path, runs[:1], rows)).conversations

    assert [(each.failed, each.appended >= 1200) for each in found] == [("", True)]


def test_a_log_that_cannot_be_written_to_ends_the_import(log: Log, files: list[Path]) -> None:
    imports = import_files(log, files)
    log.close()

    with pytest.raises(StenologError, match="the log was closed"):
        list(imports)


@pytest.mark.parametrize("error", [OSError("No space left"), TableError("no such column")])
def test_what_could_not_be_written_is_never_said_to_be(
    tmp_path: Path,
    files: list[Path],
    whole: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
    error: Exception,
) -> None:
    monkeypatch.setattr(sessions, "BYTES", 1_500)
    for last in range(1, 30):
        left = last

        def fail(_: object) -> None:
            nonlocal left
            left -= 1
            if left == 0:
                raise error

        with stenolog.open(tmp_path / f"{last}.db") as log:
            log.datastore.commit_hooks.append(fail)
            if ends_with(error, import_files(log, files)):
                list(import_files(log, files))

            assert contents(log) == whole, f"transaction {last} failed"
    assert left > 0, "the last import met no error: all places were tried"


def ends_with(error: Exception, imports: Iterator[object]) -> bool:
    """Return whether an import ends with an error."""
    try:
        list(imports)
    except type(error):
        return True
    return False


def test_progress_goes_up_to_the_bytes_of_all_files(log: Log, files: list[Path]) -> None:
    done: list[int] = []

    list(import_files(log, files, progress=done.append))

    assert done == sorted(done)
    assert done[-1] == sum(file.stat().st_size for file in files)
